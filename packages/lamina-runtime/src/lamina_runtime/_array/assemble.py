"""Assemble arrays from parts (of this process, of all processes, on single devices), and take local parts of arrays.

Parts that are on the right device are not copied.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from lamina_ir import ShapeError, ShapedArray, dtypes, shaped, trees
from lamina_ir.typing import Device, Sharding, Tree, Value

from .. import _jaxlib
from . import arrays, transfer
from .._backend import launch_guards
from .._sharding import shardings
from .._jaxlib import ArrayImpl, SingleDeviceSharding
from .key_array import KeyArray
from .._typing import Array

__all__ = ["make_array_from_callback", "make_array_from_process_local_data", "make_array_from_single_device_arrays",
           "process_part"]


def _sharding(call: str, sharding: Sharding) -> Sharding:
    if type(sharding) not in (_jaxlib.SingleDeviceSharding, _jaxlib.GSPMDSharding):
        raise TypeError(f"{call}: sharding: expected a sharding, as an array's `.sharding`; got "
                        f"{type(sharding).__name__}: {sharding!r:.60}")
    return shardings.intern_sharding(sharding)


def _local_devices(call: str, sharding: Sharding) -> list[Device]:
    devices = list(sharding._internal_device_list.addressable_device_list)
    if not devices:
        raise ValueError(f"{call}: sharding: none of its devices belongs to this process: {sharding}")
    return devices


# --- this process's part ------------------------------------------------------------------------------------------
def _local_block(call: str, sharding: Sharding) -> tuple[Sharding | None, tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """Return this process's block of arrays that span processes, as (local sharding, tile numbers, tile counts).

    The tile numbers are those along each dimension; () if the array is replicated. The tile counts are those of the
    full array. The local sharding is None if the local devices hold only some tiles of the block.
    """
    devices = _local_devices(call, sharding)
    if shardings.is_replicated(sharding):
        return shardings.process_part_sharding(tuple(devices), sharding.tiles), (), ()
    index = {d: i for i, d in enumerate(shardings.sharding_devices(sharding))}
    numbers = [index[d] for d in devices]
    try:
        tiles, block = sharding.tiles.block_on(numbers, gaps=True)
    # The tiles of this process do not fill a box, e.g. two tiles at opposite corners.
    except ShapeError:
        return None, sharding.tiles.parts_on(numbers), sharding.tiles.counts
    return shardings.process_part_sharding(tuple(devices), tiles), block, sharding.tiles.counts


def _alias(pieces: Sequence[Array], aval: ShapedArray, sharding: Sharding, owners: Sequence[Array]) -> Array:
    """Make an array over the memory of other arrays (`owners`). Deleting or donating one of them deletes all."""
    out = _jaxlib.result_handler(aval, sharding, True)(pieces)
    for x in owners:
        launch_guards.record_shared_memory(x, out)
    return out


# Under another name, because the public functions have a parameter `arrays`.
_as_single_device_array = arrays.as_single_device_array


def process_part(call: str, x: Array) -> Array:
    """Return this process's part of an array as an array over the local devices, without a copy."""
    old = x._sharding
    if old.is_fully_addressable:
        return x
    arrays.check_not_deleted(x)
    sharding, block, counts = _local_block(call, old)
    if sharding is None:
        raise ValueError(f"{call}: the parts of {old} on this process's devices {_local_devices(call, old)} do not "
                         "form a block of the array. Use its addressable_shards")
    shape = tuple([n // k * len(b) for n, k, b in zip(x.aval.shape, counts, block)]) if block else x.aval.shape
    return _alias(arrays.local_shards(x), shaped(shape, x.aval.dtype, x.aval.weak_type), sharding, [x])


def _global_from_local(call: str, x: Value, sharding: Sharding, aval: ShapedArray) -> Array:
    """Return the array over several processes of which `x` is this process's part."""
    local_sharding, block, counts = _local_block(call, sharding)
    # If the local devices hold only some tiles of the block, no local array has exactly these: pick them on the host.
    if local_sharding is None:
        value = arrays.host_value(x) if type(x) is ArrayImpl else np.asarray(x, aval.dtype)
        devices, parts = shardings.split_plan(sharding, aval.shape)
        assert parts is not None
        sizes = [n // k for n, k in zip(aval.shape, counts)]
        # Tile number -> position in `x`, along each dimension: `x` contains only the tiles of this process, in order.
        positions = [{number: i for i, number in enumerate(numbers)} for numbers in block]
        pieces = []
        for index in parts:
            at = [p[(s.start or 0) // max(n, 1)] for p, s, n in zip(positions, index, sizes)]
            pieces.append(value[tuple([slice(i * n, i * n + n) for i, n in zip(at, sizes)])])
        return arrays.put_pieces(aval, sharding, pieces, devices)
    # First an array over the local devices, then the global array over the same buffers: nothing is copied twice.
    local = (transfer._move_array(x, local_sharding) if type(x) is ArrayImpl
             else transfer.put_with_sharding(x, transfer._arg_aval(call, x), local_sharding))
    return _alias(arrays.local_shards(local), aval, sharding, [local])


def make_array_from_process_local_data(sharding: Sharding, local_data: Tree, global_shape: Tree = None) -> Tree:
    """Make an array that spans processes; each process passes the part of its own devices.

    Args:
      sharding: the sharding of the global array, the same in all processes.
      local_data: this process's part, an array or a tree of them: the rows (columns, ...) of its devices, concatenated
        in the order of the global array. Data that already is on the right devices is not copied. If the devices hold
        only some blocks of these rows and columns, the others are not read.
      global_shape: of the global array: a shape, or a tree of shapes. None: the shape of the part, times the number of
        parts along each dimension; single entries of a shape may be None, too. If an entry equals the length of the
        part, the part is the full array along that dimension, the same in each process, and this process's devices
        take their share of it.
    Returns:
      An array (or a tree), committed to the devices of all processes.
    Raises:
      ValueError: the part does not fit.

    >>> import lamina_runtime
    >>> sharding = lamina_runtime.device_put(np.arange(4.0), lamina_runtime.devices()[0]).sharding
    >>> make_array_from_process_local_data(sharding, np.arange(4.0))
    Array([0., 1., 2., 3.], dtype=float32)
    """
    call = "make_array_from_process_local_data"
    checked = _sharding(call, sharding)
    flat, tree = trees.tree_flatten(local_data)
    shapes = [global_shape] * len(flat) if _is_shape(global_shape) else trees.broadcast_prefix(
        global_shape, local_data, is_leaf=_is_shape)
    return tree.unflatten([_from_local(call, checked, x, shape) for x, shape in zip(flat, shapes)])


def _is_shape(x: object) -> bool:
    return x is None or (isinstance(x, (tuple, list)) and all(n is None or isinstance(n, (int, np.integer)) for n in x))


def _from_local(call: str, sharding: Sharding, x: Value, global_shape: Sequence[int | None] | None) -> Array:
    aval = transfer._arg_aval(call, x)
    local = aval.shape
    if sharding._mesh is not None:
        sharding = shardings.named_sharding(sharding._mesh, sharding._spec, len(local), call)
    lengths = (None,) * len(local) if global_shape is None else tuple(global_shape)
    if len(lengths) != len(local):
        raise ValueError(f"{call}: global_shape {lengths} has {len(lengths)} dimensions; local_data is {aval.str_long()}")
    block, counts = _local_block(call, sharding)[1:] if type(sharding) is not SingleDeviceSharding else ((), ())
    if counts and len(counts) != len(local):
        raise ValueError(f"{call}: {sharding} places arrays of {len(counts)} dimensions; local_data is {aval.str_long()}")
    shape = []
    ranges = []  # for each dimension the (begin, end) ranges of `x` that this process's devices hold
    for d, (n, want) in enumerate(zip(local, lengths)):
        k, numbers = (counts[d], block[d]) if counts else (1, (0,))
        # The part has len(numbers) of k equal parts along this dimension.
        size = n // len(numbers) * k if want is None else int(want)
        if size % k or (want is None and n % len(numbers)) or n not in (size, size // k * len(numbers)):
            raise ValueError(f"{call}: dimension {d} of local_data, {aval.str_long()}, has length {n}; this process's "
                             f"devices hold {len(numbers)} of the {k} parts of "
                             f"{size if want is not None else 'the global array'}. Pass "
                             + (f"{size // k * len(numbers)}, or all {size}" if want is not None and size % k == 0
                                else f"a multiple of {len(numbers) if want is None else k}"))
        shape.append(size)
        part = size // k
        # The same full array was passed in each process, which takes its own parts.
        is_full = n == size and len(numbers) < k
        ranges.append([(i * part, (i + 1) * part) for i in numbers] if is_full else [(0, n)])
    global_aval = shaped(tuple(shape), aval.dtype, aval.weak_type)
    if type(sharding) is SingleDeviceSharding or sharding.is_fully_addressable:
        return transfer.device_put(x, sharding)
    if any([*r] != [(0, n)] for r, n in zip(ranges, local)):
        if all(r[0][0] + sum([b - a for a, b in r]) == r[-1][1] for r in ranges):  # without gaps: a slice is enough
            box = tuple([slice(r[0][0], r[-1][1]) for r in ranges])
            x = x[box] if type(x) is ArrayImpl else np.asarray(x, aval.dtype)[box]
        else:
            value = arrays.host_value(x) if type(x) is ArrayImpl else np.asarray(x, aval.dtype)
            x = value[np.ix_(*[np.concatenate([np.arange(a, b) for a, b in r]) for r in ranges])]
    return _global_from_local(call, x, sharding, global_aval)


def make_array_from_callback(shape: Sequence[int], sharding: Sharding,
                             data_callback: Callable[[shardings.Index], Value],
                             dtype: np.dtype | str | type | None = None) -> Array:
    """Make an array from a function that returns its parts.

    The function is called once for each distinct part on this process's devices.

    Args:
      shape: of the global array.
      sharding: its sharding.
      data_callback: `data_callback(index)`, with a tuple of slices, returns that part of the array.
      dtype: of the array; None: that of the parts.
    Returns:
      An array, committed.
    Raises:
      ValueError: a part has another shape than its index, or the sharding does not fit the shape.
      TypeError: the parts have different dtypes.

    >>> import lamina_runtime
    >>> sharding = lamina_runtime.device_put(1.0, lamina_runtime.devices()[0]).sharding
    >>> make_array_from_callback((3,), sharding, lambda index: np.arange(3)[index])
    Array([0, 1, 2], dtype=int32)
    """
    call = "make_array_from_callback"
    checked, shape = _sharding(call, sharding), tuple([int(n) for n in shape])
    fitting = shardings.resolve_sharding(call, shape, checked)
    if type(fitting) is SingleDeviceSharding:
        devices, parts = [fitting._device], None
    else:
        _local_devices(call, fitting)
        devices, parts = shardings.split_plan(fitting, shape)
    indices = [(slice(None),) * len(shape)] * len(devices) if parts is None else parts
    results: dict[tuple[object, ...], Value] = {}
    for index in indices:
        # Devices with the same part share one call; slices are not hashable before Python 3.12.
        key = tuple([(s.start, s.stop) for s in index])
        if key not in results:
            found = data_callback(index)
            # Only the first part decides whether the array has keys; `_keys_from_callback` checks the others.
            if type(found) is KeyArray and not results:
                return _keys_from_callback(shape, sharding, data_callback, found)
            results[key] = _checked_part(call, found, shape, index, dtype)
    pieces = [results[tuple([(s.start, s.stop) for s in index])] for index in indices]
    kinds = {p.dtype for p in pieces}
    if len(kinds) > 1:
        raise TypeError(f"{call}: the parts must have one dtype; got {', '.join(sorted(map(str, kinds)))}. Specify it "
                        "with dtype=")
    return arrays.put_pieces(shaped(shape, pieces[0].dtype), fitting, pieces, devices)


def _keys_from_callback(shape: tuple[int, ...], sharding: Sharding, data_callback: Callable[[shardings.Index], Value],
                        first: KeyArray) -> KeyArray:
    """Make a key array from a function that returns its parts; `first` is the part that it returned first."""
    kind, known = first.dtype, [first]

    def key_data(index: shardings.Index) -> np.ndarray:
        found = known.pop() if known else data_callback(index[:-1])
        if type(found) is not KeyArray or found.dtype != kind:
            raise TypeError("make_array_from_callback: the parts must have one dtype; got "
                            f"{dtypes.long_name(kind)} and {getattr(found, 'aval', None) or type(found)}")
        return arrays.host_value(found.key_data)

    return KeyArray(make_array_from_callback((*shape, dtypes.key_size(kind)), sharding, key_data), kind)


def _checked_part(call: str, found: Value, shape: tuple[int, ...], index: tuple[slice, ...],
                  dtype: np.dtype | str | type | None) -> np.ndarray:
    value = np.asarray(found)
    expected = tuple([len(range(*s.indices(n))) for s, n in zip(index, shape)])
    if value.shape != expected:
        raise ValueError(f"{call}: data_callback({index}) must return an array of shape {expected}; got shape "
                         f"{value.shape}")
    return value.astype(dtypes.canonicalize(value.dtype if dtype is None else dtype), copy=False)


def make_array_from_single_device_arrays(shape: Sequence[int], sharding: Sharding, arrays: Sequence[Value], *,
                                         dtype: np.dtype | str | type | None = None) -> Array:
    """Make an array from single-device arrays without a copy. Deleting it deletes these, too.

    Args:
      shape: of the global array.
      sharding: its sharding.
      arrays: its part on each device of this process, in any order.
      dtype: of the array and all parts; None: that of the parts.
    Returns:
      An array, committed.
    Raises:
      ValueError: there is not exactly one part for each device, or a part has the wrong shape.
      TypeError: a part is not an array on one device, or the parts have different dtypes.

    >>> import lamina_runtime
    >>> part = lamina_runtime.device_put(np.arange(2), lamina_runtime.devices()[0])
    >>> make_array_from_single_device_arrays((2,), part.sharding, [part])
    Array([0, 1], dtype=int32)
    """
    call = "make_array_from_single_device_arrays"
    checked, shape = _sharding(call, sharding), tuple([int(n) for n in shape])
    # The uint32 data is assembled, then wrapped.
    kinds = {x.dtype for x in arrays if type(x) is KeyArray}
    if len(kinds) == 1 and all(type(x) is KeyArray for x in arrays):
        kind = kinds.pop()
        data_shape = (*shape, dtypes.key_size(kind))
        return KeyArray(make_array_from_single_device_arrays(data_shape, sharding, [x.key_data for x in arrays]), kind)
    fitting = shardings.resolve_sharding(call, shape, checked)
    devices = _local_devices(call, fitting)
    shard_shape = fitting.shard_shape(shape)
    by_device: dict[Device, Array] = {}
    for i, x in enumerate(arrays):
        if type(x) is not ArrayImpl or x._sharding.num_devices != 1:
            raise TypeError(f"{call}: arrays[{i}] must be an array on one device; got "
                            f"{getattr(x, 'aval', None) or type(x)}")
        x = _as_single_device_array(x)
        if x.aval.shape != shard_shape:
            raise ValueError(f"{call}: arrays[{i}] must have the shape {shard_shape} of a part of an array of shape "
                             f"{shape} with {fitting}; got {x.aval.str_long()}")
        by_device[x._sharding._device] = x
    if [*by_device.keys() - {*devices}] or len(by_device) != len(arrays) or len(by_device) != len(devices):
        raise ValueError(f"{call}: arrays must be one for each of this process's devices {devices}; got arrays on "
                         f"{[x._sharding._internal_device_list[0] for x in arrays]}")
    kinds = {x.aval.dtype for x in by_device.values()} | ({dtypes.canonicalize(dtype)} if dtype is not None else set())
    if len(kinds) > 1:
        raise TypeError(f"{call}: the arrays must have one dtype; got {', '.join(sorted(map(str, kinds)))}")
    ordered = [by_device[d] for d in devices]
    return _alias(ordered, shaped(shape, kinds.pop()), fitting, ordered)
