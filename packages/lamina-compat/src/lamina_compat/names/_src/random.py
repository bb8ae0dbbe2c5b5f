"""`jax._src.random`: the names of `jax.random`, and the class of its keys."""
from lamina_tracing import Array as KeyArray

__all__ = ["KeyArray"]
