"""Batching rows of the collectives. Over other names than the batch's own a collective is applied to the batch; over the
batch's name the examples are members, and it becomes array work.

Over several names, the batch's among them, members count row-major, the first name slowest. `rest` are the other names.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from lamina_ir import prims, shaped
from lamina_ir.extend import as_axis_name, axis_names, split_axes
from lamina_tracing import lax
from lamina_tracing.extend import bind, scalar, typeof

from ..extend import BatchAxis, materialise, move_to
from ..tables import batching_rules

__all__: list[str] = []

Names = tuple[Any, ...]


def _mine(axis: BatchAxis, names: Names) -> bool:
    return axis.name is not None and axis.name in names


def _check(prim: Any, args: Any, dims: Any, params: dict[str, Any]) -> None:
    """The op's own type rule, for one example: what becomes array work would take other types too."""
    avals = [typeof(x) for x in args]
    prim.infer(*[a if d is None else shaped(a.shape[:d] + a.shape[d + 1:], a.dtype, a.weak_type) for a, d in zip(avals, dims)],
               **params)


def _take(x: Any, rows: Any) -> Any:
    """Elements of axis 0 by number: `rows` are constants or a traced array, of any shape."""
    s, at = typeof(x).shape, typeof(rows).shape
    if isinstance(rows, np.ndarray) and np.array_equal(rows, np.arange(s[0])):
        return x
    dims = prims.GatherDimensionNumbers(tuple(range(len(at), len(at) + len(s) - 1)), (0,), (0,))
    return lax.gather(x, lax.reshape(rows, (*at, 1)), dims, (1, *s[1:]), mode=prims.GatherScatterMode.PROMISE_IN_BOUNDS)


def _merge(x: Any, at: int, n: int = 2) -> Any:
    """The `n` axes from `at` on as one."""
    s = typeof(x).shape
    return lax.reshape(x, (*s[:at], math.prod(s[at:at + n]), *s[at + n:]))


