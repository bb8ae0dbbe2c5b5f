"""What SciPy has beyond NumPy: a module for each of its own, loaded when it is first asked for.

A module is added by its name in `__all__`, where the roof, the tests and the tools find it.
"""
from lamina_numpy.extend import publish as _publish

from ._version import __version__

__all__ = ["__version__", "cluster", "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal",
           "sparse", "spatial", "special", "stats"]

_publish(globals(), {name: "" for name in __all__ if name != "__version__"})
