"""The checkpoints in a store: which steps exist, their indexes, the commit, and the removal of old ones.

A checkpoint of step 12 has an index `12.json` and a folder `12-9f3c1a04` with its arrays, each in Zarr's format. The
checkpoint exists once its index exists. The former format of lamina-runtime used the same names, so both may be in one
folder.
"""
from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from typing import Any

from ._stores import CheckpointError, Store
from ._version import __version__

__all__ = ["DATA_FOLDER", "FORMAT", "OLD_FORMAT", "CheckpointFolder", "steps_to_drop"]

FORMAT, OLD_FORMAT = 2, 1
_INDEX, DATA_FOLDER = re.compile(r"(0|[1-9]\d*)\.json"), re.compile(r"(0|[1-9]\d*)-[0-9a-f]{8}")
_UNFINISHED = re.compile(r"\.\d+\.json\.[0-9a-f]{8}")


def steps_to_drop(existing: list[int], step: int, keep: int | None, keep_every: int | None) -> list[int]:
    """Return the steps to remove after `step` was saved: all but the last `keep`, and multiples of `keep_every`."""
    if keep is None:
        return []
    return [s for s in existing if s not in (*existing[-keep:], step) and not (keep_every and s % keep_every == 0)]


class CheckpointFolder:
    """The checkpoints of a store.

    Attributes:
      store: the store.
    """

    def __init__(self, store: Store) -> None:
        self.store = store

    def steps(self) -> list[int]:
        """Return the steps of the complete checkpoints, in order; [] if the folder does not exist."""
        return sorted([int(found[1]) for found in map(_INDEX.fullmatch, self.store.names()) if found])

    def begin(self, step: int, token: str) -> str:
        """Create the data folder of a new checkpoint, and return its name.

        Leftovers of unfinished saves are removed if this process has a lock. Without one, a save may be running.
        """
        if self.store.is_local:
            self.sweep()
        name = f"{step}-{token}"
        self.store.make_folder(name)
        return name

    def sweep(self) -> None:
        """Remove data that belongs to no checkpoint."""
        names = self.store.names()
        # Read after the names: the writer of a folder that is listed has set the mark before it made the folder. So a
        # folder of another save than that of the mark belongs to one that has ended or was replaced.
        current = self.store.current_writer()
        for name in filter(_UNFINISHED.fullmatch, names):
            self.store.remove(name)
        pieces = [name for name in names if DATA_FOLDER.fullmatch(name)]
        for name in pieces:
            step, token = name.split("-")
            if f"{step}.json" in names:
                # The only data of a complete checkpoint: it needs no look at the index.
                if [n.split("-")[0] for n in pieces].count(step) == 1:
                    continue
                try:
                    if self.read("save", int(step))[0]["pieces"] == name:
                        continue
                except (CheckpointError, FileNotFoundError):  # the index is damaged: keep its data, for recovery by hand
                    continue
            if token != current and self.store.revoke(name):
                self.store.remove(name)

    def commit(self, step: int, token: str, state: dict[str, Any]) -> None:
        """Make a checkpoint complete: write its index, replacing an older one of the same step."""
        state = {"format": FORMAT, "writer": f"lamina-checkpoint {__version__}", **state}
        text = f'{{"digest": "{_digest(state)}", "state": {_to_json(state)}}}\n'.encode()
        self.store.write(f"{step}.json", text, token)
        with suppress(OSError):  # the checkpoint exists
            self.store.release_claim(f"{step}-{token}")

    def drop(self, steps: Iterable[int]) -> None:
        """Remove checkpoints. The indexes go first, so that a crash leaves no index without data."""
        if dropped := list(steps):
            for step in dropped:
                self.store.remove(f"{step}.json")
            self.store.sync()
        self.sweep()

    def read(self, call: str, step: int) -> tuple[dict[str, Any], str]:
        """Return the index of a checkpoint and its digest.

        Raises:
          FileNotFoundError: the checkpoint does not exist.
          CheckpointError: the index is damaged, or has another format.
        """
        path, text = self.store.path(f"{step}.json"), self.store.read(f"{step}.json")
        if text is None:
            raise FileNotFoundError(f"{call}: no checkpoint {step} in {self.store.root}; there are {self.steps()}")
        try:
            document = json.loads(text)
            state = document["state"]
            file_format = state["format"]
            if file_format in (FORMAT, OLD_FORMAT) and document["digest"] == _digest(state):
                return state, document["digest"]
        except (ValueError, TypeError, KeyError):
            file_format = FORMAT
        if file_format not in (FORMAT, OLD_FORMAT):
            raise CheckpointError(f"{call}: {path} was written in format {file_format!r}; this version of "
                                  f"lamina-checkpoint reads formats {OLD_FORMAT} and {FORMAT}. Load it with a newer one")
        others = [other for other in self.steps() if other != step]
        raise CheckpointError(f"{call}: {path} is damaged: it is not what save wrote. "
                              + (f"Load another step; there are {others}" if others else "There is no other step"))


def _to_json(state: dict[str, Any]) -> str:
    return json.dumps(state, separators=(",", ":"))


def _digest(state: dict[str, Any]) -> str:
    return sha256(_to_json(state).encode()).hexdigest()
