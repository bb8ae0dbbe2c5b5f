"""The files of kept states, for `checkpointing`: pieces of arrays with their digests, and lists of them.

A folder of states holds for each a list `12.json`, whose being there makes the state complete, and a folder of pieces
`12-9f3c1a04`, in which each process that wrote has a file `0.npys` and its own list `0.json`. A `.npys` file is records of
NumPy's `.npy` format one after the other, each at a multiple of 64 bytes: `np.load` reads one from an open file placed there.
Types that NumPy's format has no name for (bfloat16, the small floats and integers) are written as unsigned integers of their
width.

An array is cut into tiles of at most 4 MiB along its longest dimensions, so that whoever needs a part of it, rows or columns,
reads little else, and whatever is read has a digest of its own to be checked by.
"""
from __future__ import annotations

import fcntl
import io
import json
import os
import re
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ._version import __version__

__all__ = ["CheckpointError", "Folder", "Lock", "Reader", "Tile", "Writer", "copied_overlap", "in_turn", "overlap",
           "sync", "threads", "tiles_of"]

FORMAT = 1
_TILE = 4 << 20
_ALIGN = 64
_WORKERS = min(8, os.cpu_count() or 1)
_LIST, _PIECES = re.compile(r"(0|[1-9]\d*)\.json"), re.compile(r"(0|[1-9]\d*)-[0-9a-f]{8}")
_UNFINISHED = re.compile(r"\.\d+\.json\.[0-9a-f]{8}")
_PLAIN = "biufc"


class CheckpointError(ValueError):
    """The files of a kept state are not what `save` wrote: damaged, cut off, missing, or of another format."""


# --- tiles --------------------------------------------------------------------------------------------------------
class Tile(NamedTuple):
    """A piece of a leaf in a file.

    Attributes:
      leaf: its number; start, shape: which part of it.
      at, length: the record's place in the file; digest: of the record, header included.
      file: name of the file, where it is read.
    """

    leaf: int
    start: tuple[int, ...]
    shape: tuple[int, ...]
    at: int
    length: int
    digest: str
    file: str = ""


def tiles_of(shape: tuple[int, ...], itemsize: int, limit: int = _TILE) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(start, shape) of the tiles that a block is cut into; none of an empty one."""
    if 0 in shape:
        return
    size, total = list(shape), itemsize
    for n in shape:
        total *= n
    while total > limit and max(size) > 1:
        d = size.index(max(size))
        total = total // size[d] * -(-size[d] // 2)
        size[d] = -(-size[d] // 2)
    for start in product(*[range(0, n, s) for n, s in zip(shape, size)]):
        yield start, tuple([min(s, n - a) for a, s, n in zip(start, size, shape)])


def overlap(start: tuple[int, ...], shape: tuple[int, ...], tile: Tile) -> tuple[list[int], list[int]] | None:
    """Where a tile and a block begin and end to share elements; None where they share none."""
    low = [max(a, b) for a, b in zip(start, tile.start)]
    high = [min(a + n, b + m) for a, n, b, m in zip(start, shape, tile.start, tile.shape)]
    return None if any(a >= b for a, b in zip(low, high)) else (low, high)


def copied_overlap(into: np.ndarray, start: tuple[int, ...], tile: Tile, piece: np.ndarray) -> int:
    """Copy what a tile has of the block at `start` into it; how many elements that is."""
    found = overlap(start, into.shape, tile)
    if found is None:
        return 0
    low, high = found
    part = piece[tuple([slice(a - t, b - t) for a, b, t in zip(low, high, tile.start)])]
    into[tuple([slice(a - s, b - s) for a, b, s in zip(low, high, start)])] = part
    return part.size


def threads() -> ThreadPoolExecutor:
    """Who reads, digests and writes; a context."""
    return ThreadPoolExecutor(_WORKERS, "lamina-kept")


def in_turn(pool: ThreadPoolExecutor, act: Callable[..., Any], rows: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
    """`act(*row)` of each, by several threads, the results in order. Rows are taken as they are needed, few at a time."""
    running: deque[Future[Any]] = deque()
    try:
        for row in rows:
            running.append(pool.submit(act, *row))
            if len(running) >= 2 * _WORKERS:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        for job in running:
            job.cancel()


# --- writing ------------------------------------------------------------------------------------------------------
def _stored(dtype: np.dtype) -> np.dtype:
    """The NumPy type that a type is written as."""
    return dtype if dtype.isbuiltin == 1 and dtype.kind in _PLAIN else np.dtype(f"u{dtype.itemsize}")


class Writer:
    """The pieces of one process. Records get their places in order; their contents may be written by several threads."""

    def __init__(self, folder: str, name: str) -> None:
        self._folder, self._name, self._end = folder, name, 0
        self._file = os.open(os.path.join(folder, f"{name}.npys"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        self._headers: dict[Any, bytes] = {}

    def header(self, dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
        """The first bytes of a record."""
        key = dtype, shape
        found = self._headers.get(key)
        if found is None:
            text = io.BytesIO()
            np.lib.format.write_array_header_1_0(text, {"descr": _stored(dtype).newbyteorder("<").str, "fortran_order": False,
                                                        "shape": shape})
            found = self._headers[key] = text.getvalue()
        return found

    def place(self, length: int) -> int:
        """Room for a record."""
        at = self._end
        self._end = -(-(at + length) // _ALIGN) * _ALIGN
        return at

    def digest(self, header: bytes, piece: np.ndarray) -> tuple[str, memoryview]:
        """The digest of a record, and its numbers as bytes: a copy only where they do not lie in a row."""
        stored = _stored(piece.dtype)
        data = np.ascontiguousarray(piece).reshape(-1)
        if stored != piece.dtype:
            data = data.view(stored)
        data = data.astype(stored.newbyteorder("<"), copy=False)
        raw = memoryview(data.view(np.uint8))  # type: ignore[arg-type]  # an array is a buffer before Python 3.12 too
        found = sha256(header)
        found.update(raw)
        return found.hexdigest(), raw

    def write(self, header: bytes, raw: memoryview, at: int) -> None:
        parts: list[Any] = [memoryview(header), raw]
        while parts:
            n = os.pwritev(self._file, parts, at)
            at += n
            while parts and n >= len(parts[0]):
                n -= len(parts.pop(0))
            if parts:
                parts[0] = parts[0][n:]

    def finish(self, tiles: list[Tile]) -> dict[str, Any]:
        """Write the list, and wait until the disk has everything."""
        os.fsync(self._file)
        self.close()
        text = json.dumps([t[:-1] for t in tiles], separators=(",", ":")).encode()
        _write(os.path.join(self._folder, f"{self._name}.json"), text)
        sync(self._folder)
        return {"name": self._name, "bytes": self._end, "digest": sha256(text).hexdigest()}

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


def _write(path: str, text: bytes) -> None:
    with open(path, "xb") as f:
        f.write(text)
        f.flush()
        os.fsync(f.fileno())


def sync(folder: str) -> None:
    """Wait until the disk knows what the folder holds."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


