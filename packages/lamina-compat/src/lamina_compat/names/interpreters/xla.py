"""`jax.interpreters.xla`: names of JAX's former compiler interface."""
from __future__ import annotations

from types import SimpleNamespace

from lamina_ir import AxisEnv, Primitive
from lamina_ir.layers import explain_absent_names
from lamina_ir.prims import xla_call_p
from lamina_ir.typing import Outputs, ParamValue, Value
from lamina_tracing.extend import bind, typeof
from typing_extensions import override

from ..._array_classes import canonicalize, canonicalize_dtype_handlers, pytype_aval_mappings

__all__ = ["AxisEnv", "abstractify", "apply_primitive", "canonicalize_dtype", "canonicalize_dtype_handlers",
           "pytype_aval_mappings", "xe", "xla_call_p"]

abstractify, canonicalize_dtype = typeof, canonicalize


def apply_primitive(prim: Primitive, *args: Value, **params: ParamValue) -> Outputs:
    """Compile and run one primitive: an implementation for `Primitive.def_impl`."""
    return bind(prim, *args, **params)


class _JittedClass(type):
    """The class of jitted functions, which have no common class: those with `lower` and `trace`."""

    @override
    def __instancecheck__(cls, x: object) -> bool:
        return hasattr(x, "lower") and hasattr(x, "trace") and callable(x) and not isinstance(x, type)


class _PjitFunction(metaclass=_JittedClass):
    """The functions that `jax.jit` returns, for `isinstance`."""


class _PmapFunction(metaclass=_JittedClass):
    """The functions that `jax.pmap` returns, for `isinstance`."""


xe = SimpleNamespace(PjitFunction=_PjitFunction, PmapFunction=_PmapFunction)

explain_absent_names(globals())
