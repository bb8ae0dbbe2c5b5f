"""Names of the default implementation, for the facade and for plugins: `from lamina_scipy._default import *`."""
from lamina_numpy.extend import publish as _publish
from lamina_tracing.extend import hide_frames_of as _hide_frames_of

from ._version import __version__

__all__ = ["__version__", "cluster", "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal",
           "sparse", "spatial", "special", "stats"]

_publish(globals(), {name: "" for name in __all__ if name != "__version__"})
_hide_frames_of(__file__.rsplit("/", 1)[0])
