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
    rows, each = global_axis_size or axis_size, devices_needed(call_jaxpr)
    ours = ctx.module.placement.devices
    order: tuple[int, ...] | None = None if rows == axis_size else ()
    if devices is not None and order is not None:
        order = _order(tuple(devices), tuple(ours), each, axis_size)
    if devices is not None and (order is None and tuple(devices) != tuple(ours) or len(devices) != rows * each):
        raise ValueError(f"pmap of `{name}`: devices: a pmap inside a compiled program runs on the program's devices, "
                         f"{_names(ours)}; got {_names(devices)}. Leave devices out, put the arguments "
                         "there, or call it outside jit")
    processes = 1 if ctx.module.mesh is None else ctx.module.mesh.processes
    if rows not in (axis_size, axis_size * processes):
        raise ShapeError(f"pmap of `{name}`: {axis_size} of the {rows} rows of axis {axis_name!r} are here, in a program of "
                         f"{processes} processes")
    return map_over(ctx, args, axis_name, axis_size, call_jaxpr, in_axes, out_axes, name, rows, order)


def _order(devices: tuple[Any, ...], ours: tuple[Any, ...], each: int, here: int) -> tuple[int, ...] | None:
    """The number of each member among all rows, those of one process after those of another, as `ours` has the devices; (): in
    just that order, None: they are not these devices, or not in this order in each process."""
    if devices == ours:
        return ()
    number = {d: i for i, d in enumerate(ours)}
    firsts = [number.get(d, -1) for d in devices[::each]]
    fits = len(devices) == len(ours) and all(
        n >= 0 and devices[k * each:k * each + each] == ours[n:n + each] for k, n in enumerate(firsts))
    order = [n // each for n in firsts]
    own: dict[int, int] = {}  # process -> how many of its rows have come: they come in their order
    fits = fits and all(own.setdefault(n // here, 0) == n % here and not own.update({n // here: n % here + 1}) for n in order)
    return tuple(order) if fits else None


def _names(devices: Any) -> str:
    return "[" + ", ".join(map(str, devices)) + "]"


lowering_rules.define(prims.xla_call_p, xla_call_lowering)
lowering_rules.define(prims.xla_pmap_p, xla_pmap_lowering)
