"""`jax.linear_util`: functions with transformations around them."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from lamina_ir.typing import Function, Params, StaticValue, Tree
from lamina_tracing import linear_util as _own
from lamina_tracing.linear_util import (StoreException, WrappedFun, cache, merge_linear_aux, transformation,
                                        transformation_with_aux)
from typing_extensions import override

__all__ = ["EqualStore", "Store", "StoreException", "WrappedFun", "annotate", "cache", "hashable_partial", "merge_linear_aux",
           "transformation", "transformation2", "transformation_with_aux", "transformation_with_aux2", "wrap_init"]


class Store:
    """Single-assignment cell: `store(value)`, then `val` or `get()`."""

    def __init__(self) -> None:
        self._values: list[Tree] = []  # empty, or one item

    def store(self, val: Tree) -> None:
        """Store the value; StoreException if there is one."""
        if self._values:
            raise StoreException("the store has a value already; make a new one")
        self._values.append(val)

    put = store

    def get(self) -> Tree:
        """Return the value; StoreException if there is none."""
        if not self._values:
            raise StoreException("the store is empty: the function has not run yet")
        return self._values[0]

    def reset(self) -> None:
        """Drop the value."""
        self._values.clear()

    def __bool__(self) -> bool:
        return bool(self._values)

    val = property(get)


class EqualStore(Store):
    """A store that takes further values if they are equal to the first."""

    @override
    def store(self, val: Tree) -> None:
        if self and self.get() != val:
            raise StoreException(f"the store has another value: {self.get()!r}; got {val!r}")
        if not self:
            super().store(val)

    put = store


def wrap_init(f: Function, params: Params | None = None, *, debug_info: object = None) -> WrappedFun:
    """Return `f` as a `WrappedFun` without transformations.

    Args:
      f: the function.
      params: keyword arguments that are passed to it in each call.
      debug_info: stored in the attribute of this name.

    >>> wrap_init(lambda x, y: x + y, {"y": 5}).call_wrapped(1)
    6
    """
    fun = _own.wrap_init(f, params)
    fun.debug_info = debug_info
    return fun


class _Transformed:
    """A function transformed by a function that calls it."""

    def __init__(self, transform: Function, fun: WrappedFun, static_args: tuple[StaticValue, ...], store: Store | None) -> None:
        self.transform, self.fun, self.static_args, self.store = transform, fun, static_args, store

    __name__ = property(lambda self: self.fun.__name__)

    def __call__(self, *args: Tree, **kwargs: Tree) -> Tree:
        first = self.static_args if self.store is None else (self.store, *self.static_args)
        return self.transform(self.fun.call_wrapped, *first, *args, **kwargs)

    def _key(self) -> tuple[Any, ...]:
        return self.transform, self.fun, self.static_args

    @override
    def __eq__(self, other: object) -> bool:
        return type(other) is _Transformed and self._key() == other._key()

    @override
    def __hash__(self) -> int:
        return hash(self._key())


def _transform(gen: Function, fun: WrappedFun, static_args: tuple[StaticValue, ...], store: Store | None) -> WrappedFun:
    # Stores without a transformation: `cache` fills those of a function whose result it knows.
    return WrappedFun(_Transformed(gen, fun, static_args, store), stores=(store, *fun.stores),  # type: ignore[arg-type]
                      debug_info=fun.debug_info)


def transformation2(gen: Function) -> Callable[..., WrappedFun]:
    """Decorate a function as a transformation of functions.

    Args:
      gen: `gen(fun, *static_args, *args, **kwargs)` calls `fun` and returns the new result.
    Returns:
      `transform(fun, *static_args)`, which returns a `WrappedFun`.

    >>> @transformation2
    ... def scaled(fun, k, *args):
    ...     return fun(*[k * a for a in args]) + 1
    >>> scaled(wrap_init(lambda x: x), 10).call_wrapped(2)
    21
    """
    @functools.wraps(gen)
    def transform(fun: WrappedFun, *static_args: StaticValue) -> WrappedFun:
        return _transform(gen, fun, static_args, None)
    return transform


def transformation_with_aux2(gen: Function) -> Callable[..., tuple[WrappedFun, Callable[[], Tree]]]:
    """Decorate a function as a transformation with auxiliary output.

    Args:
      gen: `gen(fun, store, *static_args, *args, **kwargs)` calls `fun`, calls `store.store(auxiliary output)`, and returns
        the new result.
    Returns:
      `transform(fun, *static_args)`, which returns a `WrappedFun` and a function that returns the auxiliary output.
    """
    @functools.wraps(gen)
    def transform(fun: WrappedFun, *static_args: StaticValue,
                  use_eq_store: bool = False) -> tuple[WrappedFun, Callable[[], Tree]]:
        store = EqualStore() if use_eq_store else Store()
        return _transform(gen, fun, static_args, store), store.get
    return transform


@transformation
def hashable_partial(*args: Tree) -> Any:
    """Return the function with its first arguments given: `hashable_partial(fun, *args)`.

    >>> hashable_partial(wrap_init(lambda x, y: x - y), 5).call_wrapped(3)
    2
    """
    yield (yield args, {})


def annotate(f: WrappedFun, in_type: object) -> WrappedFun:
    """Return the function with the types of its arguments.

    Args:
      f: the function.
      in_type: pairs (type, whether the argument is explicit); None returns `f` itself.
    """
    if in_type is None:
        return f
    return WrappedFun(f.f, f.transforms, f.stores, f.params, in_type, f.debug_info)
