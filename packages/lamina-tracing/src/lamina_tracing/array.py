"""Concrete arrays of this floor, and the type names users annotate with.

Without a runtime a concrete array is a `HostArray`: a NumPy array that carries a weak-type mark and our operators.
"""
from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Union

import numpy as np
from lamina_ir import ShapedArray, dtypes
from lamina_ir.extend import words_array

from .tracer import Tracer

__all__ = ["Array", "ArrayLike", "AxisLike", "DTypeLike", "HostArray", "ShapeLike", "array_types", "concrete_types",
           "is_array", "register_array_type"]

concrete_types: list[type] = []
array_types = frozenset((np.ndarray, *[dtypes.from_short_name(n).type for n in dtypes.SHORT_NAMES])) - {np.void}  # of NumPy's


# What NumPy asks any object for, to make an array of it: the class itself is none.
_CLASS_ONLY = frozenset(("__array__", "__array_finalize__", "__array_interface__", "__array_struct__", "__array_ufunc__",
                         "__array_function__", "__array_wrap__", "__array_priority__", "__buffer__", "__dlpack__"))


class _ArrayKind(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, Tracer) or isinstance(x, tuple(concrete_types))

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, (Tracer, *concrete_types)) or type.__subclasscheck__(cls, kind)

    def __getattr__(cls, name: str) -> Any:
        """What concrete arrays have, for those who look it up by the class: `Array.sum`."""
        if name not in _CLASS_ONLY:
            for kind in (*concrete_types[1:], HostArray):  # the runtime's own first, in the order they came
                if hasattr(kind, name):
                    return getattr(kind, name)
        raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")


