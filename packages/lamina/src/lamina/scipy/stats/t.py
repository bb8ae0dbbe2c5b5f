"""`lamina.scipy.stats.t`, from `lamina_scipy.stats.t`."""
from lamina_scipy.stats.t import *
from lamina_scipy.stats.t import __all__ as __all__
