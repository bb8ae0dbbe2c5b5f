"""Former public names of this package. Each works for one minor version and warns when it is used."""
from __future__ import annotations

from typing import Any

from typing_extensions import deprecated

import lamina_tracing as _lamina_tracing
from ._core.args import flatten_args, flatten_results, get_arg_avals, get_duck_typed_avals, resolve_requested_dtype
from ._core.function_cache import FunctionCache
from ._core.source_lines import (
    describe_batch_position, eager_source_requests, find_user_source, get_equation_source, get_function_source,
    make_rule_source)
from ._core.trace import (
    check_axis_name_unbound, extend_axis_env, is_counted_once, new_trace_level, staging_context, trace_state)
from ._core.tracer import get_concrete_value, get_underlying_value, has_jax_array
from ._diagnostics.argument_errors import RENAMED_ERRORS, rename_error, rename_errors, translate_error
from ._diagnostics.cache_misses import log_cache_miss
from ._diagnostics.tracebacks import api_boundary
from ._jit.custom_call import (
    PositionalSignature, capture_scope, closes_over_tracers, find_top_trace, prepend_outer_values,
    results_to_arrays, stage_sharing_outer)
from ._jit.jit_spec import contains_tracer
from ._jit.signature_cache import StagedProgram
from .lax.indexing._index_checks import should_check_bounds
from .lax.reductions._named_axes import ReductionAxes, gather_named_axes, parse_reduction_axes, select_member
from .lax._util.operands import check_no_axis_name, is_axis_name
from .lax.named_einsum import split_einsum_spec
from .lax.reductions import max_and_gap
from .lax.scattering import repeat_elementwise
from .lax.windows import stack_windows

__all__ = [
    "Along", "PerFunction", "Positional", "Staged", "TOLD_IN_NAME", "any_traced", "apart", "arrays_of",
    "axes_along", "batch_position", "bound_axes", "boundary", "checks_bounds", "counts_once", "deeper",
    "deepest", "duck_types", "eager_lines", "flat_arguments", "flat_results", "flat_types", "gathered",
    "holds_tracers", "in_name", "in_scope", "in_the_name_of", "is_name", "known_value", "lead_with", "now",
    "own", "refuse_axis_twice", "refuse_name", "repeated", "requested_dtype", "rule_lines", "seams", "slots",
    "source_of_function", "split_names", "stacked_windows", "stage_onto", "staged_for", "staged_source",
    "stands_for_array", "told", "translated", "user_source", "value_behind", "wrapped_functions"]

@deprecated("use ReductionAxes")
class Along(ReductionAxes): ...

@deprecated("use FunctionCache")
class PerFunction(FunctionCache): ...

@deprecated("use PositionalSignature")
class Positional(PositionalSignature): ...

@deprecated("use StagedProgram")
class Staged(StagedProgram): ...

@deprecated("use extend_axis_env")
class bound_axes(extend_axis_env): ...

@deprecated("use new_trace_level")
class deeper(new_trace_level): ...

@deprecated("use contains_tracer")
def any_traced(*args: Any, **kwargs: Any) -> Any: return contains_tracer(*args, **kwargs)

@deprecated("use max_and_gap")
def apart(*args: Any, **kwargs: Any) -> Any: return max_and_gap(*args, **kwargs)

@deprecated("use results_to_arrays")
def arrays_of(*args: Any, **kwargs: Any) -> Any: return results_to_arrays(*args, **kwargs)

@deprecated("use parse_reduction_axes")
def axes_along(*args: Any, **kwargs: Any) -> Any: return parse_reduction_axes(*args, **kwargs)

@deprecated("use describe_batch_position")
def batch_position(*args: Any, **kwargs: Any) -> Any: return describe_batch_position(*args, **kwargs)

@deprecated("use api_boundary")
def boundary(*args: Any, **kwargs: Any) -> Any: return api_boundary(*args, **kwargs)

@deprecated("use should_check_bounds")
def checks_bounds(*args: Any, **kwargs: Any) -> Any: return should_check_bounds(*args, **kwargs)

@deprecated("use is_counted_once")
def counts_once(*args: Any, **kwargs: Any) -> Any: return is_counted_once(*args, **kwargs)

@deprecated("use find_top_trace")
def deepest(*args: Any, **kwargs: Any) -> Any: return find_top_trace(*args, **kwargs)

@deprecated("use get_duck_typed_avals")
def duck_types(*args: Any, **kwargs: Any) -> Any: return get_duck_typed_avals(*args, **kwargs)

