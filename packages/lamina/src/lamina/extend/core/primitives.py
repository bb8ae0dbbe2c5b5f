"""`lamina.extend.core.primitives`: every op under the name people know it by, from `lamina_tracing.primitives`; that of
gamma draws from `lamina_random`."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_random import random_gamma_p as random_gamma_p
from lamina_tracing.primitives import *
from lamina_tracing.primitives import __all__ as _ops

__all__ = [*_ops, "random_gamma_p"]

_explain_absent_names(globals())
