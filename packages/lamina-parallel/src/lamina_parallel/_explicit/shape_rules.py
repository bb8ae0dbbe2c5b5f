"""Sharding rules of primitives that change shapes."""
from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence

from .operation import Operation, unsharded
from .._typing import Entries

__all__ = ["SHAPE_RULES"]

Rule = Callable[[Operation], Entries]


def _broadcast_in_dim(op: Operation) -> Entries:
    found: list[tuple[Hashable, ...]] = [()] * op.out_avals[0].ndim
    for d, at in enumerate(op.params["broadcast_dimensions"]):
        if op.avals[0].shape[d] == op.out_avals[0].shape[at]:
            found[at] = op.entries[0][d]
    return tuple(found)


def _concatenate(op: Operation) -> Entries:
    if len({*op.entries}) > 1:
        op.refuse("all operands must have the same sharding")
    return op.entries[0]


def _expand_dims(op: Operation) -> Entries:
    ndim = op.out_avals[0].ndim
    added = {d % ndim for d in op.params["dimensions"]}
    rest = iter(op.entries[0])
    return tuple([() if d in added else next(rest) for d in range(ndim)])


def _squeeze(op: Operation) -> Entries:
    removed = {d % op.avals[0].ndim for d in op.params["dimensions"]}
    return tuple([names for d, names in enumerate(op.entries[0]) if d not in removed])


def _resize(op: Operation) -> Entries:
    return op.resize(op.entries[0], op.avals[0].shape, op.out_avals[0].shape)


def _group_sizes(before: Sequence[int], after: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Return the dimensions of a reshape in groups of equal products, the smallest ones; dimensions of size 1 are
    left out."""
    ins = [d for d, n in enumerate(before) if n != 1]
    outs = [d for d, n in enumerate(after) if n != 1]
    groups = []
    while ins or outs:
        group: tuple[list[int], list[int]] = [ins.pop(0)], [outs.pop(0)]
        while (a := math.prod([before[d] for d in group[0]])) != (b := math.prod([after[d] for d in group[1]])):
            if a < b:
                group[0].append(ins.pop(0))
            else:
                group[1].append(outs.pop(0))
        groups.append(group)
    return groups


def _merge_dims(entries: Sequence[tuple[Hashable, ...]]) -> tuple[Hashable, ...] | None:
    """Return the axes of a dimension made from several; None unless the sharded ones are the leading ones."""
    sharded = [bool(names) for names in entries]
    if sharded != sorted(sharded, reverse=True):
        return None
    return tuple([name for names in entries for name in names])


def _split_dim(op: Operation, names: Sequence[Hashable], sizes: Sequence[int]) -> list[tuple[Hashable, ...]] | None:
    """Return the axes of the dimensions made from one, from the slowest axis on; None if they do not fit."""
    left = list(names)
    found: list[tuple[Hashable, ...]] = []
    for size in sizes:
        taken: list[Hashable] = []
        while left and size % op.sizes[left[0]] == 0:
            size //= op.sizes[left[0]]
            taken.append(left.pop(0))
        found.append(tuple(taken))
        if left and size != 1:
            return None
    return None if left else found


def _reshape(op: Operation) -> Entries:
    before, after, entries = op.avals[0].shape, op.out_avals[0].shape, op.entries[0]
    if not any(entries):
        return unsharded(len(after))
    reason = f"the sharding of the result of shape {after} is ambiguous"
    if op.params["dimensions"] is not None or not math.prod(before):
        op.refuse(reason)
    found: list[tuple[Hashable, ...]] = [()] * len(after)
    for ins, outs in _group_sizes(before, after):
        if not any(entries[d] for d in ins):
            continue
        if len(outs) == 1:
            merged = _merge_dims([entries[d] for d in ins])
            if merged is None:
                op.refuse(reason)
            found[outs[0]] = merged
        else:
            parts = _split_dim(op, entries[ins[0]], [after[d] for d in outs]) if len(ins) == 1 else None
            if parts is None:
                op.refuse(reason)
            for d, names in zip(outs, parts):
                found[d] = names
    return tuple(found)


def _bitcast(op: Operation) -> Entries:
    before, after, entries = op.avals[0], op.out_avals[0], op.entries[0]
    if before.ndim < after.ndim:
        return (*entries, ())
    if before.ndim > after.ndim:
        op.check_unsharded([before.ndim - 1], "the last dimension must not be sharded, because it is removed")
        return entries[:-1]
    return entries


SHAPE_RULES: dict[str, Rule] = {
    "broadcast_in_dim": _broadcast_in_dim, "concatenate": _concatenate, "expand_dims": _expand_dims,
    "iota": lambda op: unsharded(op.out_avals[0].ndim), "pad": _resize, "reshape": _reshape,
    "rev": lambda op: op.entries[0], "slice": _resize, "squeeze": _squeeze,
    "transpose": lambda op: tuple([op.entries[0][d] for d in op.params["permutation"]]),
    "dynamic_slice": _resize, "bitcast_convert_type": _bitcast,
    "random_wrap": lambda op: op.entries[0][:-1],
    "random_unwrap": lambda op: (*op.entries[0], ()),
}
