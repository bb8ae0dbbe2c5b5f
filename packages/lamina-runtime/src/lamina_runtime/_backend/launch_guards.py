"""Guard the launches of multi-device programs: check arguments, launch one at a time, limit those in flight.

jaxlib crashes or hangs the process otherwise:

- Before 0.12, a launch on several devices that fails segfaults, e.g. when a donated argument is used again. So arguments
  are checked in Python first.
- A launch is queued on one device after another. Each device takes 32, and one that is not complete yet makes later ones
  wait. The launches of another thread may fill the queue of a device on which it is still missing: a deadlock. So per client
  one thread launches at a time (`Window.lock`).
- Before 0.12, more than 31 queued programs deadlock also in one thread if some have collectives, because launches occupy
  the threads that an earlier collective needs. So per client at most `WINDOW` programs are in flight.

The window costs nothing: benchmarks/queued.py compares it with calls that block. Programs that span processes are
launched one at a time, see `_launch.process_group`.
"""
from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from lamina_ir import CallbackError, ExecutionError, LaminaError, ShapedArray
from lamina_ir.typing import Value

from .. import _jaxlib
from . import client_state, deletion, fork_state
from .._jaxlib import ArrayImpl
from .._typing import Array, CallObject, Client, DeviceList

__all__ = ["DeletedArrayError", "DonationGuard", "MAX_HELD_BYTES", "WINDOW", "Window",
           "check_constants", "check_donation", "check_usable", "client_window", "invalidate_readers",
           "record_shared_memory", "register_reader"]

WINDOW = 8  # multi-device programs in flight, per client
STRIDE = 4  # small launches in sequence per marker array
MAX_HELD_BYTES = 1 << 22  # bytes of results that the markers of a window may retain


