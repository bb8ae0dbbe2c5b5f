"""A number minus an array is the array minus the number."""
from lamina_numpy._default import *
from lamina_tracing import hooks

__contract__ = 1

hooks.operators.install({"__rsub__": lambda self, other: self - other}, {"__rsub__": lambda self, other: self - other})
