"""Default implementation of the package: the public names.

`__init__` re-exports them. An alternative implementation that changes only a few names starts from them with a star
import.
"""
from typing import TYPE_CHECKING as _TYPE_CHECKING

from lamina_ir.layers import deprecated_getattr as _deprecated_getattr
from lamina_tracing.extend import hide_frames_of as _hide_frames_of
from . import extend
from ._version import __version__
from ._custom.closure_convert import closure_convert
from ._custom.custom_jvp import custom_jvp
from ._custom.rule_checks import SymbolicZero, zero_from_primal
from ._custom.custom_gradient import custom_gradient
from ._custom.custom_vjp import CustomVJPPrimal, custom_vjp, custom_vjp_primal_tree_values
from ._api.forward import jvp, linearize
from ._api.jacobians import hessian, jacfwd, jacrev
from ._checkpoint.policies import Recompute, Saveable, checkpoint_policies
from ._checkpoint.checkpoint import checkpoint, checkpoint_name
from ._api.fwd_and_bwd import fwd_and_bwd
from ._api.reverse import grad, linear_transpose, value_and_grad, vjp
from ._api.implicit import custom_linear_solve, custom_root

__all__ = ["CustomVJPPrimal", "Recompute", "Saveable", "SymbolicZero", "__version__", "checkpoint", "checkpoint_name",
           "checkpoint_policies", "closure_convert", "custom_gradient", "custom_jvp", "custom_linear_solve", "custom_root",
           "custom_transpose", "custom_vjp", "custom_vjp_primal_tree_values", "extend", "fwd_and_bwd", "grad", "hessian",
           "jacfwd", "jacobian", "jacrev", "jvp", "linear_call", "linear_transpose", "linearize", "print_saved_residuals",
           "remat", "value_and_grad", "vjp", "zero_from_primal"]

remat = checkpoint
jacobian = jacrev

_hide_frames_of(__file__.rsplit("/", 1)[0])

if _TYPE_CHECKING:
    from ._api.custom_transpose import custom_transpose, linear_call
    from ._checkpoint.saved_residuals import print_saved_residuals

__getattr__ = _deprecated_getattr(__package__ or "", {
    "custom_transpose": "_api.custom_transpose", "linear_call": "_api.custom_transpose",
    "print_saved_residuals": "_checkpoint.saved_residuals"})
