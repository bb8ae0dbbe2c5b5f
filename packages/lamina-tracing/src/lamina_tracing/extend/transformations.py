"""For people who write transformations: traces, staging, custom calls, mapped axes, source lines of rules.

Three names are values, not functions:

- `now` is this thread's state: `now.trace` handles ops without traced arguments (`EVALUATION`, or the trace that writes a
  program), `now.depth` is the level of the innermost transformation, `now.axes` the mapped axes in scope, `now.scope` the
  names around, `now.source` the line that equations get (None: that of the user's code that is running).
- `EVALUATION` is the trace at the end of every walk: it runs ops on concrete values.
- `eager_lines` is not empty while ops that run at once are to know their lines too, as when NaNs are looked for.
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
