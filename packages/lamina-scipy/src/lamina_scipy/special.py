"""Special functions, named as `scipy.special` names them."""
from lamina_numpy.special import logsumexp

__all__ = ["logsumexp"]
