"""`lamina.experimental.array_serialization.tensorstore_impl`: coroutines on one array."""
from lamina_checkpoint.array_serialization.tensorstore_impl import *
from lamina_checkpoint.array_serialization.tensorstore_impl import __all__ as __all__
