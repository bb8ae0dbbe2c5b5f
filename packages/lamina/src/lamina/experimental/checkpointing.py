"""`lamina.experimental.checkpointing`: trees of arrays kept in a folder or an object store, from `lamina_checkpoint`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_checkpoint import *
from lamina_checkpoint import __all__ as __all__
