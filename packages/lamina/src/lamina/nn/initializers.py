"""`lamina.nn.initializers`: initial weights, from `lamina_nn.initializers`."""
from lamina_nn.initializers import *
from lamina_nn.initializers import __all__ as __all__
