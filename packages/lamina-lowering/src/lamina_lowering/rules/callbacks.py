"""Lowering of host callbacks: a custom call that jaxlib routes to a Python function by its number in the executable's
list."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lamina_ir import AxisEnv, MissingRuleError, Primitive, ShapedArray, prims, shaped
from lamina_ir.extend import HostCall, Placement, format_axes
from lamina_ir.typing import Function, ParamValue, Params

from .._emit.rule_context import Context
from .._emit.manual_regions import MeshAxisEnv
from .._emit.rule_tables import lowering_rules
from .collectives import broadcast_from_one
from .._typing import IrValue

__all__: list[str] = []

_U32, _I32 = shaped((), np.dtype("uint32")), shaped((), np.dtype("int32"))
_TARGETS = {"cpu": "xla_ffi_python_cpu_callback", "cuda": "xla_ffi_python_gpu_callback",
            "rocm": "xla_ffi_python_gpu_callback"}


def _layouts(avals: list[ShapedArray]) -> str:
    """Return row-major layouts; without them the compiler would choose."""
    return "[" + ", ".join(f"dense<{list(range(a.ndim))[::-1] or ''}> : tensor<{a.ndim}xindex>" for a in avals) + "]"


def _stack_scalars(ctx: Context, numbers: list[IrValue], aval: ShapedArray) -> IrValue:
    if len(numbers) == 1:
        return numbers[0]
    one = shaped((1,), _I32.dtype)
    return ctx.op("stablehlo.concatenate", [ctx.reshape(x, one) for x in numbers], aval, dimension=0)


def _where(env: AxisEnv, place: Placement) -> Callable[[int | None], str]:
    """Make a function that describes a participant: its device, its position on the mapped axes, and its process.

    Outside of maps in a program over several processes, only the process is known.
    """
    def describe(participant: int | None) -> str:
        if participant is None:
            return f"in process {place.local_devices[0].process_index}" if place.local_devices else ""
        device = place.devices[participant]
        axes = format_axes(env.axis_positions(participant))
        return (f"on device {device}" + (f", at {axes}" if axes else "")
                + (f", in process {device.process_index}" if place.local_devices else ""))
    return describe


def _host(prim: Primitive, params: Params, loops: int, counted: bool, outs: list[ShapedArray],
          where: Callable[[int | None], str], place: Placement) -> Callable[..., tuple[np.ndarray, ...]]:
    """Make the function that jaxlib calls.

    jaxlib does not check the results, so only `HostCall` does. `blank()` returns results of the right types, for a
    runtime that must continue after the function has raised.
    """
    run, threaded = HostCall(prim.name, params, where, lambda at: place.devices[at or 0]), bool(params.get("threaded"))

    def call(*xs: np.ndarray) -> tuple[np.ndarray, ...]:
        iterations: Any = ()
        device = None
        if loops or counted:
            *xs, iterations = xs  # type: ignore[assignment]
            if counted:
                device = int(iterations.reshape(-1)[-1])
        # jaxlib passes a token as a placeholder, and wants one back at the same position.
        if threaded:
            *xs, token = xs  # type: ignore[assignment]
            return *run(xs, iterations, device), token
        return run(xs, iterations, device)
    call.blank = lambda: tuple(np.zeros(a.shape, a.dtype) for a in outs)  # type: ignore[attr-defined]
    return call


def _call_on_first(ctx: Context, prim: Primitive, call: Callable[..., list[IrValue]], operands: Sequence[IrValue],
                   avals: Sequence[ShapedArray], outs: Sequence[ShapedArray], groups: list[list[int]]) -> list[IrValue]:
    """Emit a call at a place where several devices do the same work, so that only the first device of each group calls.

    Outside of the maps of a multi-process program these are the devices of a process. In a map that contains maps, they
    are those of a member. The other devices receive the results from the first one. Without effects all devices call,
    because the results may be computed any number of times.
    """
    mesh, env = ctx.module.mesh, ctx.axis_env
    assert mesh is not None and isinstance(env, MeshAxisEnv)

    def first(ctx: Context, *xs: IrValue) -> list[IrValue]:
        if len(groups[0]) == 1 or not prim.effectful:
            return call(ctx, *xs)
        firsts = {group[0] for group in groups}
        at = ctx.local_participant_entry([int(k not in firsts) for k in range(mesh.grid.devices * mesh.processes)])
        found = ctx.op("stablehlo.case", (at,), *outs, regions=[
            ctx.region((), lambda ctx: call(ctx, *xs)), ctx.region((), lambda ctx: [ctx.const(0, o) for o in outs])])
        return [broadcast_from_one(ctx, x, o, groups) for x, o in zip((found,) if len(outs) == 1 else found, outs)]

    return mesh.emit_per_device(ctx, env, first, operands, avals, outs) if env.free else first(ctx, *operands)


def _callback(prim: Primitive) -> Function:
    def lowering(ctx: Context, *args: IrValue, **params: ParamValue) -> list[IrValue]:
        target = _TARGETS.get(ctx.platform)
        if target is None:
            raise MissingRuleError(f"lowering of `{prim.name}` for {ctx.platform} is not defined: jaxlib has no callback "
                                   "target there")
        outs, env, mesh = list(ctx.avals_out), ctx.axis_env, ctx.module.mesh
        # The loop iterations and the device number are passed last, as one array: each operand costs the host at
        # least 2 us.
        loops, counted = len(params["callback"].loops), bool(env.names)
        last = len(args) - bool(params.get("threaded"))
        order = [*range(last - loops), *range(last, len(args)), *range(last - loops, last)]
        operands, avals = [args[i] for i in order], [ctx.avals_in[i] for i in order]
        given = avals[:len(args) - loops]
        if loops or counted:
            given.append(_I32 if loops + counted == 1 else shaped((loops + counted,), _I32.dtype))
        place = ctx.module.placement
        number = ctx.module.add_host_function(_host(prim, params, loops, counted, outs, _where(env, place), place))
        attrs = dict(call_target_name=target, api_version=ctx.i32(4), has_side_effect=prim.effectful,
                     backend_config=ctx.attr(f"{{index = {number} : ui64}}"), operand_layouts=ctx.attr(_layouts(given)),
                     result_layouts=ctx.attr(_layouts(outs)))

        def call(ctx: Context, *xs: IrValue) -> list[IrValue]:
            held, numbers = [*xs[:len(xs) - loops]], [*xs[len(xs) - loops:]]
            if counted:
                numbers.append(ctx.convert(ctx.participant(), _U32, _I32))
            if numbers:
                held.append(_stack_scalars(ctx, numbers, given[-1]))
            made = ctx.op("stablehlo.custom_call", held, *outs, attributes=attrs)
            return [made] if len(outs) == 1 else list(made)

        if isinstance(env, MeshAxisEnv) and (env.free if env.names else env.processes > 1):
            return _call_on_first(ctx, prim, call, operands, avals, outs, env.worker_groups())
        if mesh is not None:
            if not env.names:  # as below, for Shardy; within a map each member calls
                attrs["sdy.sharding"] = mesh.first_device_sharding(len(outs))
        elif ctx.module.partitions > 1:  # the host is called once, by the first partition, with whole arrays
            one = "{maximal device=0}"
            attrs["mhlo.sharding"] = one if len(outs) < 2 else "{" + ", ".join([one] * len(outs)) + "}"
        return call(ctx, *operands)
    return lowering


for _prim in (prims.pure_callback_p, prims.io_callback_p, prims.debug_callback_p):
    lowering_rules.define(_prim, _callback(_prim))
