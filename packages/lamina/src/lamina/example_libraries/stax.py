"""`lamina.example_libraries.stax`: small networks out of layers, from `lamina_nn.stax`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_nn.stax import *
from lamina_nn.stax import __all__ as __all__