class Window:
    """A sliding window over the latest launches of multi-device programs on one client.

    A launch holds `lock`, also one by a call object that launches without Python, an *inner* one. If another thread compiles
    a program for the same signature of such an object, jaxlib lets this thread wait for the other one, which needs the lock
    for its launch. So no inner call object may be called while there are `misses`.

    If `is_limited`, `note_launch(outs)` waits for the oldest launch if too many are in flight. To wait for a launch, the window
    holds a *marker*: another array object over the buffer of the launch's smallest result. So arrays of the caller die as
    usual. A marker does retain the buffers of the launch while it is in flight. These are limited to `MAX_HELD_BYTES`
    in total; a launch with more is waited for at once. Its computation takes longer than launching the next one, so
    devices do not become idle. A loop then needs no more memory than a loop that blocks at each step.

    Making and freeing markers is the most expensive part of a window, and launches on the same devices end in order.
    So only every `STRIDE`-th of small consecutive launches on the same devices gets a marker, which represents the
    launches before it as well. A loop that blocks at each step makes no markers: its previous launch has ended, and so
    have all earlier launches on these devices.

    A marker whose buffer was donated to a later call cannot be waited for. After `WINDOW` consecutive launches with
    such markers, `note_launch` waits for the newest result instead. That bounds the programs in flight to twice the
    window.

    Args:
      is_limited: whether the number of launches in flight is limited.
    """

    __slots__ = ("is_limited", "lock", "misses", "_pending", "_donated", "_held", "_in_flight", "_since", "_bytes",
                 "_devices", "_latest", "_several")

    def __init__(self, is_limited: bool = True) -> None:
        self.is_limited = is_limited
        self.lock = threading.RLock()  # jaxlib may move an argument while it launches, and that may be a launch, too
        self.misses = 0  # of inner call objects that are being handled; changed with the lock held
        # (marker, number of launches that it represents, their bytes), oldest first
        self._pending: deque[tuple[Array, int, int]] = deque()
        # The counters are updated without a lock. Concurrent launches make them slightly wrong, which is harmless: the
        # window is far below jaxlib's limit of 31.
        self._donated = 0  # consecutive launches whose marker was donated
        self._in_flight = self._held = 0  # launches and bytes in `_pending`
        self._since = self._bytes = 0  # launches and bytes since the latest marker
        self._devices: DeviceList | None = None  # of the latest launch
        self._latest: Any = None  # weak reference to the smallest result of the latest launch
        # Of the latest launch with several results: their avals, index of the smallest, bytes of all.
        self._several: tuple[list[ShapedArray] | None, int, int] = (None, 0, 0)

    @contextmanager
    def handling_miss(self) -> Iterator[None]:
        """Return a context for the miss of an inner call object, in which the lock is released."""
        self.misses += 1
        self.lock.release()
        try:
            yield
        finally:
            self.lock.acquire()
            self.misses -= 1

    def note_launch(self, outs: Sequence[Value]) -> None:
        """Note a launch with the results `outs`; wait for the oldest launch if too many are in flight."""
        if not self.is_limited:
            return
        if len(outs) == 1:
            smallest = outs[0]
            size = smallest.nbytes
        elif outs:
            avals = [x.aval for x in outs]
            known, at, size = self._several
            if avals != known:
                sizes = [x.nbytes for x in outs]
                at, size = sizes.index(min(sizes)), sum(sizes)
                self._several = avals, at, size
            smallest = outs[at]
        else:
            return
        if size > MAX_HELD_BYTES:
            self._wait_quietly(smallest)
            return
        devices, previous, pending = smallest._sharding._internal_device_list, self._latest, self._pending
        self._latest = weakref.ref(smallest)
        same = devices is self._devices
        if same and _has_ended(previous()):
            self._since, self._bytes = 1, size
            if pending:
                self._drop_ended()
            return
        self._since = since = self._since + 1
        self._bytes = size = self._bytes + size
        if same and since < STRIDE and size <= MAX_HELD_BYTES // WINDOW:
            return
        self._devices, self._since, self._bytes = devices, 0, 0
        if size > MAX_HELD_BYTES // WINDOW:
            self._drop_ended()
        pending.append((smallest._rewrap_with_aval_and_sharding(deletion.INTERNAL_AVAL, smallest._sharding), since, size))
        self._in_flight += since
        self._held += size
        while self._in_flight > WINDOW or (self._held > MAX_HELD_BYTES and len(pending) > 1):
            if not self._wait_for_oldest(smallest):
                break
        if len(pending) <= 1:
            self._in_flight, self._held = since, size

    def _drop_ended(self) -> None:
        """Drop the markers of launches that have ended, so that the next results can use their memory."""
        pending = self._pending
        try:
            while True:
                oldest = pending.popleft()
                if not _has_ended(oldest[0]):
                    pending.appendleft(oldest)
                    return
                self._in_flight -= oldest[1]
                self._held -= oldest[2]
        except IndexError:
            pass

    def _wait_for_oldest(self, newest: Array) -> bool:
        """Wait for the oldest marker. Return False if there is none left."""
        try:
            oldest, launches, size = self._pending.popleft()
        except IndexError:  # another thread popped it
            return False
        self._in_flight -= launches
        self._held -= size
        if oldest.is_deleted():
            self._donated += launches
            if self._donated < WINDOW:
                return True
            oldest = newest
        self._donated = 0
        self._wait_quietly(oldest)
        return True

    @staticmethod
    def _wait_quietly(x: Array) -> None:
        try:
            _wait(x)
        except _jaxlib.LAUNCH_ERRORS:
            pass  # the code that reads the result gets the error

    def drain(self) -> None:
        """Wait for all markers; launches since the latest marker may still be in flight."""
        self._in_flight = self._held = 0
        self._devices = None
        while self._pending:
            try:
                _wait(self._pending.popleft()[0])
            except (IndexError, *_jaxlib.LAUNCH_ERRORS):
                pass


_wait = _jaxlib.wait_for


def _has_ended(x: Array) -> bool:
    """Return whether the program that computes an array is known to have ended, successfully or not."""
    try:
        return x is not None and not x.is_deleted() and x.is_ready()
    except _jaxlib.LAUNCH_ERRORS:
        return True


