"""Type aliases for annotations (`Array`, `ArrayLike`, ...), and the registry of concrete array classes."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, Protocol, TYPE_CHECKING, Union

import numpy as np
from typing_extensions import override
from lamina_ir import dtypes
from lamina_ir.typing import Tree

from .host_array import HostArray
from .tracer import Tracer

__all__ = ["Array", "ArrayLike", "AxisLike", "DTypeLike", "HostArray", "ShapeLike", "array_types", "concrete_types",
           "is_array", "register_array_type"]

concrete_types: list[type] = [HostArray]
array_types = frozenset((np.ndarray, *[dtypes.from_short_name(n).type for n in dtypes.SHORT_NAMES])) - {np.void}


# NumPy looks these names up on any object to convert it to an array. The class `Array` must not answer: it is not an
# array.
_NUMPY_PROTOCOLS = frozenset(("__array__", "__array_finalize__", "__array_interface__", "__array_struct__",
                              "__array_ufunc__", "__array_function__", "__array_wrap__", "__array_priority__",
                              "__buffer__", "__dlpack__"))


class _ArrayKind(type):
    @override
    def __instancecheck__(cls, x: object) -> bool:
        return not x.aval.is_reference if isinstance(x, Tracer) else isinstance(x, tuple(concrete_types))

    @override
    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, (Tracer, *concrete_types)) or type.__subclasscheck__(cls, kind)

    def __getattr__(cls, name: str) -> object:
        """Return an attribute of the concrete array classes, so that `Array.sum` works."""
        if name not in _NUMPY_PROTOCOLS:
            for kind in (*concrete_types[1:], HostArray):  # classes of the runtime first, in order of registration
                if hasattr(kind, name):
                    return getattr(kind, name)
        raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")


if TYPE_CHECKING:
    from .array_types import Array as Array  # with the methods and operators that the `operators` hook installs
else:
    class Array(metaclass=_ArrayKind):
        """Type of every array and traced value, for annotations and `isinstance`; it cannot be instantiated.

        >>> import numpy as np
        >>> isinstance(np.ones(3), Array)
        False
        """

        shape: tuple[int, ...]
        dtype: np.dtype
        ndim: int
        size: int

        def __new__(cls, *args: Tree, **kwargs: Tree) -> NoReturn:
            raise TypeError("Array is a type to check against; make arrays with lamina.numpy.array")


ArrayLike = Union[Array, np.ndarray, np.generic, bool, int, float, complex]


class SupportsDType(Protocol):
    """Anything with an element type: arrays, and descriptions of arrays."""

    @property
    def dtype(self) -> np.dtype: ...


DTypeLike = Union[str, type[Any], np.dtype, SupportsDType]
ShapeLike = Union[int, Sequence[int]]  # sizes of axes; one number for one axis
AxisLike = Union[int, Sequence[int], None]  # axis numbers; None: all axes, or the function's own default


def register_array_type(kind: type) -> None:
    """Register a class of concrete arrays. The runtime registers the class of its device arrays.

    Args:
      kind: the class. Its instances must have `shape`, `dtype`, `weak_type` and `__array__`.

    >>> from lamina_ir import shaped
    >>> register_array_type(HostArray)  # it is one already
    >>> isinstance(HostArray.of(1, shaped((), "int32")), Array)
    True
    """
    if kind not in concrete_types:
        concrete_types.append(kind)


def is_array(x: object) -> bool:
    """Return whether `x` is a lamina array or a traced value. NumPy arrays and numbers are not."""
    return isinstance(x, Array)
