"""JVP rules of window reductions. Sums are linear; max and min take the tangent of the first element equal to them."""
from __future__ import annotations

from lamina_ir import dtypes, prims
from lamina_tracing.extend import bind, scalar, stack_windows, typeof

from .._engine.rule_tables import declare_missing, jvp_rules

__all__: list[str] = []

declare_missing(prims.reduce_window_p, "its computation is opaque; write it with addition, multiplication, lax.max or lax.min")


def _make_minmax_jvp(prim, select):
    def rule(primals, tangents, **params):
        (x,), (t,) = primals, tangents
        ans = bind(prim, x, **params)
        if t is None or not dtypes.is_inexact(typeof(x).dtype):
            return ans, None
        return ans, bind(prims.select_and_gather_add_p, t, x, select=select, **params)
    return rule


def reduce_window_prod_jvp(primals, tangents, **params):
    """Stack the elements of each window along a new axis, and use the JVP rule of `reduce_prod` over it."""
    (x,), (t,) = primals, tangents
    ans = bind(prims.reduce_window_prod_p, x, **params)
    if t is None:
        return ans, None
    dtype = typeof(x).dtype
    stacked, stacked_t = (stack_windows(v, scalar(start, dtype), **params) for v, start in ((x, 1), (t, 0)))
    return ans, jvp_rules[prims.reduce_prod_p]((stacked,), (stacked_t,), axes=(0,))[1]


jvp_rules.define(prims.reduce_window_max_p, _make_minmax_jvp(prims.reduce_window_max_p, "ge"))
jvp_rules.define(prims.reduce_window_min_p, _make_minmax_jvp(prims.reduce_window_min_p, "le"))
jvp_rules.define(prims.reduce_window_prod_p, reduce_window_prod_jvp)
