"""Former names of attributes and parameters of public classes and functions. Each works for one minor version and warns."""
from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from typing_extensions import deprecated

__all__ = ["former_attributes", "former_parameters"]

_C = TypeVar("_C", bound=type)
_F = TypeVar("_F", bound=Callable[..., Any])


def former_attributes(**names: str) -> Callable[[_C], _C]:
    """Class decorator: let each former attribute or method read the one of its new name, with a DeprecationWarning.

    Args:
      names: former name -> new name. The class must not define the former one.
    Returns:
      A decorator that changes the class and returns it.

    >>> @former_attributes(short="str_short")
    ... class Shape:
    ...     str_short = "f32[2]"
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     print(Shape().short)
    f32[2]
    >>> print(caught[0].message)
    Shape.short is now called str_short
    """
    def decorate(cls: _C) -> _C:
        for old, new in names.items():
            setattr(cls, old, property(deprecated(f"{cls.__name__}.{old} is now called {new}")(_reader(new))))
        return cls

    return decorate


def _reader(name: str) -> Callable[[object], Any]:
    return lambda self: getattr(self, name)


def former_parameters(**names: str) -> Callable[[_F], _F]:
    """Decorator: accept keyword arguments by their former names, with a DeprecationWarning.

    Args:
      names: former name -> new name.
    Returns:
      A decorator of functions.

    >>> @former_parameters(turns="iterations")
    ... def cost(iterations=1):
    ...     return iterations * 2
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     cost(turns=3)
    6
    """
    def decorate(fun: _F) -> _F:
        @functools.wraps(fun)
        def call(*args: Any, **kwargs: Any) -> Any:
            for old in kwargs.keys() & names.keys():
                warnings.warn(f"{fun.__qualname__}: the parameter {old} is now called {names[old]}", DeprecationWarning, 2)
                kwargs[names[old]] = kwargs.pop(old)
            return fun(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate
