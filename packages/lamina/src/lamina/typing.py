"""`lamina.typing`: types for annotations, from `lamina_tracing`."""
from . import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_tracing import Array, ArrayLike, DTypeLike

__all__ = ["Array", "ArrayLike", "DTypeLike"]
