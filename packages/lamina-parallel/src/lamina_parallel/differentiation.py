"""Rows of `xla_pmap` in the tables of differentiation."""
from __future__ import annotations

from typing import Any

from lamina_autodiff.extend import flow_row, is_linear, jvp_rules, transpose_program, transpose_rules
from lamina_ir import UnnamedAxis, config, prims
from lamina_tracing import lax
from lamina_tracing.extend import AxisFrame, bind, bound_axes, scalar, typeof

__all__: list[str] = []


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
    once = config.replicated_counts_once.value and type(params["axis_name"]) is not UnnamedAxis
    shares, out_axes = [], list(out_axes)
    for k, (ct, axis) in enumerate(zip(cts, out_axes)):
        if ct is None:
            continue
        # Where what is the same on all devices counts once, a result that is has one cotangent: that of the one copy, or the
        # sum of those of all copies.
        if once and params["axis_name"] not in call_jaxpr.out_avals[k].over:
            shares.append(ct if axis is None else lax.reduce_sum(ct, (axis,)))
            out_axes[k] = None
        else:
            shares.append(lax.mul(ct, scalar(1 / axis_size, typeof(ct).dtype)) if axis is None else ct)
    # Operands of the backward map: values that are held, along their axes, then cotangents, along those of their results.
    held = [(a, axis) for a, axis, on in zip(args, in_axes, linear) if not on]
    wanted = [axis for axis, on in zip(in_axes, linear) if on]
    kept = [axis for axis, on in zip(wanted, back.active_out) if on]
    # Of a shared operand the devices' cotangents are summed already where it counts once.
    whole = [once and axis is None and params["axis_name"] not in a.over for axis, a in zip(kept, back.program.out_avals)]
    outs = _call([*[a for a, _ in held], *shares], back.program,
                 [*[axis for _, axis in held], *[axis for axis, on in zip(out_axes, active) if on]],
                 [None if w else 0 if axis is None else axis for axis, w in zip(kept, whole)], params)
    summed = iter([lax.reduce_sum(o, (0,)) if axis is None and not w else o for o, axis, w in zip(outs, kept, whole)])
    found = iter([next(summed) if on else None for on in back.active_out])
    result = [next(found) if on else None for on in linear]
    return result[0] if len(args) == 1 else result


jvp_rules.define(prims.xla_pmap_p, flow_row(prims.xla_pmap_p))
transpose_rules.define(prims.xla_pmap_p, xla_pmap_transpose)
