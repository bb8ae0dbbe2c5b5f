"""`jax._src.ad_util`: zero tangents and cotangents."""
from lamina_autodiff import SymbolicZero
from lamina_ir.prims import stop_gradient_p

from ..._zeros import (Zero, add_jaxvals, add_jaxvals_p, is_undefined_primal, replace_internal_symbolic_zeros,
                       replace_rule_output_symbolic_zeros, zero_from_primal, zeros_like_aval, zeros_like_jaxval)
from ..._zeros import instantiate_zeros as instantiate

__all__ = ["SymbolicZero", "Zero", "add_any_p", "add_jaxvals", "add_jaxvals_p", "instantiate", "is_undefined_primal",
           "replace_internal_symbolic_zeros", "replace_rule_output_symbolic_zeros", "stop_gradient_p",
           "zero_from_primal", "zeros_like_aval", "zeros_like_jaxval"]

add_any_p = add_jaxvals_p
