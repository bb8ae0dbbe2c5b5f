"""JVP rules of collectives.

A collective is a function from the operands of all members to the results of all members. Its derivative is that of
this function. Linear collectives need no rule here.
"""
from __future__ import annotations

from lamina_ir import dtypes, prims
from lamina_ir.extend import split_axis_names
from lamina_tracing import lax
from lamina_tracing.extend import bind, scalar, typeof

from .._engine.rule_tables import jvp_rules, def_zero_jvp

__all__: list[str] = []


def psum_jvp(primals, tangents, **params):
    # Linear in each operand; operands without a tangent are left out of the second sum.
    outs = bind(prims.psum_p, *primals, **params)
    active = [t for t in tangents if t is not None]
    sums = iter(bind(prims.psum_p, *active, **params) if active else ())
    return outs, [None if t is None else next(sums) for t in tangents]


def _make_minmax_jvp(prim):
    """For m = max or min of x over the members: dm = (sum of dx over the members with x = m) / (their number)."""
    def rule(primals, tangents, *, axes, axis_index_groups):
        params = dict(axes=axes, axis_index_groups=axis_index_groups)
        positions = split_axis_names(prim.name, axes)[1]
        outs = bind(prim, *primals, **params)
        douts: list = []
        for x, t, ans in zip(primals, tangents, outs, strict=True):
            if t is None:
                douts.append(None)
                continue
            shape, dtype = typeof(x).shape, typeof(x).dtype
            remaining = tuple([a for a in range(len(shape)) if a not in positions])
            if positions:
                ans = lax.broadcast_in_dim(ans, shape, remaining)
            # Weight 1 for elements equal to m. If no element equals m (see `_nearness`), weight by nearness to m. Both
            # counts come from one psum: an equal element counts as `unit`, others as their nearness, which is rounded
            # away next to a `unit`.
            equal, near = lax.eq(x, ans), _nearness(x, ans)
            if dtype.itemsize < 4:
                near = lax.convert_element_type(near, "float32")
            unit = _equal_count_unit(typeof(near).dtype)
            near = lax.select(equal, _like(near, unit), near)
            total, = bind(prims.psum_p, near, **params)
            none_equal = lax.lt(total, _like(total, unit))
            divisor = lax.select(none_equal, total, lax.mul(total, _like(total, 1 / unit)))
            none_equal = lax.broadcast_in_dim(none_equal, shape, remaining) if positions else none_equal
            weight = lax.select(none_equal, lax.convert_element_type(near, dtype), lax.convert_element_type(equal, dtype))
            # A psum of its own, not merged with the count: only this one is linear in the tangent.
            share, = bind(prims.psum_p, lax.mul(t, weight), **params)
            douts.append(lax.div(share, lax.convert_element_type(divisor, dtype)))
        return outs, douts
    return rule


def _like(x, value):
    """Return an array like `x` filled with `value`."""
    return lax.broadcast_in_dim(scalar(value, typeof(x).dtype), typeof(x).shape, ())


def _equal_count_unit(dtype):
    """Return the summand for an element equal to the max/min, in one sum with the nearness of other elements.

    It is so large that the sum of all nearness values is rounded away, and so small that the sum stays finite for as
    many members as a float can count.
    """
    return 2.0 ** (int(dtypes.finfo(dtype).maxexp) * 3 // 4)


def _nearness(x, ans):
    """Return the nearness of x to ans, from 0 (far) to 1 (equal), as a constant; 0 if ans is infinite.

    It is used if no element equals the max/min. A compiler may recompute x with another rounding, for example with a
    fused multiply-add. Then the recomputed x differs from the one that was reduced.
    """
    x, ans = lax.stop_gradient(x), lax.stop_gradient(ans)
    info = dtypes.finfo(typeof(x).dtype)
    unit = lax.add(lax.mul(lax.abs(ans), _like(ans, info.eps)), _like(ans, info.tiny))
    # Finite, and with a normal reciprocal, because XLA may multiply by the reciprocal instead of dividing.
    unit = lax.min(unit, _like(unit, 1 / float(info.tiny)))
    return lax.integer_pow(lax.add(lax.div(lax.abs(lax.sub(x, ans)), unit), _like(x, 1)), -4)


jvp_rules.define(prims.psum_p, psum_jvp)
jvp_rules.define(prims.pmax_p, _make_minmax_jvp(prims.pmax_p))
jvp_rules.define(prims.pmin_p, _make_minmax_jvp(prims.pmin_p))
def_zero_jvp(prims.axis_index_p)
jvp_rules.declare_missing(prims.xla_pmap_p, "its rule is defined by lamina_parallel; import that too")