# --- folders ------------------------------------------------------------------------------------------------------
class Lock:
    """Who writes to a folder of states; a context. The system frees it when the process ends, however it does."""

    def __init__(self, call: str, folder: str) -> None:
        self._file = os.open(os.path.join(folder, ".lock"), os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise RuntimeError(f"{call}: another process or thread is saving to {folder}; one at a time may") from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        os.close(self._file)


class Folder:
    """A folder of states.

    Attributes:
      path: its name.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def steps(self) -> list[int]:
        try:
            names = os.listdir(self.path)
        except FileNotFoundError:
            return []
        return sorted([int(found[1]) for found in map(_LIST.fullmatch, names) if found])

    def make(self) -> None:
        """Make it, and the folders it is in."""
        made, at = [], os.path.abspath(self.path)
        while not os.path.isdir(at) and at not in made:
            made.append(at)
            at = os.path.dirname(at)
        os.makedirs(self.path, exist_ok=True)
        for each in made:
            sync(os.path.dirname(each))

    def begin(self, step: int, token: str) -> str:
        """Remove what unfinished saves have left, and make a folder for the pieces of a new state: its name."""
        self.sweep()
        name = f"{step}-{token}"
        os.mkdir(os.path.join(self.path, name))
        sync(self.path)
        return name

    def sweep(self) -> None:
        """Remove pieces that belong to no state; the caller has the lock."""
        names = os.listdir(self.path)
        for name in filter(_UNFINISHED.fullmatch, names):
            os.unlink(os.path.join(self.path, name))
        pieces = [name for name in names if _PIECES.fullmatch(name)]
        for name in pieces:
            step = name.split("-")[0]
            if f"{step}.json" in names:
                if [n.split("-")[0] for n in pieces].count(step) == 1:
                    continue
                try:
                    if self.read("save", int(step))[0]["pieces"] == name:
                        continue
                except CheckpointError:  # whose list is damaged: nothing of it is touched
                    continue
            shutil.rmtree(os.path.join(self.path, name), ignore_errors=True)

    def discard(self, pieces: str) -> None:
        """Remove the pieces of a save that failed, as far as that can be done."""
        shutil.rmtree(os.path.join(self.path, pieces), ignore_errors=True)

    def commit(self, step: int, token: str, state: dict[str, Any]) -> None:
        """The state is complete: its list appears, in place of an older one of that number, at once and for good."""
        state = {"format": FORMAT, "writer": f"lamina-runtime {__version__}", **state}
        text = f'{{"digest": "{_digest(state)}", "state": {_text(state)}}}\n'.encode()
        beside = os.path.join(self.path, f".{step}.json.{token}")
        _write(beside, text)
        os.replace(beside, os.path.join(self.path, f"{step}.json"))
        sync(self.path)

    def drop(self, steps: Iterable[int]) -> None:
        """Remove states: first what makes them complete."""
        for step in steps:
            os.unlink(os.path.join(self.path, f"{step}.json"))
        sync(self.path)
        self.sweep()

    def read(self, call: str, step: int) -> tuple[dict[str, Any], str]:
        """What a state's list says, and its digest.

        Raises:
          FileNotFoundError: there is no such state.
          CheckpointError: the list is damaged, or of another format.
        """
        path = os.path.join(self.path, f"{step}.json")
        try:
            with open(path, "rb") as f:
                text = f.read()
        except FileNotFoundError:
            raise FileNotFoundError(f"{call}: no state {step} is kept in {self.path}; there are {self.steps()}") from None
        try:
            whole = json.loads(text)
            state = whole["state"]
            form = state["format"]
            if form == FORMAT and whole["digest"] == _digest(state):
                return state, whole["digest"]
        except (ValueError, TypeError, KeyError):
            form = FORMAT
        if form != FORMAT:
            raise CheckpointError(f"{call}: {path} was written in format {form!r}; this version of lamina-runtime reads format "
                                  f"{FORMAT}. Load it with a newer one")
        raise CheckpointError(f"{call}: {path} is damaged: it is not what save wrote. Load another step; there are "
                              f"{self.steps()}")


def _text(state: Any) -> str:
    return json.dumps(state, separators=(",", ":"))


def _digest(state: Any) -> str:
    return sha256(_text(state).encode()).hexdigest()


# --- reading ------------------------------------------------------------------------------------------------------
class Reader:
    """The pieces of one state."""

    def __init__(self, call: str, folder: Folder, state: dict[str, Any]) -> None:
        self._call, self._folder = call, os.path.join(folder.path, state["pieces"])
        self.tiles: dict[int, list[Tile]] = {}
        if not _PIECES.fullmatch(state["pieces"]) or not all(str(p["name"]).isdecimal() for p in state["parts"]):
            raise CheckpointError(f"{call}: state {state['step']} in {folder.path} names files that save does not write")
        for part in state["parts"]:
            text = self._list(f"{part['name']}.json")
            if sha256(text).hexdigest() != part["digest"]:
                raise CheckpointError(f"{call}: {self._path(part['name'] + '.json')} is damaged: it is not what save wrote")
            for leaf, start, shape, at, length, digest in json.loads(text):
                tile = Tile(leaf, tuple(start), tuple(shape), at, length, digest, f"{part['name']}.npys")
                self.tiles.setdefault(leaf, []).append(tile)

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _list(self, name: str) -> bytes:
        try:
            with open(self._path(name), "rb") as f:
                return f.read()
        except FileNotFoundError:
            raise CheckpointError(f"{self._call}: {self._path(name)} is missing") from None

    def piece(self, tile: Tile, dtype: np.dtype, place: str) -> np.ndarray:
        """A tile, its digest compared."""
        path = self._path(tile.file)
        try:
            number = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            raise CheckpointError(f"{place}: {path} is missing") from None
        raw, got = memoryview(np.empty(tile.length, np.uint8)), 0  # type: ignore[arg-type]  # as above
        try:
            while got < tile.length:
                n = os.preadv(number, [raw[got:]], tile.at + got)
                if n == 0:
                    raise CheckpointError(f"{place}: {path} is cut off: it ends before byte {tile.at + tile.length}")
                got += n
        finally:
            os.close(number)
        if sha256(raw).hexdigest() != tile.digest:
            raise CheckpointError(f"{place}: {path} is damaged: bytes {tile.at} to {tile.at + tile.length} are not what save "
                                  "wrote")
        stored = _stored(dtype)
        size = int(np.prod(tile.shape, dtype=np.int64))
        data = np.frombuffer(raw, stored.newbyteorder("<"), size, tile.length - size * stored.itemsize)
        return data.astype(stored, copy=False).view(dtype).reshape(tile.shape)
