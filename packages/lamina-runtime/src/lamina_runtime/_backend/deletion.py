"""Delete arrays, and read them, while other threads may do the same.

jaxlib's methods release the GIL while they use the buffers of an array. Another thread that deletes the array at that
moment crashes the reader, in jaxlib 0.10.2 to 0.12, in three ways:

- `ArrayImpl.delete` frees the C++ object that owns the buffers, and readers use it without a reference. So functions of
  this package read a second array object over the buffers (`pin`). NumPy reads the array itself. So the C++ object of a
  deleted array is *kept* by another array object, for as long as the array, or for `_DELAY` seconds.
- `ArrayImpl.delete` frees the buffers, which is not atomic with NumPy's request for them. So a deleted array first gets
  an empty buffer list, and the buffers are freed `_DELAY` seconds later. Donating a buffer to a program has no such race.
- A launch on several devices crashes if it fails (before 0.12), or its results are never ready (0.12). It fails with a
  buffer that was deleted or donated after the launch collected its arguments. So 0.12 never deletes the empty buffers of an
  array on several devices: a program that gets them anyway computes an error. Buffers of a process with several CPU devices are
  not donated while other threads exist: an external reference to each (`hold`) makes XLA copy it. The references to the
  original are then dropped.

None of this is needed if no other thread exists.
"""
from __future__ import annotations

import _thread
import gc
import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from lamina_ir import ShapedArray

from .. import _jaxlib
from . import client_state
from .._jaxlib import ArrayImpl
from .._typing import Array, JaxlibSharding

__all__ = ["INTERNAL_AVAL", "delete", "delete_donated", "get_shards", "has_other_threads", "hold", "is_ready",
           "note_foreign_threads", "pin", "wait_for", "wait_for_all"]

_DELAY = 0.1  # seconds; NumPy's request takes less than a microsecond
_MAX_DELAYED_BYTES = 1 << 26  # of buffers that wait to be freed
_MAX_KEPT = 1 << 14  # donated arrays whose C++ objects are kept, in groups
INTERNAL_AVAL = ShapedArray((), np.dtype("float32"))  # the aval of internal array objects; `live_arrays` leaves them out

_lock = threading.RLock()
_delayed: deque[_Delayed] = deque()  # oldest first
_kept: deque[tuple[float, list[Array]]] = deque()  # (time of donation, array objects that keep C++ objects)
_has_foreign_threads = False  # whether XLA's threads may run Python code
_delete, _clone, _replace = _jaxlib.delete, ArrayImpl.clone, ArrayImpl._replace_with
_is_deleted, _is_ready, _wait_for = ArrayImpl.is_deleted, ArrayImpl.is_ready, _jaxlib.wait_for
ArrayImpl._keeper = None  # of a deleted array: the array object that keeps its C++ object
ArrayImpl._is_keeper = False  # whether the array keeps the C++ object of a deleted array
ArrayImpl._is_emptied = False  # whether the array has the failed buffers of `_empty` instead of its own


class _Delayed(NamedTuple):
    """Buffers that wait to be freed.

    Attributes:
      time: when the array was deleted.
      size: bytes.
      keeper: the array object that has the buffers: a weak reference, if the deleted array refers to it.
    """

    time: float
    size: int
    keeper: Any


class _ErrorAval(NamedTuple):
    """The properties that jaxlib reads to make an array of a failed program."""

    shape: tuple[int, ...]
    dtype: Any
    weak_type: bool
    sharding: JaxlibSharding


def has_other_threads() -> bool:
    """Return whether another thread may run Python code."""
    return _thread._count() > 0 or _has_foreign_threads


def note_foreign_threads() -> None:
    """Note that a program has host callbacks: XLA calls them on threads that Python does not count."""
    global _has_foreign_threads
    _has_foreign_threads = True


