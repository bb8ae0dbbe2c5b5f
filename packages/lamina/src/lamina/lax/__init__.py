"""`lamina.lax`: the typed functions of `lamina_tracing.lax`, the solvers of `lamina_autodiff`, `linalg`, and the ops of
`lamina_tracing.primitives`, fetched when first asked for."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
import typing as _typing

import lamina_tracing as _tracing
from lamina_autodiff import custom_linear_solve, custom_root
from lamina_ir import prims as _prims
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_tracing.lax import *

from . import linalg

if _typing.TYPE_CHECKING:
    from lamina_tracing.primitives import *

_OPS = frozenset(["scan_bind", *[name for name in dir(_prims) if name.endswith("_p") and name != "_p"]]).union(
    f"{name}_p" for name in (
        "add_jaxvals after_all approx_top_k call cholesky_update closed_call create_token cumlogsumexp "
        "custom_jvp_call_jaxpr custom_lin custom_vjp_call_jaxpr device_put eq_to infeed le_to log2 lt_to mulhi "
        "one_minus_square ormqr outfeed scatter_sub select_and_scatter select_n split stack stage "
        "symmetric_product tile unstack zeros_like").split())

__all__ = [*vars(_tracing.lax)["__all__"], *sorted(_OPS), "custom_linear_solve", "custom_root", "linalg"]


if not _typing.TYPE_CHECKING:  # to checkers a name that is not listed is a mistake
    def __getattr__(name: str) -> _typing.Any:
        if name not in _OPS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(_tracing.primitives, name)
        return value


_explain_absent_names(globals())