def _divide(x: Any, at: int, *sizes: int) -> Any:
    """Axis `at`, a multiple of the product of the sizes, as one axis for each and, last, what is left."""
    s = typeof(x).shape
    return lax.reshape(x, (*s[:at], *sizes, s[at] // math.prod(sizes), *s[at + 1:]))


# --- groups -------------------------------------------------------------------------------------------------------
class _Groups(NamedTuple):
    """Groups of members, from where an example stands. Tables have a row for each index along `rest` and a column for each
    example; `here` takes the row of this participant."""

    groups: tuple[tuple[int, ...], ...]
    rest: Names
    members: np.ndarray  # the member that an example is

    @staticmethod
    def of(axis: BatchAxis, names: Names, groups: Any) -> _Groups:
        at, sizes = names.index(axis.name), [lax.axis_size(n) for n in names]
        members = np.moveaxis(np.arange(math.prod(sizes)).reshape(sizes), at, -1).reshape(-1, axis.size)
        return _Groups(groups, names[:at] + names[at + 1:], members)

    def table(self, entry: Callable[[int, int], Any]) -> Any:
        """`entry(group, position in it)` of each example here: constants, where no other name is meant."""
        of = {m: entry(g, k) for g, group in enumerate(self.groups) for k, m in enumerate(group)}
        rows = np.array([[of[m] for m in row] for row in self.members.tolist()], np.int32)
        return lax.dynamic_index_in_dim(rows, lax.axis_index(self.rest), 0, False) if self.rest else rows[0]

    def all_members(self, x: Any) -> tuple[Any, Callable[[int], int]]:
        """Everybody's rows of `x`, and where a member's is among them."""
        if self.rest:
            n = len(self.members)
            x = _merge(bind(prims.all_gather_p, x, all_gather_dimension=0, axis_index_groups=None, axis_size=n, tiled=False,
                            axis_name=as_axis_name(self.rest)), 0)
        where = np.argsort(self.members.reshape(-1))
        return x, lambda member: int(where[member])


# --- reductions ---------------------------------------------------------------------------------------------------
# Equal extremes share a derivative equally, so an extreme is taken in one step, never of extremes: over the batch, the other
# names and axes of the operand (`positions`) together. Sums are taken where they are, then over the other names.
_TOTAL: dict[Any, Callable[[Any, Any], Any]] = {prims.psum_p: lax.reduce_sum, prims.pmax_p: lax.reduce_max,
                                                prims.pmin_p: lax.reduce_min}


def _totals(g: _Groups, prim: Any, x: Any, positions: tuple[int, ...] = ()) -> Any:
    """What each group gives, stacked at axis 0, of an operand with the batch at axis 0; `positions` count without it."""
    total, beyond = _TOTAL[prim], lambda n: tuple(p + n for p in positions)
    if g.rest and prim is prims.psum_p:  # what is here of each group, then what is elsewhere
        x = total(x, beyond(1)) if positions else x
        shape = (len(g.groups), *typeof(x).shape)
        inside = lax.eq(lax.broadcasted_iota(np.dtype("int32"), shape, 0),
                        lax.broadcast_in_dim(g.table(lambda group, _: group), shape, (1,)))
        each = lax.broadcast_in_dim(x, shape, tuple(range(1, len(shape))))
        return bind(prim, total(lax.select(inside, each, lax.full_like(each, 0)), (1,)), axes=g.rest, axis_index_groups=None)[0]
    everybody, at = g.all_members(x)
    rows = [np.array([at(m) for m in group]) for group in g.groups]
    if len({len(r) for r in rows}) == 1:
        return total(_divide(_take(everybody, np.concatenate(rows)), 0, len(rows)), (1, *beyond(2)))
    return lax.concatenate([lax.expand_dims(total(_take(everybody, r), (0, *beyond(1))), (0,)) for r in rows], 0)


def _reduction(prim: Any, repeated: Callable[[Any, int], Any]) -> None:
    total = _TOTAL[prim]

    def reduced(xs: list[Any], names: Names, positions: tuple[int, ...], groups: Any = None) -> list[Any]:
        if positions and (prim is prims.psum_p or not names):
            xs, positions = [total(x, positions) for x in xs], ()
        return list(bind(prim, *xs, axes=(*names, *positions), axis_index_groups=groups)) if names and xs else xs

    def apart(args: Any, dims: Any, names: Names, positions: tuple[int, ...], batched: tuple[int, ...],
              groups: Any = None) -> list[Any]:
        """What all share over `positions`, the others over `batched`, which count with the batch at axis 0."""
        alike = iter(reduced([x for x, d in zip(args, dims) if d is None], names, positions, groups))
        outs = iter(reduced([move_to(x, d, 0) for x, d in zip(args, dims) if d is not None], names, batched, groups))
        return [next(alike if d is None else outs) for d in dims]

    def rule(axis: BatchAxis, args: Any, dims: Any, *, axes: Any, axis_index_groups: Any) -> Any:
        names, positions = split_axes(prim.name, axes)
        if not _mine(axis, names):
            if not positions:
                return bind(prim, *args, axes=names, axis_index_groups=axis_index_groups), dims
            outs = apart(args, dims, names, positions, tuple(p + 1 for p in positions), axis_index_groups)
            return outs, [None if d is None else 0 for d in dims]
        _check(prim, args, dims, dict(axes=axes, axis_index_groups=axis_index_groups))
        if axis_index_groups is not None:
            g = _Groups.of(axis, names, axis_index_groups)
            mine = g.table(lambda group, _: group)
            outs = [_take(_totals(g, prim, materialise(x, d, axis.size), positions), mine) for x, d in zip(args, dims)]
            return outs, [0] * len(args)
        rest = tuple(n for n in names if n != axis.name)
        args = [repeated(x, axis.size) if d is None else x for x, d in zip(args, dims)]  # as that many copies of it
        if not positions and (prim is prims.psum_p or not rest):  # the batch may lie anywhere
            outs = reduced([x if d is None else total(x, (d,)) for x, d in zip(args, dims)], rest, ())
        else:
            outs = apart(args, dims, rest, positions, (0, *(p + 1 for p in positions)))
        return outs, [None] * len(args)

    batching_rules.define(prim, rule)


_reduction(prims.psum_p, lambda x, n: lax.mul(x, scalar(n, typeof(x).dtype)))
_reduction(prims.pmax_p, lambda x, n: x)
_reduction(prims.pmin_p, lambda x, n: x)


# --- all_gather, psum_scatter, all_to_all, ppermute ---------------------------------------------------------------
def _exchange(prim: Any, shifted: tuple[str, ...], own: Callable[..., Any], several: Callable[..., Any],
              grouped: Callable[..., Any] | None = None) -> None:
    """A row for an op with one operand, the batch at axis 0. `shifted` are the params that say axes of the operand.
    `own(x, size, **params)` does the work over the batch's name alone, `several(axis, along, x, names, **params)` over several
    names by `along(name, x, **params)`, the op over one of them, and `grouped(g, x, **params)` in groups."""
    def outside(params: dict[str, Any]) -> dict[str, Any]:
        return {k: v + 1 if k in shifted else v for k, v in params.items()}

    def rule(axis: BatchAxis, args: Any, dims: Any, *, axis_name: Any, **params: Any) -> Any:
        x, names = materialise(args[0], dims[0], axis.size), axis_names(prim.name, axis_name)
        if not _mine(axis, names):
            return bind(prim, x, axis_name=axis_name, **outside(params)), 0
        _check(prim, args, dims, dict(axis_name=axis_name, **params))
        if params.get("axis_index_groups") is not None:
            return grouped(_Groups.of(axis, names, params["axis_index_groups"]), x, **params), 0  # type: ignore[misc]
        if len(names) == 1:
            return own(x, axis.size, **params)

        def along(name: Any, x: Any, **params: Any) -> Any:
            """The op over one of the names alone, on a batch at axis 0 and to one."""
            if name == axis.name:
                out, d = own(x, axis.size, **params)
                return materialise(out, d, axis.size)
            return bind(prim, x, axis_name=as_axis_name((name,)), axis_index_groups=None, axis_size=lax.axis_size((name,)),
                        **outside(params))

        return several(axis, along, x, names, **params)

    batching_rules.define(prim, rule)


def _others(axis: BatchAxis, names: Names) -> tuple[Names, list[int]]:
    """The names but the batch's, and their sizes."""
    rest = tuple([n for n in names if n != axis.name])
    return rest, [lax.axis_size((n,)) for n in rest]


def _own_all_gather(x: Any, size: int, *, all_gather_dimension: int, tiled: bool, **_: Any) -> Any:
    whole = move_to(x, 0, all_gather_dimension)  # no batch any more: all members hold the whole
    return (_merge(whole, all_gather_dimension) if tiled else whole), None


def _several_all_gather(axis: BatchAxis, along: Any, x: Any, names: Names, *, all_gather_dimension: int, tiled: bool,
                        **_: Any) -> Any:
    rest, sizes = _others(axis, names)
    x = bind(prims.all_gather_p, x, all_gather_dimension=0, axis_index_groups=None, axis_name=as_axis_name(rest),
             axis_size=math.prod(sizes), tiled=False)
    x = lax.reshape(x, (*sizes, *typeof(x).shape[1:]))
    x = move_to(x, len(rest), names.index(axis.name))  # [members along each name, ...]
    x = move_to(_merge(x, 0, len(names)), 0, all_gather_dimension)
    return (_merge(x, all_gather_dimension) if tiled else x), None  # all members hold the whole


def _grouped_all_gather(g: _Groups, x: Any, *, all_gather_dimension: int, tiled: bool, **_: Any) -> Any:
    everybody, at = g.all_members(x)
    x = _take(everybody, g.table(lambda group, _: [at(m) for m in g.groups[group]]))
    x = move_to(x, 1, all_gather_dimension + 1)
    return _merge(x, all_gather_dimension + 1) if tiled else x


def _own_psum_scatter(x: Any, size: int, *, scatter_dimension: int, tiled: bool, **_: Any) -> Any:
    total = lax.reduce_sum(x, (0,))
    return (_divide(total, scatter_dimension, size) if tiled else total), scatter_dimension


def _several_psum_scatter(axis: BatchAxis, along: Any, x: Any, names: Names, *, scatter_dimension: int, tiled: bool,
                          **_: Any) -> Any:
    # What is here is summed first; then each gets the sums of its batch, which become one.
    rest, sizes = _others(axis, names)
    x = _divide(lax.reduce_sum(x, (0,)), scatter_dimension, *[lax.axis_size((n,)) for n in names])
    x = _merge(move_to(x, scatter_dimension + names.index(axis.name), 0), scatter_dimension + 1, len(rest))
    x = bind(prims.psum_scatter_p, x, axis_index_groups=None, axis_name=as_axis_name(rest), axis_size=math.prod(sizes),
             scatter_dimension=scatter_dimension + 1, tiled=False)
    return (x if tiled else lax.squeeze(x, (scatter_dimension + 1,))), 0


def _grouped_psum_scatter(g: _Groups, x: Any, *, scatter_dimension: int, tiled: bool, axis_size: int, **_: Any) -> Any:
    total = move_to(_divide(_totals(g, prims.psum_p, x), scatter_dimension + 1, axis_size), scatter_dimension + 1, 1)
    x = _take(_merge(total, 0), g.table(lambda group, k: group * axis_size + k))
    return x if tiled else lax.squeeze(x, (scatter_dimension + 1,))


def _own_all_to_all(x: Any, size: int, *, concat_axis: int, split_axis: int, tiled: bool, **_: Any) -> Any:
    if tiled:
        x = move_to(_divide(x, split_axis + 1, size), split_axis + 1, 0)  # [to, from, ...]
        return _merge(move_to(x, 1, concat_axis + 1), concat_axis + 1), 0
    # [from, ..., to, ...]: `to` becomes the batch, `from` goes to concat_axis
    return move_to(move_to(x, split_axis + 1, 0), 1, concat_axis + 1), 0


def _several_all_to_all(axis: BatchAxis, along: Any, x: Any, names: Names, *, concat_axis: int, split_axis: int, tiled: bool,
                        **_: Any) -> Any:
    split, concat = split_axis + 1, concat_axis + 1
    x = _divide(x, split, *[lax.axis_size((n,)) for n in names])
    for i, name in enumerate(names):  # each in its place: where the receiver's index stood stands the sender's
        x = along(name, x, split_axis=split_axis + i, concat_axis=split_axis + i, tiled=False)
    x = _merge(x, split, len(names))  # [..., senders, what is left of the axis, ...]
    if tiled:
        return _merge(move_to(x, split, concat), concat), 0
    return move_to(lax.squeeze(x, (split + 1,)), split, concat), 0


def _grouped_all_to_all(g: _Groups, x: Any, *, concat_axis: int, split_axis: int, tiled: bool, axis_size: int, **_: Any) -> Any:
    everybody, at = g.all_members(_divide(x, split_axis + 1, axis_size))
    parts = _merge(move_to(everybody, split_axis + 1, 1), 0)  # of each member, part after part
    x = _take(parts, g.table(lambda group, k: [at(m) * axis_size + k for m in g.groups[group]]))
    if tiled:
        return _merge(move_to(x, 1, concat_axis + 1), concat_axis + 1)
    return move_to(lax.squeeze(x, (split_axis + 2,)), 1, concat_axis + 1)


def _own_ppermute(x: Any, size: int, *, perm: Any) -> Any:
    # Row b of the result is row a of x for each pair (a, b), and zero where nothing is sent to b.
    source = np.zeros(size, np.int32)
    reached = np.zeros(size, bool)
    for a, b in perm:
        source[b], reached[b] = a, True
    moved = _take(x, source)
    if reached.all():
        return moved, 0
    shape = typeof(moved).shape
    return lax.select(lax.broadcast_in_dim(reached, shape, (0,)), moved, lax.full_like(moved, 0)), 0


def _several_ppermute(axis: BatchAxis, along: Any, x: Any, names: Names, *, perm: Any) -> Any:
    at = names.index(axis.name)
    rest = names[:at] + names[at + 1:]
    sizes = [lax.axis_size((n,)) for n in names]
    steps: dict[tuple[int, int], list[tuple[int, int]]] = {}  # from example to example: from member to member of the rest
    for pair in perm:
        (mine, left), (yours, there) = [_apart(i, sizes, at) for i in pair]
        steps.setdefault((mine, yours), []).append((left, there))
    rows = [lax.full_like(lax.slice_in_dim(x, 0, 1, 1, 0), 0) for _ in range(axis.size)]
    here = lax.axis_index(rest)
    for (mine, yours), pairs in steps.items():
        moved = bind(prims.ppermute_p, lax.slice_in_dim(x, mine, mine + 1, 1, 0), perm=tuple(pairs),
                     axis_name=as_axis_name(rest))
        reached = np.zeros(math.prod(sizes) // axis.size, bool)
        reached[[there for _, there in pairs]] = True
        rows[yours] = lax.select(lax.dynamic_index_in_dim(reached, here, 0, keepdims=False), moved, rows[yours])
    return lax.concatenate(rows, 0), 0


def _apart(member: int, sizes: list[int], at: int) -> tuple[int, int]:
    """A member's index along axis `at`, and along the others together."""
    where = list(np.unravel_index(member, sizes))
    mine, left = where.pop(at), [n for i, n in enumerate(sizes) if i != at]
    return int(mine), int(np.ravel_multi_index(where, left))


_exchange(prims.all_gather_p, ("all_gather_dimension",), _own_all_gather, _several_all_gather, _grouped_all_gather)
_exchange(prims.psum_scatter_p, ("scatter_dimension",), _own_psum_scatter, _several_psum_scatter, _grouped_psum_scatter)
_exchange(prims.all_to_all_p, ("concat_axis", "split_axis"), _own_all_to_all, _several_all_to_all, _grouped_all_to_all)
_exchange(prims.ppermute_p, (), _own_ppermute, _several_ppermute)


# --- axis_index ---------------------------------------------------------------------------------------------------
def axis_index_batching(axis: BatchAxis, args: Any, dims: Any, *, axis_name: Any) -> Any:
    own = lax.iota(np.dtype("int32"), axis.size)
    total: Any = None
    for name in axis_names("axis_index", axis_name):
        index = own if name == axis.name else bind(prims.axis_index_p, axis_name=as_axis_name((name,)))
        total = index if total is None else lax.add(lax.mul(total, np.int32(lax.axis_size((name,)))), index)
    return total, 0


batching_rules.define(prims.axis_index_p, axis_index_batching)
batching_rules.hole(prims.xla_pmap_p, "its row comes with lamina_parallel; import that too")