# --- deleting -----------------------------------------------------------------------------------------------------
def delete(x: Array) -> None:
    """Delete an array; do nothing if it was deleted before.

    If other threads exist, its memory is freed a little later.
    """
    if not has_other_threads():
        _delete(x)
        return
    with _lock:
        _free_delayed()
        try:
            keeper = _another(x, x.aval)  # jaxlib 0.12 refuses to replace an array of several devices by one of another shape
            keeper._is_keeper = True
            keeper._replace_with(x)  # before, it had a C++ object of its own
        except _jaxlib.LAUNCH_ERRORS:
            if x.is_deleted():  # deleted or donated before
                return
            raise
        _empty(x)
        on_one_device = x._sharding.num_devices == 1
        if on_one_device:
            x._keeper = keeper
        # Registered for a while only: Python discards a KeyboardInterrupt that is raised in this callback.
        if _on_garbage_collection not in gc.callbacks:
            gc.callbacks.append(_on_garbage_collection)
        _delayed.append(_Delayed(time.monotonic(), x.nbytes, weakref.ref(keeper) if on_one_device else keeper))


def _another(x: Array, aval: ShapedArray) -> Array:
    """Return another array object over the buffers of an array, as committed as the array.

    Raises an error of `LAUNCH_ERRORS` if it was deleted.
    """
    out = x._rewrap_with_aval_and_sharding(aval, x._sharding)
    if out._committed != x._committed:
        out = ArrayImpl(x.aval, x._sharding, [out], committed=x._committed, _skip_checks=True)
    return out


def _empty(x: Array) -> None:
    """Take the buffers out of an array, so that it is a deleted array."""
    aval, sharding = x.aval, x._sharding
    properties = _ErrorAval(aval.shape, aval.dtype, aval.weak_type, sharding)
    text = f"Array has been deleted or donated: {aval.str_long()}"
    error = _jaxlib.make_error_array(sharding._internal_device_list[0].client, properties, text)
    empty = _another(error, aval)
    if empty._committed != x._committed:
        empty = ArrayImpl(aval, sharding, [empty], committed=x._committed, _skip_checks=True)
    if _jaxlib.REPLACES_DELETED:
        _delete(empty)
        x._replace_with(empty)
    else:
        x._replace_with(empty)
        if x._sharding.num_devices > 1:
            x._is_emptied, ArrayImpl.is_deleted = True, _is_deleted_or_emptied
        else:
            _delete(x)


def _is_deleted_or_emptied(self: Array) -> bool:
    """Return whether the array was deleted or donated; its memory is freed then."""
    return self._is_emptied or _is_deleted(self)


def _free_delayed() -> None:
    """Free the buffers of arrays that were deleted long enough ago; the oldest ones too, if there are too many."""
    before, size = time.monotonic() - _DELAY, sum([d.size for d in _delayed])
    while _delayed and (_delayed[0].time < before or size > _MAX_DELAYED_BYTES):
        oldest = _delayed.popleft()
        size -= oldest.size
        # The reference of an array on several devices ends here. A launch may still use the buffers.
        if isinstance(oldest.keeper, weakref.ref):
            keeper = oldest.keeper()
            if keeper is not None:
                _delete(pin(keeper))  # frees the buffers; `keeper` still has its C++ object
    if not _delayed and _on_garbage_collection in gc.callbacks:
        gc.callbacks.remove(_on_garbage_collection)


def _on_garbage_collection(phase: str, info: object) -> None:
    if phase == "stop" and _lock.acquire(blocking=False):
        try:
            _free_delayed()
        finally:
            _lock.release()


def delete_donated(arrays: Sequence[Array]) -> None:
    """Delete arrays that were donated to a launch, also those whose memory it did not use."""
    if not has_other_threads():
        for x in arrays:
            _delete(x)
        return
    used = [x for x in arrays if x.is_deleted()]
    if len(used) != len(arrays):
        for x in arrays:
            if not x.is_deleted():
                delete(x)
    # jaxlib 0.12 cannot empty a donated array. It fails with a clear error if the array is used again.
    if used and _jaxlib.REPLACES_DELETED:
        now = time.monotonic()
        keepers, used = _take_keepers(used, now - _DELAY)
        with _lock:
            # Loops in C: these calls are a tenth of the time of a small step.
            deque(map(_replace, keepers, used), 0)
            deque(map(_delete, used), 0)
        _kept.append((now, keepers))


