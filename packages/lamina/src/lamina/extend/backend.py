"""`lamina.extend.backend`: the clients behind the devices, from `lamina_runtime`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_runtime import clear_backends, get_backend

__all__ = ["clear_backends", "get_backend"]
