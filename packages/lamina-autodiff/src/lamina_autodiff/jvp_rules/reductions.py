"""Reductions that are not linear. Extremes: equal ones share the derivative equally."""
from __future__ import annotations

from lamina_ir import prims
from lamina_tracing import lax
from lamina_tracing.extend import bind, one_like, typeof

from ..tables import hole, jvp_rules, zero_jvp

__all__: list[str] = []

zero_jvp(prims.argmax_p, prims.argmin_p, prims.reduce_and_p, prims.reduce_or_p, prims.reduce_xor_p)
hole(prims.reduce_p, "its computation is opaque; write it with lax.reduce_sum, reduce_max, reduce_prod or "
                     "lax.associative_scan")


def _kept(ndim, axes):
    return tuple([a for a in range(ndim) if a not in axes])


def _mark(x, top):
    """1 where x equals top, else 0, in the dtype of x."""
    return lax.convert_element_type(lax.eq(x, top), typeof(x).dtype)


def _extreme_jvp(prim):
    """d = sum(t at the extremes) / (number of extremes)."""
    def rule(primals, tangents, *, axes):
        (x,), (t,) = primals, tangents
        ans = bind(prim, x, axes=axes)
        shape = typeof(x).shape
        if 0 in shape:  # the extreme of nothing is a constant
            return ans, None
        here = _mark(x, lax.broadcast_in_dim(ans, shape, _kept(len(shape), axes)))
        share = lax.div(one_like(ans), lax.reduce_sum(here, axes))
        return ans, lax.mul(lax.reduce_sum(lax.mul(t, here), axes), share)
    return rule


def reduce_prod_jvp(primals, tangents, *, axes):
    """d = sum_i t_i prod_{j != i} x_j, the products made of running ones from both ends, so zeros do no harm."""
    (x,), (t,) = primals, tangents
    ans = bind(prims.reduce_prod_p, x, axes=axes)
    if not axes:
        return ans, t
    shape = typeof(x).shape
    kept = _kept(len(shape), axes)
    n = 1
    for a in axes:
        n *= shape[a]
    flat = (*[shape[a] for a in kept], n)
    row = lax.reshape(lax.transpose(x, kept + tuple(axes)), flat)
    last = len(kept)
    around = ((0, 0, 0),) * last
    one = one_like(x)
    before = lax.pad(lax.cumprod(row, last), one, (*around, (1, -1, 0)))
    after = lax.pad(lax.cumprod(row, last, reverse=True), one, (*around, (-1, 1, 0)))
    t_row = lax.reshape(lax.transpose(t, kept + tuple(axes)), flat)
    return ans, lax.reduce_sum(lax.mul(t_row, lax.mul(before, after)), (last,))


def cumprod_jvp(primals, tangents, *, axis, reverse):
    """A scan of pairs (product, its tangent) under (a, s) * (b, t) = (a b, s b + a t)."""
    (x,), (t,) = primals, tangents

    def product(left, right):
        (a, s), (b, t) = left, right
        return lax.mul(a, b), lax.add(lax.mul(s, b), lax.mul(t, a))

    ans = bind(prims.cumprod_p, x, axis=axis, reverse=reverse)
    return ans, lax.associative_scan(product, (x, t), reverse=reverse, axis=axis)[1]


def _cumulative_extreme_jvp(prim, pick):
    """A scan of triples (extreme, sum of the tangents at it, how often it came)."""
    def rule(primals, tangents, *, axis, reverse):
        (x,), (t,) = primals, tangents

        def combine(left, right):
            (a, s, m), (b, t, n) = left, right
            top = pick(a, b)
            here, there = _mark(a, top), _mark(b, top)
            return (top, lax.add(lax.mul(s, here), lax.mul(t, there)),
                    lax.add(lax.mul(m, here), lax.mul(n, there)))

        once = lax.full_like(x, 1)
        _, total, count = lax.associative_scan(combine, (x, t, once), reverse=reverse, axis=axis)
        return bind(prim, x, axis=axis, reverse=reverse), lax.mul(total, lax.div(one_like(x), count))
    return rule


jvp_rules.define(prims.reduce_max_p, _extreme_jvp(prims.reduce_max_p))
jvp_rules.define(prims.reduce_min_p, _extreme_jvp(prims.reduce_min_p))
jvp_rules.define(prims.reduce_prod_p, reduce_prod_jvp)
jvp_rules.define(prims.cumprod_p, cumprod_jvp)
jvp_rules.define(prims.cummax_p, _cumulative_extreme_jvp(prims.cummax_p, lax.max))
jvp_rules.define(prims.cummin_p, _cumulative_extreme_jvp(prims.cummin_p, lax.min))
