"""Calls: the derivative of a call is a call of the derivative."""
from __future__ import annotations

from typing import Any

from lamina_ir import prims
from lamina_tracing.extend import bind

from ..programs import jvp_program, linearize_program
from ..rows import Split
from ..tables import jvp_rules

__all__: list[str] = []


def xla_call_jvp(primals: list[Any], tangents: list[Any], *, call_jaxpr: Any, **params: Any) -> Any:
    params["donated_invars"] = ()
    if all(t is None for t in tangents):
        outs = bind(prims.xla_call_p, *primals, call_jaxpr=call_jaxpr, **params)
        return outs, [None] * len(outs)
    push = jvp_program(call_jaxpr, tuple(t is not None for t in tangents))
    active = [t for t in tangents if t is not None]
    outs = bind(prims.xla_call_p, *primals, *active, call_jaxpr=push.program, **params)
    rest = iter(outs[len(push.active_out):])
    return outs[:len(push.active_out)], [next(rest) if on else None for on in push.active_out]


def xla_call_linearize(trace: Any, primals: list[Any], tangents: list[Any], *, call_jaxpr: Any, **params: Any) -> Any:
    params["donated_invars"] = ()
    if all(t is None for t in tangents):
        outs = bind(prims.xla_call_p, *primals, call_jaxpr=call_jaxpr, **params)
        return outs, [None] * len(outs)
    parts = linearize_program(call_jaxpr, tuple(t is not None for t in tangents))
    outs = bind(prims.xla_call_p, *primals, call_jaxpr=parts.known, **params)
    n = len(parts.active_out)
    fresh = iter(outs[n:])
    residuals = [next(fresh) if i is None else primals[i] for i in parts.residual_from]
    active = [t for t in tangents if t is not None]
    pushed = iter(bind(prims.xla_call_p, *residuals, *active, call_jaxpr=parts.linear, **params))
    return outs[:n], [next(pushed) if on else None for on in parts.active_out]


jvp_rules.define(prims.xla_call_p, Split(xla_call_jvp, xla_call_linearize))
