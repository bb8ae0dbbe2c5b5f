"""The door for people who write ops or transformations: binding, traces, staging, and what dispatchers are given."""
from .arguments import argument_path, as_tuple, duck_types, flat_types, function_name, parameter_names, result_types
from .explain import explain_miss, logger, staging_logged, told
from .array import HostArray, concrete_types, register_array_type
from .custom import CustomCall, Positional, arrays_of, call_custom, deepest, holds_tracers, in_scope, lead_with, stage_onto
from .jitting import JitSpec, Staged, any_traced, call_staged
from .lax._common import check_axes, check_axis, full_like, match_scalars, one_like, scalar, zeros_like
from .lax.reductions import complex_logaddexp
from .lax.scattering import repeated
from .lax.windows import stacked_windows
from .operators import promote_operands
from .per_function import PerFunction
from .lines import (BatchedSource, batch_position, eager_lines, hide_frames_of, is_own_file, rule_lines, source_of_function,
                    staged_source, user_source, warn_user)
from .stage import StagingTrace, StagingTracer, eval_jaxpr, jaxpr_as_fun, stage
from .static_values import translated
from .tracebacks import boundary, filter_traceback
from .trace import (EVALUATION, AxisFrame, Trace, Tracer, axis_frame, bind, bound_axes, deeper, differs_over, now,
                    typeof)

__all__ = ["AxisFrame", "BatchedSource", "CustomCall", "EVALUATION", "HostArray", "JitSpec", "PerFunction", "Positional",
           "Staged", "StagingTrace", "StagingTracer", "Trace", "Tracer", "any_traced", "argument_path", "arrays_of",
           "as_tuple", "axis_frame", "batch_position", "bind", "bound_axes", "boundary", "call_custom", "call_staged",
           "check_axes", "check_axis", "complex_logaddexp", "concrete_types", "deeper", "deepest", "differs_over",
           "duck_types", "eager_lines", "eval_jaxpr", "explain_miss", "filter_traceback", "flat_types", "full_like",
           "function_name", "hide_frames_of", "holds_tracers", "in_scope", "is_own_file", "jaxpr_as_fun", "lead_with",
           "logger", "match_scalars", "now", "one_like", "parameter_names", "promote_operands", "register_array_type",
           "repeated", "result_types", "rule_lines", "scalar", "source_of_function", "stacked_windows", "stage",
           "stage_onto", "staged_source", "staging_logged", "told", "translated", "typeof", "user_source", "warn_user",
           "zeros_like"]
