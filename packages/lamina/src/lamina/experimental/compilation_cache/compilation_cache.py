"""`lamina.experimental.compilation_cache.compilation_cache`: the cache of compiled programs, from `lamina_runtime`."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_runtime.compilation_cache import *
from lamina_runtime.compilation_cache import __all__ as __all__

_explain_absent_names(globals())
