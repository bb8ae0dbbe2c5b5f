"""`jax.custom_derivatives`: the primitives of custom calls, as programs have them."""
from .._vocabulary import custom_jvp_call_p, custom_vjp_call_jaxpr_p, custom_vjp_call_p

__all__ = ["custom_jvp_call_jaxpr_p", "custom_jvp_call_p", "custom_vjp_call_jaxpr_p", "custom_vjp_call_p"]

custom_jvp_call_jaxpr_p = custom_jvp_call_p
