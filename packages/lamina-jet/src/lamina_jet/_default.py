"""Names of the default implementation, for the facade and for plugins: `from lamina_jet._default import *`."""
from ._version import __version__
from .jet import jet

__all__ = ["__version__", "jet"]
