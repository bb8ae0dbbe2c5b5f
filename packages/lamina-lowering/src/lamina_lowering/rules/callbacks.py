"""Calls of the host: a custom call that jaxlib routes to the Python function of its number in the executable's list."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lamina_ir import AxisEnv, MissingRuleError, Primitive, ShapedArray, prims, shaped
from lamina_ir.extend import HostCall, Placement, axes_text

from ..context import Context
from ..tables import lowering_rules
from .collectives import from_one

__all__: list[str] = []

_U32, _I32 = shaped((), np.dtype("uint32")), shaped((), np.dtype("int32"))
_TARGETS = {"cpu": "xla_ffi_python_cpu_callback", "cuda": "xla_ffi_python_gpu_callback",
            "rocm": "xla_ffi_python_gpu_callback"}


def _layouts(avals: list[ShapedArray]) -> str:
    """Row-major, written out: the compiler would otherwise choose."""
    return "[" + ", ".join(f"dense<{list(range(a.ndim))[::-1] or ''}> : tensor<{a.ndim}xindex>" for a in avals) + "]"


def _together(ctx: Context, numbers: list[Any], aval: ShapedArray) -> Any:
    if len(numbers) == 1:
        return numbers[0]
    one = shaped((1,), _I32.dtype)
    return ctx.op("stablehlo.concatenate", [ctx.reshape(x, one) for x in numbers], aval, dimension=0)


def _where(env: AxisEnv, place: Placement) -> Callable[[int | None], str]:
    """Words for a participant: its device, where it stands on the mapped axes, and its process where there are several, of
    which nothing else is known beside the maps."""
    def words(participant: int | None) -> str:
        if participant is None:
            return f"in process {place.face[0].process_index}" if place.face else ""
        device = place.devices[participant]
        axes = axes_text(env.places(participant))
        return (f"on device {device}" + (f", at {axes}" if axes else "")
                + (f", in process {device.process_index}" if place.face else ""))
    return words


def _host(prim: Primitive, params: dict[str, Any], loops: int, counted: bool, outs: list[ShapedArray],
          where: Callable[[int | None], str]) -> Callable[..., tuple[Any, ...]]:
    """What jaxlib calls. It checks nothing of what it gets back, so `HostCall`'s own checks are all there is.

    Its `blank()` gives results of the right types, for a runtime that must go on after the function has raised.
    """
    run, threaded = HostCall(prim.name, params, where), bool(params.get("threaded"))

    def call(*xs: Any) -> tuple[Any, ...]:
        turns: Any = ()
        device = None
        if loops or counted:
            *xs, turns = xs  # type: ignore[assignment]
            if counted:
                device = int(turns.reshape(-1)[-1])
        if threaded:
            *xs, token = xs  # type: ignore[assignment]
            return *run(xs, turns, device), token
        return run(xs, turns, device)
    call.blank = lambda: tuple(np.zeros(a.shape, a.dtype) for a in outs)  # type: ignore[attr-defined]
    return call


def _beside(ctx: Context, prim: Primitive, operands: list[Any], avals: list[ShapedArray], outs: list[ShapedArray],
            attrs: dict[str, Any]) -> list[Any]:
    """A call beside the maps of a program over several processes. Each process has its own view of what stands there, and calls
    for itself: by its first device, from which the others have the results; or, where there are no effects, so that results may
    be asked for any number of times, by all of them."""
    mesh = ctx.module.mesh
    assert mesh is not None

    def call(ctx: Context, *xs: Any) -> list[Any]:
        made = ctx.op("stablehlo.custom_call", xs, *outs, attributes=attrs)
        return [made] if len(outs) == 1 else list(made)

    def first(ctx: Context, *xs: Any) -> list[Any]:
        devices = mesh.grid.devices
        if devices == 1 or not prim.effectful:
            return call(ctx, *xs)
        at = ctx.of_participant([int(k % devices != 0) for k in range(devices * mesh.processes)])
        found = ctx.op("stablehlo.case", (at,), *outs, regions=[
            ctx.region((), lambda ctx: call(ctx, *xs)), ctx.region((), lambda ctx: [ctx.const(0, o) for o in outs])])
        groups = [[*range(p * devices, (p + 1) * devices)] for p in range(mesh.processes)]
        return [from_one(ctx, x, o, groups) for x, o in zip((found,) if len(outs) == 1 else found, outs)]

    return first(ctx, *operands) if mesh.grid.devices == 1 else mesh.each_device(ctx, first, operands, avals, outs)


def _callback(prim: Primitive) -> Callable[..., Any]:
    def lowering(ctx: Context, *args: Any, **params: Any) -> list[Any]:
        target = _TARGETS.get(ctx.platform)
        if target is None:
            raise MissingRuleError(f"lowering of `{prim.name}` for {ctx.platform} is not defined: jaxlib has no callback "
                                   "target there")
        avals, outs = list(ctx.avals_in), ctx.avals_out
        operands = list(args)
        # The turns of loops and the number of the device go last, as one array: each operand costs the host 2 us and more.
        loops, counted = len(params["callback"].loops), bool(ctx.axis_env.names)
        last = len(args) - bool(params.get("threaded"))
        numbers = operands[last - loops:last]
        del operands[last - loops:last], avals[last - loops:last]
        if counted:
            numbers.append(ctx.convert(ctx.participant(), _U32, _I32))
        if numbers:
            avals.append(_I32 if len(numbers) == 1 else shaped((len(numbers),), _I32.dtype))
            operands.append(_together(ctx, numbers, avals[-1]))
        number = ctx.module.host_function(_host(prim, params, loops, counted, list(outs),
                                                    _where(ctx.axis_env, ctx.module.placement)))
        attrs = dict(call_target_name=target, api_version=ctx.i32(4), has_side_effect=prim.effectful,
                     backend_config=ctx.attr(f"{{index = {number} : ui64}}"), operand_layouts=ctx.attr(_layouts(avals)),
                     result_layouts=ctx.attr(_layouts(outs)))
        mesh = ctx.module.mesh
        if mesh is not None:
            if not ctx.axis_env.names and mesh.processes > 1:
                return _beside(ctx, prim, operands, avals, list(outs), attrs)
            if not ctx.axis_env.names:  # as below, in Shardy's words; within a map each member calls
                attrs["sdy.sharding"] = mesh.first_alone(len(outs))
        elif ctx.module.partitions > 1:  # the host is called once, by the first partition, with whole arrays
            one = "{maximal device=0}"
            attrs["mhlo.sharding"] = one if len(outs) < 2 else "{" + ", ".join([one] * len(outs)) + "}"
        made = ctx.op("stablehlo.custom_call", operands, *outs, attributes=attrs)
        return [made] if len(outs) == 1 else list(made)
    return lowering


for _prim in (prims.pure_callback_p, prims.io_callback_p, prims.debug_callback_p):
    lowering_rules.define(_prim, _callback(_prim))
