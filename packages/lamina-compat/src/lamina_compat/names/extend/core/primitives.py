"""`jax.extend.core.primitives`: primitives of JAX that have another name or other params in lamina."""
from ...._vocabulary import JAX_PRIMITIVES

__all__ = list(JAX_PRIMITIVES)

from ...core import call_p as call_p
from ...core import closed_call_p as closed_call_p

globals().update(JAX_PRIMITIVES)
