"""For people who write transformations: traces, staging, custom calls, mapped axes, source lines of rules."""
from ..arguments import function_name
from ..custom import (CustomCall, Positional, arrays_of, call_custom, deepest, holds_tracers, in_scope, lead_with,
                      stage_onto)
from ..lines import BatchedSource, batch_position, eager_lines, rule_lines, source_of_function, staged_source
from ..per_function import PerFunction
from ..stage import StagingTrace, StagingTracer, eval_jaxpr, jaxpr_as_fun, stage
from ..trace import AxisFrame, EVALUATION, Trace, Tracer, axis_frame, bound_axes, deeper, differs_over, known_value, now

__all__ = ["AxisFrame", "BatchedSource", "CustomCall", "EVALUATION", "PerFunction", "Positional", "StagingTrace",
           "StagingTracer", "Trace", "Tracer", "arrays_of", "axis_frame", "batch_position", "bound_axes",
           "call_custom", "deeper", "deepest", "differs_over", "eager_lines", "eval_jaxpr", "function_name",
           "holds_tracers", "in_scope", "jaxpr_as_fun", "known_value", "lead_with", "now", "rule_lines", "source_of_function",
           "stage", "stage_onto", "staged_source"]
