"""Types of values: `ShapedArray` and the other classes of abstract values, and functions of them."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
from lamina_ir import ShapedArray as _ShapedArray
from lamina_ir import dtypes, errors, shaped
from lamina_ir.typing import AxisName, Function, Value
from lamina_tracing.extend import get_concrete_value, typeof
from lamina_tracing.extend import Tracer as _Tracer
from typing_extensions import override

from ..._class_views import ClassView
from ..._vocabulary import is_level_0_4

__all__ = ["AbstractValue", "ConcreteArray", "DShapedArray", "InconclusiveDimensionOperation", "ShapedArray",
           "UnshapedArray", "abstractify", "aval_property", "canonicalize_shape", "concrete_aval", "concrete_or_error",
           "dimension_as_value", "get_aval", "is_concrete", "is_constant_dim", "is_constant_shape", "is_empty_shape",
           "lattice_join", "literalable_types", "mapped_aval", "physical_aval", "primal_dtype_to_tangent_dtype",
           "raise_as_much_as_possible", "raise_to_shaped", "shaped_abstractify", "to_concrete_value",
           "typecheck", "typecompat", "typematch", "unmapped_aval", "valid_jaxtype"]


class AbstractValue(metaclass=ClassView, of=_ShapedArray):
    """The base class of types. All types of lamina are instances of it."""


class UnshapedArray(AbstractValue, of=_ShapedArray):
    """A type with a dtype. All types of lamina have a shape as well."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Refuse: lamina has no such types."""
        if cls is UnshapedArray:
            raise NotImplementedError("UnshapedArray: lamina has no types without a shape; use ShapedArray(shape, dtype)")
        return super().__new__(cls)


class ShapedArray(UnshapedArray, of=_ShapedArray):
    """The type of an array.

    Args:
      shape: its shape.
      dtype: its dtype.
      weak_type: whether the dtype gives way to those of other operands.
      named_shape, sharding, vma, memory_space: accepted without effect if they are empty or None.
    Raises:
      NotImplementedError: `named_shape` has axes.

    >>> ShapedArray((2, 3), np.float32)
    ShapedArray(float32[2,3])
    """

    def __new__(cls, shape: Iterable[int], dtype: Any, weak_type: bool = False, named_shape: Any = None, *,
                sharding: object = None, vma: object = frozenset(), memory_space: object = None) -> Any:
        """Return a type of lamina."""
        if cls is not ShapedArray:  # a subclass of the program
            return object.__new__(cls)
        if named_shape:
            raise NotImplementedError(f"ShapedArray: named_shape must be empty; got {named_shape!r}. Read the types of values "
                                      "inside of the mapped function")
        return shaped(tuple(shape), dtypes.as_dtype(dtype), bool(weak_type))


class ConcreteArray(ShapedArray, _ShapedArray):
    """The type of a value that is known, in JAX until 0.4.35: `get_aval` returns it at the level 0.4.

    It equals another one of the same values. Programs and operations have the type without the value, `raise_to_shaped`.

    Args:
      dtype: the dtype.
      val: the value, an array or a number.
      weak_type: whether the type is weak; default: that of the value.
    """

    def __init__(self, dtype: Any, val: Value, weak_type: bool | None = None) -> None:
        aval = typeof(val)
        _ShapedArray.__init__(self, aval.shape, dtypes.as_dtype(dtype), aval.weak_type if weak_type is None else weak_type)
        self.val = val

    def __new__(cls, dtype: Any, val: Value, weak_type: bool | None = None) -> Any:
        """Return a new object."""
        return object.__new__(cls)

    @override
    def __eq__(self, other: object) -> bool:
        return self is other or type(other) is ConcreteArray and self.dtype == other.dtype and self.shape == other.shape and (
            self.weak_type == other.weak_type and bool(np.all(np.asarray(self.val) == np.asarray(other.val))))

    @override
    def __hash__(self) -> int:
        return id(self.val)

    @override
    def __repr__(self) -> str:
        return f"ConcreteArray({self.val}, dtype={self.dtype.name}{', weak_type=True' if self.weak_type else ''})"

    __str__ = __repr__

    @override
    def __reduce__(self) -> tuple[Callable[..., _ShapedArray], tuple[object, ...]]:
        return ConcreteArray, (self.dtype, self.val, self.weak_type)


