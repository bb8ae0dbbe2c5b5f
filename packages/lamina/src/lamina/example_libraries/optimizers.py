"""`lamina.example_libraries.optimizers`: gradient descent of many kinds, from `lamina_nn.optimizers`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_nn.optimizers import *
from lamina_nn.optimizers import __all__ as __all__
