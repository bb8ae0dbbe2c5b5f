"""Create, read, split and wait for concrete arrays, which are objects of jaxlib's array class.

An array has an `aval`, a `sharding`, and a flag `committed`: whether a user chose the sharding. jaxlib makes the shards
of an array without an aval; functions of this module set it.
"""
from __future__ import annotations

import math
import pickle
from collections.abc import Sequence

import numpy as np
from lamina_ir import ShapedArray, aval_of, shaped
from lamina_tracing.extend import HostArray
from lamina_ir.typing import Device, Sharding, Value
from typing_extensions import override

from .. import _jaxlib
from .._backend import (backends, deletion, error_translation, fork_state, launch_guards, progress, transfer_counters,
                        transfer_guard, waiting)
from . import reshard
from .._sharding import shardings
from .._jaxlib import ArrayImpl, SingleDeviceSharding

__all__ = ["Array", "Shard", "addressable_shards", "aligned_empty", "array_from_host_buffers",
           "as_single_device_array", "block_until_ready", "check_not_deleted", "format_array", "get_member",
           "get_shard", "host_value", "is_ready", "local_shards", "put", "put_pieces", "with_aval"]

Array = ArrayImpl
_device_put = _jaxlib.batched_device_put
_COPY = _jaxlib.COPY_DURING_CALL


# --- making -------------------------------------------------------------------------------------------------------
def put(x: Value, device: Device, committed: bool, aval: ShapedArray | None = None,
        sharding: Sharding = None) -> ArrayImpl:
    """Copy a host value to one device. `sharding` may be a named sharding of that device.

    The host memory is copied before this returns. With jaxlib's default semantics, the array would alias the memory of
    a 64-byte aligned NumPy array, and later writes to that would show.
    """
    if aval is None:
        aval = aval_of(x)
    size = aval.size * aval.dtype.itemsize
    transfer_counters.count_to_device(1, size)
    if isinstance(x, np.ndarray) and not x.dtype.isnative:  # jaxlib ignores the byte order
        x = x.astype(aval.dtype)
    if fork_state.is_disabled:
        return _host_array(aval, [x])
    copy = _device_put if size < progress.LARGE else _put_and_show
    return copy(aval, sharding or shardings.single_device_sharding(device), [x], [device], committed, False, _COPY)


def _put_and_show(aval: ShapedArray, *rest: object) -> ArrayImpl:
    """`_device_put` of large arrays: shown on a terminal if it takes long."""
    with progress.operation(f"copying {aval.str_long()} to devices"):
        return _device_put(aval, *rest)


