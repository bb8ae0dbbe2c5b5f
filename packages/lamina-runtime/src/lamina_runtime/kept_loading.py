"""What this process reads of a tree, for `checkpointing`: where each leaf goes, and which pieces that takes."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from lamina_ir import DTypeError, ShapeDtypeStruct, ShapeError, dtypes, trees

from . import _jaxlib, arrays, backends, kept_files, kept_trees, meetings, owner, shardings, transfer_guards
from ._jaxlib import ArrayImpl, SingleDeviceSharding
from .kept_files import CheckpointError, Tile
from .kept_trees import Leaf
from .key_arrays import KeyArray

__all__ = ["joined", "loaded", "targets_of", "wanted"]

Target = tuple[Any, Any, tuple[Any, ...]]  # part of the structure, what is said of it, its place


class _Wanted(NamedTuple):
    """A leaf to be loaded.

    Attributes:
      leaf, place: what it is, and how messages name it.
      sharding: where it goes; None: it stays on the host. committed: whether it has to stay there.
      start: of rows, where this process's begin.
    """

    leaf: Leaf
    place: str
    sharding: Any
    committed: bool
    start: int | None


def joined(like: Any, targets: list[Target], make: Callable[[Any], Any]) -> Any:
    """The tree of what is made of each part of the structure."""
    made = [make(part) for part, _, _ in targets]
    return made[0] if like is None else trees.tree_structure(like, is_leaf=_stands_for_many).unflatten(made)


def _stands_for_many(x: Any) -> bool:
    return x is np.ndarray or isinstance(x, (_jaxlib.Device, _jaxlib.Sharding))


def targets_of(call: str, structure: Any, like: Any) -> list[Target]:
    """(part of the structure, what is said of it, place); all of it with None where nothing is said."""
    if like is None:
        rows = [(structure, None, ())]
    else:
        try:
            rows = kept_trees.matched(structure, like, _stands_for_many)
        except ValueError as e:
            raise ValueError(f"{call}: {e}") from None
    for part, _, path in rows:
        text = kept_trees.missing(part, path)
        if text is not None:
            raise ValueError(f"{call}: the state holds {text}, which cannot be made again from a file alone: pass like=, a "
                             "tree of this structure with arrays, ShapeDtypeStructs, shardings or devices as leaves")
    return rows


def wanted(call: str, leaves: list[Leaf], like: Any, targets: list[Target], rows: Any,
            meeting: meetings.Meeting) -> dict[int, _Wanted]:
    every: list[tuple[int, Any, tuple[Any, ...]]] = []
    todo = list(reversed(targets))
    while todo:
        part, target, path = todo.pop()
        if isinstance(part, int):
            every.append((part, target, path))
        todo += [(child, target, place) for child, place in reversed(kept_trees.children_of(part, path))]
    apart = [rows] * len(every)
    if not isinstance(rows, bool):
        try:
            apart = trees.broadcast_prefix(rows, joined(like, targets, kept_trees.nested))
        except ValueError as e:
            raise ValueError(f"{call}: rows: {e}") from None
    return {number: _wish(call, leaves[number], target, f"{call}: {kept_trees.label(path)}", bool(mine), meeting)
            for (number, target, path), mine in zip(every, apart)}


def _wish(call: str, leaf: Leaf, target: Any, place: str, mine: bool, meeting: meetings.Meeting) -> _Wanted:
    """Where one leaf goes, what `like` says of it compared with what it is."""
    if not leaf.is_array:
        if target is not None and not _stands_for_many(target) and type(target).__name__ != leaf.kind:
            raise DTypeError(f"{place} is {leaf.long()}; like has {_long(target)} there")
        return _Wanted(leaf, place, None, False, None)
    if leaf.is_keys:
        target = _of_words(leaf, target, place)
    start = None
    if mine and leaf.shape:
        total = leaf.shape[0]
        if total % meeting.count:
            raise ShapeError(f"{place} has {total} rows, which cannot be shared out evenly among {meeting.count} processes")
        leaf, start = leaf._replace(shape=(total // meeting.count, *leaf.shape[1:])), total // meeting.count * meeting.rank
    shape, dtype = getattr(target, "shape", None), getattr(target, "dtype", None)
    if target is not None and not _stands_for_many(target):
        if shape is None or dtype is None:
            raise TypeError(f"{place} is {leaf.long()}; like must have an array, a ShapeDtypeStruct, a sharding, a device or "
                            f"np.ndarray there; got {type(target).__name__}: {target!r:.60}")
        if tuple(shape) != leaf.shape:
            raise ShapeError(f"{place} has shape {leaf.shape}; like has {tuple(shape)} there")
        if np.dtype(dtype).newbyteorder("=") != dtypes.as_dtype(leaf.dtype):
            raise DTypeError(f"{place} has dtype {leaf.dtype}; like has {np.dtype(dtype).name} there. Load it as it is, then "
                             "convert it")
    if target is np.ndarray or isinstance(target, (np.ndarray, np.generic)) or (
            target is None and leaf.kind != "array" and not leaf.is_keys):
        return _Wanted(leaf if target is None else leaf._replace(kind="scalar" if isinstance(target, np.generic) else "numpy"),
                       place, None, False, start)
    if dtypes.canonical(leaf.dtype) != dtypes.as_dtype(leaf.dtype):
        raise DTypeError(f"{place} has dtype {leaf.dtype}, and arrays of 64-bit numbers need "
                         "lamina.config.update('enable_x64', True). NumPy keeps them: like= with np.ndarray there")
    if isinstance(target, (ArrayImpl, ShapeDtypeStruct)):
        leaf = leaf._replace(weak=bool(target.weak_type))
    try:
        sharding, committed = _placement(target)
    except RuntimeError as e:  # its devices were given up
        raise RuntimeError(f"{place}: {e}") from None
    if type(sharding) is not SingleDeviceSharding:
        sharding = shardings.fitted(place, leaf.shape, sharding)
        if not sharding._internal_device_list.addressable_device_list:
            raise ValueError(f"{place}: none of the devices is of this process: {sharding}")
        if start is not None and not sharding.is_fully_addressable:
            raise ValueError(f"{place}: rows are each process's own; like places them over several processes: {sharding}")
    return _Wanted(leaf, place, sharding, committed, start)


def _of_words(leaf: Leaf, target: Any, place: str) -> Any:
    """What is said of keys, said of their words. NumPy has no keys: with its arrays they stay what they are."""
    if target is None or _stands_for_many(target):
        return None if target is np.ndarray else target
    dtype, shape = getattr(target, "dtype", None), getattr(target, "shape", ())
    if not isinstance(dtype, np.dtype) or dtypes.short_name(dtype) != leaf.kind:
        raise DTypeError(f"{place} is {leaf.long()}; like must have keys of this type there, or their type, a sharding or a "
                         f"device; got {getattr(target, '__name__', type(target).__name__)}")
    if tuple(shape) != leaf.shape[:-1]:
        raise ShapeError(f"{place} has shape {leaf.shape[:-1]}; like has {tuple(shape)} there")
    return target.words if type(target) is KeyArray else ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=target.sharding)


def _long(target: Any) -> str:
    shape = getattr(target, "shape", None)
    return f"a Python {type(target).__name__}" if shape is None else f"an array of shape {tuple(shape)}"


def _placement(target: Any) -> tuple[Any, bool]:
    """A sharding, and whether it was chosen."""
    if isinstance(target, _jaxlib.Device):
        return shardings.single(target), True
    if isinstance(target, _jaxlib.Sharding):
        return shardings.interned(target), True
    if type(target) is ArrayImpl and (target._committed or not owner.is_closed(target._sharding._internal_device_list[0])):
        return shardings.interned(target._sharding), bool(target._committed)
    chosen = None if type(target) is ArrayImpl else getattr(target, "sharding", None)
    if chosen is not None:
        return _placement(chosen)
    return shardings.single(backends.default_device()), False


def loaded(reader: kept_files.Reader, pool: Any, number: int, want: _Wanted) -> Any:
    leaf = want.leaf
    if not leaf.is_array:
        return leaf.number()
    if want.sharding is None:
        host = np.empty(leaf.shape, dtypes.as_dtype(leaf.dtype))
        _fill(reader, pool, number, want, [(_rows_from(want, (0,) * host.ndim), host)])
        return host[()] if leaf.kind == "scalar" else host
    devices = list(want.sharding._internal_device_list.addressable_device_list)
    index = dict(zip(shardings.sharding_devices(want.sharding), shardings.index_map(want.sharding, leaf.shape)))
    aval = leaf.aval()
    blocks: dict[Any, np.ndarray] = {}
    keys = [tuple([s.indices(n)[:2] for s, n in zip(index[d], leaf.shape)]) for d in devices]
    for key in keys:
        if key not in blocks:
            blocks[key] = arrays.room_for(tuple([b - a for a, b in key]), aval.dtype)
    _fill(reader, pool, number, want, [(_rows_from(want, tuple([a for a, _ in key])), block) for key, block in blocks.items()])
    pieces = [blocks[key] for key in keys]
    with transfer_guards.marked("put", "load") if transfer_guards.used else nullcontext():
        made = arrays.adopt(aval, want.sharding, pieces, devices, want.committed)
    return KeyArray(made, dtypes.from_short_name(leaf.kind)) if leaf.is_keys else made


def _rows_from(want: _Wanted, start: tuple[int, ...]) -> tuple[int, ...]:
    return start if want.start is None else (want.start + start[0], *start[1:])


def _fill(reader: kept_files.Reader, pool: Any, number: int, want: _Wanted,
          blocks: Sequence[tuple[tuple[int, ...], np.ndarray]]) -> None:
    """Read the numbers of a leaf's blocks, each given with its start."""
    dtype = dtypes.as_dtype(want.leaf.dtype)

    def act(tile: Tile) -> int:
        piece = reader.piece(tile, dtype, want.place)
        return sum([kept_files.copied_overlap(block, start, tile, piece) for start, block in blocks])

    needed = [(tile,) for tile in reader.tiles.get(number, ())
              if any(kept_files.overlap(start, block.shape, tile) for start, block in blocks)]
    found = [act(*needed[0])] if len(needed) == 1 else kept_files.in_turn(pool, act, needed)
    if sum(found) != sum([block.size for _, block in blocks]):
        raise CheckpointError(f"{want.place}: pieces of it are missing: the state is damaged")
