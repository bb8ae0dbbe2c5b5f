"""`lamina.extend.backend`: the clients behind the devices, from `lamina_runtime`."""
from lamina_runtime import clear_backends, get_backend

__all__ = ["clear_backends", "get_backend"]
