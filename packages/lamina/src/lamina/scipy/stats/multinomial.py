"""`lamina.scipy.stats.multinomial`, from `lamina_scipy.stats.multinomial`."""
from ... import _rooms as _rooms  # the runtime first: what follows is dispatched through it
from lamina_scipy.stats.multinomial import *
from lamina_scipy.stats.multinomial import __all__ as __all__
