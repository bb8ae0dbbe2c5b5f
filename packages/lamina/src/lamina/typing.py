"""`lamina.typing`: types for annotations, from `lamina_tracing`."""
from lamina_tracing import Array, ArrayLike, DTypeLike

__all__ = ["Array", "ArrayLike", "DTypeLike"]
