"""`lamina.experimental.array_serialization.serialization`: lists of arrays, written in another thread."""
from lamina_checkpoint.array_serialization.serialization import *
from lamina_checkpoint.array_serialization.serialization import __all__ as __all__