def put_pieces(aval: ShapedArray, sharding: Sharding, pieces: Sequence[ArrayImpl | np.ndarray],
               devices: Sequence[Device], committed: bool = True) -> ArrayImpl:
    """Make one array from its shards: host arrays or single-device arrays, one per device, with the rank of `aval`."""
    host_sizes = [p.nbytes for p in pieces if type(p) is not ArrayImpl]
    if host_sizes:
        pieces = [p.astype(aval.dtype) if isinstance(p, np.ndarray) and not p.dtype.isnative else p for p in pieces]
        transfer_counters.count_to_device(len(host_sizes), sum(host_sizes))
    if fork_state.is_disabled:
        return _host_array(aval, pieces)
    if sharding.is_partially_replicated or 0 in aval.shape:
        # If two pieces share memory, jaxlib's copy during the call fails ("bad_function_call"). So copy here.
        pieces = [np.array(p) if isinstance(p, np.ndarray) else p for p in pieces]
        return _device_put(aval, sharding, pieces, devices, committed, False, _jaxlib.ZERO_COPY)
    copy = _device_put if sum(host_sizes) < progress.LARGE else _put_and_show
    return copy(aval, sharding, pieces, devices, committed, False, _COPY)


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return an uninitialised host array at a 64-byte aligned address, for `array_from_host_buffers`."""
    size = math.prod(shape) * dtype.itemsize
    raw = np.empty(size + 64, np.uint8)
    # NumPy aligns to 16 bytes only, and jaxlib copies memory that is not aligned to 64.
    offset = -raw.ctypes.data % 64
    return raw[offset:offset + size].view(dtype).reshape(shape)


def array_from_host_buffers(aval: ShapedArray, sharding: Sharding, pieces: Sequence[np.ndarray],
                            devices: Sequence[Device], committed: bool) -> ArrayImpl:
    """Make one array from host arrays, one per device, without copying where possible.

    The caller must not use the pieces again. CPU devices use the memory itself if it is 64-byte aligned.
    """
    transfer_counters.count_to_device(len(pieces), sum([p.nbytes for p in pieces]))
    if fork_state.is_disabled:
        return _host_array(aval, pieces)
    return _device_put(aval, sharding, list(pieces), list(devices), committed, False, _jaxlib.ZERO_COPY)


def _host_array(aval: ShapedArray, pieces: Sequence[ArrayImpl | np.ndarray]) -> HostArray:
    """Return a host array in place of a single-device array, in a forked child. Raise an error for several devices."""
    return HostArray.of(np.array(pieces[0], aval.dtype), aval) if len(pieces) == 1 else fork_state.refuse()


def with_aval(x: ArrayImpl, aval: ShapedArray, sharding: Sharding = None) -> ArrayImpl:
    """Return an array over the same buffers with another aval, and optionally another sharding."""
    try:
        return x._rewrap_with_aval_and_sharding(aval, sharding or x._sharding)
    except _jaxlib.LAUNCH_ERRORS:
        if x.is_deleted():
            raise launch_guards.DeletedArrayError(f"Array has been deleted or donated: {aval.str_long()}") from None
        raise


def local_shards(x: ArrayImpl) -> list[ArrayImpl]:
    """Return the shards on the devices of this process, as single-device arrays without an aval."""
    try:
        return deletion.get_shards(x)
    except ValueError:
        check_not_deleted(x)
        raise


def get_shard(x: ArrayImpl, index: int) -> ArrayImpl:
    """Return one shard, by its index among the devices of this process, as a single-device array.

    It shares the memory of `x`: deleting or donating one of them deletes the other.
    """
    sharding = x._sharding
    if type(sharding) is SingleDeviceSharding:
        return (x,)[index]
    check_not_deleted(x)
    aval = shaped(sharding.shard_shape(x.aval.shape), x.aval.dtype, x.aval.weak_type)
    device = sharding._internal_device_list.addressable_device_list[index]
    piece = with_aval(local_shards(x)[index], aval, shardings.single_device_sharding(device))
    launch_guards.record_shared_memory(x, piece)
    return piece


def as_single_device_array(x: ArrayImpl) -> ArrayImpl:
    """Return a one-device array with a `SingleDeviceSharding`.

    A process's part of an array over several processes can be on one device and have another class of sharding, see
    `shardings.process_part_sharding`.
    """
    sharding = x._sharding
    if type(sharding) is SingleDeviceSharding or sharding.num_devices > 1:
        return x
    check_not_deleted(x)
    out = with_aval(local_shards(x)[0], x.aval, shardings.single_device_sharding(sharding._internal_device_list[0]))
    launch_guards.record_shared_memory(x, out)
    return out


def get_member(x: ArrayImpl, index: int) -> ArrayImpl:
    """Return `x[index]` of an array mapped over its leading axis, on the device that holds it.

    The result is uncommitted, so that members from several devices can be arguments of one program. Returns None if `x`
    is not mapped that way, or the index is out of range. Also returns None if another process has part of `x`, and in a
    forked child.
    """
    if fork_state.is_disabled:
        return None
    sharding = x._sharding
    dims = sharding.mapped_dims
    shape = x.aval.shape
    if sharding._mesh is not None and sharding._mesh.explicit_axes:
        return None  # the sharding of a row is ambiguous
    if not dims or dims[0] != 0 or len(dims) != 1 or sharding.shard_shape(shape)[0] != 1:
        return None
    n = shape[0]
    if not -n <= index < n:
        return None
    check_not_deleted(x)
    number = sharding.tile_devices[index % n]
    device = sharding._internal_device_list[number]
    addressable = sharding._internal_device_list.addressable_device_list
    if len(addressable) != sharding.num_devices:
        return None
    aval = shaped(shape[1:], x.aval.dtype, x.aval.weak_type)
    shard_aval = shaped((1, *shape[1:]), x.aval.dtype, x.aval.weak_type)
    try:
        return reshard.reshape_on_device(deletion.get_shards(x)[number], shard_aval, aval, device, False)
    except _jaxlib.LAUNCH_ERRORS as e:
        raise _read_failure(f"[{index}]", x, e)


# --- waiting ------------------------------------------------------------------------------------------------------
def block_until_ready(x: ArrayImpl) -> ArrayImpl:
    """Wait until the array is computed; return it. ExecutionError (or CallbackError) if its program failed."""
    try:
        return waiting.wait_for(x)
    except _jaxlib.LAUNCH_ERRORS as e:
        raise _read_failure("block_until_ready", x, e)


def is_ready(x: ArrayImpl) -> bool:
    """Return whether the array is computed."""
    check_not_deleted(x)
    return deletion.is_ready(x)


def _read_failure(call: str, x: ArrayImpl, error: Exception) -> BaseException:
    """Return the exception to raise for jaxlib's error from reading or waiting for an array."""
    check_not_deleted(x)
    place = f"{call} of {'an array' if x.aval is None else x.aval.str_long()}"
    transfer_guard.raise_if_refused(place, error)  # happens on GPUs only: on a CPU, reading is not a transfer
    return error_translation.translate_error(place, error, x.aval)


