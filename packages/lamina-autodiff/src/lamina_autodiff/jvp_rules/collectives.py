"""Collectives: a mapped function takes all members' inputs to all members' outputs, and its derivative is that function's."""
from __future__ import annotations

from lamina_ir import prims
from lamina_ir.extend import split_axes
from lamina_tracing import lax
from lamina_tracing.extend import bind, typeof

from ..tables import jvp_rules, zero_jvp

__all__: list[str] = []


def psum_jvp(primals, tangents, **params):
    outs = bind(prims.psum_p, *primals, **params)
    active = [t for t in tangents if t is not None]
    sums = iter(bind(prims.psum_p, *active, **params) if active else ())
    return outs, [None if t is None else next(sums) for t in tangents]


def _extremum_jvp(prim):
    """dm = sum of dx over the members that hold m / how many do."""
    def rule(primals, tangents, *, axes, axis_index_groups):
        params = dict(axes=axes, axis_index_groups=axis_index_groups)
        positions = split_axes(prim.name, axes)[1]
        outs = bind(prim, *primals, **params)
        douts: list = []
        for x, t, ans in zip(primals, tangents, outs, strict=True):
            if t is None:
                douts.append(None)
                continue
            shape, dtype = typeof(x).shape, typeof(x).dtype
            if positions:
                ans = lax.broadcast_in_dim(ans, shape, tuple([a for a in range(len(shape)) if a not in positions]))
            held = lax.convert_element_type(lax.eq(x, ans), dtype)
            count, = bind(prims.psum_p, held, **params)
            share, = bind(prims.psum_p, lax.mul(t, held), **params)  # apart: this one alone is linear
            douts.append(lax.div(share, count))
        return outs, douts
    return rule


jvp_rules.define(prims.psum_p, psum_jvp)
jvp_rules.define(prims.pmax_p, _extremum_jvp(prims.pmax_p))
jvp_rules.define(prims.pmin_p, _extremum_jvp(prims.pmin_p))
zero_jvp(prims.axis_index_p)
jvp_rules.hole(prims.xla_pmap_p, "its row comes with lamina_parallel; import that too")
