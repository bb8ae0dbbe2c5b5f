"""`jax.experimental.hijax`: the names that libraries define classes with. lamina has no new kinds of arrays.

A library may derive from `HiType` and `HiPrim`, which is what its import needs. An instance cannot be made.
"""
from collections.abc import Callable
from typing import Any

from lamina_ir.layers import explain_absent_names

from ..._class_views import Refusing
from ..core import AbstractValue
from ..interpreters.ad import instantiate_zeros

__all__ = ["AbstractValue", "HiPrim", "HiType", "MutableHiType", "VJPHiPrimitive", "aval_method", "aval_property",
           "instantiate_zeros", "register_hitype"]


_REASON = "lamina has no new kinds of arrays, as of jax.experimental.hijax; register a pytree with jax.tree_util"


class HiType(Refusing):
    """The base class of new types. An instance raises NotImplementedError."""

    reason = _REASON


class HiPrim(Refusing):
    """The base class of primitives on new types. An instance raises NotImplementedError."""

    reason = _REASON


VJPHiPrimitive = HiPrim
MutableHiType = HiType
aval_property = property


def aval_method(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function: there are no traced values of new types."""
    return f


def register_hitype(cls: type, typeof: Callable[[Any], Any]) -> None:
    """Do nothing: functions refuse values of this class as objects that are no arrays."""


explain_absent_names(globals())
