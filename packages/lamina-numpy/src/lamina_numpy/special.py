"""Functions beyond NumPy's own that several rooms above show: `lamina.scipy.special` and `lamina.nn` do."""
from ._core.public_api import publish as _publish
from ._reductions.exponentials import logsumexp

__all__ = ["logsumexp"]

_publish(globals())
