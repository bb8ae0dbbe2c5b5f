"""`lamina.experimental.checkpointing`: trees of arrays kept in a folder, from `lamina_runtime.checkpointing`."""
from lamina_runtime.checkpointing import *
from lamina_runtime.checkpointing import __all__ as __all__
