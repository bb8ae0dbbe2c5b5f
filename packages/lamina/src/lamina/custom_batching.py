"""`lamina.custom_batching`: functions with batching rules of their own, from `lamina_batching`."""
from lamina_batching import custom_vmap, sequential_vmap

__all__ = ["custom_vmap", "sequential_vmap"]