# --- reading ------------------------------------------------------------------------------------------------------
def check_not_deleted(x: ArrayImpl) -> None:
    """Raise DeletedArrayError if an array was deleted or donated."""
    if x.is_deleted():
        raise launch_guards.DeletedArrayError(f"Array has been deleted or donated: {x.aval.str_long()}")


def host_value(x: ArrayImpl) -> np.ndarray:
    """Return the elements as a read-only NumPy array. If that needs a copy, it is cached on the array."""
    cached = x._npy_value
    if cached is not None:
        return cached
    check_not_deleted(x)
    aval = x.aval
    try:
        # A read of the buffer would wait inside of jaxlib, where a lost process cannot end the wait.
        if waiting.has_hook:
            waiting.wait_for(x)
        if aval.size * aval.dtype.itemsize < progress.LARGE:
            value, copied = _read_to_host(x, x._sharding, aval)
        else:
            with progress.operation(f"reading {aval.str_long()} on the host"):
                value, copied = _read_to_host(x, x._sharding, aval)
    except (BufferError, *_jaxlib.LAUNCH_ERRORS) as e:
        raise _read_failure("np.asarray", x, e)
    transfer_counters.count_to_host(1, value.nbytes)
    # The memory may be that of the device, and a cached copy is shared by all readers.
    value.flags.writeable = False
    if copied:
        x._npy_value = value
    return value


def _read_to_host(x: ArrayImpl, sharding: Sharding, aval: ShapedArray) -> tuple[np.ndarray, bool]:
    """Return (the elements as a NumPy array, whether they are a copy)."""
    if type(sharding) is SingleDeviceSharding:
        # NumPy reads the buffer protocol without a copy. It refuses extended dtypes (bfloat16, float8, int4).
        if sharding.on_host and aval.dtype.isbuiltin == 1:
            return np.asarray(memoryview(x)), False
        return x._single_device_array_to_np_array_did_copy()
    if not sharding._internal_device_list.is_fully_addressable and not shardings.is_replicated(sharding):
        raise RuntimeError(f"np.asarray: {aval.str_long()} has parts on devices of other processes; gather it in a program "
                           "first (lax.all_gather), or read x.addressable_shards")
    return _gather(x, sharding, aval), True


