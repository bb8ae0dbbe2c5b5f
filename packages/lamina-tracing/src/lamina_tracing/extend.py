"""The door for people who write ops or transformations: binding, traces, staging, and what dispatchers are given."""
from .arguments import argument_path, as_tuple, duck_types, flat_types, function_name, parameter_names, result_types
from .array import HostArray, concrete_types, register_array_type
from .jitting import JitSpec, Staged, any_traced, call_staged
from .lax._common import check_axes, check_axis, full_like, match_scalars, one_like, scalar, zeros_like
from .operators import promote_operands
from .stage import StagingTrace, StagingTracer, eval_jaxpr, hide_frames_of, jaxpr_as_fun, stage, user_source
from .trace import (EVALUATION, AxisFrame, Trace, Tracer, axis_frame, bind, bound_axes, deeper, now,
                    typeof)

__all__ = ["EVALUATION", "AxisFrame", "HostArray", "JitSpec", "Staged", "StagingTrace", "StagingTracer", "Trace",
           "Tracer", "any_traced", "argument_path", "as_tuple", "axis_frame", "bind", "bound_axes",
           "call_staged", "check_axes", "check_axis", "concrete_types", "deeper", "duck_types", "eval_jaxpr",
           "flat_types", "full_like", "function_name", "hide_frames_of", "jaxpr_as_fun", "match_scalars", "now",
           "one_like", "parameter_names", "promote_operands", "register_array_type", "result_types", "scalar", "stage",
           "typeof", "user_source", "zeros_like"]
