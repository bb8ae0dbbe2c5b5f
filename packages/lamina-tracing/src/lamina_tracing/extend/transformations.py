"""Extension API for transformations: traces, staging, custom calls, mapped axes, source lines of rules.

Three names are values, not functions:

- `trace_state` is this thread's state. `trace` handles primitives without traced operands: it is `EVALUATION`, or the
  trace that stages a program. `depth` is the level of the innermost transformation, `axes` are the mapped axes in
  scope, `scope` is the name stack. `source` is the source line of new equations (None: that of the running user code).
- `EVALUATION` is the trace of level 0: it runs primitives on concrete values.
- `eager_source_requests` is not empty while eager primitives must know their source lines too, as for the NaN checks.
"""
from typing import TYPE_CHECKING

from lamina_ir.layers import deprecated_getattr

from .._core.signature import function_name, wraps
from .._jit.custom_call import (CustomCall, PositionalSignature, results_to_arrays, call_custom, find_top_trace,
                                closes_over_tracers, capture_scope, prepend_outer_values, stage_sharing_outer)
from .._jit.axis_specs import MappedAxes
from .._core.source_lines import (BatchedSource, RuleSource, describe_batch_position, eager_source_requests, make_rule_source,
                                  get_function_source, get_equation_source)
from .._core.function_cache import FunctionCache
from .._core.staging import StagingTrace, StagingTracer, eval_jaxpr, jaxpr_as_fun, stage
from .._core.trace import (AxisFrame, EVALUATION, Trace, extend_axis_env, is_counted_once, new_trace_level, trace_state,
                           check_axis_name_unbound, staging_context)
from .._core.tracer import Tracer, get_concrete_value, get_underlying_value, stack_object_arrays

__all__ = ["AxisFrame", "BatchedSource", "CustomCall", "EVALUATION", "FunctionCache", "MappedAxes",
           "PositionalSignature", "RuleSource", "StagingTrace", "StagingTracer", "Trace", "Tracer", "call_custom",
           "capture_scope", "check_axis_name_unbound", "closes_over_tracers", "describe_batch_position",
           "eager_source_requests", "eval_jaxpr", "extend_axis_env", "find_top_trace", "function_name", "get_concrete_value",
           "get_equation_source", "get_function_source", "get_underlying_value", "is_counted_once", "jaxpr_as_fun",
           "make_rule_source", "new_trace_level", "prepend_outer_values", "results_to_arrays", "stack_object_arrays",
           "stage", "stage_sharing_outer", "staging_context", "trace_state", "wraps"]

if TYPE_CHECKING:
    from .._deprecated import *
else:
    __getattr__ = deprecated_getattr(__name__)
