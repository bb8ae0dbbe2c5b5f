"""The concrete array, jaxlib's class: made from host values, waited for, read, taken apart.

An array remembers its type (`aval`), its placement (`sharding`) and whether a user chose that placement (`committed`).
Arrays that jaxlib makes by itself, for the parts of a sharded array, come without aval and are given one here.
"""
from __future__ import annotations

import math
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir import ShapedArray, aval_of, shaped

from . import _jaxlib, backends, host_errors, on_device, safe_launch, shardings, transfer_counts, transfer_guards
from ._jaxlib import ArrayImpl, SingleDeviceSharding

__all__ = ["Array", "Shard", "addressable_shards", "adopt", "alone", "block_until_ready", "check_alive", "host_value",
           "piece_of", "put", "put_pieces", "room_for", "row_of", "text_of", "with_type"]

Array = ArrayImpl
_device_put = _jaxlib.batched_device_put
_COPY = _jaxlib.COPY_DURING_CALL
_wait_for = _jaxlib.wait_for


# --- making -------------------------------------------------------------------------------------------------------
def put(x: Any, device: Any, committed: bool, aval: ShapedArray | None = None, sharding: Any = None) -> Any:
    """A host value on one device, which `sharding` may say in names. The memory is copied before this returns."""
    if aval is None:
        aval = aval_of(x)
    transfer_counts.put(1, aval.size * aval.dtype.itemsize)
    if isinstance(x, np.ndarray) and not x.dtype.isnative:  # jaxlib takes the bytes as they are
        x = x.astype(aval.dtype)
    return _device_put(aval, sharding or shardings.single(device), [x], [device], committed, False, _COPY)


def put_pieces(aval: ShapedArray, sharding: Any, pieces: Sequence[Any], devices: Sequence[Any],
               committed: bool = True) -> Any:
    """One array from the host pieces (or single-device arrays) of its devices, in order. They have its rank."""
    sent = [p.nbytes for p in pieces if type(p) is not ArrayImpl]
    if sent:
        pieces = [p.astype(aval.dtype) if isinstance(p, np.ndarray) and not p.dtype.isnative else p for p in pieces]
        transfer_counts.put(len(sent), sum(sent))
    if sharding.partly_copied or 0 in aval.shape:
        # Copying during the call, jaxlib fails ("bad_function_call") where two pieces share memory.
        pieces = [np.array(p) if isinstance(p, np.ndarray) else p for p in pieces]
        return _device_put(aval, sharding, pieces, devices, committed, False, _jaxlib.ZERO_COPY)
    return _device_put(aval, sharding, pieces, devices, committed, False, _COPY)


