"""A switch counts branches from the end where its index is negative."""
from types import ModuleType

from lamina_tracing import stock
from lamina_tracing.stock import *

__contract__ = 1

lax = ModuleType("lax")
vars(lax).update(vars(stock.lax))
lax.switch = lambda index, branches, *operands: stock.lax.switch(
    stock.lax.select(stock.lax.lt(index, 0), stock.lax.add(index, len(branches)), index), branches, *operands)
