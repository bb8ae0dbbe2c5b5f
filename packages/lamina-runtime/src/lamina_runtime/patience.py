"""Waits that end when a process is lost, where what waits for that one cannot be freed.

The connections of Gloo are cut (`losses`), and all that is pending fails. NCCL's are not ours: the GPU client is told to end
its collectives when it learns of a failure, but it may not learn of one, or be in a call that does not return. So once such a
client is made, nobody waits for an array inside of jaxlib: it is asked whether it is ready, and when a process is lost and some
seconds have passed, who still waits is told, as of first launches always (`Watch.aside`). Nor does anybody launch more than the
platform can queue, since a launch into a full queue waits there too.
"""
from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from . import _jaxlib, arrays, losses

__all__ = ["Patience", "install"]

_FREED = 5.0      # seconds after a loss in which the platform may end what waits
_LONGEST = 1e-3   # seconds between two questions, at the most
_QUEUED = 8       # launches that may be under way: NCCL blocks some tens of them behind one that is stuck,
_HELD = 1 << 26   # and bytes of their results that are held on to for that
_latest: Patience | None = None
_usual = _jaxlib.wait_for, _jaxlib.batched_block_until_ready, arrays._read


class Patience:
    """How one session waits.

    Args:
      watch: knows who is lost.
    """

    def __init__(self, watch: losses.Watch) -> None:
        self._watch = watch
        self._newest: Any = None  # of the latest launch over several processes: devices run programs in order
        self._lost: float | None = None  # when a loss was first seen
        self._queue: deque[tuple[int, Any]] = deque()  # (bytes, the smallest result) of those that may be under way
        self._held, self._lock = 0, threading.Lock()

    def launched(self, outs: Sequence[Any]) -> None:
        """A program over several processes was launched; `outs` are its results. Waits while too many are under way.

        Raises:
          ProcessLostError: one of these waits for a process that was lost.
        """
        if not outs:
            return
        least = min(outs, key=lambda x: x.nbytes)
        self._newest = least._rewrap_with_aval_and_sharding(least.aval, least._sharding)
        with self._lock:
            self._queue.append((least.nbytes, self._newest))
            self._held += least.nbytes
        while True:
            with self._lock:
                if not self._queue:
                    return
                size, oldest = self._queue[0]
            if not self._over(oldest):
                if len(self._queue) <= _QUEUED and self._held <= _HELD:
                    return
                self._wait("launch", oldest)
            with self._lock:  # another thread may have been here
                if self._queue and self._queue[0][1] is oldest:
                    self._queue.popleft()
                    self._held -= size

    def _over(self, x: Any) -> bool:
        return x.is_deleted() or x.is_ready()

    def ready(self, x: Any) -> Any:
        """Wait until an array is computed; returns it.

        Raises:
          ProcessLostError: it is behind something that waits for a process that was lost.
        """
        self._wait("block_until_ready", x)
        return _usual[0](x)

    def _wait(self, call: str, x: Any) -> None:
        pause = 1e-5
        while not self._over(x):
            self._check(call, self._newest is not None and not self._over(self._newest))
            time.sleep(pause)
            pause = min(1.5 * pause, _LONGEST)

    def _check(self, call: str, stuck: bool) -> None:
        if self._watch.presence.lost or self._watch.presence.failed:
            now = time.monotonic()
            self._lost = self._lost or now
            if stuck and now > self._lost + _FREED:
                if self._newest is not None:
                    for d in self._newest._sharding._internal_device_list:
                        _jaxlib.keep_for_ever(d.client)  # its end would wait as well
                raise self._watch.error(call)


def install(watch: losses.Watch) -> Patience:
    """Have every wait for an array end when a process is lost; of the session that is in force."""
    global _latest
    _latest = made = Patience(watch)
    arrays._wait_for = _jaxlib.wait_for = _ready
    _jaxlib.batched_block_until_ready = _all_ready
    arrays._read = _read
    return made


def uninstall() -> None:
    """The session is over: arrays are waited for as usual."""
    global _latest
    if _latest is not None:
        _latest = None
        arrays._wait_for = _jaxlib.wait_for = _usual[0]
        _jaxlib.batched_block_until_ready, arrays._read = _usual[1:]


def _ready(x: Any) -> Any:
    known = _latest
    return _usual[0](x) if known is None else known.ready(x)


def _all_ready(xs: Sequence[Any]) -> None:
    for x in xs:
        _ready(x)


def _read(x: Any, sharding: Any, aval: Any) -> Any:
    return _usual[2](_ready(x), sharding, aval)
