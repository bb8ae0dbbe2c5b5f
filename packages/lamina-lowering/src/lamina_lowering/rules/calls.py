"""Lowering of calls: a function emitted once and called; a map within a program."""
from __future__ import annotations

from typing import Any

from lamina_ir import ShapeError, prims
from lamina_ir.extend import devices_needed

from ..context import Context
from ..regions import map_over
from ..tables import lowering_rules

__all__: list[str] = []

def xla_call_lowering(ctx: Context, *args: Any, call_jaxpr: Any, name: str = "call", **_: Any) -> list[Any]:
    return ctx.body(call_jaxpr, args, name)


def xla_pmap_lowering(ctx: Context, *args: Any, axis_name: Any, axis_size: int, call_jaxpr: Any, in_axes: Any,
                      out_axes: Any, name: str = "pmap", devices: Any = None, global_axis_size: int | None = None,
                      **_: Any) -> list[Any]:
    """Each device takes its row of the mapped arguments and keeps its row of the results."""
    rows = global_axis_size or axis_size
    taken = rows * devices_needed(call_jaxpr)
    if devices is not None and (tuple(devices) != tuple(ctx.module.placement.devices) or len(devices) != taken):
        raise ValueError(f"pmap of `{name}`: devices: a pmap inside a compiled program runs on the program's devices, "
                         f"{_names(ctx.module.placement.devices)}; got {_names(devices)}. Leave devices out, put the arguments "
                         "there, or call it outside jit")
    processes = 1 if ctx.module.mesh is None else ctx.module.mesh.processes
    if rows not in (axis_size, axis_size * processes):
        raise ShapeError(f"pmap of `{name}`: {axis_size} of the {rows} rows of axis {axis_name!r} are here, in a program of "
                         f"{processes} processes")
    return map_over(ctx, args, axis_name, axis_size, call_jaxpr, in_axes, out_axes, name, rows)


def _names(devices: Any) -> str:
    return "[" + ", ".join(map(str, devices)) + "]"


lowering_rules.define(prims.xla_call_p, xla_call_lowering)
lowering_rules.define(prims.xla_pmap_p, xla_pmap_lowering)
