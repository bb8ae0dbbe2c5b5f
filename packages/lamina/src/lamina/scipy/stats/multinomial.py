"""`lamina.scipy.stats.multinomial`, from `lamina_scipy.stats.multinomial`."""
from lamina_scipy.stats.multinomial import *
from lamina_scipy.stats.multinomial import __all__ as __all__
