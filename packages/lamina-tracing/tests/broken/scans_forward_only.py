"""A scan goes forwards, whatever `reverse` says."""
from types import ModuleType

from lamina_tracing import stock
from lamina_tracing.stock import *

__contract__ = 1

lax = ModuleType("lax")
vars(lax).update(vars(stock.lax))
lax.scan = lambda *args, reverse=False, **options: stock.lax.scan(*args, **options)
