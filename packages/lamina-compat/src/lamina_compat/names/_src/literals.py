"""`jax._src.literals`: classes of constants in JAX's programs."""
from ..._class_views import Refusing

__all__ = ["LiteralArray", "TypedComplex", "TypedFloat", "TypedInt", "TypedNdArray"]


class _Literal(Refusing):
    """A class without instances, for `isinstance`: constants of lamina's programs are NumPy arrays and Python scalars."""

    error = TypeError
    reason = "constants of lamina's programs are NumPy arrays and scalars; use numpy.asarray"


class LiteralArray(_Literal):
    """Arrays in programs of JAX before release 0.8."""


class TypedNdArray(_Literal):
    """Arrays in programs of JAX."""


class TypedInt(_Literal):
    """Integers with a dtype in programs of JAX."""


class TypedFloat(_Literal):
    """Floats with a dtype in programs of JAX."""


class TypedComplex(_Literal):
    """Complex numbers with a dtype in programs of JAX."""
