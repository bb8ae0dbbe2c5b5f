"""Calls of the host: a custom call that jaxlib routes to the Python function of its number in the executable's list."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lamina_ir import MissingRuleError, Primitive, ShapedArray, prims, shaped

from ..context import Context
from ..tables import lowering_rules

__all__: list[str] = []

_U32, _I32 = shaped((), np.dtype("uint32")), shaped((), np.dtype("int32"))
_TARGETS = {"cpu": "xla_ffi_python_cpu_callback", "cuda": "xla_ffi_python_gpu_callback",
            "rocm": "xla_ffi_python_gpu_callback"}


def _layouts(avals: list[ShapedArray]) -> str:
    """Row-major, written out: the compiler would otherwise choose."""
    return "[" + ", ".join(f"dense<{list(range(a.ndim))[::-1] or ''}> : tensor<{a.ndim}xindex>" for a in avals) + "]"


def _host(prim: Primitive, params: dict[str, Any], counted: bool,
          outs: list[ShapedArray]) -> Callable[..., tuple[Any, ...]]:
    """What jaxlib calls. It checks nothing of what it gets back, so the meaning's own checks are all there is.

    Its `blank()` gives results of the right types, for a runtime that must go on after the function has raised.
    """
    def call(*xs: Any) -> tuple[Any, ...]:
        device = 0
        if counted:
            *rest, at = xs
            xs, device = tuple(rest), int(at)
        return tuple(prim.numpy(*xs, device=device, **params))
    call.blank = lambda: tuple(np.zeros(a.shape, a.dtype) for a in outs)  # type: ignore[attr-defined]
    return call


def _callback(prim: Primitive) -> Callable[..., Any]:
    def lowering(ctx: Context, *args: Any, **params: Any) -> list[Any]:
        target = _TARGETS.get(ctx.platform)
        if target is None:
            raise MissingRuleError(f"lowering of `{prim.name}` for {ctx.platform} is not defined: jaxlib has no callback "
                                   "target there")
        avals, outs = list(ctx.avals_in), ctx.avals_out
        operands = list(args)
        counted = bool(params.get("indexed")) and ctx.axis_env.replicas > 1
        if counted:
            operands.append(ctx.convert(ctx.op("stablehlo.replica_id", (), _U32), _U32, _I32))
            avals.append(_I32)
        number = ctx.module.host_function(_host(prim, params, counted, list(outs)))
        attrs = dict(call_target_name=target, api_version=ctx.i32(4), has_side_effect=prim.effectful,
                     backend_config=ctx.attr(f"{{index = {number} : ui64}}"), operand_layouts=ctx.attr(_layouts(avals)),
                     result_layouts=ctx.attr(_layouts(outs)))
        if ctx.module.partitions > 1:  # the host is called once, by the first partition, with whole arrays
            one = "{maximal device=0}"
            attrs["mhlo.sharding"] = one if len(outs) < 2 else "{" + ", ".join([one] * len(outs)) + "}"
        made = ctx.op("stablehlo.custom_call", operands, *outs, attributes=attrs)
        return [made] if len(outs) == 1 else list(made)
    return lowering


for _prim in (prims.pure_callback_p, prims.io_callback_p, prims.debug_callback_p):
    lowering_rules.define(_prim, _callback(_prim))
