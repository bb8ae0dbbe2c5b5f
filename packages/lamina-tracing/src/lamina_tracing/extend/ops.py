"""Extension API for new primitives: `bind`, types of values, checks and normalization of arguments."""
from ..arguments import requested_dtype
from ..statics import as_tuple
from ..lax._bounds import check_index, checks_bounds
from ..lax._names import Along, axes_along, gathered, own
from ..lax._common import as_int, check_axes, check_axis, full_like, is_name, one_like, refuse_name, scalar
from ..lax.named_einsum import split_names
from ..lax.reductions import apart, complex_logaddexp
from ..lax.scattering import repeated
from ..lax.windows import stacked_windows
from ..trace import bind
from ..tracer import stands_for_array, typeof

__all__ = ["Along", "apart", "as_int", "as_tuple", "axes_along", "bind", "check_axes", "check_axis", "check_index",
           "checks_bounds", "complex_logaddexp", "full_like", "gathered", "is_name", "one_like", "own", "refuse_name",
           "repeated", "requested_dtype", "scalar", "split_names", "stacked_windows", "stands_for_array", "typeof"]
