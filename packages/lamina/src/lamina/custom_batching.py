"""`lamina.custom_batching`: functions with batching rules of their own, from `lamina_batching`."""
from . import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_batching import custom_vmap, sequential_vmap

__all__ = ["custom_vmap", "sequential_vmap"]
