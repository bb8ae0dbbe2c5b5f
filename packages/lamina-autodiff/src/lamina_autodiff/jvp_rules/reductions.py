"""JVP rules of nonlinear reductions. For max and min, equal elements share the derivative equally."""
from __future__ import annotations

from lamina_ir import prims
from lamina_tracing import lax
from lamina_tracing.extend import bind, one_like, typeof

from .._engine.rule_tables import declare_missing, jvp_rules, def_zero_jvp

__all__: list[str] = []

def_zero_jvp(prims.argmax_p, prims.argmin_p, prims.reduce_and_p, prims.reduce_or_p, prims.reduce_xor_p)
declare_missing(prims.reduce_p, "its computation is opaque; write it with lax.reduce_sum, reduce_max, reduce_prod or "
                "lax.associative_scan")


def _remaining_axes(ndim, axes):
    return tuple([a for a in range(ndim) if a not in axes])


def _mark(x, top):
    """Return 1 where x equals top, else 0, in the dtype of x."""
    return lax.convert_element_type(lax.eq(x, top), typeof(x).dtype)


def _make_minmax_jvp(prim):
    """d = (sum of t over the elements equal to the max/min) / (their number)."""
    def rule(primals, tangents, *, axes):
        (x,), (t,) = primals, tangents
        ans = bind(prim, x, axes=axes)
        shape = typeof(x).shape
        if 0 in shape:  # the max/min of no elements is a constant
            return ans, None
        is_top = _mark(x, lax.broadcast_in_dim(ans, shape, _remaining_axes(len(shape), axes)))
        share = lax.div(one_like(ans), lax.reduce_sum(is_top, axes))
        return ans, lax.mul(lax.reduce_sum(lax.mul(t, is_top), axes), share)
    return rule


def reduce_prod_jvp(primals, tangents, *, axes):
    """d = sum_i t_i prod_{j != i} x_j.

    The product of the others is that of the elements before i times that of the elements after i, both from cumulative
    products. No division by x_i is needed, so zeros are handled.
    """
    (x,), (t,) = primals, tangents
    ans = bind(prims.reduce_prod_p, x, axes=axes)
    if not axes:
        return ans, t
    shape = typeof(x).shape
    remaining = _remaining_axes(len(shape), axes)
    n = 1
    for a in axes:
        n *= shape[a]
    flat = (*[shape[a] for a in remaining], n)
    xs = lax.reshape(lax.transpose(x, remaining + tuple(axes)), flat)
    last = len(remaining)
    around = ((0, 0, 0),) * last
    one = one_like(x)
    before = lax.pad(lax.cumprod(xs, last), one, (*around, (1, -1, 0)))
    after = lax.pad(lax.cumprod(xs, last, reverse=True), one, (*around, (-1, 1, 0)))
    ts = lax.reshape(lax.transpose(t, remaining + tuple(axes)), flat)
    return ans, lax.reduce_sum(lax.mul(ts, lax.mul(before, after)), (last,))


def cumprod_jvp(primals, tangents, *, axis, reverse):
    """Scan pairs (product, tangent) with the product rule (a, s) * (b, t) = (a b, s b + a t), which is associative."""
    (x,), (t,) = primals, tangents

    def product(left, right):
        (a, s), (b, t) = left, right
        return lax.mul(a, b), lax.add(lax.mul(s, b), lax.mul(t, a))

    ans = bind(prims.cumprod_p, x, axis=axis, reverse=reverse)
    return ans, lax.associative_scan(product, (x, t), reverse=reverse, axis=axis)[1]


def _make_cumulative_minmax_jvp(prim, pick):
    """Scan triples (max/min, sum of the tangents of equal elements, their number); the derivative is sum / number."""
    def rule(primals, tangents, *, axis, reverse):
        (x,), (t,) = primals, tangents

        def combine(left, right):
            (a, s, m), (b, t, n) = left, right
            top = pick(a, b)
            is_left, is_right = _mark(a, top), _mark(b, top)
            return (top, lax.add(lax.mul(s, is_left), lax.mul(t, is_right)),
                    lax.add(lax.mul(m, is_left), lax.mul(n, is_right)))

        once = lax.full_like(x, 1)
        _, total, count = lax.associative_scan(combine, (x, t, once), reverse=reverse, axis=axis)
        return bind(prim, x, axis=axis, reverse=reverse), lax.mul(total, lax.div(one_like(x), count))
    return rule


jvp_rules.define(prims.reduce_max_p, _make_minmax_jvp(prims.reduce_max_p))
jvp_rules.define(prims.reduce_min_p, _make_minmax_jvp(prims.reduce_min_p))
jvp_rules.define(prims.reduce_prod_p, reduce_prod_jvp)
jvp_rules.define(prims.cumprod_p, cumprod_jvp)
jvp_rules.define(prims.cummax_p, _make_cumulative_minmax_jvp(prims.cummax_p, lax.max))
jvp_rules.define(prims.cummin_p, _make_cumulative_minmax_jvp(prims.cummin_p, lax.min))
