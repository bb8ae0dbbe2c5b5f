"""Tracing: binding ops, staging programs, `jit`, and the typed `lax` functions. No backend needed."""
from . import extend, lax, operators, slots
from ._version import __version__
from .api import disable_jit, eval_shape, make_jaxpr, named_call, named_scope
from .array import Array, ArrayLike
from .jitting import jit

operators.install()

__all__ = ["Array", "ArrayLike", "__version__", "disable_jit", "eval_shape", "extend", "jit", "lax", "make_jaxpr",
           "named_call", "named_scope", "slots"]
