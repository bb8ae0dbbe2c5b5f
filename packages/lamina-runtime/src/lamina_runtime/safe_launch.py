"""Launching programs on several devices without harm: arguments are checked first, collectives run in a window.

Before jaxlib 0.12 two things end or hang the process: a launch that fails on several devices (a donated argument used
again), and more than 31 queued programs with collectives. So arguments are tested here, and per client at most
`WINDOW` such programs are in flight, counted over all threads. The window costs nothing: it is faster than a free run.
Later versions, and GPUs, need none; what spans processes goes one at a time, see `together`.
"""
from __future__ import annotations

import re
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from lamina_ir import LaminaError, ShapedArray

from . import _jaxlib, owner
from ._jaxlib import ArrayImpl

__all__ = ["DeletedArrayError", "Giving", "HELD", "IN_FLIGHT", "WINDOW", "Window", "check_constants", "check_donation",
           "check_usable", "forget_readers", "read_by", "share_memory", "window_for", "window_of"]

WINDOW = 8
STRIDE = 4
HELD = 1 << 22
IN_FLIGHT = ShapedArray((), np.dtype("float32"))  # the type of a window's own arrays, which nobody shall be shown


class Window:
    """What the latest launches on one client are waited for by; `passed(outs)` waits for the oldest when there are too many.

    That is another array over the memory of a launch's smallest result, so nobody's array lives longer for it. Memory does, of
    results in flight: they are at most `HELD` bytes together, and a launch with more is waited for at once. It takes longer
    than launching the next, so nothing stands still, and a loop needs no more memory than one that waits at each step.

    Such an array takes longer to make and to let go than all else here, and launches on the same devices end in their order:
    so of small ones that follow each other on the same devices every `STRIDE`-th has one, and stands for those before it. A
    loop that waits at each step makes none: the launch before has ended, and with it all that were launched there.

    A result that was donated onward can no longer be waited for. After `WINDOW` launches with those in a row the newest result
    is waited for instead, which bounds the programs in flight to twice the window.
    """

    __slots__ = ("_pending", "_lost", "_held", "_flying", "_since", "_bytes", "_devices", "_latest",
                 "_several")

    def __init__(self) -> None:
        self._pending: deque[tuple[Any, int, int]] = deque()  # with the launches that it stands for, and their bytes
        # Near enough, where threads meet:
        self._lost = 0
        self._flying = self._held = 0  # launches and bytes in `_pending`
        self._since = self._bytes = 0  # those since the latest there
        self._devices: Any = None  # of the latest launch
        self._latest: Any = None  # a weak reference to its smallest result
        # Of the latest with several results: their types, which is the smallest, and their bytes.
        self._several: tuple[Any, int, int] = (None, 0, 0)

    def passed(self, outs: Sequence[Any]) -> None:
        """A program was launched; `outs` are its results."""
        if len(outs) == 1:
            least = outs[0]
            size = least.nbytes
        elif outs:
            types = [x.aval for x in outs]
            known, at, size = self._several
            if types != known:
                sizes = [x.nbytes for x in outs]
                at, size = sizes.index(min(sizes)), sum(sizes)
                self._several = types, at, size
            least = outs[at]
        else:
            return
        if size > HELD:
            self._settle(least)
            return
        devices, before, pending = least._sharding._internal_device_list, self._latest, self._pending
        self._latest = weakref.ref(least)
        same = devices is self._devices
        if same and _has_ended(before()):
            self._since, self._bytes = 1, size
            if pending:
                self._let_go()
            return
        self._since = since = self._since + 1
        self._bytes = size = self._bytes + size
        if same and since < STRIDE and size <= HELD // WINDOW:
            return
        self._devices, self._since, self._bytes = devices, 0, 0
        if size > HELD // WINDOW:
            self._let_go()
        pending.append((least._rewrap_with_aval_and_sharding(IN_FLIGHT, least._sharding), since, size))
        self._flying += since
        self._held += size
        while self._flying > WINDOW or (self._held > HELD and len(pending) > 1):
            if not self._wait_for_oldest(least):
                break
        if len(pending) <= 1:
            self._flying, self._held = since, size

    def _let_go(self) -> None:
        """Of what has ended, so that the next results have the memory."""
        pending = self._pending
        try:
            while True:
                oldest = pending.popleft()
                if not _has_ended(oldest[0]):
                    pending.appendleft(oldest)
                    return
                self._flying -= oldest[1]
                self._held -= oldest[2]
        except IndexError:
            pass

    def _wait_for_oldest(self, newest: Any) -> bool:
        try:
            oldest, launches, size = self._pending.popleft()
        except IndexError:  # another thread took it
            return False
        self._flying -= launches
        self._held -= size
        if oldest.is_deleted():
            self._lost += launches
            if self._lost < WINDOW:
                return True
            oldest = newest
        self._lost = 0
        self._settle(oldest)
        return True

    @staticmethod
    def _settle(x: Any) -> None:
        try:
            _wait(x)
        except _jaxlib.LAUNCH_ERRORS:
            pass  # its own error reaches whoever reads it

    def drain(self) -> None:
        """Wait for everything in flight, but for launches since the latest in `_pending`."""
        self._flying = self._held = 0
        self._devices = None
        while self._pending:
            try:
                _wait(self._pending.popleft()[0])
            except (IndexError, *_jaxlib.LAUNCH_ERRORS):
                pass


_wait = _jaxlib.wait_for


def _has_ended(x: Any) -> bool:
    """Whether what computes an array has ended, as far as that can be told; of one that failed its reader is told."""
    try:
        return x is not None and not x.is_deleted() and x.is_ready()
    except _jaxlib.LAUNCH_ERRORS:
        return True


