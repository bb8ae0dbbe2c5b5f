"""Rows of the collectives and of `xla_pmap` in the batching table.

Over the batch's own axis name a collective becomes ordinary array work; over other names it is applied to the batch.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from lamina_batching.extend import BatchAxis, batching_rules, flow_row, materialise, move_to
from lamina_ir import MissingRuleError, prims
from lamina_tracing import lax
from lamina_tracing.extend import bind, scalar, typeof

__all__: list[str] = []


def _names(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _rows(x: Any, order: Any) -> Any:
    """The examples, batched at axis 0, in this order."""
    if list(order) == list(range(typeof(x).shape[0])):
        return x
    return lax.concatenate([lax.slice_in_dim(x, int(i), int(i) + 1, 1, 0) for i in order], 0)


def _by_group(own: Callable[[Any, int], tuple[Any, int | None]], x: Any, groups: Any) -> Any:
    """`own(x, size)`, which works over a whole batch at axis 0, over the examples of each group by themselves."""
    size, order = len(groups[0]), np.concatenate(groups)
    x, parts = _rows(x, order), []
    for i in range(len(groups)):
        out, d = own(lax.slice_in_dim(x, i * size, (i + 1) * size, 1, 0), size)
        parts.append(materialise(out, d, size))
    return _rows(lax.concatenate(parts, 0), np.argsort(order))


def _mine(axis: BatchAxis, names: tuple[Any, ...]) -> bool:
    return axis.name is not None and axis.name in names


def _reduction(prim: Any, total: Callable[[Any, int], Any], repeated: Callable[[Any, int], Any]) -> None:
    def rule(axis: BatchAxis, args: Any, dims: Any, *, axes: Any, axis_index_groups: Any) -> Any:
        if not _mine(axis, axes):
            return bind(prim, *args, axes=axes, axis_index_groups=axis_index_groups), dims
        if axis_index_groups is not None:
            if len(axes) > 1:
                raise MissingRuleError(f"vmap of `{prim.name}` with axis_index_groups over several names {axes} is not "
                                       "defined; name one axis")
            return [_by_group(lambda rows, _: (total(rows, 0), None), materialise(x, d, axis.size), axis_index_groups)
                    for x, d in zip(args, dims)], [0] * len(args)
        # The examples are the members: reduce along the batch; what all share is reduced as that many copies of it.
        outs = [repeated(x, axis.size) if d is None else total(x, d) for x, d in zip(args, dims)]
        rest = tuple(n for n in axes if n != axis.name)
        if rest:
            outs = list(bind(prim, *outs, axes=rest, axis_index_groups=None))
        return outs, [None] * len(outs)

    batching_rules.define(prim, rule)


_reduction(prims.psum_p, lambda x, d: lax.reduce_sum(x, (d,)), lambda x, n: lax.mul(x, scalar(n, typeof(x).dtype)))
_reduction(prims.pmax_p, lambda x, d: lax.reduce_max(x, (d,)), lambda x, n: x)
_reduction(prims.pmin_p, lambda x, d: lax.reduce_min(x, (d,)), lambda x, n: x)


def _exchange(prim: Any, others: Callable[..., Any], own: Callable[..., Any], several: Callable[..., Any]) -> None:
    """A row for an op with one operand and params that hold axes: `others(params)` are the params at batch 0 over another
    name, `own(x, size, params)` does the work over the batch's name on a batch at axis 0, and `several(axis, along, x,
    names, params)` over several names, the batch's among them, by `along(name, x, params)`, the op over one of them."""
    def rule(axis: BatchAxis, args: Any, dims: Any, *, axis_name: Any, **params: Any) -> Any:
        x, d = args[0], dims[0]
        if not _mine(axis, _names(axis_name)):
            return bind(prim, move_to(x, d, 0), axis_name=axis_name, **others(params)), 0
        x, groups = materialise(x, d, axis.size), params.get("axis_index_groups")
        if len(_names(axis_name)) > 1:
            if groups is not None:
                raise MissingRuleError(f"vmap of `{prim.name}` with axis_index_groups over several names {axis_name} is not "
                                       "defined; name one axis")

            def along(name: Any, x: Any, **params: Any) -> Any:
                """The op over one of the names alone, on a batch at axis 0 and to one."""
                if name == axis.name:
                    out, d = own(x, axis.size, **params)
                    return materialise(out, d, axis.size)
                if prim is not prims.ppermute_p:
                    params.update(axis_index_groups=None, axis_size=lax.axis_size(name))
                return bind(prim, x, axis_name=name, **others(params))

            return several(axis, along, x, _names(axis_name), **params), 0
        if groups is not None:
            return _by_group(lambda rows, size: own(rows, size, **params), x, groups), 0
        return own(x, axis.size, **params)

    batching_rules.define(prim, rule)


def _shifted(*names: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda params: {k: v + 1 if k in names else v for k, v in params.items()}


def _merge(x: Any, at: int) -> Any:
    """Axes `at` and `at + 1` as one."""
    s = typeof(x).shape
    return lax.reshape(x, s[:at] + (s[at] * s[at + 1],) + s[at + 2:])


def _divide(x: Any, at: int, n: int) -> Any:
    """Axis `at` as two, the first of size `n`."""
    s = typeof(x).shape
    return lax.reshape(x, s[:at] + (n, s[at] // n) + s[at + 1:])


def _own_all_gather(x: Any, size: int, *, all_gather_dimension: int, tiled: bool, **_: Any) -> Any:
    whole = move_to(x, 0, all_gather_dimension)  # no batch any more: all members hold the whole
    return (_merge(whole, all_gather_dimension) if tiled else whole), None


def _own_psum_scatter(x: Any, size: int, *, scatter_dimension: int, tiled: bool, **_: Any) -> Any:
    total = lax.reduce_sum(x, (0,))
    return (_divide(total, scatter_dimension, size) if tiled else total), scatter_dimension


def _own_all_to_all(x: Any, size: int, *, concat_axis: int, split_axis: int, tiled: bool, **_: Any) -> Any:
    if not tiled:  # [from, ..., to, ...]: `to` becomes the batch, `from` goes to concat_axis
        x = move_to(x, split_axis + 1, 0)
        return move_to(x, 1, concat_axis + 1), 0
    x = move_to(_divide(x, split_axis + 1, size), split_axis + 1, 0)  # [to, from, ...]
    return _merge(move_to(x, 1, concat_axis + 1), concat_axis + 1), 0


def _own_ppermute(x: Any, size: int, *, perm: Any) -> Any:
    # Row b of the result is row a of x for each pair (a, b), and zero where nothing is sent to b.
    source = np.zeros(size, np.int32)
    reached = np.zeros(size, bool)
    for a, b in perm:
        source[b], reached[b] = a, True
    moved = lax.concatenate([lax.slice_in_dim(x, int(s), int(s) + 1, 1, 0) for s in source], 0)
    if reached.all():
        return moved, 0
    shape = typeof(moved).shape
    return lax.select(lax.broadcast_in_dim(reached, shape, (0,)), moved, lax.full_like(moved, 0)), 0


# --- over several names: members count row-major, the first name slowest, so the ops over one name at a time, each on an
# axis of its own, are the op over all of them. `x` has the batch at axis 0.
def _spread(x: Any, at: int, names: tuple[Any, ...]) -> Any:
    """Axis `at`, a multiple of the number of members, as one axis for each name and, last, what is left."""
    s, sizes = typeof(x).shape, [lax.axis_size(n) for n in names]
    return lax.reshape(x, (*s[:at], *sizes, s[at] // math.prod(sizes), *s[at + 1:]))


def _join(x: Any, at: int, n: int) -> Any:
    """The `n` axes from `at` on as one."""
    for _ in range(n - 1):
        x = _merge(x, at)
    return x


def _several_all_gather(axis: BatchAxis, along: Any, x: Any, names: tuple[Any, ...], *, all_gather_dimension: int, tiled: bool,
                        **_: Any) -> Any:
    for name in reversed(names):
        x = along(name, x, all_gather_dimension=all_gather_dimension, tiled=False)
    return _join(x, all_gather_dimension + 1, len(names) + tiled)


def _several_psum_scatter(axis: BatchAxis, along: Any, x: Any, names: tuple[Any, ...], *, scatter_dimension: int, tiled: bool,
                          **_: Any) -> Any:
    x = _spread(x, scatter_dimension + 1, names)
    for name in names:
        x = along(name, x, scatter_dimension=scatter_dimension, tiled=False)
    return x if tiled else lax.squeeze(x, (scatter_dimension + 1,))


def _several_all_to_all(axis: BatchAxis, along: Any, x: Any, names: tuple[Any, ...], *, concat_axis: int, split_axis: int,
                        tiled: bool, **_: Any) -> Any:
    split, concat = split_axis + 1, concat_axis + 1
    x = _spread(x, split, names)
    for i, name in enumerate(names):  # each in its place: where the receiver's index stood stands the sender's
        x = along(name, x, split_axis=split_axis + i, concat_axis=split_axis + i, tiled=False)
    x = _join(x, split, len(names))  # [..., senders, what is left of the axis, ...]
    if tiled:
        return _merge(move_to(x, split, concat), concat)
    return move_to(lax.squeeze(x, (split + 1,)), split, concat)


def _several_ppermute(axis: BatchAxis, along: Any, x: Any, names: tuple[Any, ...], *, perm: Any) -> Any:
    at = names.index(axis.name)
    rest = names[:at] + names[at + 1:]
    sizes = [lax.axis_size(n) for n in names]
    steps: dict[tuple[int, int], list[tuple[int, int]]] = {}  # from example to example: from member to member of the rest
    for pair in perm:
        (mine, left), (yours, there) = [_apart(i, sizes, at) for i in pair]
        steps.setdefault((mine, yours), []).append((left, there))
    rows = [lax.full_like(lax.slice_in_dim(x, 0, 1, 1, 0), 0) for _ in range(axis.size)]
    here = lax.axis_index(rest)
    for (mine, yours), pairs in steps.items():
        moved = bind(prims.ppermute_p, lax.slice_in_dim(x, mine, mine + 1, 1, 0), perm=tuple(pairs),
                     axis_name=rest if len(rest) > 1 else rest[0])
        reached = np.zeros(math.prod(sizes) // axis.size, bool)
        reached[[there for _, there in pairs]] = True
        rows[yours] = lax.select(lax.dynamic_index_in_dim(reached, here, 0, keepdims=False), moved, rows[yours])
    return lax.concatenate(rows, 0)


def _apart(member: int, sizes: list[int], at: int) -> tuple[int, int]:
    """A member's index along axis `at`, and along the others together."""
    where = list(np.unravel_index(member, sizes))
    mine, left = where.pop(at), [n for i, n in enumerate(sizes) if i != at]
    return int(mine), int(np.ravel_multi_index(where, left))


_exchange(prims.all_gather_p, _shifted("all_gather_dimension"), _own_all_gather, _several_all_gather)
_exchange(prims.psum_scatter_p, _shifted("scatter_dimension"), _own_psum_scatter, _several_psum_scatter)
_exchange(prims.all_to_all_p, _shifted("concat_axis", "split_axis"), _own_all_to_all, _several_all_to_all)
_exchange(prims.ppermute_p, _shifted(), _own_ppermute, _several_ppermute)


def axis_index_batch(axis: BatchAxis, args: Any, dims: Any, *, axis_name: Any) -> Any:
    return lax.iota(np.dtype("int32"), axis.size), 0


batching_rules.define(prims.axis_index_p, axis_index_batch)
batching_rules.define(prims.xla_pmap_p, flow_row(prims.xla_pmap_p))
