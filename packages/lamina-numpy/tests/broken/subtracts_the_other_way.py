"""A number minus an array is the array minus the number."""
from lamina_numpy.stock import *
from lamina_tracing import slots

__contract__ = 1

slots.operators.install({"__rsub__": lambda self, other: self - other}, {"__rsub__": lambda self, other: self - other})