def room_for(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Host memory that CPU devices can take as it is, see `adopt`."""
    size = math.prod(shape) * dtype.itemsize
    raw = np.empty(size + 64, np.uint8)
    at = -raw.ctypes.data % 64
    return raw[at:at + size].view(dtype).reshape(shape)


def adopt(aval: ShapedArray, sharding: Any, pieces: Sequence[np.ndarray], devices: Sequence[Any], committed: bool) -> Any:
    """One array from host pieces that nobody else has or will write to, in order of its devices. CPU devices keep the memory
    itself where it begins at a multiple of 64 bytes."""
    transfer_counts.put(len(pieces), sum([p.nbytes for p in pieces]))
    return _device_put(aval, sharding, list(pieces), list(devices), committed, False, _jaxlib.ZERO_COPY)


def with_type(x: Any, aval: ShapedArray, sharding: Any = None) -> Any:
    """The same buffers read as `aval`."""
    return x._rewrap_with_aval_and_sharding(aval, sharding or x._sharding)


def piece_of(x: Any, index: int) -> Any:
    """The part on one device (by its place among those of this process), as an array of its own: the same memory, so that
    they go together when one is deleted or donated."""
    sharding = x._sharding
    if type(sharding) is SingleDeviceSharding:
        return (x,)[index]
    check_alive(x)
    aval = shaped(sharding.shard_shape(x.aval.shape), x.aval.dtype, x.aval.weak_type)
    device = sharding._internal_device_list.addressable_device_list[index]
    piece = with_type(x._arrays[index], aval, shardings.single(device))
    safe_launch.share_memory(x, piece)
    return piece


def alone(x: Any) -> Any:
    """An array on one device as that device's own: results over several processes are not, see `shardings.part`."""
    sharding = x._sharding
    if type(sharding) is SingleDeviceSharding or sharding.num_devices > 1:
        return x
    check_alive(x)
    out = with_type(x._arrays[0], x.aval, shardings.single(sharding._internal_device_list[0]))
    safe_launch.share_memory(x, out)
    return out


def row_of(x: Any, index: int) -> Any:
    """`x[index]` of an array mapped over its leading axis: that device's part, moved nowhere. None if it is not one.
    It is free to move, as nobody chose that device for it: rows of several devices may meet in one program."""
    sharding = x._sharding
    dims = sharding.mapped_dims
    shape = x.aval.shape
    if not dims or dims[0] != 0 or len(dims) != 1 or sharding.shard_shape(shape)[0] != 1:
        return None
    n = shape[0]
    if not -n <= index < n:
        return None
    check_alive(x)
    at = sharding.holders[index % n]
    device = sharding._internal_device_list[at]
    addressable = sharding._internal_device_list.addressable_device_list
    if len(addressable) != sharding.num_devices:
        return None
    aval = shaped(shape[1:], x.aval.dtype, x.aval.weak_type)
    held = shaped((1, *shape[1:]), x.aval.dtype, x.aval.weak_type)
    try:
        return on_device.reshaped(x._arrays[at], held, aval, device, False)
    except _jaxlib.LAUNCH_ERRORS as e:
        raise _read_failure(f"[{index}]", x, e)


# --- waiting ------------------------------------------------------------------------------------------------------
def block_until_ready(x: Any) -> Any:
    """Wait until the array is computed; returns it. ExecutionError (or CallbackError) when its program failed."""
    try:
        return _wait_for(x)
    except _jaxlib.LAUNCH_ERRORS as e:
        raise _read_failure("block_until_ready", x, e)


def _read_failure(call: str, x: Any, error: Exception) -> BaseException:
    """jaxlib's error from waiting for an array, in our words."""
    check_alive(x)
    place = f"{call} of {'an array' if x.aval is None else x.aval.long()}"
    transfer_guards.tell_refused(place, error)  # on a GPU: on a CPU reading is no transfer
    return host_errors.translated(place, error)


# --- reading ------------------------------------------------------------------------------------------------------
def check_alive(x: Any) -> None:
    if x.is_deleted():
        raise safe_launch.DeletedArrayError(f"Array has been deleted or donated: {x.aval.long()}")


def host_value(x: Any) -> np.ndarray:
    """The numbers, as a read-only NumPy array; gathered once and kept when that needs a copy."""
    kept = x._npy_value
    if kept is not None:
        return kept
    check_alive(x)
    aval = x.aval
    try:
        value, copied = _read(x, x._sharding, aval)
    except (BufferError, *_jaxlib.LAUNCH_ERRORS) as e:
        raise _read_failure("np.asarray", x, e)
    transfer_counts.got(1, value.nbytes)
    value.flags.writeable = False
    if copied:
        x._npy_value = value
    return value


def _read(x: Any, sharding: Any, aval: ShapedArray) -> tuple[np.ndarray, bool]:
    """(the numbers, whether they are a copy)."""
    if type(sharding) is SingleDeviceSharding:
        if sharding.on_host and aval.dtype.isbuiltin == 1:
            return np.asarray(memoryview(x)), False
        return x._single_device_array_to_np_array_did_copy()
    if not sharding._internal_device_list.is_fully_addressable and not shardings.is_replicated(sharding):
        raise RuntimeError(f"np.asarray: {aval.long()} has parts on devices of other processes; gather it in a program "
                           "first (lax.all_gather), or read x.addressable_shards")
    return _gather(x, sharding, aval), True


def _gather(x: Any, sharding: Any, aval: ShapedArray) -> np.ndarray:
    pieces = x._arrays
    if shardings.is_replicated(sharding):
        return pieces[0]._single_device_array_to_np_array_did_copy()[0]
    if sharding.on_host and aval.dtype.isbuiltin == 1:
        parts = [np.asarray(memoryview(p)) for p in pieces]  # a fifth of the time of the general way
    else:
        for p in pieces:  # let the copies overlap
            p._copy_single_device_array_to_host_async()
        parts = [p._single_device_array_to_np_array_did_copy()[0] for p in pieces]
    if sharding.mapped_dims == (0,) and not sharding.partly_copied and aval.shape[0] % len(parts) == 0:
        return np.concatenate([parts[at] for at in sharding.holders])
    out = np.empty(aval.shape, aval.dtype)
    for where, part in zip(shardings.index_map(sharding, aval.shape), parts):
        out[where] = part
    return out


def text_of(x: Any) -> str:
    """`Array([1., 2.], dtype=float32)`."""
    aval = x.aval
    if aval is None:
        return "Array(<untyped buffer>)"
    if x.is_deleted():
        return f"Array(deleted, shape={aval.shape}, dtype={aval.dtype.name})"
    tail = f"dtype={aval.dtype.name}{', weak_type=True' if aval.weak_type else ''})"
    if not x.sharding.is_fully_addressable:
        return f"Array(shape={aval.shape}, {tail}"
    if aval.size == 0:
        shape = "" if aval.shape == (0,) else f"shape={aval.shape}, "
        return f"Array([], {shape}{tail}"
    text = np.array2string(host_value(x), separator=", ", prefix="Array(", suffix=")")
    last = len(text) - text.rfind("\n") + (6 if "\n" not in text else 0)
    gap = ", " if last + len(tail) + 1 < np.get_printoptions()["linewidth"] else ",\n      "
    return f"Array({text}{gap}{tail}"


class Shard:
    """One device's part of an array.

    Attributes:
      device: where it lies.
      index: which part it is, as a tuple of slices.
      replica_id: 0 for the first device that holds this part, 1 for the next, ...
      data: the part as an array on that device.
    """

    __slots__ = ("_holder", "_at", "device", "index", "replica_id")

    def __init__(self, holder: Any, at: int, device: Any, index: tuple[slice, ...], replica_id: int) -> None:
        self._holder = holder
        self._at = at
        self.device = device
        self.index = index
        self.replica_id = replica_id

    @property
    def data(self) -> Any:
        return self._holder.addressable_data(self._at)

    def __repr__(self) -> str:
        return f"Shard(device={self.device!r}, index={self.index}, replica_id={self.replica_id}, data={self.data!r})"


def addressable_shards(x: Any) -> list[Shard]:
    """The parts this process holds, in order of the devices."""
    sharding = x._sharding
    where = shardings.sharding_devices(sharding)
    parts = shardings.index_map(sharding, x.aval.shape)
    own = set(sharding._internal_device_list.addressable_device_list)
    seen: dict[Any, int] = {}
    found: list[Shard] = []
    for device, index in zip(where, parts):
        key = tuple((s.start, s.stop) for s in index)
        replica = seen[key] = seen.get(key, -1) + 1
        if device in own:
            found.append(Shard(x, len(found), device, index, replica))
    return found


def _restore(value: np.ndarray, dtype: Any, weak: bool, placement: bytes | None = None) -> Any:
    """A pickled array; pickles name this function. One that was committed lies where it lay if this process has the devices;
    otherwise, as any host value, on the default device and uncommitted."""
    aval = shaped(value.shape, dtype, weak)
    if placement is not None:
        try:
            sharding = pickle.loads(placement)
        except RuntimeError:  # there are fewer devices here, or others
            pass
        else:
            sharding = shardings.fitted("unpickle", aval.shape, sharding)
            where, parts = shardings.plan(sharding, aval.shape) if type(sharding) is not SingleDeviceSharding else (
                [sharding._device], None)
            return put_pieces(aval, sharding, [value] * len(where) if parts is None else [value[p] for p in parts], where)
    return put(value, backends.default_device(), False, aval)
