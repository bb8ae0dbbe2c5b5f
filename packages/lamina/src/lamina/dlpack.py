"""`lamina.dlpack`: arrays from other libraries and for them, from `lamina_runtime.dlpack`."""
from lamina_runtime.dlpack import *
from lamina_runtime.dlpack import __all__ as __all__
