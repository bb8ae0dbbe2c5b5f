"""Lists are arrays too."""
from lamina_numpy import _default
from lamina_numpy._default import *

__contract__ = 1


def sum(a, *args, **options):
    return _default.sum(_default.asarray(a), *args, **options)
