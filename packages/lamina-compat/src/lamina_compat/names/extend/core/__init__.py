"""`jax.extend.core`: programs, primitives and tracers, the public part of `jax.core`."""
from lamina_ir.layers import explain_absent_names

from ...core import (AbstractValue, ClosedJaxpr, DropVar, Effect, Effects, Jaxpr, JaxprEqn, Literal, Primitive,
                     ShapedArray, Token, Trace, Tracer, TraceTag, Var, concrete_or_error,
                     eval_jaxpr, find_top_trace, gensym, get_aval, get_opaque_trace_state,
                     is_concrete, jaxpr_as_fun, jaxprs_in_params, mapped_aval, new_jaxpr_eqn,
                     no_effects, set_current_trace, subjaxprs, take_current_trace, trace_ctx,
                     unmapped_aval, valid_jaxtype)

__all__ = ["AbstractValue", "ClosedJaxpr", "DropVar", "Effect", "Effects", "Jaxpr", "JaxprEqn", "Literal", "Primitive",
           "ShapedArray", "Token", "Trace", "TraceTag", "Tracer", "Var", "concrete_or_error", "eval_jaxpr",
           "find_top_trace", "gensym", "get_aval", "get_opaque_trace_state", "is_concrete", "jaxpr_as_fun",
           "jaxprs_in_params", "mapped_aval", "new_jaxpr_eqn", "no_effects", "set_current_trace", "subjaxprs",
           "take_current_trace", "trace_ctx", "unmapped_aval", "valid_jaxtype"]

explain_absent_names(globals())
