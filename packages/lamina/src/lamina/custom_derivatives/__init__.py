"""`lamina.custom_derivatives`: functions with derivatives of their own, from `lamina_autodiff`, and their ops."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_autodiff import (CustomVJPPrimal, SymbolicZero, closure_convert, custom_gradient, custom_jvp, custom_vjp,
                             custom_vjp_primal_tree_values, linear_call, zero_from_primal)
from lamina_autodiff.extend import remat_opt_p
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_ir.prims import custom_jvp_call_p, custom_vjp_call_p
from lamina_ir.prims import custom_jvp_call_p as custom_jvp_call_jaxpr_p
from lamina_ir.prims import custom_vjp_call_p as custom_vjp_call_jaxpr_p

__all__ = ["CustomVJPPrimal", "SymbolicZero", "closure_convert", "custom_gradient", "custom_jvp", "custom_jvp_call_jaxpr_p",
           "custom_jvp_call_p", "custom_vjp", "custom_vjp_call_jaxpr_p", "custom_vjp_call_p", "custom_vjp_primal_tree_values",
           "linear_call", "remat_opt_p", "zero_from_primal"]

_explain_absent_names(globals())
