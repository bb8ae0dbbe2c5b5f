"""Tables of array classes in JAX's form: an assignment makes a class of a program an array class."""
from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

import numpy as np
from lamina_ir.typing import Function, Value
from lamina_tracing.extend import array_types, typeof
from typing_extensions import override

__all__ = ["ArrayClasses", "canonicalize", "canonicalize_dtype_handlers", "pytype_aval_mappings"]


def canonicalize(x: Value) -> Value:
    """Return a value with the dtype that computations use, such as float32 for float64 without x64."""
    dtype = typeof(x).dtype
    return x if getattr(x, "dtype", None) == dtype else np.asarray(x, dtype)


class ArrayClasses(MutableMapping[type, Function]):
    """Array classes as a mapping; look-ups of all classes return one function.

    An assignment gives a class a method `__jax_array__`, which converts its objects with `numpy.asarray`, unless it has one.

    Args:
      name: the name in messages.
      function: the value of each class.
    """

    def __init__(self, name: str, function: Callable[[Any], Any]) -> None:
        self.name, self.function = name, function
        self._classes: dict[type, Function] = {kind: function for kind in array_types if isinstance(kind, type)}

    @override
    def __getitem__(self, kind: type) -> Function:
        if kind not in self._classes and not hasattr(kind, "__jax_array__"):
            raise KeyError(kind)
        return self._classes.get(kind, self.function)

    @override
    def __setitem__(self, kind: type, function: Function) -> None:
        if kind not in self._classes and not hasattr(kind, "__jax_array__"):
            try:
                kind.__jax_array__ = lambda self: np.asarray(self)  # type: ignore[attr-defined]
            except (AttributeError, TypeError) as e:
                raise TypeError(f"{self.name}: {kind!r} cannot become an array class: {e}. Give it a method __jax_array__ that "
                                "returns an array") from None
        self._classes[kind] = function

    @override
    def __delitem__(self, kind: type) -> None:
        del self._classes[kind]

    @override
    def __iter__(self) -> Iterator[type]:
        return iter(list(self._classes))

    @override
    def __len__(self) -> int:
        return len(self._classes)


pytype_aval_mappings = ArrayClasses("pytype_aval_mappings", typeof)
canonicalize_dtype_handlers = ArrayClasses("canonicalize_dtype_handlers", canonicalize)
