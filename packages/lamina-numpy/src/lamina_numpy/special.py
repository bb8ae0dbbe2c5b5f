"""Functions that NumPy lacks and that `lamina.scipy.special` and `lamina.nn` re-export."""
from ._core.public_api import publish as _publish
from ._reductions.exponentials import logsumexp

__all__ = ["logsumexp"]

_publish(globals())
