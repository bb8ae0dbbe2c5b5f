"""`lamina.scipy.sparse.linalg`: systems solved by iteration, from `lamina_scipy.sparse.linalg`."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.sparse.linalg import *
from lamina_scipy.sparse.linalg import __all__ as __all__
