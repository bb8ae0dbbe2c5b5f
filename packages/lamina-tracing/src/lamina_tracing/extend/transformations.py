"""Extension API for transformations: traces, staging, custom calls, mapped axes, source lines of rules.

Three names are values, not functions:

- `trace_state` is this thread's state. `trace` handles primitives without traced operands: it is `EVALUATION`, or the
  trace that stages a program. `depth` is the level of the innermost transformation, `axes` are the mapped axes in
  scope, `scope` is the name stack, and `source` is the source line of new equations (None: that of the running user
  code).
- `EVALUATION` is the trace of level 0: it runs primitives on concrete values.
- `eager_source_requests` is not empty while eager primitives must know their source lines too, as for the NaN checks.
"""
from ..parameters import function_name
from ..custom import (CustomCall, Positional, arrays_of, call_custom, deepest, holds_tracers, in_scope, lead_with,
                      stage_onto)
from ..mapped_axes import MappedAxes
from ..lines import BatchedSource, batch_position, eager_lines, rule_lines, source_of_function, staged_source
from ..per_function import PerFunction
from ..stage import StagingTrace, StagingTracer, eval_jaxpr, jaxpr_as_fun, stage
from ..trace import AxisFrame, EVALUATION, Trace, bound_axes, counts_once, deeper, now, refuse_axis_twice, staged_for
from ..tracer import Tracer, known_value, value_behind

__all__ = ["AxisFrame", "BatchedSource", "CustomCall", "EVALUATION", "MappedAxes", "PerFunction", "Positional", "StagingTrace",
           "StagingTracer", "Trace", "Tracer", "arrays_of", "batch_position", "bound_axes", "call_custom", "counts_once",
           "deeper", "deepest", "eager_lines", "eval_jaxpr", "function_name", "holds_tracers", "in_scope",
           "jaxpr_as_fun", "known_value", "lead_with", "now", "refuse_axis_twice", "rule_lines", "source_of_function",
           "stage", "stage_onto", "staged_for", "staged_source", "value_behind"]
