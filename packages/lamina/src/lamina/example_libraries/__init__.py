"""`lamina.example_libraries`: small networks and their training, to learn from and for small programs."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from . import optimizers, stax

__all__ = ["optimizers", "stax"]
