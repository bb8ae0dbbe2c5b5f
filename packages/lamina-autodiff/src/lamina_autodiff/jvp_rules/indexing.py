"""JVP rules of indexing primitives. Dynamic slices and `scatter_add` are linear and need no rule here.

`gather` is linear except for its fill value. In the scatter family, several updates may hit one element. The rules
determine which update was written (`scatter`), the product of the other factors (`scatter_mul`), or which operands
attain the max/min (`scatter_min`, `scatter_max`), and pass tangents accordingly.
"""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from lamina_ir import Primitive, prims
from lamina_ir.prims import GatherDimensionNumbers, GatherScatterMode
from lamina_ir.typing import Function, Params, ParamValue, Value
from lamina_tracing import lax
from lamina_tracing.extend import bind, typeof

from .._engine.rule_tables import jvp_rules
from .._typing import RuleResult, Tangent

__all__: list[str] = []


def _zeros(like: Value) -> Value:
    aval = typeof(like)
    zero = np.zeros((), aval.dtype)[()]
    return lax.broadcast_in_dim(zero, aval.shape, ()) if aval.shape else zero


def _sum(a: Tangent, b: Tangent) -> Tangent:
    return b if a is None else a if b is None else lax.add(a, b)


def _read(x: Value, indices: Value, updates: Value, fill: Value, p: Params) -> Value:
    """Gather from `x` at the position of each element of `updates`; `fill` if the position is out of bounds."""
    if 0 in typeof(x).shape:
        value, shape = np.asarray(fill, typeof(x).dtype)[()], typeof(updates).shape
        return lax.broadcast_in_dim(value, shape, ()) if shape else value
    window, inserted, index_map, x_batch, i_batch = p["dimension_numbers"]
    lengths = iter([typeof(updates).shape[a] for a in window])
    removed = inserted + x_batch
    sizes = tuple(1 if a in removed else next(lengths) for a in range(len(typeof(x).shape)))
    mode = p["mode"]
    return bind(prims.gather_p, x, indices, slice_sizes=sizes, mode=mode,
                dimension_numbers=GatherDimensionNumbers(window, inserted, index_map, x_batch, i_batch),
                fill_value=fill if mode is GatherScatterMode.FILL_OR_DROP else None,
                indices_are_sorted=p["indices_are_sorted"], unique_indices=p["unique_indices"])


def gather_jvp(primals: Sequence[Value], tangents: Sequence[Tangent], **p: ParamValue) -> RuleResult:
    x, indices = primals
    t = tangents[0]
    out = bind(prims.gather_p, x, indices, **p)
    if t is None:
        return out, None
    if p["mode"] is GatherScatterMode.FILL_OR_DROP:
        p = {**p, "fill_value": 0}  # the fill value is a constant: its tangent is 0
    return out, bind(prims.gather_p, t, indices, **p)


def scatter_jvp(primals: Sequence[Value], tangents: Sequence[Tangent], **p: ParamValue) -> RuleResult:
    x, indices, u = primals
    tx, _, tu = tangents
    if tx is None and tu is None:
        return bind(prims.scatter_p, x, indices, u, **p), None
    if p["unique_indices"] or tu is None:
        out = bind(prims.scatter_p, x, indices, u, **p)
        tx, tu = _zeros(x) if tx is None else tx, _zeros(u) if tu is None else tu
        return out, bind(prims.scatter_p, tx, indices, tu, **p)
    # If several updates hit one element, the backend chooses which one is written. Scatter the numbers 1, 2, ... of the
    # updates instead: each element then holds the number of its update, or 0. Primal and tangent are both computed from
    # this choice, so that they agree.
    shape = typeof(u).shape
    numbers = lax.reshape(lax.add(lax.iota(np.dtype("int32"), int(np.prod(shape))), 1), shape)
    winner = bind(prims.scatter_p, lax.broadcast_in_dim(np.int32(0), typeof(x).shape, ()), indices, numbers, **p)
    untouched = lax.eq(winner, np.int32(0))
    was_written = lax.eq(_read(winner, indices, numbers, 0, p), numbers)

    def place(base: Value, updates: Value) -> Value:
        base = _zeros(x) if base is None else lax.select(untouched, base, _zeros(x))
        return bind(prims.scatter_add_p, base, indices, lax.select(was_written, updates, _zeros(u)), **p)

    return place(x, u), place(tx, tu)


def scatter_mul_jvp(primals: Sequence[Value], tangents: Sequence[Tangent], **p: ParamValue) -> RuleResult:
    """For y = x prod_i u_i: dy = dx prod_i u_i + sum_i du_i x prod_{j != i} u_j."""
    x, indices, u = primals
    tx, _, tu = tangents
    out = bind(prims.scatter_mul_p, x, indices, u, **p)
    t = None if tx is None else bind(prims.scatter_mul_p, tx, indices, u, **p)
    if tu is None:
        return out, t
    if p["unique_indices"]:
        others = _read(x, indices, u, 0, p)
    else:
        # The product of the other factors: divide y by u. If u is zero, take the product without the zero factors
        # instead; it is zero if another factor of the same element is zero too.
        zero, one = np.zeros((), typeof(u).dtype)[()], np.ones((), typeof(u).dtype)[()]
        is_zero = lax.eq(u, zero)
        safe = lax.select(is_zero, lax.broadcast_in_dim(one, typeof(u).shape, ()), u)
        nonzero_product = _read(bind(prims.scatter_mul_p, x, indices, safe, **p), indices, u, 0, p)
        is_zero_int = lax.convert_element_type(is_zero, np.dtype("int32"))
        no_zeros = lax.broadcast_in_dim(np.int32(0), typeof(x).shape, ())
        zero_count = _read(bind(prims.scatter_add_p, no_zeros, indices, is_zero_int, **p), indices, u, 0, p)
        others_nonzero = lax.eq(zero_count, is_zero_int)  # no zero among the other factors
        others = lax.select(others_nonzero, lax.div(nonzero_product, safe), _zeros(u))
    return out, bind(prims.scatter_add_p, _zeros(x) if t is None else t, indices, lax.mul(tu, others), **p)


def _make_scatter_minmax_jvp(prim: Primitive) -> Function:
    """Return a rule that divides the derivative equally among the operands that attain the max/min."""
    def jvp(primals: Sequence[Value], tangents: Sequence[Tangent], **p: ParamValue) -> RuleResult:
        x, indices, u = primals
        tx, _, tu = tangents
        out = bind(prim, x, indices, u, **p)
        if tx is None and tu is None:
            return out, None
        dtype = typeof(x).dtype
        x_is = lax.convert_element_type(lax.eq(x, out), dtype)
        u_is = lax.convert_element_type(lax.eq(u, _read(out, indices, u, 0, p)), dtype)
        count = bind(prims.scatter_add_p, x_is, indices, u_is, **p)  # number of operands equal to the max/min
        t = _zeros(x) if tx is None else lax.mul(tx, lax.div(x_is, count))
        if tu is not None:
            weight = lax.div(u_is, _read(count, indices, u, 1, p))
            t = bind(prims.scatter_add_p, t, indices, lax.mul(tu, weight), **p)
        return out, t
    return jvp


jvp_rules.define(prims.gather_p, gather_jvp)
jvp_rules.define(prims.scatter_p, scatter_jvp)
jvp_rules.define(prims.scatter_mul_p, scatter_mul_jvp)
jvp_rules.define(prims.scatter_min_p, _make_scatter_minmax_jvp(prims.scatter_min_p))
jvp_rules.define(prims.scatter_max_p, _make_scatter_minmax_jvp(prims.scatter_max_p))
