"""`lamina.scipy.stats.multinomial`, from `lamina_scipy.stats.multinomial`."""
from .... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.multinomial import *
from lamina_scipy.stats.multinomial import __all__ as __all__
