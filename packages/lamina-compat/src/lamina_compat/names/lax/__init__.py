"""`jax.lax`: primitives of JAX that have another name or other params in lamina."""
from ..._vocabulary import JAX_PRIMITIVES

__all__ = list(JAX_PRIMITIVES)

globals().update(JAX_PRIMITIVES)