class DShapedArray(UnshapedArray):
    """The type of an array with a dynamic shape. lamina has no dynamic shapes: there are none."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Refuse: lamina has no such types."""
        raise NotImplementedError("DShapedArray: lamina has no dynamic shapes; pad the arrays, and pass their sizes as arrays")


class InconclusiveDimensionOperation(errors.ConcretizationError):
    """An operation on a symbolic size has no known result. lamina has no symbolic sizes, so it is never raised.

    Fix: catch `lamina.errors.InconclusiveDimensionOperation` instead.
    """

    code: ClassVar[str] = "LAM1901"


literalable_types: set[type] = {bool, int, float, complex, np.ndarray, np.generic}


def get_aval(x: Value) -> _ShapedArray:
    """Return the type of a value, array or number; of a type, the type itself.

    At the level 0.4 the type of a known value is a `ConcreteArray`.

    >>> get_aval(2.0)
    ConcreteArray(2.0, dtype=float32, weak_type=True)
    """
    aval = shaped_abstractify(x)
    if isinstance(x, _ShapedArray) or not is_level_0_4():
        return x if isinstance(x, _ShapedArray) else aval
    known = get_concrete_value(x)
    return aval if known is None or dtypes.is_key(aval.dtype) else ConcreteArray(aval.dtype, known, aval.weak_type)


def shaped_abstractify(x: Value) -> _ShapedArray:
    """Return the type of a value without the value."""
    return raise_to_shaped(x) if isinstance(x, _ShapedArray) else typeof(x)


concrete_aval = get_aval
abstractify = shaped_abstractify


def raise_to_shaped(aval: Any, weak_type: bool | None = None) -> Any:
    """Return the type without a value, with another weak type unless `weak_type` is None."""
    weak = getattr(aval, "weak_type", weak_type) if weak_type is None else weak_type
    if type(aval) is ConcreteArray:
        return shaped(aval.shape, aval.dtype, bool(weak))
    return aval if weak == getattr(aval, "weak_type", weak) else aval.update(weak_type=weak)


def raise_as_much_as_possible(aval: Any) -> Any:
    """Return the type."""
    return aval


def lattice_join(x: _ShapedArray | None, y: _ShapedArray | None) -> _ShapedArray:
    """Return the common type of two types, weak if both are; TypeError if shapes or dtypes differ."""
    if x is None or y is None:
        found = y if x is None else x
        if found is None:
            raise TypeError("lattice_join: expected at least one type; got None and None")
        return found
    if not typematch(x, y):
        raise TypeError(f"lattice_join: types must have the same shape and dtype; got {x.str_long()} and {y.str_long()}")
    return x.strip_weak_type() if not y.weak_type else x


def typematch(t1: Any, t2: Any) -> bool:
    """Return whether two types have the same shape and dtype."""
    return isinstance(t1, _ShapedArray) and isinstance(t2, _ShapedArray) and t1.same_type(t2)


def typecompat(aval_ref: Any, aval: Any) -> bool:
    """Return whether a value of type `aval` may be used where `aval_ref` is expected."""
    return typematch(aval_ref, aval)


def typecheck(aval: Any, x: Value) -> bool:
    """Return whether a value has this type; weak types are ignored."""
    return typecompat(aval, get_aval(x))


def valid_jaxtype(x: object) -> bool:
    """Return whether an object is an array, a number or a traced value."""
    try:
        typeof(x)
    except (TypeError, ValueError):
        return False
    return True


def is_concrete(x: Value) -> bool:
    """Return whether the value is known."""
    return to_concrete_value(x) is not None


