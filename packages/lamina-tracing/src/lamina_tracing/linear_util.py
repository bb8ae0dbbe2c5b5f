"""Functions wrapped in transformations that are generators. `lamina.extend.linear_util` re-exports this module.

A transformation yields the changed arguments, receives the result, and yields the changed result. The first
transformation applied to a function is the innermost: it sees the arguments last and the result first.
"""
from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

from typing_extensions import override
from lamina_ir import LaminaError, config
from lamina_ir.typing import Function, Params, StaticValue, Tree

from ._core.trace import trace_state
from ._typing import CacheTable

__all__ = ["StoreException", "WrappedFun", "cache", "merge_linear_aux", "transformation", "transformation_with_aux",
           "wrap_init"]

_MAX_RESULTS = 512  # cached results per function; a full table is cleared


class StoreException(LaminaError):
    """Raised if a store is read before it is written, or written twice.

    Fix: call the wrapped function exactly once before its auxiliary output is read.
    """

    code: ClassVar[str] = "LAM1208"


class _Store:
    """Single-assignment cell for the auxiliary output of a transformation."""

    def __init__(self) -> None:
        self.value: list[Tree] = []  # empty, or one item

    def put(self, value: Tree) -> None:
        if self.value:
            raise StoreException("the function ran already, and its auxiliary output can be stored only once; wrap it "
                                 "anew")
        self.value.append(value)

    def get(self) -> Tree:
        if not self.value:
            raise StoreException("the function has not run yet, so there is no auxiliary output")
        return self.value[0]


class WrappedFun:
    """A function and its transformations. Equal to another one of the same function, transformations and params.

    Args:
      f: the function.
      transforms: (generator function, its first arguments) of each transformation, the innermost last.
      stores: for each transformation, the store of its auxiliary output, or None.
      params: keyword arguments passed to `f` in each call.
      in_type: types of the arguments, if given.
      debug_info: text about the function, if given.
    """

    __slots__ = ("f", "transforms", "stores", "params", "in_type", "debug_info", "__weakref__")

    def __init__(self, f: Function, transforms: tuple[tuple[Function, tuple[StaticValue, ...]], ...] = (),
                 stores: tuple[_Store | None, ...] = (), params: tuple[tuple[str, StaticValue], ...] = (),
                 in_type: object = None, debug_info: object = None) -> None:
        self.f, self.transforms, self.stores, self.params = f, transforms, stores, params
        self.in_type, self.debug_info = in_type, debug_info

    __name__ = property(lambda self: getattr(self.f, "__name__", "<unnamed function>"))

    def wrap(self, gen: Function, gen_static_args: tuple[StaticValue, ...], out_store: _Store | None) -> WrappedFun:
        """Return the function with one more, outermost transformation."""
        return WrappedFun(self.f, ((gen, tuple(gen_static_args)), *self.transforms), (out_store, *self.stores), self.params)

    def populate_stores(self, stores: tuple[Any, ...]) -> None:
        """Copy the values of other stores into the stores of this function."""
        for mine, other in zip(self.stores, stores, strict=True):
            if mine is not None:
                mine.put(other.get())

    def call_wrapped(self, *args: Tree, **kwargs: Tree) -> Tree:
        """Run the function with its transformations.

        Raises:
          StoreException: a transformation with auxiliary output has stored it in an earlier call.
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

    @override
    def __hash__(self) -> int:
        return hash((self.f, self.transforms, self.params, self.in_type))

    @override
    def __eq__(self, other: object) -> bool:
        if type(other) is not WrappedFun:
            return NotImplemented
        return ((self.f, self.transforms, self.params, self.in_type)
                == (other.f, other.transforms, other.params, other.in_type))

    @override
    def __repr__(self) -> str:
        inner = [getattr(gen, "__name__", repr(gen)) for gen, _ in self.transforms]
        return f"WrappedFun({self.__name__}{', in ' if inner else ''}{', in '.join(reversed(inner))})"


def wrap_init(f: Function, params: Params | None = None) -> WrappedFun:
    """Return `f` as a `WrappedFun` without transformations.

    Args:
      f: the function.
      params: keyword arguments that are passed to it in each call.

    >>> wrap_init(lambda x, y: x + y, {"y": 5}).call_wrapped(1)
    6
    """
    if not callable(f):
        raise TypeError(f"wrap_init: expected a function; got {type(f).__name__}")
    return WrappedFun(f, params=tuple(sorted((params or {}).items())))


def transformation(gen: Function) -> Callable[..., WrappedFun]:
    """Decorate a generator function as a transformation of functions.

    Args:
      gen: `gen(*static_args, *args, **kwargs)` yields `(args, kwargs)`, receives the result, and yields the new result.
    Returns:
      `transform(fun, *static_args)`, which returns a `WrappedFun`.

    >>> @transformation
    ... def scaled(k, *args, **kwargs):
    ...     out = yield tuple([k * a for a in args]), kwargs
    ...     yield out + 1
    >>> scaled(wrap_init(lambda x: x), 10).call_wrapped(2)
    21
    """
    @functools.wraps(gen)
    def transform(fun: WrappedFun, *static_args: StaticValue) -> WrappedFun:
        return fun.wrap(gen, static_args, None)
    return transform


def transformation_with_aux(gen: Function) -> Callable[..., tuple[WrappedFun, Callable[[], Tree]]]:
    """Decorate a generator function as a transformation with auxiliary output.

    Args:
      gen: as for `transformation`, but it finally yields a pair (new result, auxiliary output).
    Returns:
      `transform(fun, *static_args)`, which returns a `WrappedFun` and a function that returns the auxiliary output.
    """
    @functools.wraps(gen)
    def transform(fun: WrappedFun, *static_args: StaticValue) -> tuple[WrappedFun, Callable[[], Tree]]:
        store = _Store()
        return fun.wrap(gen, static_args, store), store.get
    return transform


def merge_linear_aux(aux1: Callable[[], Tree], aux2: Callable[[], Tree]) -> tuple[bool, Tree]:
    """Return the auxiliary output of that one of two functions which has run.

    Args:
      aux1, aux2: second results of `transformation_with_aux`.
    Returns:
      (whether it was the first, its auxiliary output).
    Raises:
      StoreException: neither has run, or both have.
    """
    outputs = []
    for first, aux in ((True, aux1), (False, aux2)):
        try:
            outputs.append((first, aux()))
        except StoreException:
            continue
    if len(outputs) != 1:
        raise StoreException("merge_linear_aux: expected one of the functions to have run; "
                             f"{'both' if outputs else 'neither'} did")
    return outputs[0]


def cache(call: Function) -> Function:
    """Cache the results of `call(wrapped, *args)` per wrapped function and settings, as long as the function lives.

    Args:
      call: takes a `WrappedFun` and hashable arguments.
    Returns:
      A function of the same arguments. Auxiliary outputs of transformations are cached too.
    """
    tables: weakref.WeakKeyDictionary[Function, CacheTable] = weakref.WeakKeyDictionary()

    @functools.wraps(call)
    def cached(fun: WrappedFun, *args: Tree) -> Tree:
        results = tables.setdefault(fun.f, {})
        key = (fun.transforms, fun.params, fun.in_type, args, config.cache_key(),
               tuple([(f.name, f.size) for f in trace_state.axes]))
        found = results.get(key)
        if found is not None:
            answer, stores = found
            fun.populate_stores(stores)
            return answer
        answer = call(fun, *args)
        if len(results) >= _MAX_RESULTS:
            results.clear()
        results[key] = answer, fun.stores
        return answer

    return cached
