"""`lamina.nn.initializers`: initial weights, from `lamina_nn.initializers`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_nn.initializers import *
from lamina_nn.initializers import __all__ as __all__
