"""`lamina.extend`: for programs that read programs, and for those who add to lamina."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from . import backend, core, ffi, linear_util, random

__all__ = ["backend", "core", "ffi", "linear_util", "random"]

_explain_absent_names(globals())