def client_window(client: Client) -> Window:
    """Return the window of a client, shared by all threads."""
    known = client_state.current.windows
    found = known.get(client)
    if found is None:
        found = known.setdefault(client, Window(client.platform == "cpu" and _jaxlib.COLLECTIVES_BLOCK_LAUNCHES))
    return found


@client_state.on_close
def _drain_all(closed: client_state.ClientState) -> None:
    for window in closed.windows.values():
        window.drain()


class DeletedArrayError(LaminaError, RuntimeError, ValueError):
    """Raised when an array is used after it was deleted, or donated to an earlier call.

    Fix: use the result of the donating call, or pass it a copy: `f(x.copy())`.
    """

    code: ClassVar[str] = "LAM1506"


def _operand(i: int) -> str:
    return f"argument {i}"


def check_usable(call: str, name: str, flat: Iterable[Value], describe: Callable[[int], str] = _operand) -> None:
    """Check that no argument was deleted or donated, or belongs to a closed client.

    `describe(i)` is the text for argument `i` in errors.

    Raises:
      DeletedArrayError: an argument was deleted or donated.
      RuntimeError: the client of an argument was closed; this is a forked child.
    """
    if fork_state.is_disabled:
        fork_state.refuse()
    some_closed = client_state.current.epoch > 0  # read once, for speed
    for i, x in enumerate(flat):
        if type(x) is ArrayImpl:
            if x.is_deleted():
                raise DeletedArrayError(f"{call} of `{name}`: Array has been deleted or donated: {describe(i)}, "
                                        f"{x.aval.str_long()}. Make a copy (x.copy()) before passing it to a donating "
                                        "function, or use that function's result")
            if some_closed and client_state.is_closed(x._sharding._internal_device_list[0]):
                raise RuntimeError(f"{call} of `{name}`: {describe(i)}, {x.aval.str_long()}, is on devices of a client "
                                   "that was closed by clear_backends(). Move it with device_put(x, lamina.devices()[0])")


_donating: dict[int, int] = {}  # id of an array that is being donated -> thread
_donating_lock = threading.Lock()


_LAUNCH_RESULTS = (FloatingPointError, CallbackError, ExecutionError)  # errors that are raised after a launch


class DonationGuard:
    """Context in which a call donates `arrays`, which are deleted at its end; after an error, those that were donated.

    Entering it raises DeletedArrayError for an array that was deleted, and RuntimeError for an array that another
    thread is donating at the same time. Without the check, two launches with one donated buffer crash the process.
    """

    __slots__ = ("_call", "_name", "_arrays", "_describe", "_ids", "_held")

    def __init__(self, call: str, name: str, arrays: Sequence[Value],
                 describe: Callable[[int], str] = _operand) -> None:
        self._call, self._name, self._arrays, self._describe = call, name, arrays, describe
        self._ids = [*map(id, arrays)]
        self._held: list[object] = []

    def __enter__(self) -> None:
        ids, thread = self._ids, threading.get_ident()
        try:
            with _donating_lock:
                taken: list[int] = []
                if not _donating.keys().isdisjoint(ids):
                    # An entry of this thread is left over from a call that a KeyboardInterrupt ended.
                    taken = [n for n, i in enumerate(ids) if _donating.get(i, thread) != thread]
                if not taken:
                    _donating.update(dict.fromkeys(ids, thread))
            if taken:
                raise RuntimeError(f"{self._call} of `{self._name}`: Array is being donated by another thread at this "
                                   f"moment: {self._describe(taken[0])}; an array can be donated to one call. Pass "
                                   "copies (x.copy())")
            check_usable(self._call, self._name, self._arrays, self._describe)
            if deletion.has_other_threads():
                try:
                    self._held = deletion.hold(self._arrays)
                except RuntimeError as e:
                    raise RuntimeError(f"{self._call} of `{self._name}`: {e}") from None
        except BaseException:
            self._release()
            raise

    def __exit__(self, error_type: type | None, error: BaseException | None, traceback: object) -> None:
        try:
            # After an error, such as a KeyboardInterrupt behind the launch, those that were donated nevertheless. If a
            # launch copied them for other threads, its errors show that it took place.
            arrays = self._arrays
            if error is not None and not (self._held and isinstance(error, _LAUNCH_RESULTS)):
                arrays = [x for x in arrays if x.is_deleted()]
            for x in arrays:
                # Arrays over the same memory, and programs with the array as a constant, must not use it any more.
                if x._readers is not None:
                    invalidate_readers(x)
            deletion.delete_donated(arrays)
        finally:
            with _donating_lock:
                for i in self._ids:  # all entries are this call's
                    _donating.pop(i, None)
            self._held = []

    def _release(self) -> None:
        thread = threading.get_ident()
        with _donating_lock:
            for i in self._ids:
                if _donating.get(i) == thread:
                    del _donating[i]
        self._held = []


