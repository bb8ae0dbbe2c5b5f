"""Copy the shards of arrays to the host, and make arrays from host memory, for packages that store arrays."""
from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from lamina_ir import ShapedArray
from lamina_ir.typing import Device, Sharding, Value
from lamina_tracing import jit

from .. import _jaxlib
from .._backend import backends, client_state, deletion, transfer_guard
from .._jaxlib import ArrayImpl, SingleDeviceSharding
from .._sharding import shardings
from . import arrays

__all__ = ["Block", "array_from_host", "blocks_of_array", "is_array", "own_blocks", "placement", "read_shard", "whole_value"]


class Block(NamedTuple):
    """A part of an array that one or more devices hold.

    Attributes:
      start, shape: the part.
      processes: indices of the processes that hold it, in the order of the devices.
      shard: index of a shard of this process that holds it; None: there is none.
    """

    start: tuple[int, ...]
    shape: tuple[int, ...]
    processes: tuple[int, ...]
    shard: int | None


def is_array(x: Value) -> bool:
    """Return whether `x` is an array on devices."""
    return type(x) is ArrayImpl


def _bounds(index: Sequence[slice], shape: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    return tuple([s.indices(n)[:2] for s, n in zip(index, shape)])


def blocks_of_array(x: Value) -> list[Block]:
    """Return the distinct parts of an array that its devices hold, those of other processes included."""
    sharding, shape = x._sharding, x.aval.shape
    own = {d: i for i, d in enumerate(sharding._internal_device_list.addressable_device_list)}
    held: dict[tuple[tuple[int, int], ...], tuple[list[int], int | None]] = {}
    for d, index in zip(shardings.sharding_devices(sharding), shardings.index_map(sharding, shape)):
        bounds = _bounds(index, shape)
        processes, shard = held.get(bounds, ([], None))
        if d.process_index not in processes:
            processes.append(d.process_index)
        held[bounds] = processes, own.get(d) if shard is None else shard
    return [Block(tuple([a for a, _ in bounds]), tuple([b - a for a, b in bounds]), tuple(processes), shard)
            for bounds, (processes, shard) in held.items()]


def read_shard(call: str, x: Value, shard: int) -> tuple[np.ndarray, bool]:
    """Return the elements of one shard of this process as a NumPy array, and whether they are a copy.

    Args:
      call: start of error messages.
      x: an array.
      shard: index among the shards of this process.
    Raises:
      DeletedArrayError: the array was deleted or donated.
      ExecutionError: the program that computes it has failed.
    """
    arrays.check_not_deleted(x)
    guarded = transfer_guard.marking_explicit("get", call) if transfer_guard.any_guard_set else nullcontext()
    try:
        with guarded:
            value, is_copy = deletion.get_shards(x)[shard]._single_device_array_to_np_array_did_copy()
    except _jaxlib.LAUNCH_ERRORS as e:
        raise arrays._read_failure(call, x, e)
    return value, bool(is_copy)


def whole_value(x: Value) -> np.ndarray:
    """Return a copy of an array in host memory. If it is on several processes, all of them must call this.

    Raises:
      DeletedArrayError: the array was deleted or donated.
      ExecutionError: the program that computes it has failed.
    """
    if type(x) is not ArrayImpl:
        return np.array(x)
    if not x._sharding.is_fully_addressable and not shardings.is_replicated(x._sharding):
        everywhere = shardings.replicated_sharding(shardings.sharding_devices(x._sharding))
        x = jit(lambda x: x, out_shardings=everywhere)(x)
    return np.array(arrays.host_value(x))


def placement(target: Any) -> tuple[Sharding, bool]:
    """Return (sharding, whether arrays are committed to it) of an array, a description of one, a sharding or a device.

    Without a sharding, it is the default device.

    Raises:
      RuntimeError: the devices were closed.
    """
    if isinstance(target, _jaxlib.Device):
        return shardings.single_device_sharding(target), True
    if isinstance(target, _jaxlib.Sharding):
        return shardings.intern_sharding(target), True
    if type(target) is ArrayImpl and (target._committed
                                      or not client_state.is_closed(target._sharding._internal_device_list[0])):
        return shardings.intern_sharding(target._sharding), bool(target._committed)
    chosen = None if type(target) is ArrayImpl else getattr(target, "sharding", None)
    if chosen is not None:
        return placement(chosen)
    return shardings.single_device_sharding(backends.default_device()), False


def own_blocks(call: str, shape: tuple[int, ...],
               sharding: Sharding) -> tuple[Sharding, list[Device], list[tuple[tuple[int, int], ...]]]:
    """Return the parts of an array of this shape that the devices of this process get.

    Args:
      call: start of error messages.
      shape: the shape of the array.
      sharding: its sharding.
    Returns:
      (the sharding for this shape, devices of this process, (first, last + 1) of each dimension by device).
    Raises:
      ValueError: the sharding cannot divide this shape, or no device belongs to this process.
    """
    if type(sharding) is not SingleDeviceSharding:
        sharding = shardings.resolve_sharding(call, shape, sharding)
    devices = list(sharding._internal_device_list.addressable_device_list)
    if not devices:
        raise ValueError(f"{call}: none of the devices belongs to this process: {sharding}")
    index = dict(zip(shardings.sharding_devices(sharding), shardings.index_map(sharding, shape)))
    return sharding, devices, [_bounds(index[d], shape) for d in devices]


def array_from_host(call: str, aval: ShapedArray, sharding: Sharding, pieces: Sequence[np.ndarray],
                    devices: Sequence[Device], committed: bool) -> Value:
    """Make an array from host memory made by `aligned_empty`, one piece per device, without copying where possible.

    Args:
      call: start of error messages.
      aval: type of the array.
      sharding: its sharding.
      pieces: its parts, by device of this process. They must not be used again.
      devices: the devices of this process.
      committed: whether programs must run on these devices.
    """
    guarded = transfer_guard.marking_explicit("put", call) if transfer_guard.any_guard_set else nullcontext()
    with guarded:
        return arrays.array_from_host_buffers(aval, sharding, pieces, devices, committed)
