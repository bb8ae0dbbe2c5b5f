"""Restore a tree from a checkpoint: choose the sharding of each leaf, and read the parts that this process needs."""
from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import numpy as np
from lamina_ir import DTypeError, ShapeDtypeStruct, ShapeError, dtypes, trees
from lamina_ir.typing import Sharding, Tree, Value
from lamina_runtime import Device
from lamina_runtime import Sharding as ShardingClass
from lamina_runtime.extend import HostGather, KeyArray, aligned_empty, array_from_host, is_array, own_blocks, placement

from . import _tree_metadata
from ._tree_metadata import EncodedTree, Leaf

__all__ = ["Target", "build_tree", "find_masked", "is_subtree_target", "load_leaves", "match_targets", "plan_leaves"]

_READERS = min(8, 2 * (os.cpu_count() or 1))
_MAX_DIFFERENCES = 10  # in one message

Target = tuple[Any, Any, tuple[Any, ...]]  # part of the encoded tree, the leaf of `like` for it, its key path


class Reader(Protocol):
    """Reads the data of one checkpoint, in one of its formats."""

    def read_blocks(self, leaf: int, place: str, dtype: np.dtype,
                    blocks: Sequence[tuple[tuple[int, ...], np.ndarray]]) -> None:
        """Fill blocks of a leaf: (start, array to fill)."""


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
    return made[0] if like is None else trees.tree_structure(like, is_leaf=is_subtree_target).unflatten(made)


def is_subtree_target(x: object) -> bool:
    """Return whether a leaf of `like` may stand for a whole subtree."""
    return x is np.ndarray or isinstance(x, (Device, ShardingClass))


def match_targets(call: str, structure: EncodedTree, like: Tree) -> list[Target]:
    """Match an encoded tree with `like`. Without `like`, there is one target: the whole tree with None."""
    if like is None:
        matches = [(structure, None, ())]
    else:
        try:
            matches = _tree_metadata.match_structure(structure, like, is_subtree_target)
        except ValueError as e:
            raise ValueError(f"{call}: {e}") from None
    for part, _, path in matches:
        text = _tree_metadata.find_unrebuildable(part, path)
        if text is not None:
            raise ValueError(f"{call}: the checkpoint holds {text}, which cannot be rebuilt from the file: pass like=, "
                             "a tree of this structure with arrays, ShapeDtypeStructs, shardings or devices as leaves")
    return matches


def find_masked(call: str, like: Tree, targets: list[Target], mask: Tree) -> set[int]:
    """Return the numbers of the leaves whose mask is False; `mask` is a prefix of the tree, or None."""
    if mask is None:
        return set()
    numbers = build_tree(like, targets, _tree_metadata.nest_children)
    try:
        flags = trees.broadcast_prefix(mask, numbers)
    except ValueError as e:
        raise ValueError(f"{call}: mask: {e}") from None
    return {number for number, flag in zip(trees.tree_leaves(numbers), flags) if not flag}


def plan_leaves(call: str, leaves: list[Leaf], like: Tree, targets: list[Target], rows: bool | Tree,
            meeting: HostGather) -> dict[int, _LeafPlan]:
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
    plans: dict[int, _LeafPlan] = {}
    errors: list[Exception] = []
    for (number, target, path), own_rows in zip(numbered_targets, reads_own_rows):
        name = f"{call}: {_tree_metadata.format_path(path)}"
        try:
            plans[number] = _plan_leaf(leaves[number], target, name, bool(own_rows), meeting)
        except (ShapeError, DTypeError) as e:
            errors.append(e)
    if errors:
        texts = [str(e).removeprefix(f"{call}: ") for e in errors[:_MAX_DIFFERENCES]]
        if len(errors) > _MAX_DIFFERENCES:
            texts.append(f"and {len(errors) - _MAX_DIFFERENCES} more leaves")
        raise type(errors[0])(f"{call}: " + "; ".join(texts)) from None
    return plans


