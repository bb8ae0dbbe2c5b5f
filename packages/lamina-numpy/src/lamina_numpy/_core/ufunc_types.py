"""Static types of elementwise functions: calls on arrays, and the methods of NumPy's ufuncs (`reduce`, ...)."""
from __future__ import annotations

from typing import Any, Protocol

from lamina_tracing import Array, ArrayLike

from .public_api import public_api


class Unary(Protocol):
    """An elementwise function of one array."""

    def __call__(self, x: ArrayLike, /) -> Array: ...
    def __getattr__(self, name: str) -> Any: ...


class Binary(Protocol):
    """An elementwise function of two arrays that broadcast to each other."""

    def __call__(self, x: ArrayLike, y: ArrayLike, /) -> Array: ...
    def __getattr__(self, name: str) -> Any: ...


class Predicate(Protocol):
    """A function from one array, which may be passed by name, to booleans."""

    def __call__(self, x: ArrayLike) -> Array: ...


def unary(name: str, doc: str, op: Any) -> Unary:
    """A function of one array that a table makes, marked for publishing."""
    return public_api(name=name, doc=doc)(op)


def binary(name: str, doc: str, op: Any) -> Binary:
    """The same of two."""
    return public_api(name=name, doc=doc)(op)