def _take_keepers(arrays: list[Array], before: float) -> tuple[list[Array], list[Array]]:
    """Return array objects that can keep the C++ objects of donated arrays, and these arrays.

    The objects are taken from donations before a time if possible. Arrays that another thread deleted are left out.
    """
    try:
        since, keepers = _kept.popleft()
    except IndexError:
        keepers = []
    else:
        if since > before and len(_kept) * len(keepers) < _MAX_KEPT:
            _kept.appendleft((since, keepers))
            keepers = []
    kept = arrays[:len(keepers)]
    for x in arrays[len(keepers):]:
        try:
            keepers.append(x._rewrap_with_aval_and_sharding(INTERNAL_AVAL, x._sharding))
        except _jaxlib.LAUNCH_ERRORS:
            continue
        kept.append(x)
    return keepers, kept


@client_state.on_close
def _forget(closed: client_state.ClientState) -> None:
    _kept.clear()  # these objects keep the client alive


def hold(arrays: Sequence[Array]) -> list[object]:
    """Return objects that prevent programs from reusing the memory of arrays, if a donation could crash other threads.

    Raises:
      RuntimeError: DLPack has no type for an array, such as one of 2 or 4 bit integers.
    """
    held: list[object] = []
    sharding, has_several = None, False
    for x in arrays:
        if x._sharding is not sharding:
            sharding = x._sharding
            client = sharding._internal_device_list[0].client
            has_several = client.device_count() > 1 and client.platform == "cpu"
        if has_several:
            try:
                pieces = get_shards(x) if x._sharding.num_devices > 1 else [pin(x)]
                held += [_jaxlib.to_dlpack(p, None) for p in pieces]
            except _jaxlib.LAUNCH_ERRORS:
                if not x.is_deleted():  # else another thread has deleted it meanwhile, and the launch raises an error
                    raise RuntimeError(f"arrays of {x.dtype} cannot be donated while other Python threads exist and the "
                                       "process has several CPU devices; leave out donate_argnums") from None
    return held


# --- reading ------------------------------------------------------------------------------------------------------
def pin(x: Array, aval: ShapedArray = INTERNAL_AVAL) -> Array:
    """Return another array object over the buffers of an array, which no other thread deletes.

    Raises an error of `LAUNCH_ERRORS` if the array was deleted.
    """
    return x._rewrap_with_aval_and_sharding(aval, x._sharding)


def wait_for(x: Array) -> Array:
    """Wait until an array is computed, and return it."""
    _wait_for(pin(x) if has_other_threads() else x)
    return x


def wait_for_all(arrays: Sequence[Array]) -> None:
    """Wait until several arrays are computed."""
    _jaxlib.batched_block_until_ready([pin(x) for x in arrays] if has_other_threads() else arrays)


def get_shards(x: Array) -> list[Array]:
    """Return the shards of an array on the devices of this process, as single-device arrays without an aval.

    Raises:
      ValueError: `x` was deleted.
    """
    if not has_other_threads():
        shards = x._arrays
    else:
        with _lock:  # deleting `x` may delete the objects of the list too
            shards = x._arrays
            shards = shards and [_clone(p) for p in shards]
    if shards is None:
        raise ValueError("the array was deleted")
    return shards


def is_ready(x: Array) -> bool:
    """Return whether an array is computed, or was deleted. Raises an error of `LAUNCH_ERRORS` if its program failed."""
    try:
        return x.is_deleted() or _is_ready(pin(x) if has_other_threads() else x)
    except _jaxlib.LAUNCH_ERRORS:
        if x.is_deleted():
            return True
        raise
