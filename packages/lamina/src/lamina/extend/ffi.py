"""`lamina.extend.ffi`: for compiled functions of other libraries, from `lamina_runtime.ffi`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_runtime.ffi import *
from lamina_runtime.ffi import __all__ as __all__
