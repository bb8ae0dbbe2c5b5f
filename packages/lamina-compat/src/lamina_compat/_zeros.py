"""Zero tangents and linear operands as rules in JAX's form see them."""
from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from lamina_autodiff import SymbolicZero
from lamina_autodiff.extend import instantiate as _instantiate
from lamina_ir import ShapedArray, dtypes, prims, trees
from lamina_ir.typing import Value
from lamina_tracing import lax
from lamina_tracing.extend import typeof
from typing_extensions import override

from ._rule_views import tangent_aval

__all__ = ["UndefinedPrimal", "Zero", "add_jaxvals", "add_jaxvals_p", "add_tangents", "from_zero",
           "instantiate_zeros", "instantiate_zeros_aval", "is_undefined_primal", "recast_to_float0",
           "replace_float0s", "replace_internal_symbolic_zeros", "replace_rule_output_symbolic_zeros", "to_zero",
           "zero_from_primal", "zeros_like_aval", "zeros_like_jaxval"]

_Node = TypeVar("_Node", bound="_Typed")
add_jaxvals_p = prims.add_p


class _Typed:
    """A node of trees without leaves that has only a type."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.aval.str_short()})"


class Zero(_Typed):
    """A tangent or cotangent that is zero.

    Args:
      aval: its type; float0 for the tangent of an integer.

    >>> from lamina_ir import shaped
    >>> Zero(shaped((2,), "float32")), Zero.from_primal_value(3)
    (Zero(f32[2]), Zero(float0[]))
    """

    __slots__ = ()

    def instantiate(self) -> Value:
        """Return the zeros as an array."""
        return zeros_like_aval(self.aval)

    @staticmethod
    def from_primal_value(val: Value) -> Zero:
        """Return the zero tangent of a value."""
        return Zero(tangent_aval(val))

    from_value = from_primal_value


class UndefinedPrimal(_Typed):
    """A linear operand of a transpose rule, which has a type and no value.

    Args:
      aval: its type.
    """

    __slots__ = ()


def _register(kind: type[_Node]) -> None:
    trees.register_pytree_node(kind, lambda node: ((), node.aval), lambda aval, _: kind(aval))


_register(Zero)
_register(UndefinedPrimal)


def is_undefined_primal(x: object) -> bool:
    """Return whether an operand of a transpose rule is linear."""
    return type(x) is UndefinedPrimal


def zeros_like_aval(aval: ShapedArray) -> Value:
    """Return zeros of a type; a NumPy array if its dtype is float0."""
    return np.zeros(aval.shape, dtypes.float0) if aval.dtype == dtypes.float0 else _instantiate(None, aval)


def zeros_like_jaxval(val: Value) -> Value:
    """Return zeros of the type of an array."""
    return zeros_like_aval(typeof(val))


def instantiate_zeros(tangent: Any) -> Value:
    """Return a tangent as an array: zeros for a `Zero`."""
    return zeros_like_aval(tangent.aval) if type(tangent) is Zero else tangent


def instantiate_zeros_aval(aval: ShapedArray, tangent: Any) -> Value:
    """Return a tangent as an array: zeros of type `aval` for a `Zero`."""
    return zeros_like_aval(aval) if type(tangent) is Zero else tangent


def add_jaxvals(x: Value, y: Value) -> Value:
    """Return the sum of two arrays of one type."""
    return lax.add(x, y)


def add_tangents(x: Any, y: Any) -> Any:
    """Return the sum of two tangents, which may be `Zero` objects."""
    return y if type(x) is Zero else x if type(y) is Zero else lax.add(x, y)


def zero_from_primal(val: Value) -> Zero:
    """Return the zero tangent of a value."""
    return Zero(tangent_aval(val))


def replace_float0s(primal: Value, tangent: Any) -> Any:
    """Return zeros like `primal` for a tangent of dtype float0, else the tangent."""
    return lax.full_like(primal, 0) if getattr(tangent, "dtype", None) == dtypes.float0 else tangent


def recast_to_float0(primal: Value, tangent: Any) -> Any:
    """Return zeros of dtype float0 if `primal` is not inexact, else the tangent."""
    aval = tangent_aval(primal)
    return zeros_like_aval(aval) if aval.dtype == dtypes.float0 else tangent


def replace_internal_symbolic_zeros(x: Any) -> Any:
    """Return a `SymbolicZero` for a `Zero`, else `x`."""
    return SymbolicZero(x.aval) if type(x) is Zero else x


def replace_rule_output_symbolic_zeros(x: Any) -> Any:
    """Return a `Zero` for a `SymbolicZero`, else `x`."""
    return Zero(x.aval) if type(x) is SymbolicZero else x


def to_zero(tangent: Value | None, primal: Value) -> Any:
    """Return a tangent of lamina in JAX's form: `Zero` for None."""
    return Zero(tangent_aval(primal)) if tangent is None else tangent


def from_zero(tangent: Any) -> Value | None:
    """Return a tangent of JAX's form in that of lamina: None for each kind of zero."""
    if tangent is None or type(tangent) in (Zero, SymbolicZero) or getattr(tangent, "dtype", None) == dtypes.float0:
        return None
    return tangent