def _gather(x: ArrayImpl, sharding: Sharding, aval: ShapedArray) -> np.ndarray:
    """Copy the shards of a multi-device array into one NumPy array."""
    pieces = deletion.get_shards(x)
    if shardings.is_replicated(sharding):
        return pieces[0]._single_device_array_to_np_array_did_copy()[0]
    if sharding.on_host and aval.dtype.isbuiltin == 1:
        parts = [np.asarray(memoryview(p)) for p in pieces]  # takes a fifth of the time of the other branch
    else:
        for p in pieces:  # start all copies, so that they overlap
            p._copy_single_device_array_to_host_async()
        parts = [p._single_device_array_to_np_array_did_copy()[0] for p in pieces]
    if sharding.mapped_dims == (0,) and not sharding.is_partially_replicated and aval.shape[0] % len(parts) == 0:
        # One copy in the common case of an array split by rows.
        return np.concatenate([parts[number] for number in sharding.tile_devices])
    out = np.empty(aval.shape, aval.dtype)
    for where, part in zip(shardings.index_map(sharding, aval.shape), parts):
        out[where] = part
    return out


def format_array(x: ArrayImpl) -> str:
    """Return the repr of an array, as `Array([1., 2.], dtype=float32)`."""
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
      device: the device.
      index: the part of the array, as a tuple of slices.
      replica_id: 0 for the first device that holds this part, 1 for the next, ...
      data: the part, as an array on that device.
    """

    __slots__ = ("_array", "_number", "device", "index", "replica_id")

    def __init__(self, array: ArrayImpl, number: int, device: Device, index: tuple[slice, ...],
                 replica_id: int) -> None:
        self._array = array
        self._number = number
        self.device = device
        self.index = index
        self.replica_id = replica_id

    @property
    def data(self) -> ArrayImpl:
        return self._array.addressable_data(self._number)

    @override
    def __repr__(self) -> str:
        return f"Shard(device={self.device!r}, index={self.index}, replica_id={self.replica_id}, data={self.data!r})"


def addressable_shards(x: ArrayImpl) -> list[Shard]:
    """Return the shards on the devices of this process, in device order."""
    sharding = x._sharding
    devices = shardings.sharding_devices(sharding)
    parts = shardings.index_map(sharding, x.aval.shape)
    local = set(sharding._internal_device_list.addressable_device_list)
    # Replicas are counted over all devices, so that exactly one of all processes has replica 0 of each part.
    seen: dict[tuple[tuple[int, int], ...], int] = {}
    found: list[Shard] = []
    for device, index in zip(devices, parts):
        key = tuple((s.start, s.stop) for s in index)
        replica = seen[key] = seen.get(key, -1) + 1
        if device in local:
            found.append(Shard(x, len(found), device, index, replica))
    return found


def _restore(value: np.ndarray, dtype: np.dtype, weak: bool, placement: bytes | None = None) -> ArrayImpl:
    """Return an unpickled array. Pickles contain the name of this function.

    A committed array gets its old sharding if this process has the devices. Other arrays are put on the default device,
    uncommitted.
    """
    aval = shaped(value.shape, dtype, weak)
    if placement is not None:
        try:
            sharding = pickle.loads(placement)
        except RuntimeError:  # this process does not have the devices
            pass
        else:
            sharding = shardings.resolve_sharding("unpickle", aval.shape, sharding)
            devices, parts = shardings.split_plan(sharding, aval.shape) if type(sharding) is not SingleDeviceSharding else (
                [sharding._device], None)
            pieces = [value] * len(devices) if parts is None else [value[p] for p in parts]
            return put_pieces(aval, sharding, pieces, devices)
    return put(value, backends.default_device(), False, aval)
