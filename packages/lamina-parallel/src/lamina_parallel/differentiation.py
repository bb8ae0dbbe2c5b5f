"""Rows of `xla_pmap` in the tables of differentiation."""
from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from lamina_autodiff.extend import flow_row, is_linear, jvp_rules, transpose_program, transpose_rules
from lamina_ir import ClosedJaxpr, UnnamedAxis, config, prims
from lamina_tracing import lax
from lamina_tracing.extend import AxisFrame, bind, bound_axes, jaxpr_as_fun, now, scalar, stage, typeof

__all__: list[str] = []

Flags = tuple[bool, ...]


def _call(args: Any, call_jaxpr: Any, in_axes: Any, out_axes: Any, params: dict[str, Any]) -> Any:
    n = len(args)
    return bind(prims.xla_pmap_p, *args, **{**params, "call_jaxpr": call_jaxpr, "in_axes": tuple(in_axes),
                                            "out_axes": tuple(out_axes), "donated_invars": (False,) * n,
                                            "global_arg_shapes": (None,) * n})


def xla_pmap_transpose(cts: list[Any], *args: Any, call_jaxpr: Any, in_axes: Any, out_axes: Any, **params: Any) -> Any:
    """An operand every device shares gets the sum of the devices' cotangents, those of other processes' devices among them. A
    result taken from one device because all agree is their mean, so each device gets its share."""
    (name, size), = prims.xla_pmap_p.flow.axes(params)  # type: ignore[union-attr]
    across = size > params["axis_size"]  # other processes have rows, so only the members can sum over all
    linear = tuple(is_linear(a) for a in args)
    active = tuple(ct is not None for ct in cts)
    with bound_axes(AxisFrame(name, size)):
        back = transpose_program(call_jaxpr, linear, active)
    # y = mean of the y_d gives y_d* = y* / n; x_d = x for all d gives x* = sum of the x_d*, so those come out stacked along a
    # new axis 0 and are summed behind the map.
    once = config.replicated_counts_once.value and type(name) is not UnnamedAxis
    shares, out_axes = [], list(out_axes)
    before = [False] * len(cts)  # cotangents that the members sum
    for k, (ct, axis) in enumerate(zip(cts, out_axes)):
        if ct is None:
            continue
        # Where what is the same on all devices counts once, a result that is has one cotangent: that of the one copy, or the
        # sum of those of all copies.
        if once and name not in call_jaxpr.out_avals[k].over:
            before[k] = across and axis is not None
            shares.append(ct if axis is None or before[k] else lax.reduce_sum(ct, (axis,)))
            out_axes[k] = axis if before[k] else None
        else:
            shares.append(lax.mul(ct, scalar(1 / size, typeof(ct).dtype)) if axis is None else ct)
    # Operands of the backward map: values that are held, along their axes, then cotangents, along those of their results.
    held = [(a, axis) for a, axis, on in zip(args, in_axes, linear) if not on]
    wanted = [axis for axis, on in zip(in_axes, linear) if on]
    kept = [axis for axis, on in zip(wanted, back.active_out) if on]
    # Of a shared operand the devices' cotangents are summed already where it counts once.
    whole = [once and axis is None and name not in a.over for axis, a in zip(kept, back.program.out_avals)]
    ins = [*[axis for _, axis in held], *[axis for axis, on in zip(out_axes, active) if on]]
    program = back.program
    if across:
        sums = [False] * len(held) + [s for s, on in zip(before, active) if on], [
            axis is None and not w for axis, w in zip(kept, whole)]
        program, params["axis_name"] = _summing(program, name, size, ins, *map(tuple, sums))
        whole = [axis is None for axis in kept]
    outs = _call([*[a for a, _ in held], *shares], program, ins,
                 [None if w else 0 if axis is None else axis for axis, w in zip(kept, whole)], params)
    summed = iter([lax.reduce_sum(o, (0,)) if axis is None and not w else o for o, axis, w in zip(outs, kept, whole)])
    found = iter([next(summed) if on else None for on in back.active_out])
    result = [next(found) if on else None for on in linear]
    return result[0] if len(args) == 1 else result


def _summing(program: ClosedJaxpr, name: Any, size: int, in_axes: Sequence[int | None], ins: Flags,
             outs: Flags) -> tuple[ClosedJaxpr, Any]:
    """A member's program with the sums over all members of these operands and results, and the axis' name in it: types speak of
    axes with names only."""
    found = name
    if type(name) is UnnamedAxis and any(ins + outs):
        taken = program.jaxpr.axis_names.union([f.name for f in now.axes])
        found = next(n for n in (f"rows{i or ''}" for i in itertools.count()) if n not in taken)
    mine = frozenset([] if found is name else [found])

    def run(*xs: Any) -> list[Any]:
        return _summed(found, jaxpr_as_fun(program)(*_summed(found, xs, ins)), outs)

    def make() -> ClosedJaxpr:
        avals = [a if axis is None else a.differing(a.over | mine) for a, axis in zip(program.in_avals, in_axes)]
        with bound_axes(AxisFrame(found, size)):
            return stage(run, avals)[0]

    if not any(ins + outs):
        return program, name
    return program.derived(("summing", found, size, tuple(in_axes), ins, outs), make), found


def _summed(name: Any, values: Sequence[Any], flags: Flags) -> list[Any]:
    sums = [x for x, on in zip(values, flags) if on]
    found = iter(bind(prims.psum_p, *sums, axes=(name,), axis_index_groups=None) if sums else ())
    return [next(found) if on else x for x, on in zip(values, flags)]


jvp_rules.define(prims.xla_pmap_p, flow_row(prims.xla_pmap_p))
transpose_rules.define(prims.xla_pmap_p, xla_pmap_transpose)
