"""Functions beyond NumPy's own that several rooms above show: `lamina.scipy.special` and `lamina.nn` do."""
from ._ground.publishing import publish as _publish
from ._reduce.exponentials import logsumexp

__all__ = ["logsumexp"]

_publish(globals())
