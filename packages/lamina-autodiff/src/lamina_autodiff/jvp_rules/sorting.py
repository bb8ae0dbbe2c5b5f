"""`sort`: find the reordering once, by sorting positions along, then reorder the tangents by it."""
from __future__ import annotations

from lamina_ir import prims
from lamina_ir.prims import GatherDimensionNumbers, GatherScatterMode
from lamina_tracing import lax
from lamina_tracing.extend import bind, typeof

from ..tables import jvp_rules

__all__: list[str] = []


def _take_along(x, places, axis):
    """x[..., places, ...] along one axis, all other axes going together."""
    ndim = len(typeof(x).shape)
    if 0 in typeof(x).shape:  # no place to gather from
        return lax.full(typeof(places).shape, 0, typeof(x).dtype)
    others = tuple(a for a in range(ndim) if a != axis)
    numbers = GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(axis,), start_index_map=(axis,),
                                     operand_batching_dims=others, start_indices_batching_dims=others)
    return bind(prims.gather_p, x, lax.expand_dims(places, (ndim,)), dimension_numbers=numbers,
                slice_sizes=(1,) * ndim, mode=GatherScatterMode.PROMISE_IN_BOUNDS, fill_value=None,
                indices_are_sorted=False, unique_indices=True)


def sort_jvp(primals, tangents, *, dimension, is_stable, num_keys):
    shape = typeof(primals[0]).shape
    if 0 in shape:  # nothing to reorder
        return bind(prims.sort_p, *primals, dimension=dimension, is_stable=is_stable, num_keys=num_keys), list(tangents)
    where = lax.broadcasted_iota("int32", shape, dimension)
    *outs, places = bind(prims.sort_p, *primals, where, dimension=dimension, is_stable=is_stable, num_keys=num_keys)
    return outs, [None if t is None else _take_along(t, places, dimension) for t in tangents]


def top_k_jvp(primals, tangents, *, axis, k):
    values, places = bind(prims.top_k_p, *primals, axis=axis, k=k)
    t = tangents[0]
    return [values, places], [None if t is None else _take_along(t, places, axis), None]


jvp_rules.define(prims.sort_p, sort_jvp)
jvp_rules.define(prims.top_k_p, top_k_jvp)
