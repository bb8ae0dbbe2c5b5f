"""`lamina.extend.ffi`: for compiled functions of other libraries, from `lamina_runtime.ffi`."""
from lamina_runtime.ffi import *
from lamina_runtime.ffi import __all__ as __all__
