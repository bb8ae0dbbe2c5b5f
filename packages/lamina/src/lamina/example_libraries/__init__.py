"""`lamina.example_libraries`: small networks and their training, to learn from and for small programs."""
from . import optimizers, stax

__all__ = ["optimizers", "stax"]
