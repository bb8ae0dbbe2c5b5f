"""`where` looks at its condition, which a traced one does not have."""
import numpy as np
from lamina_numpy import _default
from lamina_numpy._default import *

__contract__ = 1


def where(condition, x=None, y=None, **options):
    if x is None:
        return _default.where(condition, **options)
    if np.ndim(condition) == 0 and type(condition) is not bool:
        return x if np.asarray(condition).item() else y
    return _default.where(np.asarray(condition), x, y, **options)
