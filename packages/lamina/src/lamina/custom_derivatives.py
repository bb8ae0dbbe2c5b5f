"""`lamina.custom_derivatives`: functions with derivatives of their own, from `lamina_autodiff`."""
from lamina_autodiff import CustomVJPPrimal, SymbolicZero, closure_convert, custom_gradient, custom_jvp, custom_vjp

__all__ = ["CustomVJPPrimal", "SymbolicZero", "closure_convert", "custom_gradient", "custom_jvp", "custom_vjp"]