def _plan_leaf(leaf: Leaf, target: Tree, name: str, own_rows: bool,
               meeting: HostGather) -> _LeafPlan:
    """Return how one leaf is loaded. Raise an error if it does not fit the leaf of `like`."""
    if not leaf.is_array:
        if target is not None and not is_subtree_target(target) and type(target).__name__ != leaf.kind:
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
    if target is not None and not is_subtree_target(target):
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
    if is_array(target) or isinstance(target, ShapeDtypeStruct):
        leaf = leaf._replace(weak=bool(target.weak_type))
    try:
        sharding, committed = placement(target)
    except RuntimeError as e:  # its client is closed
        raise RuntimeError(f"{name}: {e}") from None
    sharding, _, _ = own_blocks(name, leaf.shape, sharding)
    if start is not None and not sharding.is_fully_addressable:
        raise ValueError(f"{name}: with rows=True each process loads its own rows, but like places them over "
                         f"several processes: {sharding}")
    return _LeafPlan(leaf, name, sharding, committed, start)


def _target_of_key_data(leaf: Leaf, target: Tree, name: str) -> Tree:
    """Convert the leaf of `like` for PRNG keys to one for their uint32 data.

    NumPy has no keys, so `np.ndarray` becomes None: the keys are loaded as keys.
    """
    if target is None or is_subtree_target(target):
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


def load_leaves(reader: Reader, plans: dict[int, _LeafPlan]) -> dict[int, Value]:
    """Load leaves, by number. Several threads read; this thread makes the arrays."""
    found: dict[int, Value] = {}
    with ThreadPoolExecutor(_READERS, "lamina-checkpoint") as pool:
        waiting, jobs = deque(plans.items()), deque[tuple[int, Future[list[np.ndarray]]]]()
        try:
            while waiting or jobs:
                # A limited number of leaves ahead: of arrays for an accelerator, all others need no host memory.
                while waiting and len(jobs) < 2 * _READERS:
                    number, plan = waiting.popleft()
                    jobs.append((number, pool.submit(_read_leaf, reader, number, plan)))
                number, job = jobs.popleft()
                found[number] = _make_leaf(plans[number], job.result())
        finally:
            for _, job in jobs:
                job.cancel()
    return found


def _read_leaf(reader: Reader, number: int, plan: _LeafPlan) -> list[np.ndarray]:
    """Read the parts of a leaf that this process needs: one for a host value, else one for each device."""
    leaf = plan.leaf
    if not leaf.is_array:
        return []
    dtype = dtypes.as_dtype(leaf.dtype)
    if plan.sharding is None:
        host = np.empty(leaf.shape, dtype)
        reader.read_blocks(number, plan.name, dtype, [(_offset_rows(plan, (0,) * host.ndim), host)])
        return [host]
    _, _, bounds = own_blocks(plan.name, leaf.shape, plan.sharding)
    # Devices with the same part share one block of host memory, which is read once.
    blocks = {part: aligned_empty(tuple([b - a for a, b in part]), dtype) for part in dict.fromkeys(bounds)}
    reader.read_blocks(number, plan.name, dtype,
                       [(_offset_rows(plan, tuple([a for a, _ in part])), block) for part, block in blocks.items()])
    return [blocks[part] for part in bounds]


def _make_leaf(plan: _LeafPlan, pieces: list[np.ndarray]) -> Value:
    leaf = plan.leaf
    if not leaf.is_array:
        return leaf.number()
    if plan.sharding is None:
        return pieces[0][()] if leaf.kind == "scalar" else pieces[0]
    sharding, devices, _ = own_blocks(plan.name, leaf.shape, plan.sharding)
    array = array_from_host("load", leaf.aval(), sharding, pieces, devices, plan.committed)
    return KeyArray(array, dtypes.from_short_name(leaf.kind)) if leaf.is_keys else array


def _offset_rows(plan: _LeafPlan, start: tuple[int, ...]) -> tuple[int, ...]:
    return start if plan.start is None else (plan.start + start[0], *start[1:])
