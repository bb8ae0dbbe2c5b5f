"""Restore a tree from a checkpoint: choose the sharding of each leaf, and read the tiles that this process needs."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from lamina_ir import DTypeError, ShapeDtypeStruct, ShapeError, dtypes, trees
from lamina_ir.typing import Sharding, Tree, Value

from .. import _jaxlib
from .._array import arrays
from .._backend import backends, client_state, transfer_guard
from . import _storage, _tree_metadata
from .._distributed import host_gather
from .._sharding import shardings
from .._jaxlib import ArrayImpl, SingleDeviceSharding
from ._storage import CheckpointError, Tile
from ._tree_metadata import Leaf
from .._array.key_array import KeyArray
from .._typing import EncodedTree

__all__ = ["build_tree", "load_leaf", "match_targets", "plan_leaves"]

Target = tuple[Any, Any, tuple[Any, ...]]  # part of the encoded tree, the leaf of `like` for it, its key path


class _LeafPlan(NamedTuple):
    """A leaf to load.

    Attributes:
      leaf: its description.
      name: its name in messages.
      sharding: the sharding of the result; None: a host value.
      committed: whether the result is committed.
      start: the first row of this process, if processes read their own rows; else None.
    """

    leaf: Leaf
    name: str
    sharding: Sharding
    committed: bool
    start: int | None


def build_tree(like: Tree, targets: list[Target], make: Callable[[EncodedTree], Tree]) -> Tree:
    """Build the tree of `like` from the results of `make` for each part of the encoded tree."""
    made = [make(part) for part, _, _ in targets]
    return made[0] if like is None else trees.tree_structure(like, is_leaf=_is_subtree_target).unflatten(made)


def _is_subtree_target(x: object) -> bool:
    return x is np.ndarray or isinstance(x, (_jaxlib.Device, _jaxlib.Sharding))


def match_targets(call: str, structure: EncodedTree, like: Tree) -> list[Target]:
    """Match an encoded tree with `like`. Without `like`, there is one target: the whole tree with None."""
    if like is None:
        matches = [(structure, None, ())]
    else:
        try:
            matches = _tree_metadata.match_structure(structure, like, _is_subtree_target)
        except ValueError as e:
            raise ValueError(f"{call}: {e}") from None
    for part, _, path in matches:
        text = _tree_metadata.find_unrebuildable(part, path)
        if text is not None:
            raise ValueError(f"{call}: the checkpoint holds {text}, which cannot be rebuilt from the file: pass like=, "
                             "a tree of this structure with arrays, ShapeDtypeStructs, shardings or devices as leaves")
    return matches


def plan_leaves(call: str, leaves: list[Leaf], like: Tree, targets: list[Target], rows: bool | Tree,
            meeting: host_gather.HostGather) -> dict[int, _LeafPlan]:
    """Return the leaves to load, by number."""
    numbered_targets: list[tuple[int, Tree, tuple[Any, ...]]] = []
    todo = list(reversed(targets))
    while todo:
        part, target, path = todo.pop()
        if isinstance(part, int):
            numbered_targets.append((part, target, path))
        todo += [(child, target, child_path) for child, child_path in reversed(_tree_metadata.get_children(part, path))]
    reads_own_rows = [rows] * len(numbered_targets)
    if not isinstance(rows, bool):
        try:
            reads_own_rows = trees.broadcast_prefix(rows, build_tree(like, targets, _tree_metadata.nest_children))
        except ValueError as e:
            raise ValueError(f"{call}: rows: {e}") from None
    return {number: _plan_leaf(call, leaves[number], target, f"{call}: {_tree_metadata.format_path(path)}", bool(own_rows),
                               meeting)
            for (number, target, path), own_rows in zip(numbered_targets, reads_own_rows)}


def _plan_leaf(call: str, leaf: Leaf, target: Tree, name: str, own_rows: bool,
               meeting: host_gather.HostGather) -> _LeafPlan:
    """Return how one leaf is loaded. Raise an error if it does not fit the leaf of `like`."""
    if not leaf.is_array:
        if target is not None and not _is_subtree_target(target) and type(target).__name__ != leaf.kind:
            raise DTypeError(f"{name} is {leaf.str_long()}; like has {_describe(target)} there")
        return _LeafPlan(leaf, name, None, False, None)
    if leaf.is_keys:
        target = _target_of_key_data(leaf, target, name)
    start = None
    if own_rows and leaf.shape:
        total = leaf.shape[0]
        if total % meeting.count:
            raise ShapeError(f"{name} has {total} rows, which {meeting.count} processes cannot share evenly")
        count = total // meeting.count
        leaf, start = leaf._replace(shape=(count, *leaf.shape[1:])), count * meeting.rank
    shape, dtype = getattr(target, "shape", None), getattr(target, "dtype", None)
    if target is not None and not _is_subtree_target(target):
        if shape is None or dtype is None:
            raise TypeError(f"{name} is {leaf.str_long()}; like must have an array, a ShapeDtypeStruct, a sharding, a "
                            f"device or np.ndarray there; got {type(target).__name__}: {target!r:.60}")
        if tuple(shape) != leaf.shape:
            raise ShapeError(f"{name} has shape {leaf.shape}; like has {tuple(shape)} there")
        if np.dtype(dtype).newbyteorder("=") != dtypes.as_dtype(leaf.dtype):
            raise DTypeError(f"{name} has dtype {leaf.dtype}; like has {np.dtype(dtype).name} there. Load it as it is, "
                             "then convert it")
    if target is np.ndarray or isinstance(target, (np.ndarray, np.generic)) or (
            target is None and leaf.kind != "array" and not leaf.is_keys):
        if target is not None:
            leaf = leaf._replace(kind="scalar" if isinstance(target, np.generic) else "numpy")
        return _LeafPlan(leaf, name, None, False, start)
    if dtypes.canonicalize(leaf.dtype) != dtypes.as_dtype(leaf.dtype):
        raise DTypeError(f"{name} has dtype {leaf.dtype}, and 64-bit arrays need "
                         "lamina.config.update('enable_x64', True). Or load it as a NumPy array: like= with np.ndarray "
                         "there")
    if isinstance(target, (ArrayImpl, ShapeDtypeStruct)):
        leaf = leaf._replace(weak=bool(target.weak_type))
    try:
        sharding, committed = _placement(target)
    except RuntimeError as e:  # its client is closed
        raise RuntimeError(f"{name}: {e}") from None
    if type(sharding) is not SingleDeviceSharding:
        sharding = shardings.resolve_sharding(name, leaf.shape, sharding)
        if not sharding._internal_device_list.addressable_device_list:
            raise ValueError(f"{name}: none of the devices belongs to this process: {sharding}")
        if start is not None and not sharding.is_fully_addressable:
            raise ValueError(f"{name}: with rows=True each process loads its own rows, but like places them over "
                             f"several processes: {sharding}")
    return _LeafPlan(leaf, name, sharding, committed, start)


def _target_of_key_data(leaf: Leaf, target: Tree, name: str) -> Tree:
    """Convert the leaf of `like` for PRNG keys to one for their uint32 data.

    NumPy has no keys, so `np.ndarray` becomes None: the keys are loaded as keys.
    """
    if target is None or _is_subtree_target(target):
        return None if target is np.ndarray else target
    dtype, shape = getattr(target, "dtype", None), getattr(target, "shape", ())
    if not isinstance(dtype, np.dtype) or dtypes.short_name(dtype) != leaf.kind:
        raise DTypeError(f"{name} is {leaf.str_long()}; like must have keys of this type there, or their type, a sharding "
                         f"or a device; got {getattr(target, '__name__', type(target).__name__)}")
    if tuple(shape) != leaf.shape[:-1]:
        raise ShapeError(f"{name} has shape {leaf.shape[:-1]}; like has {tuple(shape)} there")
    if type(target) is KeyArray:
        return target.key_data
    return ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=target.sharding)


def _describe(target: Tree) -> str:
    shape = getattr(target, "shape", None)
    return f"a Python {type(target).__name__}" if shape is None else f"an array of shape {tuple(shape)}"


def _placement(target: Tree) -> tuple[Sharding, bool]:
    """Return (sharding, whether it is committed) of a leaf of `like`."""
    if isinstance(target, _jaxlib.Device):
        return shardings.single_device_sharding(target), True
    if isinstance(target, _jaxlib.Sharding):
        return shardings.intern_sharding(target), True
    if type(target) is ArrayImpl and (target._committed
                                      or not client_state.is_closed(target._sharding._internal_device_list[0])):
        return shardings.intern_sharding(target._sharding), bool(target._committed)
    chosen = None if type(target) is ArrayImpl else getattr(target, "sharding", None)
    if chosen is not None:
        return _placement(chosen)
    return shardings.single_device_sharding(backends.default_device()), False


def load_leaf(reader: _storage.Reader, pool: ThreadPoolExecutor, number: int, plan: _LeafPlan) -> Value:
    """Load leaf `number`."""
    leaf = plan.leaf
    if not leaf.is_array:
        return leaf.number()
    if plan.sharding is None:
        host = np.empty(leaf.shape, dtypes.as_dtype(leaf.dtype))
        _read_blocks(reader, pool, number, plan, [(_offset_rows(plan, (0,) * host.ndim), host)])
        return host[()] if leaf.kind == "scalar" else host
    devices = list(plan.sharding._internal_device_list.addressable_device_list)
    index = dict(zip(shardings.sharding_devices(plan.sharding), shardings.index_map(plan.sharding, leaf.shape)))
    aval = leaf.aval()
    # Devices with the same part share one block of host memory, which is read once.
    blocks: dict[tuple[tuple[int, int], ...], np.ndarray] = {}
    keys = [tuple([s.indices(n)[:2] for s, n in zip(index[d], leaf.shape)]) for d in devices]
    for key in keys:
        if key not in blocks:
            blocks[key] = arrays.aligned_empty(tuple([b - a for a, b in key]), aval.dtype)
    _read_blocks(reader, pool, number, plan,
                 [(_offset_rows(plan, tuple([a for a, _ in key])), block) for key, block in blocks.items()])
    pieces = [blocks[key] for key in keys]
    with transfer_guard.marking_explicit("put", "load") if transfer_guard.any_guard_set else nullcontext():
        array = arrays.array_from_host_buffers(aval, plan.sharding, pieces, devices, plan.committed)
    return KeyArray(array, dtypes.from_short_name(leaf.kind)) if leaf.is_keys else array


def _offset_rows(plan: _LeafPlan, start: tuple[int, ...]) -> tuple[int, ...]:
    return start if plan.start is None else (plan.start + start[0], *start[1:])


def _read_blocks(reader: _storage.Reader, pool: ThreadPoolExecutor, number: int, plan: _LeafPlan,
                 blocks: Sequence[tuple[tuple[int, ...], np.ndarray]]) -> None:
    """Read the data of blocks of a leaf. Each block is (start, array to fill); a tile shared by blocks is read once."""
    dtype = dtypes.as_dtype(plan.leaf.dtype)

    def act(tile: Tile) -> int:
        piece = reader.piece(tile, dtype, plan.name)
        return sum([_storage.copy_overlap(block, start, tile, piece) for start, block in blocks])

    needed = [(tile,) for tile in reader.tiles.get(number, ())
              if any(_storage.find_overlap(start, block.shape, tile) for start, block in blocks)]
    found = [act(*needed[0])] if len(needed) == 1 else _storage.map_ordered(pool, act, needed)
    # Every element is written exactly once, as tiles do not overlap. So the count finds missing tiles.
    if sum(found) != sum([block.size for _, block in blocks]):
        raise CheckpointError(f"{plan.name}: tiles of it are missing: the checkpoint is damaged")
