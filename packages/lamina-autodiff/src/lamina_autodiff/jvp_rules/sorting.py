"""JVP rules of `sort` and `top_k`: sort positions along with the values, then gather the tangents there."""
from __future__ import annotations

from lamina_ir import prims
from lamina_ir.prims import GatherDimensionNumbers, GatherScatterMode
from lamina_tracing import lax
from lamina_tracing.extend import bind, typeof

from .._engine.rule_tables import jvp_rules

__all__: list[str] = []


def _take_along(x, positions, axis):
    """Take elements of x along one axis at the positions; the other axes are batch axes."""
    ndim = len(typeof(x).shape)
    if 0 in typeof(x).shape:  # nothing to gather from
        return lax.full(typeof(positions).shape, 0, typeof(x).dtype)
    others = tuple(a for a in range(ndim) if a != axis)
    numbers = GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(axis,), start_index_map=(axis,),
                                     operand_batching_dims=others, start_indices_batching_dims=others)
    return bind(prims.gather_p, x, lax.expand_dims(positions, (ndim,)), dimension_numbers=numbers,
                slice_sizes=(1,) * ndim, mode=GatherScatterMode.PROMISE_IN_BOUNDS, fill_value=None,
                indices_are_sorted=False, unique_indices=True)


def sort_jvp(primals, tangents, *, dimension, is_stable, num_keys):
    shape = typeof(primals[0]).shape
    if 0 in shape:  # nothing to reorder
        return bind(prims.sort_p, *primals, dimension=dimension, is_stable=is_stable, num_keys=num_keys), list(tangents)
    iota = lax.broadcasted_iota("int32", shape, dimension)
    *outs, positions = bind(prims.sort_p, *primals, iota, dimension=dimension, is_stable=is_stable, num_keys=num_keys)
    return outs, [None if t is None else _take_along(t, positions, dimension) for t in tangents]


def top_k_jvp(primals, tangents, *, axis, k):
    values, positions = bind(prims.top_k_p, *primals, axis=axis, k=k)
    t = tangents[0]
    return [values, positions], [None if t is None else _take_along(t, positions, axis), None]


jvp_rules.define(prims.sort_p, sort_jvp)
jvp_rules.define(prims.top_k_p, top_k_jvp)
