"""Batching rules of collectives.

A collective over other axis names is applied to the batched operand. A collective over the name of the batch axis
treats the examples as members and becomes array operations. Over several names including that of the batch, members are
numbered in row-major order, the first name slowest; `rest` are the other names.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from lamina_ir import Primitive, prims, shaped
from lamina_ir.extend import as_axis_name, check_axis_names, split_axis_names
from lamina_ir.typing import AxisName, Function, ParamValue, Params, Value
from lamina_tracing import lax
from lamina_tracing.extend import bind, scalar, typeof

from ..extend import BatchAxis, materialise, move_axis
from ..tables import batching_rules
from .._typing import RuleResult

__all__: list[str] = []

Names = tuple[AxisName, ...]
Groups = tuple[tuple[int, ...], ...] | None  # `axis_index_groups`: member numbers of each group
Permutation = Sequence[tuple[int, int]]  # (source, destination) of each message


def _has_batch_name(axis: BatchAxis, names: Names) -> bool:
    return axis.name is not None and axis.name in names


def _check(prim: Primitive, args: Sequence[Value], dims: Sequence[int | None], params: Params) -> None:
    """Apply the type rule of the primitive to one example; the array operations would accept more types."""
    avals = [typeof(x) for x in args]
    prim.infer(*[a if d is None else shaped(a.shape[:d] + a.shape[d + 1:], a.dtype, a.weak_type) for a, d in zip(avals, dims)],
               **params)


def _take(x: Value, indices: Value) -> Value:
    """Take elements of axis 0 by index; `indices` is a constant or traced array of any shape."""
    s, at = typeof(x).shape, typeof(indices).shape
    if isinstance(indices, np.ndarray) and np.array_equal(indices, np.arange(s[0])):
        return x
    dims = prims.GatherDimensionNumbers(tuple(range(len(at), len(at) + len(s) - 1)), (0,), (0,))
    return lax.gather(x, lax.reshape(indices, (*at, 1)), dims, (1, *s[1:]), mode=prims.GatherScatterMode.PROMISE_IN_BOUNDS)


def _merge(x: Value, at: int, n: int = 2) -> Value:
    """Merge the `n` axes from `at` on into one."""
    s = typeof(x).shape
    return lax.reshape(x, (*s[:at], math.prod(s[at:at + n]), *s[at + n:]))


def _divide(x: Value, at: int, *sizes: int) -> Value:
    """Split axis `at` into axes of these sizes and the remaining factor, which comes last."""
    s = typeof(x).shape
    return lax.reshape(x, (*s[:at], *sizes, s[at] // math.prod(sizes), *s[at + 1:]))


# --- groups -------------------------------------------------------------------------------------------------------
class _Groups(NamedTuple):
    """`axis_index_groups`, seen from the batch axis.

    Tables have a row for each index along `rest` and a column for each example; `table` selects the row of this device.
    """

    groups: tuple[tuple[int, ...], ...]
    rest: Names
    members: np.ndarray  # [index along rest, example] -> member number

    @staticmethod
    def of(axis: BatchAxis, names: Names, groups: tuple[tuple[int, ...], ...]) -> _Groups:
        at, sizes = names.index(axis.name), [lax.axis_size(n) for n in names]
        members = np.moveaxis(np.arange(math.prod(sizes)).reshape(sizes), at, -1).reshape(-1, axis.size)
        return _Groups(groups, names[:at] + names[at + 1:], members)

    def table(self, entry: Callable[[int, int], int | list[int]]) -> Value:
        """Return `entry(group, position in group)` for each local example; a constant if there are no other names."""
        entries = {m: entry(g, k) for g, group in enumerate(self.groups) for k, m in enumerate(group)}
        rows = np.array([[entries[m] for m in row] for row in self.members.tolist()], np.int32)
        return lax.dynamic_index_in_dim(rows, lax.axis_index(self.rest), 0, False) if self.rest else rows[0]

    def all_members(self, x: Value) -> tuple[Value, Callable[[int], int]]:
        """Gather the `x` of all members; return it and a function from member number to index."""
        if self.rest:
            n = len(self.members)
            x = _merge(bind(prims.all_gather_p, x, all_gather_dimension=0, axis_index_groups=None, axis_size=n, tiled=False,
                            axis_name=as_axis_name(self.rest)), 0)
        index = np.argsort(self.members.reshape(-1))
        return x, lambda member: int(index[member])


# --- reductions ---------------------------------------------------------------------------------------------------
# Members that attain a max/min share its derivative equally. So a max/min is computed in one step over the batch, the
# other names and the positional axes (`positions`); a max of partial maxima would share it unequally. Sums are computed
# locally first, then over the other names.
_TOTAL: dict[Primitive, Callable[[Value, Sequence[int]], Value]] = {
    prims.psum_p: lax.reduce_sum, prims.pmax_p: lax.reduce_max, prims.pmin_p: lax.reduce_min}


def _totals(g: _Groups, prim: Primitive, x: Value, positions: tuple[int, ...] = ()) -> Value:
    """Reduce each group and stack the results at axis 0.

    The operand has the batch at axis 0; `positions` are counted without it.
    """
    total, shifted = _TOTAL[prim], lambda n: tuple(p + n for p in positions)
    if g.rest and prim is prims.psum_p:  # sum the local members of each group, then over the other names
        x = total(x, shifted(1)) if positions else x
        shape = (len(g.groups), *typeof(x).shape)
        inside = lax.eq(lax.broadcasted_iota(np.dtype("int32"), shape, 0),
                        lax.broadcast_in_dim(g.table(lambda group, _: group), shape, (1,)))
        each = lax.broadcast_in_dim(x, shape, tuple(range(1, len(shape))))
        return bind(prim, total(lax.select(inside, each, lax.full_like(each, 0)), (1,)), axes=g.rest, axis_index_groups=None)[0]
    gathered, at = g.all_members(x)
    members = [np.array([at(m) for m in group]) for group in g.groups]
    if len({len(r) for r in members}) == 1:
        return total(_divide(_take(gathered, np.concatenate(members)), 0, len(members)), (1, *shifted(2)))
    return lax.concatenate([lax.expand_dims(total(_take(gathered, r), (0, *shifted(1))), (0,)) for r in members], 0)


def _def_reduction(prim: Primitive, repeated: Callable[[Value, int], Value]) -> None:
    """Define the rule of psum, pmax or pmin; `repeated(x, n)` reduces n equal copies of x."""
    total = _TOTAL[prim]

    def reduce(xs: list[Value], names: Names, positions: tuple[int, ...], groups: Groups = None) -> list[Value]:
        if positions and (prim is prims.psum_p or not names):
            xs, positions = [total(x, positions) for x in xs], ()
        return list(bind(prim, *xs, axes=(*names, *positions), axis_index_groups=groups)) if names and xs else xs

    def reduce_separately(args: Sequence[Value], dims: Sequence[int | None], names: Names, positions: tuple[int, ...],
                          batched: tuple[int, ...], groups: Groups = None) -> list[Value]:
        """Reduce unbatched operands over `positions`, batched ones over `batched`, counted with the batch at axis 0."""
        shared = iter(reduce([x for x, d in zip(args, dims) if d is None], names, positions, groups))
        outs = iter(reduce([move_axis(x, d, 0) for x, d in zip(args, dims) if d is not None], names, batched, groups))
        return [next(shared if d is None else outs) for d in dims]

    def rule(axis: BatchAxis, args: Sequence[Value], dims: Sequence[int | None], *, axes: tuple[AxisName, ...],
             axis_index_groups: Groups) -> RuleResult:
        names, positions = split_axis_names(prim.name, axes)
        if not _has_batch_name(axis, names):
            if not positions:
                return bind(prim, *args, axes=names, axis_index_groups=axis_index_groups), dims
            outs = reduce_separately(args, dims, names, positions, tuple(p + 1 for p in positions), axis_index_groups)
            return outs, [None if d is None else 0 for d in dims]
        _check(prim, args, dims, dict(axes=axes, axis_index_groups=axis_index_groups))
        if axis_index_groups is not None:
            g = _Groups.of(axis, names, axis_index_groups)
            own_group = g.table(lambda group, _: group)
            outs = [_take(_totals(g, prim, materialise(x, d, axis.size), positions), own_group) for x, d in zip(args, dims)]
            return outs, [0] * len(args)
        rest = tuple(n for n in names if n != axis.name)
        args = [repeated(x, axis.size) if d is None else x for x, d in zip(args, dims)]  # one copy per example
        if not positions and (prim is prims.psum_p or not rest):  # no need to move the batch axis
            outs = reduce([x if d is None else total(x, (d,)) for x, d in zip(args, dims)], rest, ())
        else:
            outs = reduce_separately(args, dims, rest, positions, (0, *(p + 1 for p in positions)))
        return outs, [None] * len(args)

    batching_rules.define(prim, rule)


_def_reduction(prims.psum_p, lambda x, n: lax.mul(x, scalar(n, typeof(x).dtype)))
_def_reduction(prims.pmax_p, lambda x, n: x)
_def_reduction(prims.pmin_p, lambda x, n: x)


# --- all_gather, psum_scatter, all_to_all, ppermute ---------------------------------------------------------------
def _def_exchange(prim: Primitive, shifted: tuple[str, ...], own: Function, several: Function,
                  grouped: Function | None = None) -> None:
    """Define the rule of a collective with one operand, which gets the batch at axis 0.

    Args:
      prim: the primitive.
      shifted: names of the params that hold axes of the operand.
      own: `own(x, size, **params)` computes the collective over the batch name alone.
      several: `several(axis, along, x, names, **params)` computes it over several names; `along(name, x, **params)` is
        the collective over one of them.
      grouped: `grouped(g, x, **params)` computes it with `axis_index_groups`.
    """
    def outside(params: Params) -> Params:
        return {k: v + 1 if k in shifted else v for k, v in params.items()}

    def rule(axis: BatchAxis, args: Sequence[Value], dims: Sequence[int | None], *, axis_name: AxisName,
             **params: ParamValue) -> RuleResult:
        x, names = materialise(args[0], dims[0], axis.size), check_axis_names(prim.name, axis_name)
        if not _has_batch_name(axis, names):
            return bind(prim, x, axis_name=axis_name, **outside(params)), 0
        _check(prim, args, dims, dict(axis_name=axis_name, **params))
        if params.get("axis_index_groups") is not None:
            return grouped(_Groups.of(axis, names, params["axis_index_groups"]), x, **params), 0  # type: ignore[misc]
        if len(names) == 1:
            return own(x, axis.size, **params)

        def along(name: AxisName, x: Value, **params: ParamValue) -> Value:
            """Apply the collective over one of the names; the batch is at axis 0 of operand and result."""
            if name == axis.name:
                out, d = own(x, axis.size, **params)
                return materialise(out, d, axis.size)
            return bind(prim, x, axis_name=as_axis_name((name,)), axis_index_groups=None, axis_size=lax.axis_size((name,)),
                        **outside(params))

        return several(axis, along, x, names, **params)

    batching_rules.define(prim, rule)


def _others(axis: BatchAxis, names: Names) -> tuple[Names, list[int]]:
    """Return the names other than that of the batch, and their sizes."""
    rest = tuple([n for n in names if n != axis.name])
    return rest, [lax.axis_size((n,)) for n in rest]


def _own_all_gather(x: Value, size: int, *, all_gather_dimension: int, tiled: bool,
                    **_: ParamValue) -> tuple[Value, int | None]:
    x = move_axis(x, 0, all_gather_dimension)  # unbatched: all members get the same result
    return (_merge(x, all_gather_dimension) if tiled else x), None


def _several_all_gather(axis: BatchAxis, along: Function, x: Value, names: Names, *, all_gather_dimension: int,
                        tiled: bool, **_: ParamValue) -> tuple[Value, int | None]:
    rest, sizes = _others(axis, names)
    x = bind(prims.all_gather_p, x, all_gather_dimension=0, axis_index_groups=None, axis_name=as_axis_name(rest),
             axis_size=math.prod(sizes), tiled=False)
    x = lax.reshape(x, (*sizes, *typeof(x).shape[1:]))
    x = move_axis(x, len(rest), names.index(axis.name))  # [members along each name, ...]
    x = move_axis(_merge(x, 0, len(names)), 0, all_gather_dimension)
    return (_merge(x, all_gather_dimension) if tiled else x), None  # unbatched: all members get the same result


def _grouped_all_gather(g: _Groups, x: Value, *, all_gather_dimension: int, tiled: bool, **_: ParamValue) -> Value:
    gathered, at = g.all_members(x)
    x = _take(gathered, g.table(lambda group, _: [at(m) for m in g.groups[group]]))
    x = move_axis(x, 1, all_gather_dimension + 1)
    return _merge(x, all_gather_dimension + 1) if tiled else x


def _own_psum_scatter(x: Value, size: int, *, scatter_dimension: int, tiled: bool,
                      **_: ParamValue) -> tuple[Value, int | None]:
    total = lax.reduce_sum(x, (0,))
    return (_divide(total, scatter_dimension, size) if tiled else total), scatter_dimension


def _several_psum_scatter(axis: BatchAxis, along: Function, x: Value, names: Names, *, scatter_dimension: int,
                          tiled: bool, **_: ParamValue) -> tuple[Value, int | None]:
    # Sum the local examples first. Then each device gets the sums of its examples, and the scatter axis becomes the
    # batch.
    rest, sizes = _others(axis, names)
    x = _divide(lax.reduce_sum(x, (0,)), scatter_dimension, *[lax.axis_size((n,)) for n in names])
    x = _merge(move_axis(x, scatter_dimension + names.index(axis.name), 0), scatter_dimension + 1, len(rest))
    x = bind(prims.psum_scatter_p, x, axis_index_groups=None, axis_name=as_axis_name(rest), axis_size=math.prod(sizes),
             scatter_dimension=scatter_dimension + 1, tiled=False)
    return (x if tiled else lax.squeeze(x, (scatter_dimension + 1,))), 0


def _grouped_psum_scatter(g: _Groups, x: Value, *, scatter_dimension: int, tiled: bool, axis_size: int,
                          **_: ParamValue) -> Value:
    total = move_axis(_divide(_totals(g, prims.psum_p, x), scatter_dimension + 1, axis_size), scatter_dimension + 1, 1)
    x = _take(_merge(total, 0), g.table(lambda group, k: group * axis_size + k))
    return x if tiled else lax.squeeze(x, (scatter_dimension + 1,))


def _own_all_to_all(x: Value, size: int, *, concat_axis: int, split_axis: int, tiled: bool,
                    **_: ParamValue) -> tuple[Value, int | None]:
    if tiled:
        x = move_axis(_divide(x, split_axis + 1, size), split_axis + 1, 0)  # [to, from, ...]
        return _merge(move_axis(x, 1, concat_axis + 1), concat_axis + 1), 0
    # [from, ..., to, ...]: `to` becomes the batch, `from` goes to concat_axis
    return move_axis(move_axis(x, split_axis + 1, 0), 1, concat_axis + 1), 0


def _several_all_to_all(axis: BatchAxis, along: Function, x: Value, names: Names, *, concat_axis: int, split_axis: int,
                        tiled: bool, **_: ParamValue) -> tuple[Value, int | None]:
    split, concat = split_axis + 1, concat_axis + 1
    x = _divide(x, split, *[lax.axis_size((n,)) for n in names])
    for i, name in enumerate(names):  # in place: the axis of receivers becomes the axis of senders
        x = along(name, x, split_axis=split_axis + i, concat_axis=split_axis + i, tiled=False)
    x = _merge(x, split, len(names))  # [..., senders, remaining factor of the axis, ...]
    if tiled:
        return _merge(move_axis(x, split, concat), concat), 0
    return move_axis(lax.squeeze(x, (split + 1,)), split, concat), 0


def _grouped_all_to_all(g: _Groups, x: Value, *, concat_axis: int, split_axis: int, tiled: bool, axis_size: int,
                        **_: ParamValue) -> Value:
    gathered, at = g.all_members(_divide(x, split_axis + 1, axis_size))
    parts = _merge(move_axis(gathered, split_axis + 1, 1), 0)  # [member * axis_size + part, ...]
    x = _take(parts, g.table(lambda group, k: [at(m) * axis_size + k for m in g.groups[group]]))
    if tiled:
        return _merge(move_axis(x, 1, concat_axis + 1), concat_axis + 1)
    return move_axis(lax.squeeze(x, (split_axis + 2,)), 1, concat_axis + 1)


def _own_ppermute(x: Value, size: int, *, perm: Permutation) -> tuple[Value, int | None]:
    # Example b of the result is example a of x for each pair (a, b), and zero if nothing is sent to b.
    source = np.zeros(size, np.int32)
    reached = np.zeros(size, bool)
    for a, b in perm:
        source[b], reached[b] = a, True
    moved = _take(x, source)
    if reached.all():
        return moved, 0
    shape = typeof(moved).shape
    return lax.select(lax.broadcast_in_dim(reached, shape, (0,)), moved, lax.full_like(moved, 0)), 0


def _several_ppermute(axis: BatchAxis, along: Function, x: Value, names: Names, *,
                      perm: Permutation) -> tuple[Value, int | None]:
    at = names.index(axis.name)
    rest = names[:at] + names[at + 1:]
    sizes = [lax.axis_size((n,)) for n in names]
    # (source example, target example) -> [(source, target) along the rest]
    steps: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for pair in perm:
        (from_example, from_rest), (to_example, to_rest) = [_split_member(i, sizes, at) for i in pair]
        steps.setdefault((from_example, to_example), []).append((from_rest, to_rest))
    examples = [lax.full_like(lax.slice_in_dim(x, 0, 1, 1, 0), 0) for _ in range(axis.size)]
    here = lax.axis_index(rest)
    for (from_example, to_example), pairs in steps.items():
        moved = bind(prims.ppermute_p, lax.slice_in_dim(x, from_example, from_example + 1, 1, 0), perm=tuple(pairs),
                     axis_name=as_axis_name(rest))
        reached = np.zeros(math.prod(sizes) // axis.size, bool)
        reached[[to_rest for _, to_rest in pairs]] = True
        examples[to_example] = lax.select(lax.dynamic_index_in_dim(reached, here, 0, keepdims=False), moved,
                                          examples[to_example])
    return lax.concatenate(examples, 0), 0


def _split_member(member: int, sizes: list[int], at: int) -> tuple[int, int]:
    """Return the index of a member along axis `at`, and its row-major index along the other axes."""
    position = list(np.unravel_index(member, sizes))
    own, rest_sizes = position.pop(at), [n for i, n in enumerate(sizes) if i != at]
    return int(own), int(np.ravel_multi_index(position, rest_sizes))


_def_exchange(prims.all_gather_p, ("all_gather_dimension",), _own_all_gather, _several_all_gather, _grouped_all_gather)
_def_exchange(prims.psum_scatter_p, ("scatter_dimension",), _own_psum_scatter, _several_psum_scatter, _grouped_psum_scatter)
_def_exchange(prims.all_to_all_p, ("concat_axis", "split_axis"), _own_all_to_all, _several_all_to_all, _grouped_all_to_all)
_def_exchange(prims.ppermute_p, (), _own_ppermute, _several_ppermute)


# --- axis_index ---------------------------------------------------------------------------------------------------
def axis_index_batching(axis: BatchAxis, args: Sequence[Value], dims: Sequence[int | None], *,
                        axis_name: AxisName) -> tuple[Value, int]:
    own = lax.iota(np.dtype("int32"), axis.size)
    total: Any = None
    for name in check_axis_names("axis_index", axis_name):
        index = own if name == axis.name else bind(prims.axis_index_p, axis_name=as_axis_name((name,)))
        total = index if total is None else lax.add(lax.mul(total, np.int32(lax.axis_size((name,)))), index)
    return total, 0


batching_rules.define(prims.axis_index_p, axis_index_batching)
batching_rules.declare_missing(prims.xla_pmap_p, "its rule is defined by lamina_parallel; import that too")
