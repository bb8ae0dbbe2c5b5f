"""`lamina.experimental.compilation_cache.compilation_cache`: the cache of compiled programs, from `lamina_runtime`."""
from lamina_runtime.compilation_cache import *
from lamina_runtime.compilation_cache import __all__ as __all__