def window_of(client: Any) -> Window | None:
    """The window of a client, shared by all threads; None where collectives may queue as they like."""
    if client.platform != "cpu" or not _jaxlib.COLLECTIVES_BLOCK_LAUNCHES:
        return None
    known = owner.current.windows
    found = known.get(client)
    if found is None:
        found = known.setdefault(client, Window())
    return found


_COLLECTIVE = re.compile(r"all-reduce|all-gather|all-to-all|collective-|reduce-scatter")


def window_for(executable: Any, device: Any) -> Window | None:
    """The window for a partitioned program; None where the compiler has put no collectives into it."""
    window = window_of(device.client)
    if window is not None and any(_COLLECTIVE.search(m.to_string()) for m in executable.hlo_modules()):
        return window
    return None


@owner.when_closed
def _drain_all(gone: owner.Owner) -> None:
    for window in gone.windows.values():
        window.drain()


class DeletedArrayError(LaminaError, RuntimeError, ValueError):
    """An array was given whose memory is no more its own: it was deleted, or donated to a call before."""


def _operand(i: int) -> str:
    return f"argument {i}"


def check_usable(call: str, name: str, flat: Iterable[Any], words: Callable[[int], str] = _operand) -> None:
    """DeletedArrayError when an argument was deleted or donated, RuntimeError when its devices were given up; `words` says
    which it is."""
    for i, x in enumerate(flat):
        if type(x) is ArrayImpl:
            if x.is_deleted():
                raise DeletedArrayError(f"{call} of `{name}`: Array has been deleted or donated: {words(i)}, "
                                        f"{x.aval.long()}. Keep a copy (x.copy()) of an array that a donating function takes, "
                                        "or use that function's result")
            if owner.is_closed(x._sharding._internal_device_list[0]):
                raise RuntimeError(f"{call} of `{name}`: {words(i)}, {x.aval.long()}, lies on devices of a client that "
                                   "was closed by backends.reset(). Move it with device_put(x, lamina.devices()[0])")


_giving: set[int] = set()
_giving_lock = threading.Lock()


class Giving:
    """A block in which `arrays` are given up: RuntimeError at its start for one that is gone, or that another thread is
    giving up at this moment. Two launches of one donated buffer end the process."""

    __slots__ = ("_call", "_name", "_arrays", "_words", "_ids")

    def __init__(self, call: str, name: str, arrays: Sequence[Any], words: Callable[[int], str] = _operand) -> None:
        self._call, self._name, self._arrays, self._words = call, name, arrays, words
        self._ids = [id(x) for x in arrays]

    def __enter__(self) -> None:
        ids = self._ids
        with _giving_lock:
            taken = [n for n, i in enumerate(ids) if i in _giving]
            if not taken:
                _giving.update(ids)
        if taken:
            self._ids = []
            raise RuntimeError(f"{self._call} of `{self._name}`: Array is being donated by another thread at this moment: "
                               f"{self._words(taken[0])}; a donated array is given to one call. Pass copies (x.copy())")
        try:
            check_usable(self._call, self._name, self._arrays, self._words)
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *error: Any) -> None:
        with _giving_lock:
            _giving.difference_update(self._ids)


# --- arrays that functions close over -----------------------------------------------------------------------------
def read_by(constants: Iterable[Any], call: Any) -> None:
    """jaxlib's call object (a weak reference to it) hands these arrays to its program without asking Python."""
    for c in constants:
        if type(c) is ArrayImpl:
            if c._readers is None:
                c._readers = []
            if not any(r is call for r in c._readers):
                c._readers.append(call)


def share_memory(x: Any, y: Any) -> None:
    """Two arrays read the same memory, at least on one device. When one is deleted or donated the other goes as well: jaxlib
    looks at an array's first device only, and a launch with a part that is gone ends the process."""
    with _giving_lock:
        known = [r for a in (x, y) for r in a._readers or () if r() is not None]
        x._readers = y._readers = both = [*known, weakref.ref(x), weakref.ref(y)]
        for r in known:
            a = r()
            if type(a) is ArrayImpl:
                a._readers = both


def forget_readers(x: Any) -> None:
    """An array is about to go: the call objects that read it ask Python the next time, which says so, and arrays over the same
    memory go as well."""
    readers, x._readers = x._readers or (), None
    for reader in readers:
        found = reader()
        if type(found) is ArrayImpl:
            if found is not x:
                found._readers = None
                _jaxlib.delete(found)
        elif found is not None:
            found._clear_cache()


def check_constants(call: str, name: str, constants: Iterable[Any]) -> None:
    """RuntimeError when an array that a function closes over was deleted or donated."""
    for c in constants:
        if type(c) is ArrayImpl and c.is_deleted():
            raise DeletedArrayError(f"{call} of `{name}`: Array has been deleted or donated: {c.aval.long()}, which the "
                                    "function closes over. Pass it as an argument, or keep a copy (x.copy()) for one of both")


def check_donation(call: str, name: str, flat: Sequence[Any], donated: Sequence[bool], words: Callable[[int], str]) -> None:
    """ValueError when an argument is given up and used in another place of the same call; `words` says which it is."""
    seen: dict[int, int] = {}
    for i, (x, gone) in enumerate(zip(flat, donated)):
        if type(x) is ArrayImpl:
            first = seen.setdefault(id(x), i)
            if first != i and (gone or donated[first]):
                which = words(i if gone else first)
                raise ValueError(f"{call} of `{name}`: {which}, {x.aval.long()}, is donated and passed twice: "
                                 f"{words(first)} and {words(i)} are the same array. Pass a copy (x.copy()) for one of them")
