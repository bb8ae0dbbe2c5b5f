"""Arrays put together from parts: of this process, of all processes, of single devices; and taken apart again. No part is moved
that lies where it belongs.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from lamina_ir import ShapeError, ShapedArray, dtypes, shaped, trees

from . import _jaxlib, arrays, safe_launch, shardings, transfers
from ._jaxlib import ArrayImpl, SingleDeviceSharding
from .key_arrays import KeyArray

__all__ = ["make_array_from_callback", "make_array_from_process_local_data", "make_array_from_single_device_arrays",
           "own_part"]


def _sharding(call: str, sharding: Any) -> Any:
    if type(sharding) not in (_jaxlib.SingleDeviceSharding, _jaxlib.GSPMDSharding):
        raise TypeError(f"{call}: sharding: expected a sharding, as an array's `.sharding`; got {type(sharding).__name__}: "
                        f"{sharding!r:.60}")
    return shardings.interned(sharding)


def _here(call: str, sharding: Any) -> list[Any]:
    where = list(sharding._internal_device_list.addressable_device_list)
    if not where:
        raise ValueError(f"{call}: sharding: none of its devices is of this process: {sharding}")
    return where


# --- this process's part ------------------------------------------------------------------------------------------
def _block(call: str, sharding: Any) -> tuple[Any, tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """Of an array over several processes: how this process's part lies on its devices, of which parts along each dimension it
    is made, and into how many parts the whole is cut; () and () where this process has all of it. The part is None where the
    devices hold some of the block of these parts only."""
    where = _here(call, sharding)
    if shardings.is_replicated(sharding):
        return shardings.part(tuple(where), sharding.tiles), (), ()
    every = {d: i for i, d in enumerate(shardings.sharding_devices(sharding))}
    numbers = [every[d] for d in where]
    try:
        tiles, block = sharding.tiles.part(numbers, gaps=True)
    except ShapeError:
        return None, sharding.tiles.spread(numbers), sharding.tiles.counts
    return shardings.part(tuple(where), tiles), block, sharding.tiles.counts


def _over(pieces: Sequence[Any], aval: ShapedArray, sharding: Any, owners: Sequence[Any]) -> Any:
    """One array over the memory of others, with which it goes when one of them is deleted or donated."""
    out = _jaxlib.result_handler(aval, sharding, True)(pieces)
    for x in owners:
        safe_launch.share_memory(x, out)
    return out


_alone = arrays.alone


def own_part(call: str, x: Any) -> Any:
    """This process's part of an array, as an array of its own over its devices; the same memory."""
    old = x._sharding
    if old.is_fully_addressable:
        return x
    arrays.check_alive(x)
    sharding, block, counts = _block(call, old)
    if sharding is None:
        raise ValueError(f"{call}: what this process's devices {_here(call, old)} hold of {old} is no block of the array. Its "
                         "addressable_shards are the parts")
    shape = tuple([n // k * len(b) for n, k, b in zip(x.aval.shape, counts, block)]) if block else x.aval.shape
    return _over(x._arrays, shaped(shape, x.aval.dtype, x.aval.weak_type), sharding, [x])


def _whole_from_part(call: str, x: Any, sharding: Any, aval: ShapedArray) -> Any:
    """The array over several processes of which `x` is this process's part."""
    part, block, counts = _block(call, sharding)
    if part is None:  # there is no array of this process of just what its devices hold
        value = arrays.host_value(x) if type(x) is ArrayImpl else np.asarray(x, aval.dtype)
        where, parts = shardings.plan(sharding, aval.shape)
        assert parts is not None
        sizes = [n // k for n, k in zip(aval.shape, counts)]
        numbers = [{number: i for i, number in enumerate(own)} for own in block]
        pieces = [value[tuple([slice(i * n, i * n + n) for i, n in zip(
            [at[(s.start or 0) // max(n, 1)] for at, s, n in zip(numbers, index, sizes)], sizes)])] for index in parts]
        return arrays.put_pieces(aval, sharding, pieces, where)
    local = transfers._move(x, part) if type(x) is ArrayImpl else transfers.spread(x, transfers._type_of(call, x), part)
    return _over(local._arrays, aval, sharding, [local])


def make_array_from_process_local_data(sharding: Any, local_data: Any, global_shape: Any = None) -> Any:
    """One array over several processes, of which each gives the part that its own devices hold.

    Args:
      sharding: how the whole array lies on devices, the same in all processes.
      local_data: this process's part, an array or a tree of them: the rows (columns, ...) that its devices hold, one after the
        other, in order of the whole array. What lies on this process's devices as it should is not moved. Where the devices
        hold some of these rows in some of these columns only, the rest is not read.
      global_shape: of the whole: a shape, or a tree of shapes; None: the part's, times how many such parts there are along each
        dimension. An entry of a shape may be None likewise. Where an entry is the length of the part itself, the part is the
        whole along that dimension, the same in each process, of which this process's devices take theirs.
    Returns:
      An array (or a tree), committed to the devices of all.
    Raises:
      ValueError: the part does not fit.

    >>> import lamina_runtime
    >>> whole = lamina_runtime.device_put(np.arange(4.0), lamina_runtime.devices()[0]).sharding
    >>> make_array_from_process_local_data(whole, np.arange(4.0))
    Array([0., 1., 2., 3.], dtype=float32)
    """
    call = "make_array_from_process_local_data"
    place = _sharding(call, sharding)
    flat, tree = trees.tree_flatten(local_data)
    shapes = [global_shape] * len(flat) if _is_shape(global_shape) else trees.broadcast_prefix(
        global_shape, local_data, is_leaf=_is_shape)
    return tree.unflatten([_from_local(call, place, x, shape) for x, shape in zip(flat, shapes)])


def _is_shape(x: Any) -> bool:
    return x is None or (isinstance(x, (tuple, list)) and all(n is None or isinstance(n, (int, np.integer)) for n in x))


def _from_local(call: str, sharding: Any, x: Any, global_shape: Any) -> Any:
    aval = transfers._type_of(call, x)
    local = aval.shape
    if sharding._mesh is not None:
        sharding = shardings.by_spec(sharding._mesh, sharding._spec, len(local), call)
    wanted = (None,) * len(local) if global_shape is None else tuple(global_shape)
    if len(wanted) != len(local):
        raise ValueError(f"{call}: global_shape {wanted} has {len(wanted)} dimensions; local_data is {aval.long()}")
    block, counts = _block(call, sharding)[1:] if type(sharding) is not SingleDeviceSharding else ((), ())
    if counts and len(counts) != len(local):
        raise ValueError(f"{call}: {sharding} places arrays of {len(counts)} dimensions; local_data is {aval.long()}")
    shape, cut = [], []
    for d, (n, want) in enumerate(zip(local, wanted)):
        k, own = (counts[d], block[d]) if counts else (1, (0,))
        size = n // len(own) * k if want is None else int(want)
        if size % k or (want is None and n % len(own)) or n not in (size, size // k * len(own)):
            raise ValueError(f"{call}: dimension {d} of local_data, {aval.long()}, has length {n}; this process's devices hold "
                             f"{len(own)} of the {k} parts of {size if want is not None else 'the whole'}. Give "
                             + (f"{size // k * len(own)}, or all {size}" if want is not None and size % k == 0
                                else f"a multiple of {len(own) if want is None else k}"))
        shape.append(size)
        part = size // k
        cut.append([(i * part, (i + 1) * part) for i in own] if n == size and len(own) < k else [(0, n)])
    whole = shaped(tuple(shape), aval.dtype, aval.weak_type)
    if type(sharding) is SingleDeviceSharding or sharding.is_fully_addressable:
        return transfers.device_put(x, sharding)
    if any([*rows] != [(0, n)] for rows, n in zip(cut, local)):
        if all(rows[0][0] + sum([b - a for a, b in rows]) == rows[-1][1] for rows in cut):
            box = tuple([slice(rows[0][0], rows[-1][1]) for rows in cut])
            x = x[box] if type(x) is ArrayImpl else np.asarray(x, aval.dtype)[box]
        else:
            value = arrays.host_value(x) if type(x) is ArrayImpl else np.asarray(x, aval.dtype)
            x = value[np.ix_(*[np.concatenate([np.arange(a, b) for a, b in rows]) for rows in cut])]
    return _whole_from_part(call, x, sharding, whole)


def make_array_from_callback(shape: Sequence[int], sharding: Any, data_callback: Callable[[Any], Any],
                             dtype: Any = None) -> Any:
    """An array whose parts a function gives: those of this process's devices, each once.

    Args:
      shape: of the whole array.
      sharding: how it lies on devices.
      data_callback: `data_callback(index)`, with a tuple of slices, is that part of the array.
      dtype: of the array; None: that of the parts.
    Returns:
      An array, committed.
    Raises:
      ValueError: a part has another shape than its index, or the shape cannot be split so.
      TypeError: the parts differ in dtype, as keys and numbers do.

    >>> import lamina_runtime
    >>> whole = lamina_runtime.device_put(1.0, lamina_runtime.devices()[0]).sharding
    >>> make_array_from_callback((3,), whole, lambda index: np.arange(3)[index])
    Array([0, 1, 2], dtype=int32)
    """
    call = "make_array_from_callback"
    place, shape = _sharding(call, sharding), tuple([int(n) for n in shape])
    place = shardings.fitted(call, shape, place)
    if type(place) is SingleDeviceSharding:
        where, parts = [place._device], None
    else:
        _here(call, place)
        where, parts = shardings.plan(place, shape)
    indices = [(slice(None),) * len(shape)] * len(where) if parts is None else parts
    given: dict[Any, Any] = {}
    for index in indices:
        key = tuple([(s.start, s.stop) for s in index])
        if key not in given:
            found = data_callback(index)
            if type(found) is KeyArray and not given:
                return _keys_from_callback(shape, sharding, data_callback, found)
            given[key] = _piece(call, found, shape, index, dtype)
    pieces = [given[tuple([(s.start, s.stop) for s in index])] for index in indices]
    kinds = {p.dtype for p in pieces}
    if len(kinds) > 1:
        raise TypeError(f"{call}: the parts must have one dtype; got {', '.join(sorted(map(str, kinds)))}. Say it with dtype=")
    return arrays.put_pieces(shaped(shape, pieces[0].dtype), place, pieces, where)


def _keys_from_callback(shape: tuple[int, ...], sharding: Any, data_callback: Callable[[Any], Any],
                        first: KeyArray) -> KeyArray:
    """An array of keys whose parts a function gives, of which it gave the first: made of their words."""
    kind, known = first.dtype, [first]

    def words(index: Any) -> np.ndarray:
        found = known.pop() if known else data_callback(index[:-1])
        if type(found) is not KeyArray or found.dtype != kind:
            raise TypeError("make_array_from_callback: the parts must have one dtype; got "
                            f"{dtypes.long_name(kind)} and {getattr(found, 'aval', None) or type(found)}")
        return arrays.host_value(found.words)

    return KeyArray(make_array_from_callback((*shape, dtypes.words_of(kind)), sharding, words), kind)


def _piece(call: str, found: Any, shape: tuple[int, ...], index: tuple[slice, ...], dtype: Any) -> np.ndarray:
    value = np.asarray(found)
    wanted = tuple([len(range(*s.indices(n))) for s, n in zip(index, shape)])
    if value.shape != wanted:
        raise ValueError(f"{call}: data_callback({index}) must give an array of shape {wanted}; got shape {value.shape}")
    return value.astype(dtypes.canonical(value.dtype if dtype is None else dtype), copy=False)


def make_array_from_single_device_arrays(shape: Sequence[int], sharding: Any, arrays: Sequence[Any], *,
                                         dtype: Any = None) -> Any:
    """One array of arrays that lie on single devices; nothing is moved, so these go when it is deleted.

    Args:
      shape: of the whole array.
      sharding: how it lies on devices.
      arrays: its part on each device of this process, in any order.
      dtype: of the array, which the parts must have; None: theirs.
    Returns:
      An array, committed.
    Raises:
      ValueError: the parts are not one for each device, or have other shapes than the parts of such an array.
      TypeError: something is no array on one device, or the parts differ in dtype.

    >>> import lamina_runtime
    >>> part = lamina_runtime.device_put(np.arange(2), lamina_runtime.devices()[0])
    >>> make_array_from_single_device_arrays((2,), part.sharding, [part])
    Array([0, 1], dtype=int32)
    """
    call = "make_array_from_single_device_arrays"
    place, shape = _sharding(call, sharding), tuple([int(n) for n in shape])
    kinds = {x.dtype for x in arrays if type(x) is KeyArray}
    if len(kinds) == 1 and all(type(x) is KeyArray for x in arrays):
        kind = kinds.pop()
        words = (*shape, dtypes.words_of(kind))
        return KeyArray(make_array_from_single_device_arrays(words, sharding, [x.words for x in arrays]), kind)
    place = shardings.fitted(call, shape, place)
    where = _here(call, place)
    local = place.shard_shape(shape)
    held: dict[Any, Any] = {}
    for i, x in enumerate(arrays):
        if type(x) is not ArrayImpl or x._sharding.num_devices != 1:
            raise TypeError(f"{call}: arrays[{i}] must be an array on one device; got {getattr(x, 'aval', None) or type(x)}")
        x = _alone(x)
        if x.aval.shape != local:
            raise ValueError(f"{call}: arrays[{i}], {x.aval.long()}, must have the shape {local}, that of a part of an array "
                             f"of shape {shape} placed by {place}")
        held[x._sharding._device] = x
    if [*held.keys() - {*where}] or len(held) != len(arrays) or len(held) != len(where):
        raise ValueError(f"{call}: arrays must be one for each of this process's devices {where}; got arrays on "
                         f"{[x._sharding._internal_device_list[0] for x in arrays]}")
    kinds = {x.aval.dtype for x in held.values()} | ({dtypes.canonical(dtype)} if dtype is not None else set())
    if len(kinds) > 1:
        raise TypeError(f"{call}: the arrays must have one dtype; got {', '.join(sorted(map(str, kinds)))}")
    ordered = [held[d] for d in where]
    return _over(ordered, shaped(shape, kinds.pop()), place, ordered)
