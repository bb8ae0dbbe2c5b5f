"""Calls: the transpose of a call is a call of the transpose."""
from __future__ import annotations

from typing import Any

from lamina_ir import prims
from lamina_tracing.extend import bind

from ..linear import is_linear
from ..programs import transpose_program
from ..tables import transpose_rules

__all__: list[str] = []


def xla_call_transpose(cts: list[Any], *args: Any, call_jaxpr: Any, **params: Any) -> Any:
    linear = tuple(is_linear(a) for a in args)
    back = transpose_program(call_jaxpr, linear, tuple(ct is not None for ct in cts))
    held = [a for a in args if not is_linear(a)]
    params["donated_invars"] = ()
    outs = iter(bind(prims.xla_call_p, *held, *[ct for ct in cts if ct is not None], call_jaxpr=back.program, **params))
    found = iter([next(outs) if on else None for on in back.active_out])
    result = [next(found) if on else None for on in linear]
    return result[0] if len(args) == 1 else result


transpose_rules.define(prims.xla_call_p, xla_call_transpose)