class Array(metaclass=_ArrayKind):
    """The type of every array and traced value, for annotations and `isinstance`; it cannot be instantiated.

    >>> import numpy as np
    >>> isinstance(np.ones(3), Array)
    False
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    ndim: int
    size: int

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("Array is a type to check against; make arrays with lamina.numpy.array")

    if TYPE_CHECKING:  # methods and operators come from the `operators` slot
        def __getattr__(self, name: str) -> Any: ...
        def _binary(self, other: Any) -> Array: ...
        def _unary(self) -> Array: ...
        def __getitem__(self, index: Any) -> Array: ...
        def __iter__(self) -> Iterator[Array]: ...
        def __len__(self) -> int: ...
        def __bool__(self) -> bool: ...
        def __int__(self) -> int: ...
        def __float__(self) -> float: ...
        def __index__(self) -> int: ...
        def __eq__(self, other: object) -> Array: ...  # type: ignore[override]
        def __ne__(self, other: object) -> Array: ...  # type: ignore[override]
        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _binary
        __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __matmul__ = __rmatmul__ = _binary
        __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __lshift__ = __rshift__ = _binary
        __lt__ = __le__ = __gt__ = __ge__ = _binary
        __neg__ = __pos__ = __abs__ = __invert__ = _unary


ArrayLike = Union[Array, np.ndarray, np.generic, bool, int, float, complex]


class SupportsDType(Protocol):
    """Anything with an element type: arrays, and descriptions of arrays."""

    @property
    def dtype(self) -> np.dtype: ...


DTypeLike = Union[str, type[Any], np.dtype, SupportsDType]
ShapeLike = Union[int, Sequence[int]]  # sizes of axes; one number for one axis
AxisLike = Union[int, Sequence[int], None]  # which axes; None for all, or as the function says


_IN_PLACE = ("fill", "itemset", "put", "resize", "setfield", "setflags")  # what NumPy's arrays have and ours must not
_FACTS = frozenset(("data", "dtype", "flat", "imag", "real", "shape", "strides"))


class HostArray(np.ndarray):
    """A NumPy array with our operators, made by the NumPy evaluator. Its memory is read-only: arrays are immutable.

    `HostArray.of(x, aval)` makes one, in the memory of `x`, to which nobody may write any more. The class itself is not
    meant to be called.

    Args:
      shape, dtype, buffer, offset, strides, order: as of `numpy.ndarray`.

    >>> from lamina_ir import shaped
    >>> x = HostArray.of([1, 2], shaped((2,), "float32"))
    >>> x, x.weak_type
    (Array([1., 2.], dtype=float32), False)
    >>> x[0] = 5
    Traceback (most recent call last):
    TypeError: arrays are immutable: instead of `x[i] = v` write `x = x.at[i].set(v)`
    """

    weak_type = False
    _trace = None
    __array_priority__ = 900

    @staticmethod
    def of(x: Any, aval: ShapedArray) -> HostArray:
        """`x` with the dtype and weakness of `aval`. It takes the memory of `x`: nobody may write to that any more."""
        array = np.asarray(x, aval.dtype)
        array.flags.writeable = False
        ours = array.view(HostArray)
        if aval.weak_type:
            ours.weak_type = True
        return ours

    aval = property(lambda self: ShapedArray(self.shape, self.dtype, self.weak_type))
    named_shape = property(lambda self: {})

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        out = np.asarray(array)
        return out[()] if return_scalar else out

    def block_until_ready(self) -> HostArray:
        return self

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        return iter([self[i] for i in range(self.shape[0])])

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FACTS:
            raise TypeError(f"arrays are immutable: `x.{name} = v` would change one for all who hold it")
        super().__setattr__(name, value)

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError("arrays are immutable: instead of `x[i] = v` write `x = x.at[i].set(v)`")

    def __repr__(self) -> str:
        value = np.asarray(self)
        text = np.array2string(words_array(value) if dtypes.is_key(self.dtype) else value, separator=", ", prefix="Array(")
        weak = ", weak_type=True" if self.weak_type else ""
        return f"Array({text}, dtype={dtypes.long_name(self.dtype)}{weak})"

    def __str__(self) -> str:
        return str(np.asarray(self))

    def __format__(self, spec: str) -> str:
        return format(np.asarray(self)[()], spec)

    def __hash__(self) -> int:  # type: ignore[override]  # NumPy's arrays have None, and an error that helps nobody
        raise TypeError("arrays are not hashable; use their shape and dtype, or x.tobytes(), as a key")

    def __reduce__(self) -> Any:
        return _rebuild, (np.asarray(self), self.weak_type)


def _refusing(name: str) -> Any:
    def refuse(self: HostArray, *args: Any, **kwargs: Any) -> None:
        raise TypeError(f"arrays are immutable: `x.{name}` would change one in place; use a function that returns a new array, "
                        "or x.at[i].set(v)")

    return refuse


def _rebinding(op: Any) -> Any:
    return lambda x, y: op(x, y)  # a builtin would not become a method


for _name in _IN_PLACE:
    setattr(HostArray, _name, _refusing(_name))
for _op in (operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
            operator.matmul, operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift):
    # NumPy's own would write in place: `x += y` is `x = x + y`, a new array under the old name.
    setattr(HostArray, f"__i{_op.__name__.strip('_')}__", _rebinding(_op))
HostArray.__name__ = "Array"
concrete_types.append(HostArray)


def _rebuild(x: np.ndarray, weak: bool) -> HostArray:
    return HostArray.of(x, ShapedArray(x.shape, x.dtype, weak))


def register_array_type(kind: type) -> None:
    """Count a class among those of concrete arrays, as the runtime does for the arrays of its devices.

    Args:
      kind: the class. Its instances have `shape`, `dtype`, `weak_type` and `__array__`.

    >>> register_array_type(HostArray)  # it is one already
    >>> isinstance(HostArray.of(1, ShapedArray((), np.dtype("int32"))), Array)
    True
    """
    if kind not in concrete_types:
        concrete_types.append(kind)


def is_array(x: Any) -> bool:
    """Whether `x` is one of our arrays or a traced value; NumPy arrays and numbers are not."""
    return isinstance(x, Array)
