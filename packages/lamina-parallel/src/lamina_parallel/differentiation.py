"""Rows of the collectives and of `xla_pmap` in the tables of differentiation.

A mapped function takes all participants' inputs to all participants' outputs; the rows differentiate that function, so
`psum` transposes to `psum`, `all_gather` to `psum_scatter`, and back.
"""
from __future__ import annotations

from typing import Any

from lamina_autodiff.extend import flow_row, is_linear, jvp_rules, transpose_program, transpose_rules
from lamina_ir import prims
from lamina_tracing import lax
from lamina_tracing.extend import AxisFrame, bind, bound_axes, scalar, typeof

__all__: list[str] = []


# --- collectives --------------------------------------------------------------------------------------------------
def psum_jvp(primals: list[Any], tangents: list[Any], **params: Any) -> Any:
    outs = bind(prims.psum_p, *primals, **params)
    active = [t for t in tangents if t is not None]
    sums = iter(bind(prims.psum_p, *active, **params) if active else ())
    return outs, [None if t is None else next(sums) for t in tangents]


def psum_transpose(cts: list[Any], *args: Any, **params: Any) -> Any:
    sums = iter(bind(prims.psum_p, *[ct for ct in cts if ct is not None], **params))
    back = [None if ct is None else next(sums) for ct in cts]
    return back[0] if len(args) == 1 else back


def _extremum_jvp(prim: Any) -> Any:
    def rule(primals: list[Any], tangents: list[Any], *, axes: Any, axis_index_groups: Any) -> Any:
        """The tangents of the participants that hold the extremum, shared equally among ties."""
        params = dict(axes=axes, axis_index_groups=axis_index_groups)
        outs = bind(prim, *primals, **params)
        douts: list[Any] = []
        for x, t, ans in zip(primals, tangents, outs):
            if t is None:
                douts.append(None)
                continue
            # dm = sum over members that hold m of dx / how many do.
            held = lax.convert_element_type(lax.eq(x, ans), typeof(x).dtype)
            count, = bind(prims.psum_p, held, **params)
            share, = bind(prims.psum_p, lax.mul(t, lax.div(held, count)), **params)
            douts.append(share)
        return outs, douts
    return rule


def all_gather_transpose(ct: Any, x: Any, *, all_gather_dimension: int, **params: Any) -> Any:
    return bind(prims.psum_scatter_p, ct, scatter_dimension=all_gather_dimension, **params)


def psum_scatter_transpose(ct: Any, x: Any, *, scatter_dimension: int, **params: Any) -> Any:
    return bind(prims.all_gather_p, ct, all_gather_dimension=scatter_dimension, **params)


def all_to_all_transpose(ct: Any, x: Any, *, concat_axis: int, split_axis: int, **params: Any) -> Any:
    return bind(prims.all_to_all_p, ct, concat_axis=split_axis, split_axis=concat_axis, **params)


def ppermute_transpose(ct: Any, x: Any, *, axis_name: Any, perm: Any) -> Any:
    return bind(prims.ppermute_p, ct, axis_name=axis_name, perm=tuple((b, a) for a, b in perm))


jvp_rules.define(prims.psum_p, psum_jvp)
jvp_rules.define(prims.pmax_p, _extremum_jvp(prims.pmax_p))
jvp_rules.define(prims.pmin_p, _extremum_jvp(prims.pmin_p))
jvp_rules.define(prims.axis_index_p, lambda primals, tangents, **params: (bind(prims.axis_index_p, **params), None))
transpose_rules.define(prims.psum_p, psum_transpose)
transpose_rules.hole(prims.pmax_p, "it is not linear")
transpose_rules.hole(prims.pmin_p, "it is not linear")
transpose_rules.hole(prims.axis_index_p, "it has no operand")
transpose_rules.define(prims.all_gather_p, all_gather_transpose)
transpose_rules.define(prims.psum_scatter_p, psum_scatter_transpose)
transpose_rules.define(prims.all_to_all_p, all_to_all_transpose)
transpose_rules.define(prims.ppermute_p, ppermute_transpose)


# --- xla_pmap -----------------------------------------------------------------------------------------------------
def _call(args: Any, call_jaxpr: Any, in_axes: Any, out_axes: Any, params: dict[str, Any]) -> Any:
    n = len(args)
    return bind(prims.xla_pmap_p, *args, **{**params, "call_jaxpr": call_jaxpr, "in_axes": tuple(in_axes),
                                            "out_axes": tuple(out_axes), "donated_invars": (False,) * n,
                                            "global_arg_shapes": (None,) * n})


def _inside(params: dict[str, Any]) -> Any:
    """The mapped axis in scope, for deriving programs of the body."""
    return bound_axes(AxisFrame(params["axis_name"], params["axis_size"]))


def xla_pmap_transpose(cts: list[Any], *args: Any, call_jaxpr: Any, in_axes: Any, out_axes: Any, axis_size: int,
                       **params: Any) -> Any:
    """An operand every device shares gets the sum of the devices' cotangents. A result taken from one device because
    all agree is their mean, so each device gets its share."""
    params["axis_size"] = axis_size
    linear = tuple(is_linear(a) for a in args)
    active = tuple(ct is not None for ct in cts)
    with _inside(params):
        back = transpose_program(call_jaxpr, linear, active)
    # y = mean of the y_d gives y_d* = y* / n; x_d = x for all d gives x* = sum of the x_d*, so those come out stacked along a
    # new axis 0 and are summed behind the map.
    shares = [lax.mul(ct, scalar(1 / axis_size, typeof(ct).dtype)) if axis is None else ct
              for ct, axis in zip(cts, out_axes) if ct is not None]
    # Operands of the backward map: values that are held, along their axes, then cotangents, along those of their results.
    held = [(a, axis) for a, axis, on in zip(args, in_axes, linear) if not on]
    wanted = [axis for axis, on in zip(in_axes, linear) if on]
    kept = [axis for axis, on in zip(wanted, back.active_out) if on]
    outs = _call([*[a for a, _ in held], *shares], back.program,
                 [*[axis for _, axis in held], *[axis for axis, on in zip(out_axes, active) if on]],
                 [0 if axis is None else axis for axis in kept], params)
    summed = iter([lax.reduce_sum(o, (0,)) if axis is None else o for o, axis in zip(outs, kept)])
    found = iter([next(summed) if on else None for on in back.active_out])
    result = [next(found) if on else None for on in linear]
    return result[0] if len(args) == 1 else result


jvp_rules.define(prims.xla_pmap_p, flow_row(prims.xla_pmap_p))
transpose_rules.define(prims.xla_pmap_p, xla_pmap_transpose)
