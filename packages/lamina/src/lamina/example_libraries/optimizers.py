"""`lamina.example_libraries.optimizers`: gradient descent of many kinds, from `lamina_nn.optimizers`."""
from .. import _rooms as _rooms  # the runtime first: what follows is dispatched through it
from lamina_nn.optimizers import *
from lamina_nn.optimizers import __all__ as __all__
