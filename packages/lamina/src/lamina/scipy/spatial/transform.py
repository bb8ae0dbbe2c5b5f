"""`lamina.scipy.spatial.transform`: rotations of space, from `lamina_scipy.spatial.transform`."""
from lamina_scipy.spatial.transform import *
from lamina_scipy.spatial.transform import __all__ as __all__
