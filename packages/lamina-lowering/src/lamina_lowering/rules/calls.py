"""Lowering of calls: a function emitted once and called; a mapped call spread over replicas."""
from __future__ import annotations

from typing import Any

import numpy as np

from lamina_ir import ShapeError, prims, shaped

from ..context import Context
from ..tables import lowering_rules
from .collectives import gather_over

__all__: list[str] = []

_I32 = shaped((), np.dtype("int32"))


def xla_call_lowering(ctx: Context, *args: Any, call_jaxpr: Any, name: str = "call", **_: Any) -> list[Any]:
    return ctx.body(call_jaxpr, args, name)


def _own_slice(ctx: Context, x: Any, aval: Any, axis: int, index: Any) -> Any:
    """The slice of `x` at this replica's `index` of one axis, without that axis."""
    zero = ctx.const(0, _I32)
    starts = [zero] * aval.ndim
    starts[axis] = index
    sizes = (*aval.shape[:axis], 1, *aval.shape[axis + 1:])
    piece = ctx.op("stablehlo.dynamic_slice", (x, *starts), shaped(sizes, aval.dtype), slice_sizes=ctx.i64s(sizes))
    return ctx.reshape(piece, shaped((*aval.shape[:axis], *aval.shape[axis + 1:]), aval.dtype))


def xla_pmap_lowering(ctx: Context, *args: Any, axis_name: Any, axis_size: int, call_jaxpr: Any, in_axes: Any,
                      out_axes: Any, name: str = "pmap", devices: Any = None, global_axis_size: int | None = None,
                      **_: Any) -> list[Any]:
    """Every replica takes its slice of the mapped arguments, runs the body, and gathers everyone's results."""
    if devices is not None:
        raise ValueError(f"pmap of `{name}`: a pmap inside a compiled program cannot choose `devices`; leave them out, "
                         "or call it outside jit")
    if global_axis_size not in (None, axis_size):
        raise ShapeError(f"pmap of `{name}`: inside a compiled program the axis {axis_name!r} must lie in one process; "
                         f"got global_axis_size {global_axis_size}, axis_size {axis_size}")
    avals, outs = ctx.avals_in, ctx.avals_out
    env = ctx.axis_env.extend(axis_name, axis_size)
    outer, ctx.axis_env = ctx.axis_env, env
    try:
        index = ctx.axis_index(axis_name)
        local = [x if axis is None else _own_slice(ctx, x, a, axis, index)
                 for x, a, axis in zip(args, avals, in_axes, strict=True)]
        results = ctx.subcall(call_jaxpr, local, name, env)
        return [r if axis is None else gather_over(ctx, r, a, out, (axis_name,), axis)
                for r, a, out, axis in zip(results, call_jaxpr.out_avals, outs, out_axes, strict=True)]
    finally:
        ctx.axis_env = outer


lowering_rules.define(prims.xla_call_p, xla_call_lowering)
lowering_rules.define(prims.xla_pmap_p, xla_pmap_lowering)