# --- arrays that functions close over -----------------------------------------------------------------------------
# An array's attribute `_readers` lists weak references to the objects that have to be invalidated when it is deleted:
# call objects with the array as a constant, and arrays over the same memory.
def register_reader(constants: Iterable[Value], call: Callable[[], CallObject | None]) -> None:
    """Register a call object (a weak reference to it) as a reader of constants.

    jaxlib's fast path passes these arrays to its program without calling Python, so it cannot notice a deletion.
    """
    for c in constants:
        if type(c) is ArrayImpl:
            if c._readers is None:
                c._readers = []
            if not any(r is call for r in c._readers):
                c._readers.append(call)


def record_shared_memory(x: Array, y: Array) -> None:
    """Record that two arrays share memory on at least one device, so that deleting one deletes the other.

    jaxlib's own check looks at the first device of an array only. A launch with another shard deleted crashes the
    process.
    """
    with _donating_lock:
        known = [r for a in (x, y) for r in a._readers or () if r() is not None]
        x._readers = y._readers = both = [*known, weakref.ref(x), weakref.ref(y)]
        for r in known:
            a = r()
            if type(a) is ArrayImpl:
                a._readers = both


def invalidate_readers(x: Array) -> None:
    """Invalidate the readers of an array that is about to be deleted or donated.

    Call objects get their fast path cleared: their next call passes through Python, which raises a clear error. Arrays
    over the same memory are deleted.
    """
    readers, x._readers = x._readers or (), None
    for reader in readers:
        found = reader()
        if type(found) is ArrayImpl:
            if found is not x:
                found._readers = None
                deletion.delete(found)
        elif found is not None:
            found._clear_cache()


def check_constants(call: str, name: str, constants: Iterable[Value]) -> None:
    """Raise DeletedArrayError if an array that a function closes over was deleted or donated."""
    for c in constants:
        if type(c) is ArrayImpl and c.is_deleted():
            raise DeletedArrayError(f"{call} of `{name}`: Array has been deleted or donated: {c.aval.str_long()}, which "
                                    "the function closes over. Pass it as an argument, or close over a copy (x.copy())")


def check_donation(call: str, name: str, flat: Sequence[Value], donated: Sequence[bool],
                   describe: Callable[[int], str]) -> None:
    """Raise ValueError if an array is donated and also passed as another argument of the same call.

    `describe(i)` is the text for argument `i` in errors.
    """
    seen: dict[int, int] = {}
    for i, (x, is_donated) in enumerate(zip(flat, donated)):
        if type(x) is ArrayImpl:
            first = seen.setdefault(id(x), i)
            if first != i and (is_donated or donated[first]):
                which = describe(i if is_donated else first)
                raise ValueError(f"{call} of `{name}`: {which}, {x.aval.str_long()}, is donated and passed twice: "
                                 f"{describe(first)} and {describe(i)} are the same array. Pass a copy (x.copy()) for "
                                 "one of them")
