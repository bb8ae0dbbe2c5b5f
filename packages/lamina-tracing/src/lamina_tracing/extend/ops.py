"""Extension API for new primitives: `bind`, types of values, checks and normalization of arguments.

`KEEP` is the beginning of the param of a constraint to the sharding that a value has already.
`explicit_meshes` is empty until a mesh with `Explicit` axes is made.
"""
from typing import TYPE_CHECKING

from lamina_ir.layers import deprecated_getattr

from .._core.args import resolve_requested_dtype
from .._core.static_args import as_tuple
from ..lax.indexing._index_checks import check_index, should_check_bounds
from ..lax.reductions._named_axes import ReductionAxes, parse_reduction_axes, gather_named_axes, select_member
from ..lax._util.operands import (as_int, check_axes, check_axis, full_like, is_axis_name, one_like, check_no_axis_name,
                                  scalar)
from ..lax._sharding.out_sharding import (KEEP, auto_axes_of, call_with_out_sharding, check_out_sharding, constrain,
                                 constrain_tree, explicit_meshes, keep_shardings, share_sharding)
from ..lax.named_einsum import split_einsum_spec
from ..lax.reductions import max_and_gap, complex_logaddexp
from ..lax.scattering import repeat_elementwise
from ..lax.windows import stack_windows
from .._core.explicit_shardings import ExplicitEntries, enable_explicit_meshes, refuse_sharded, set_sharding_analysis
from .._core.trace import bind
from .._core.tracer import has_jax_array, is_object_array, read_jax_array, typeof

__all__ = ["ExplicitEntries", "KEEP", "ReductionAxes", "as_int", "as_tuple", "auto_axes_of", "bind",
           "call_with_out_sharding", "check_axes", "check_axis", "check_index", "check_no_axis_name",
           "check_out_sharding", "complex_logaddexp", "constrain", "constrain_tree", "enable_explicit_meshes",
           "explicit_meshes", "full_like", "gather_named_axes", "has_jax_array", "is_axis_name", "is_object_array",
           "keep_shardings", "max_and_gap", "one_like", "parse_reduction_axes", "read_jax_array", "refuse_sharded",
           "repeat_elementwise", "resolve_requested_dtype", "scalar", "select_member", "set_sharding_analysis",
           "share_sharding", "should_check_bounds", "split_einsum_spec", "stack_windows", "typeof"]

if TYPE_CHECKING:
    from .._deprecated import *
else:
    __getattr__ = deprecated_getattr(__name__)
