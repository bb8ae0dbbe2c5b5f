"""A program is written out wherever it is called."""
from lamina_ir import inline_calls
from lamina_lowering import stock
from lamina_lowering.stock import *

__contract__ = 1


def lower(closed_jaxpr, **options):
    return stock.lower(inline_calls(closed_jaxpr), **options)
