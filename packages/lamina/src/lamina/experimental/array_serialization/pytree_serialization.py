"""`lamina.experimental.array_serialization.pytree_serialization`: one tree in one folder."""
from lamina_checkpoint.array_serialization.pytree_serialization import *
from lamina_checkpoint.array_serialization.pytree_serialization import __all__ as __all__
