"""JVP rules of host callbacks: an error for callbacks with float results; debug callbacks run on the primals."""
from __future__ import annotations

from lamina_ir import CallbackRuleError, dtypes, Primitive, prims
from lamina_ir.typing import Function, ParamValue, Value
from lamina_tracing.extend import bind

from .._engine.rule_tables import jvp_rules
from .._typing import RuleResult, Tangent

__all__: list[str] = []


def _make_opaque_rule(prim: Primitive) -> Function:
    """Return a rule that raises an error if a tangent would pass through the callback."""
    def rule(primals: list[Value], tangents: list[Tangent], *, callback: ParamValue, result_dtypes: ParamValue,
             **params: ParamValue) -> RuleResult:
        if any(t is not None for t in tangents) and any(map(dtypes.is_inexact, result_dtypes)):
            raise CallbackRuleError(f"jvp of `{prim.name}` is not defined: the derivative of the callback "
                                    f"`{callback.name}` is unknown. Wrap the function that calls it in custom_jvp or "
                                    "custom_vjp, or cut the derivative with lax.stop_gradient on its arguments")
        outs = bind(prim, *primals, callback=callback, result_dtypes=result_dtypes, **params)
        return outs, [None] * len(outs)
    return rule


def debug_callback_jvp(primals: list[Value], tangents: list[Tangent], **params: ParamValue) -> RuleResult:
    return bind(prims.debug_callback_p, *primals, **params), []


jvp_rules.define(prims.pure_callback_p, _make_opaque_rule(prims.pure_callback_p))
jvp_rules.define(prims.io_callback_p, _make_opaque_rule(prims.io_callback_p))
jvp_rules.define(prims.debug_callback_p, debug_callback_jvp)
