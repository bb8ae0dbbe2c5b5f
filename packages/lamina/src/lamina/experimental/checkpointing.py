"""`lamina.experimental.checkpointing`: trees of arrays kept in a folder, from `lamina_runtime.checkpointing`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_runtime.checkpointing import *
from lamina_runtime.checkpointing import __all__ as __all__
