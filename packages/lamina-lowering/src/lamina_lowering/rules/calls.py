"""Lowering of calls, as functions that are emitted once, and of nested maps."""
from __future__ import annotations

from collections.abc import Sequence


from lamina_ir import ClosedJaxpr, ShapeError, prims
from lamina_ir.extend import count_devices
from lamina_ir.typing import AxisName, Device, ParamValue

from .._emit.rule_context import Context
from .._emit.manual_regions import lower_map
from .._emit.rule_tables import lowering_rules
from .._typing import IrValue

__all__: list[str] = []


def xla_call_lowering(ctx: Context, *args: IrValue, call_jaxpr: ClosedJaxpr, name: str = "call",
                      **_: ParamValue) -> list[IrValue]:
    return ctx.body(call_jaxpr, args, name)


def xla_pmap_lowering(ctx: Context, *args: IrValue, axis_name: AxisName, axis_size: int, call_jaxpr: ClosedJaxpr,
                      in_axes: Sequence[int | None], out_axes: Sequence[int | None], name: str = "pmap",
                      devices: Device = None, global_axis_size: int | None = None, **_: ParamValue) -> list[IrValue]:
    """Emit a map: each device takes its shard of the mapped arguments and keeps its shard of the results."""
    rows, each = global_axis_size or axis_size, count_devices(call_jaxpr)
    program_devices = ctx.module.placement.devices
    order: tuple[int, ...] | None = None if rows == axis_size else ()
    if devices is not None and order is not None:
        order = _order(tuple(devices), tuple(program_devices), each, axis_size)
    if devices is not None and (order is None and tuple(devices) != tuple(program_devices) or len(devices) != rows * each):
        raise ValueError(f"pmap of `{name}`: devices: a pmap inside a compiled program runs on the program's devices, "
                         f"{_device_list(program_devices)}; got {_device_list(devices)}. Leave devices out, put the arguments "
                         "there, or call it outside jit")
    processes = 1 if ctx.module.mesh is None else ctx.module.mesh.processes
    if rows not in (axis_size, axis_size * processes):
        raise ShapeError(f"pmap of `{name}`: {axis_size} of the {rows} rows of axis {axis_name!r} are here, in a program of "
                         f"{processes} processes")
    return lower_map(ctx, args, axis_name, axis_size, call_jaxpr, in_axes, out_axes, name, rows, order)


def _order(devices: tuple[Device, ...], program_devices: tuple[Device, ...], each: int,
           here: int) -> tuple[int, ...] | None:
    """Return the number of each member, process by process in the order of `program_devices`.

    () if these are consecutive, None if the devices are other ones, or in another order within a process.
    """
    if devices == program_devices:
        return ()
    number = {d: i for i, d in enumerate(program_devices)}
    firsts = [number.get(d, -1) for d in devices[::each]]
    fits = len(devices) == len(program_devices) and all(
        n >= 0 and devices[k * each:k * each + each] == program_devices[n:n + each] for k, n in enumerate(firsts))
    order = [n // each for n in firsts]
    own: dict[int, int] = {}  # process -> number of its members so far, which must be in order
    fits = fits and all(own.setdefault(n // here, 0) == n % here and not own.update({n // here: n % here + 1}) for n in order)
    return tuple(order) if fits else None


def _device_list(devices: Device) -> str:
    return "[" + ", ".join(map(str, devices)) + "]"


lowering_rules.define(prims.xla_call_p, xla_call_lowering)
lowering_rules.define(prims.xla_pmap_p, xla_pmap_lowering)
