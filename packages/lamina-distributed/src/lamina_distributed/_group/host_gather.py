"""Gather small JSON values from all processes on the host, without a collective.

Each process posts its values in the key-value store of the coordination service. Process 0 collects them and posts the
answer, which is the same for all. After a process is lost, the others do not wait long. A process that fails between
two rounds reports so in the next round, so that all raise.
"""
from __future__ import annotations

import json
import threading
import time
import weakref
from itertools import count
from types import TracebackType
from typing import Any

from lamina_runtime.extend import processes as runtime
from typing_extensions import override

from .._typing import Message

__all__ = ["GroupGather", "next_series"]

# session -> counters of its gathers, by series, and of its series
_numbers: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
_lock = threading.Lock()
_MIN_PAUSE, _MAX_PAUSE = 0.001, 0.05  # seconds between two polls of the store
_STOP_TIMEOUT = 10.0  # seconds for the other processes to stop their work after a loss
_GRACE = 1.0  # seconds in which values posted before a loss may still arrive


class GroupGather(runtime.HostGather):
    """A sequence of gathers that all processes of a session make in the same order; a context.

    Args:
      call: the calling function, for errors.
      session: the session of this process.
      series: name of the series; the gathers of one series are counted separately.
    """

    def __init__(self, call: str, session: Any, series: str = "") -> None:
        self._call, self._session, self._round, self._posted, self._ended = call, session, 0, -1, False
        self._prefix = f"lamina/gather/{series}"
        self.rank: int = session.connection.rank
        self.count: int = session.connection.count
        # All processes make the same gathers in the same order, so equal numbers mean the same gather in each of them.
        self._number = _next_number(session, series)

    @override
    def gather(self, **values: object) -> list[Message]:
        self._post(values)
        if self.rank == 0:
            self._set(f"{self._round}/all", json.dumps(self._collect()))
        return self._await_answer()

    def _await_answer(self) -> list[Message]:
        every = json.loads(self._wait(f"{self._round}/all", 0))
        self._round += 1
        if isinstance(every, dict):
            self._ended = True
            raise runtime.ProcessLostError(every["gone"], every["process_indices"])
        failed = [f"process {r}: {w['failed']}" for r, w in enumerate(every) if "failed" in w]
        if failed:
            self._ended = True
            others = "another process" if len(failed) == 1 else "other processes"
            raise RuntimeError(f"{self._call} failed in {others}, so it was not done: {'; '.join(failed):.2000}")
        return list(every)

    @override
    def wait_for_process_0(self) -> None:
        self._post({})
        if self.rank == 0:
            self._set(f"{self._round}/all", "[{}]")
            self._round += 1
        else:
            self._await_answer()

    @override
    def raise_if_lost(self) -> None:
        if self._session.connection.lost:
            raise self._session.launcher.monitor.make_error(self._call)

    @override
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        """Post an error of this process as its value of the round that the other processes wait for."""
        if error is None or self._ended:
            return
        if self._posted == self._round:  # its values of this round are posted, so the others will come to the next one
            self._round += 1
        try:
            self._post({"failed": f"{type(error).__name__}: {error}"[:1000]})
            if self.rank == 0:
                self._set(f"{self._round}/all", json.dumps(self._collect()))
        except Exception:  # the original error is raised, not the failure to report it
            pass

    @override
    def have_others_stopped(self) -> bool:
        until, pause, here = time.monotonic() + _STOP_TIMEOUT, _MIN_PAUSE, self._session.connection
        for r in range(self.count):
            while r != self.rank and r not in here.lost and r not in here.left:
                try:
                    # Each process posts in the last round that this one posted in, when its work before that is done.
                    self._session.client.key_value_try_get(self._key(f"{self._posted}/{r}"))
                    break
                except runtime.LAUNCH_ERRORS as e:
                    if "NOT_FOUND" not in str(e) or time.monotonic() > until:
                        return False
                time.sleep(pause)
                pause = min(2 * pause, _MAX_PAUSE)
        return True

    def _post(self, values: dict[str, object]) -> None:
        self._posted = self._round
        self._set(f"{self._round}/{self.rank}", json.dumps(values))

    def _collect(self) -> Any:
        """Return the values of all processes; or a dict that names the lost ones."""
        try:
            every = [json.loads(self._wait(f"{self._round}/{r}", r)) for r in range(self.count)]
        except runtime.ProcessLostError as e:
            return {"gone": str(e), "process_indices": e.process_indices}
        # All processes have come to this context, so none reads the keys of the one before any more.
        if self._round == 0 and self._number:
            self._session.client.key_value_delete(f"{self._prefix}{self._number - 1}/")
        return every

    def _key(self, name: str) -> str:
        return f"{self._prefix}{self._number}/{name}"

    def _set(self, name: str, text: str) -> None:
        try:
            self._session.client.key_value_set(self._key(name), text)
        except runtime.LAUNCH_ERRORS as e:
            raise self._disconnected() from e

    def _wait(self, name: str, rank: int) -> str:
        """Wait for a value that process `rank` posts, and return it."""
        pause, here, until = _MIN_PAUSE, self._session.connection, 0.0
        while True:
            # Checked before the store is read: the value may have been posted just before the end of the process.
            ended = rank in here.lost or rank in here.left
            try:
                return str(self._session.client.key_value_try_get(self._key(name)))
            except runtime.LAUNCH_ERRORS as e:
                if "NOT_FOUND" not in str(e):
                    raise self._disconnected() from e
            if here.lost:  # the process that should answer may have raised because of that loss
                until = until or time.monotonic() + _GRACE
                ended = ended or time.monotonic() > until
            if ended:
                raise self._session.launcher.monitor.make_error(self._call)
            time.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE)

    def _disconnected(self) -> runtime.ProcessLostError:
        """Return the error of a broken store: the coordinator is lost, or this process disconnected after a loss."""
        if self._session.connection.lost:
            return self._session.launcher.monitor.make_error(self._call)
        return runtime.ProcessLostError(
            f"{self._call}: the connection to the coordinator is lost. lamina.distributed.shutdown() and "
            "initialize(...) form a new system")


def _next_number(session: Any, series: str) -> int:
    with _lock:
        return int(next(_numbers.setdefault(session, {}).setdefault(series, count())))


def next_series(session: Any) -> str:
    """Return the name of a new series, which is the same in all processes of the session."""
    return f"series-{_next_number(session, 'series')}/"
