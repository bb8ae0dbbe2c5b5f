"""Collectives: a mapped function takes all members' inputs to all members' outputs, and its derivative is that function's."""
from __future__ import annotations

from lamina_ir import dtypes, prims
from lamina_ir.extend import split_axes
from lamina_tracing import lax
from lamina_tracing.extend import bind, scalar, typeof

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
            kept = tuple([a for a in range(len(shape)) if a not in positions])
            if positions:
                ans = lax.broadcast_in_dim(ans, shape, kept)
            held, near = lax.eq(x, ans), _nearness(x, ans)
            if dtype.itemsize < 4:
                near = lax.convert_element_type(near, "float32")
            many = _many(typeof(near).dtype)
            near = lax.select(held, _like(near, many), near)
            total, = bind(prims.psum_p, near, **params)
            lost = lax.lt(total, _like(total, many))
            divisor = lax.select(lost, total, lax.mul(total, _like(total, 1 / many)))
            lost = lax.broadcast_in_dim(lost, shape, kept) if positions else lost
            weight = lax.select(lost, lax.convert_element_type(near, dtype), lax.convert_element_type(held, dtype))
            share, = bind(prims.psum_p, lax.mul(t, weight), **params)  # apart: this one alone is linear
            douts.append(lax.div(share, lax.convert_element_type(divisor, dtype)))
        return outs, douts
    return rule


def _like(x, value):
    return lax.broadcast_in_dim(scalar(value, typeof(x).dtype), typeof(x).shape, ())


def _many(dtype):
    """What stands for one member that holds the extreme, where these are counted in one sum with the others' nearness: so much
    more than all of that together that it is rounded away. The sum of as many as a float can count is finite."""
    return 2.0 ** (int(dtypes.finfo(dtype).maxexp) * 3 // 4)


def _nearness(x, ans):
    """A constant from 0 to 1, the more the nearer; 0 beside an infinite extreme. It counts where no member holds the extreme:
    compilers compute a value again where that is cheap, rounded otherwise (a product and a sum in one instruction), and then
    nobody equals it."""
    x, ans = lax.stop_gradient(x), lax.stop_gradient(ans)
    info = dtypes.finfo(typeof(x).dtype)
    unit = lax.add(lax.mul(lax.abs(ans), _like(ans, info.eps)), _like(ans, info.tiny))
    unit = lax.min(unit, _like(unit, 1 / float(info.tiny)))  # finite; and so that XLA may multiply by its inverse
    return lax.integer_pow(lax.add(lax.div(lax.abs(lax.sub(x, ans)), unit), _like(x, 1)), -4)


jvp_rules.define(prims.psum_p, psum_jvp)
jvp_rules.define(prims.pmax_p, _extremum_jvp(prims.pmax_p))
jvp_rules.define(prims.pmin_p, _extremum_jvp(prims.pmin_p))
zero_jvp(prims.axis_index_p)
jvp_rules.hole(prims.xla_pmap_p, "its row comes with lamina_parallel; import that too")
