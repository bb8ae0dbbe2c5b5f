"""`jax.lib.xla_extension`: classes of jaxlib under the names that they had, and those for which lamina has its own."""
from importlib import import_module as _import_module
from typing import Any

from lamina_ir import ExecutionError as XlaRuntimeError
from lamina_ir.layers import explain_absent_names
from lamina_runtime import PmapSharding
from lamina_runtime.stages import Wrapped as _Wrapped
from typing_extensions import override

__all__ = ["PmapFunction", "PmapSharding", "PyTreeRegistry", "WeakrefLRUCache", "XlaRuntimeError", "profiler",
           "weakref_lru_cache"]

PyTreeRegistry: Any = _import_module("jaxlib._jax").pytree.PyTreeRegistry
profiler: Any = _import_module("jaxlib._profiler")
weakref_lru_cache: Any = _import_module("jaxlib.weakref_lru_cache").weakref_lru_cache
WeakrefLRUCache: Any = _import_module("jaxlib.weakref_lru_cache").WeakrefLRUCache
_PjitFunction: Any = _import_module("jaxlib._jax").PjitFunction


class _PmapMeta(type):
    @override
    def __instancecheck__(cls, x: object) -> bool:
        return not isinstance(x, (type, _PjitFunction)) and isinstance(x, _Wrapped)


class PmapFunction(metaclass=_PmapMeta):
    """The class of mapped functions, for `isinstance`: `jax.pmap` of lamina returns plain functions with methods."""


explain_absent_names(globals())
