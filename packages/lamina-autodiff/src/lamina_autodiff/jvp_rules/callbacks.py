"""Calls of the host have no derivative we could know; debugging is done with the values and changes nothing."""
from __future__ import annotations

from typing import Any

from lamina_ir import CallbackRuleError, dtypes, prims
from lamina_tracing.extend import bind

from ..tables import jvp_rules

__all__: list[str] = []


def _opaque(prim: Any) -> Any:
    def rule(primals: list[Any], tangents: list[Any], *, callback: Any, result_dtypes: Any, **params: Any) -> Any:
        if any(t is not None for t in tangents) and any(map(dtypes.is_inexact, result_dtypes)):
            raise CallbackRuleError(f"jvp of `{prim.name}` is not defined: nothing is known of the callback "
                                    f"`{callback.name}`. Wrap the function that calls it in custom_jvp or custom_vjp, or "
                                    "cut the derivative with lax.stop_gradient on its arguments")
        outs = bind(prim, *primals, callback=callback, result_dtypes=result_dtypes, **params)
        return outs, [None] * len(outs)
    return rule


def debug_callback_jvp(primals: list[Any], tangents: list[Any], **params: Any) -> Any:
    return bind(prims.debug_callback_p, *primals, **params), []


jvp_rules.define(prims.pure_callback_p, _opaque(prims.pure_callback_p))
jvp_rules.define(prims.io_callback_p, _opaque(prims.io_callback_p))
jvp_rules.define(prims.debug_callback_p, debug_callback_jvp)