def to_concrete_value(x: Value) -> Value | None:
    """Return the value if it is known, else None."""
    return get_concrete_value(x)


def concrete_or_error(force: Callable[[Any], Any] | None, val: Any, context: str = "") -> Any:
    """Return `force(val)` of a known value.

    Args:
      force: a conversion, such as `int`; None: none.
      val: the value.
      context: the end of the error message.
    Raises:
      ConcretizationTypeError: the value is traced, and not known.

    >>> concrete_or_error(int, np.float32(3))
    3
    """
    known = val
    if isinstance(val, _Tracer):
        known = get_concrete_value(val)
        if known is None:
            raise errors.ConcretizationError(f"concrete_or_error: expected a known value; got a traced {val.aval.str_long()}. "
                                             f"Pass it as a static argument. {context}".rstrip())
    return known if force is None else force(known)


def mapped_aval(size: int, axis: int | None, aval: _ShapedArray) -> _ShapedArray:
    """Return the type of one member: without the axis `axis` of this size; the type itself if `axis` is None.

    >>> mapped_aval(2, 0, ShapedArray((2, 3), "float32"))
    ShapedArray(float32[3])
    """
    if axis is None:
        return aval
    if not 0 <= axis < aval.ndim or aval.shape[axis] != size:
        raise ValueError(f"mapped_aval: axis {axis} of the type must have size {size}; got {aval.str_long()}")
    return aval.update(shape=aval.shape[:axis] + aval.shape[axis + 1:])


def unmapped_aval(size: int, axis_name: AxisName, axis: int | None, aval: _ShapedArray | None = None) -> _ShapedArray:
    """Return the type of all members: with an axis of this size at `axis`; the type itself if `axis` is None.

    Both forms of JAX are accepted: `(size, axis_name, axis, aval)` until 0.4.35, `(size, axis, aval)` from then on.

    >>> unmapped_aval(2, 0, ShapedArray((3,), "float32"))
    ShapedArray(float32[2,3])
    """
    at: Any = axis
    if aval is None:
        at, aval = axis_name, axis  # type: ignore[assignment]
    assert isinstance(aval, _ShapedArray)
    return aval if at is None else aval.update(shape=(*aval.shape[:at], size, *aval.shape[at:]))


def is_constant_dim(d: object) -> bool:
    """Return whether a size is an int."""
    return isinstance(d, (int, np.integer))


def is_constant_shape(shape: Sequence[object]) -> bool:
    """Return whether all sizes are ints."""
    return all(map(is_constant_dim, shape))


def is_empty_shape(shape: Sequence[int]) -> bool:
    """Return whether arrays of this shape have no elements."""
    return 0 in shape


def dimension_as_value(d: int) -> int:
    """Return the size."""
    return d


def canonicalize_shape(shape: Iterable[Any], context: str = "") -> tuple[int, ...]:
    """Return a shape as a tuple of ints; TypeError if it is none."""
    try:
        return shaped(tuple(shape), np.dtype("bool")).shape
    except (TypeError, ValueError):
        raise TypeError(f"Shapes must be 1D sequences of concrete values of integer type, got {shape!r}."
                        + (f" {context}" if context else "")) from None


def primal_dtype_to_tangent_dtype(primal_dtype: Any) -> np.dtype:
    """Return the dtype of tangents: the dtype itself, or float0 unless it is inexact."""
    dtype = dtypes.as_dtype(primal_dtype)
    return dtype if dtypes.is_inexact(dtype) else dtypes.float0


def physical_aval(aval: _ShapedArray) -> _ShapedArray:
    """Return the type of the data of typed keys: uint32 numbers with one more axis. Other types are returned unchanged."""
    if not dtypes.is_key(aval.dtype):
        return aval
    words = np.zeros((), aval.dtype).view(np.uint32).size
    return shaped((*aval.shape, words), np.dtype("uint32"))


def aval_property(fget: Function) -> property:
    """Return a property."""
    return property(fget)


