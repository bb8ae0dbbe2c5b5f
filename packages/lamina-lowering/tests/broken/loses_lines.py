"""What is lowered knows nothing of the user's lines."""
from lamina_lowering import stock
from lamina_lowering.stock import *

__contract__ = 1


def lower(closed_jaxpr, **options):
    return stock.lower(closed_jaxpr, **{**options, "number": False})
