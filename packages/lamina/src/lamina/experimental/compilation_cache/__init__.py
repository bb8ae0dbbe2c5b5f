"""`lamina.experimental.compilation_cache`: `lamina.compilation_cache`, also one step further down as older programs say it."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_runtime.compilation_cache import *
from lamina_runtime.compilation_cache import __all__ as _names

from . import compilation_cache

__all__ = [*_names, "compilation_cache"]
