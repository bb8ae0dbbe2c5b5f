"""Forward rows of window reductions. A sum is linear; an extreme takes the tangent of the first element that has it."""
from __future__ import annotations

from lamina_ir import dtypes, prims
from lamina_tracing.extend import bind, scalar, stacked_windows, typeof

from ..tables import hole, jvp_rules

__all__: list[str] = []

hole(prims.reduce_window_p, "its computation is opaque; write it with addition, multiplication, lax.max or lax.min")


def _extreme_jvp(prim, select):
    def rule(primals, tangents, **params):
        (x,), (t,) = primals, tangents
        ans = bind(prim, x, **params)
        if t is None or not dtypes.is_inexact(typeof(x).dtype):
            return ans, None
        return ans, bind(prims.select_and_gather_add_p, t, x, select=select, **params)
    return rule


def reduce_window_prod_jvp(primals, tangents, **params):
    """The windows side by side along a new axis, and the derivative of a product over it."""
    (x,), (t,) = primals, tangents
    ans = bind(prims.reduce_window_prod_p, x, **params)
    if t is None:
        return ans, None
    dtype = typeof(x).dtype
    rows, moves = (stacked_windows(v, scalar(start, dtype), **params) for v, start in ((x, 1), (t, 0)))
    return ans, jvp_rules[prims.reduce_prod_p]((rows,), (moves,), axes=(0,))[1]


jvp_rules.define(prims.reduce_window_max_p, _extreme_jvp(prims.reduce_window_max_p, "ge"))
jvp_rules.define(prims.reduce_window_min_p, _extreme_jvp(prims.reduce_window_min_p, "le"))
jvp_rules.define(prims.reduce_window_prod_p, reduce_window_prod_jvp)
