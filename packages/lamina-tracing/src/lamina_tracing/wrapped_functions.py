"""Functions with transformations around them, each a generator: it yields changed arguments, and then, sent the result, a
changed result. `lamina.extend.linear_util` shows them.

The first transformation that was put around a function is the innermost: it is the last to see the arguments, and the first to
see the result.
"""
from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from lamina_ir import config

from .trace import now

__all__ = ["StoreException", "WrappedFun", "cache", "merge_linear_aux", "transformation", "transformation_with_aux",
           "wrap_init"]

_MOST = 512  # calls that one cache remembers


class StoreException(Exception):
    """A place for a value is empty when it is read, or taken when it is written."""


class _Store:
    """A place for what a transformation says besides the result."""

    def __init__(self) -> None:
        self.held: list[Any] = []

    def put(self, value: Any) -> None:
        if self.held:
            raise StoreException("the function ran already, and its transformation has said what it says once; wrap it anew")
        self.held.append(value)

    def get(self) -> Any:
        if not self.held:
            raise StoreException("the function has not run yet, so its transformation has said nothing")
        return self.held[0]


class WrappedFun:
    """A function and the transformations around it. Equal to another one of the same function, transformations and params.

    Args:
      f: the function.
      transforms: (generator function, its first arguments) of each transformation, the innermost last.
      stores: of each transformation the place for what it says besides, or None.
      params: keyword arguments that `f` is given too.
      in_type: types of the arguments, if somebody said them.
      debug_info: words about the function, if somebody said them.
    """

    __slots__ = ("f", "transforms", "stores", "params", "in_type", "debug_info", "__weakref__")

    def __init__(self, f: Callable[..., Any], transforms: tuple[Any, ...] = (), stores: tuple[Any, ...] = (),
                 params: tuple[tuple[str, Any], ...] = (), in_type: Any = None, debug_info: Any = None) -> None:
        self.f, self.transforms, self.stores, self.params = f, transforms, stores, params
        self.in_type, self.debug_info = in_type, debug_info

    __name__ = property(lambda self: getattr(self.f, "__name__", "<unnamed function>"))

    def wrap(self, gen: Callable[..., Any], gen_static_args: tuple[Any, ...], out_store: Any) -> WrappedFun:
        """The function with one more transformation around all others."""
        return WrappedFun(self.f, ((gen, tuple(gen_static_args)), *self.transforms), (out_store, *self.stores), self.params)

    def populate_stores(self, stores: tuple[Any, ...]) -> None:
        """Put what other places hold into those of this one."""
        for mine, other in zip(self.stores, stores, strict=True):
            if mine is not None:
                mine.put(other.get())

    def call_wrapped(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function with its transformations.

        Raises:
          StoreException: a transformation that says something besides has said it in an earlier call.
        """
        running = []
        for (gen, first), store in zip(self.transforms, self.stores):
            steps = gen(*first, *args, **kwargs)
            args, kwargs = next(steps)
            running.append((steps, store))
        out = self.f(*args, **{**dict(self.params), **kwargs})
        for steps, store in reversed(running):
            out = steps.send(out)
            if store is not None:
                out, aux = out
                store.put(aux)
            steps.close()
        return out

    def __hash__(self) -> int:
        return hash((self.f, self.transforms, self.params, self.in_type))

    def __eq__(self, other: object) -> bool:
        if type(other) is not WrappedFun:
            return NotImplemented
        return ((self.f, self.transforms, self.params, self.in_type)
                == (other.f, other.transforms, other.params, other.in_type))

    def __repr__(self) -> str:
        inner = [getattr(gen, "__name__", repr(gen)) for gen, _ in self.transforms]
        return f"WrappedFun({self.__name__}{', in ' if inner else ''}{', in '.join(reversed(inner))})"


def wrap_init(f: Callable[..., Any], params: dict[str, Any] | None = None) -> WrappedFun:
    """A function without transformations, to put some around.

    Args:
      f: the function.
      params: keyword arguments that it is given in each call.

    >>> wrap_init(lambda x, y: x + y, {"y": 5}).call_wrapped(1)
    6
    """
    if not callable(f):
        raise TypeError(f"wrap_init: expected a function; got {type(f).__name__}")
    return WrappedFun(f, params=tuple(sorted((params or {}).items())))


def transformation(gen: Callable[..., Any]) -> Callable[..., WrappedFun]:
    """Make a generator function into one that puts it around functions.

    Args:
      gen: `gen(*static_args, *args, **kwargs)` yields `(args, kwargs)` and then, sent the result, what is to come out.
    Returns:
      `put_around(fun, *static_args)`, which gives a `WrappedFun`.

    >>> @transformation
    ... def scaled(k, *args, **kwargs):
    ...     out = yield tuple([k * a for a in args]), kwargs
    ...     yield out + 1
    >>> scaled(wrap_init(lambda x: x), 10).call_wrapped(2)
    21
    """
    @functools.wraps(gen)
    def put_around(fun: WrappedFun, *static_args: Any) -> WrappedFun:
        return fun.wrap(gen, static_args, None)
    return put_around


def transformation_with_aux(gen: Callable[..., Any]) -> Callable[..., tuple[WrappedFun, Callable[[], Any]]]:
    """`transformation` of a generator that yields, in the end, a pair: what is to come out, and something besides.

    Args:
      gen: as of `transformation`, but for the pair.
    Returns:
      `put_around(fun, *static_args)`, which gives a `WrappedFun` and a function that gives what was said besides.
    """
    @functools.wraps(gen)
    def put_around(fun: WrappedFun, *static_args: Any) -> tuple[WrappedFun, Callable[[], Any]]:
        store = _Store()
        return fun.wrap(gen, static_args, store), store.get
    return put_around


def merge_linear_aux(aux1: Callable[[], Any], aux2: Callable[[], Any]) -> tuple[bool, Any]:
    """What was said besides by one of two functions of which one has run.

    Args:
      aux1, aux2: second results of `transformation_with_aux`.
    Returns:
      (whether it was the first, what it said).
    Raises:
      StoreException: neither has run, or both have.
    """
    said = []
    for first, aux in ((True, aux1), (False, aux2)):
        try:
            said.append((first, aux()))
        except StoreException:
            continue
    if len(said) != 1:
        raise StoreException("merge_linear_aux: expected one of the functions to have run; "
                             f"{'both' if said else 'neither'} did")
    return said[0]


def cache(call: Callable[..., Any]) -> Callable[..., Any]:
    """Remember what `call(wrapped, *args)` gives, as long as the wrapped function lives and settings are as they are.

    Args:
      call: takes a `WrappedFun` and hashable arguments.
    Returns:
      A function of the same arguments. What transformations say besides is remembered too.
    """
    known: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()

    @functools.wraps(call)
    def remembered(fun: WrappedFun, *args: Any) -> Any:
        results = known.setdefault(fun.f, {})
        key = (fun.transforms, fun.params, fun.in_type, args, config.cache_key(), tuple([(f.name, f.size) for f in now.axes]))
        found = results.get(key)
        if found is not None:
            answer, stores = found
            fun.populate_stores(stores)
            return answer
        answer = call(fun, *args)
        if len(results) >= _MOST:
            results.clear()
        results[key] = answer, fun.stores
        return answer

    return remembered
