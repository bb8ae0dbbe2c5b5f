"""`lamina.scipy.spatial.transform`: rotations of space, from `lamina_scipy.spatial.transform`."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.spatial.transform import *
from lamina_scipy.spatial.transform import __all__ as __all__