@deprecated("use flatten_args")
def flat_arguments(*args: Any, **kwargs: Any) -> Any: return flatten_args(*args, **kwargs)

@deprecated("use flatten_results")
def flat_results(*args: Any, **kwargs: Any) -> Any: return flatten_results(*args, **kwargs)

@deprecated("use get_arg_avals")
def flat_types(*args: Any, **kwargs: Any) -> Any: return get_arg_avals(*args, **kwargs)

@deprecated("use gather_named_axes")
def gathered(*args: Any, **kwargs: Any) -> Any: return gather_named_axes(*args, **kwargs)

@deprecated("use closes_over_tracers")
def holds_tracers(*args: Any, **kwargs: Any) -> Any: return closes_over_tracers(*args, **kwargs)

@deprecated("use rename_errors")
def in_name(*args: Any, **kwargs: Any) -> Any: return rename_errors(*args, **kwargs)

@deprecated("use capture_scope")
def in_scope(*args: Any, **kwargs: Any) -> Any: return capture_scope(*args, **kwargs)

@deprecated("use rename_error")
def in_the_name_of(*args: Any, **kwargs: Any) -> Any: return rename_error(*args, **kwargs)

@deprecated("use is_axis_name")
def is_name(*args: Any, **kwargs: Any) -> Any: return is_axis_name(*args, **kwargs)

@deprecated("use get_concrete_value")
def known_value(*args: Any, **kwargs: Any) -> Any: return get_concrete_value(*args, **kwargs)

@deprecated("use prepend_outer_values")
def lead_with(*args: Any, **kwargs: Any) -> Any: return prepend_outer_values(*args, **kwargs)

@deprecated("use select_member")
def own(*args: Any, **kwargs: Any) -> Any: return select_member(*args, **kwargs)

@deprecated("use check_axis_name_unbound")
def refuse_axis_twice(*args: Any, **kwargs: Any) -> Any: return check_axis_name_unbound(*args, **kwargs)

@deprecated("use check_no_axis_name")
def refuse_name(*args: Any, **kwargs: Any) -> Any: return check_no_axis_name(*args, **kwargs)

@deprecated("use repeat_elementwise")
def repeated(*args: Any, **kwargs: Any) -> Any: return repeat_elementwise(*args, **kwargs)

@deprecated("use resolve_requested_dtype")
def requested_dtype(*args: Any, **kwargs: Any) -> Any: return resolve_requested_dtype(*args, **kwargs)

@deprecated("use make_rule_source")
def rule_lines(*args: Any, **kwargs: Any) -> Any: return make_rule_source(*args, **kwargs)

@deprecated("use get_function_source")
def source_of_function(*args: Any, **kwargs: Any) -> Any: return get_function_source(*args, **kwargs)

@deprecated("use split_einsum_spec")
def split_names(*args: Any, **kwargs: Any) -> Any: return split_einsum_spec(*args, **kwargs)

@deprecated("use stack_windows")
def stacked_windows(*args: Any, **kwargs: Any) -> Any: return stack_windows(*args, **kwargs)

@deprecated("use stage_sharing_outer")
def stage_onto(*args: Any, **kwargs: Any) -> Any: return stage_sharing_outer(*args, **kwargs)

@deprecated("use staging_context")
def staged_for(*args: Any, **kwargs: Any) -> Any: return staging_context(*args, **kwargs)

@deprecated("use get_equation_source")
def staged_source(*args: Any, **kwargs: Any) -> Any: return get_equation_source(*args, **kwargs)

@deprecated("use has_jax_array")
def stands_for_array(*args: Any, **kwargs: Any) -> Any: return has_jax_array(*args, **kwargs)

@deprecated("use log_cache_miss")
def told(*args: Any, **kwargs: Any) -> Any: return log_cache_miss(*args, **kwargs)

@deprecated("use translate_error")
def translated(*args: Any, **kwargs: Any) -> Any: return translate_error(*args, **kwargs)

@deprecated("use find_user_source")
def user_source(*args: Any, **kwargs: Any) -> Any: return find_user_source(*args, **kwargs)

@deprecated("use get_underlying_value")
def value_behind(*args: Any, **kwargs: Any) -> Any: return get_underlying_value(*args, **kwargs)

TOLD_IN_NAME = RENAMED_ERRORS
eager_lines = eager_source_requests
now = trace_state
seams = _lamina_tracing.interfaces
slots = _lamina_tracing.hooks
wrapped_functions = _lamina_tracing.linear_util
