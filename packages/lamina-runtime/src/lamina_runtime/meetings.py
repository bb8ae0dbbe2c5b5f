"""What processes tell each other on the host, without a collective: few words from each, the same answer for all.

The words go through the key-value store of the session's coordinator to process 0, and its answer to the others. Who is gone
is known from the session's presence: after a loss nobody waits for long. One that fails between two rounds says so in the next
one, so that all raise.
"""
from __future__ import annotations

import json
import threading
import time
import weakref
from itertools import count
from types import TracebackType
from typing import Any

from . import _jaxlib, gone

__all__ = ["Meeting", "begin"]

_numbers: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()  # session -> numbers of its meetings
_lock = threading.Lock()
_FIRST, _LONGEST = 0.001, 0.05  # seconds between two looks
_GRACE = 1.0  # seconds in which what was said before a loss may still come


class Meeting:
    """One call that all processes make, in as many rounds as it needs; a context.

    Attributes:
      rank, count: number of this process, and how many take part.
    """

    def __init__(self, call: str, session: Any = None) -> None:
        self._call, self._session, self._round, self._posted, self._ended = call, session, 0, -1, False
        self.rank: int = 0 if session is None else session.presence.rank
        self.count: int = 1 if session is None else session.presence.count
        if session is not None:
            with _lock:
                self._number = next(_numbers.setdefault(session, count()))

    def gather(self, **words: Any) -> list[dict[str, Any]]:
        """What each process gives here, in order of the processes; everything JSON can hold.

        Raises:
          ProcessLostError: a process has gone before it came here.
          RuntimeError: a process has failed before it came here; says with what.
        """
        if self._session is None:
            return [words]
        self._post(words)
        if self.rank == 0:
            self._set(f"{self._round}/all", json.dumps(self._collect()))
        return self._answer()

    def _answer(self) -> list[dict[str, Any]]:
        every = json.loads(self._wait(f"{self._round}/all", 0))
        self._round += 1
        if isinstance(every, dict):
            self._ended = True
            raise gone.ProcessLostError(every["gone"], every["process_indices"])
        failed = [f"process {r}: {w['failed']}" for r, w in enumerate(every) if "failed" in w]
        if failed:
            self._ended = True
            raise RuntimeError(f"{self._call} failed in {'another process' if len(failed) == 1 else 'other processes'}, so it "
                               f"was not done: {'; '.join(failed):.2000}")
        return list(every)

    def hear(self) -> None:
        """Wait until process 0 has come here; it waits for nobody."""
        if self._session is None:
            return
        self._post({})
        if self.rank == 0:
            self._set(f"{self._round}/all", "[{}]")
            self._round += 1
        else:
            self._answer()

    def __enter__(self) -> Meeting:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Whoever fails on its own between two rounds says so where the others wait for it."""
        if error is None or self._session is None or self._ended:
            return
        if self._posted == self._round:  # others know of this round, and come to the next one
            self._round += 1
        try:
            self._post({"failed": f"{type(error).__name__}: {error}"[:1000]})
            if self.rank == 0:
                self._set(f"{self._round}/all", json.dumps(self._collect()))
        except Exception:  # what is raised is the failure, not that the others could not be told of it
            pass

    def _post(self, words: dict[str, Any]) -> None:
        self._posted = self._round
        self._set(f"{self._round}/{self.rank}", json.dumps(words))

    def _collect(self) -> Any:
        """Everyone's words; or a dict that says who is gone."""
        try:
            found = [json.loads(self._wait(f"{self._round}/{r}", r)) for r in range(self.count)]
        except gone.ProcessLostError as e:
            return {"gone": str(e), "process_indices": e.process_indices}
        if self._round == 0 and self._number:  # all have come, so nobody is in the meeting before this one
            self._session.client.key_value_delete(f"lamina/meetings/{self._number - 1}/")
        return found

    def _key(self, name: str) -> str:
        return f"lamina/meetings/{self._number}/{name}"

    def _set(self, name: str, text: str) -> None:
        try:
            self._session.client.key_value_set(self._key(name), text)
        except _jaxlib.LAUNCH_ERRORS as e:
            raise self._alone() from e

    def _wait(self, name: str, rank: int) -> str:
        """What a process has said, once it has."""
        pause, here, until = _FIRST, self._session.presence, 0.0
        while True:
            ended = rank in here.lost or rank in here.left  # before the look: what it has said, it has said
            try:
                return str(self._session.client.key_value_try_get(self._key(name)))
            except _jaxlib.LAUNCH_ERRORS as e:
                if "NOT_FOUND" not in str(e):
                    raise self._alone() from e
            if here.lost:  # whoever should answer may have given up
                until = until or time.monotonic() + _GRACE
                ended = ended or time.monotonic() > until
            if ended:
                raise self._session.launches.watch.error(self._call)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST)

    def _alone(self) -> gone.ProcessLostError:
        """The coordinator is gone, or it was given up as somebody is."""
        if self._session.presence.lost:
            return self._session.launches.watch.error(self._call)
        return gone.ProcessLostError(f"{self._call}: the coordinator is gone, through which the processes agree. "
                                       "lamina.distributed.shutdown() and initialize(...) make a new system")


def begin(call: str) -> Meeting:
    """The meeting of all processes of the session in force, of this one alone where there is none."""
    from . import distributed  # seldom needed
    return Meeting(call, distributed._session)
