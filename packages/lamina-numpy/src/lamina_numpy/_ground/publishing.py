"""How a plain function becomes public.

Modules here hold plain Python functions that call one another; traced values run them as they are. `public` notes
which arguments are static, and the package's `__init__` puts a jitted twin of each under the same name, so that an
eager call is one compiled call.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

import numpy as np
from lamina_tracing import jit
from lamina_tracing.extend import EVALUATION, now, Tracer

__all__ = ["compiled", "hashable", "plain_or_compiled", "public", "public_lists", "publish", "publish_as"]

F = TypeVar("F", bound=Callable[..., Any])
_static: dict[Callable[..., Any], tuple[str, ...]] = {}
_jitted: dict[Callable[..., Any], Any] = {}
_lists: dict[Callable[..., Any], Any] = {}
_LISTS = frozenset((list, tuple, np.ndarray))


def public(*static: str) -> Callable[[F], F]:
    """Mark a function for jitting; `static` names its arguments that are not arrays."""
    def mark(fun: F) -> F:
        _static[fun] = static
        return fun
    return mark


def compiled(fun: Callable[..., Any]) -> Any:
    """The jitted twin of a plain function: one per function, `inline` so that traces see the equations only."""
    twin = _jitted.get(fun)
    if twin is None:
        static = _static.get(fun, ())
        twin = jit(fun, static_argnames=static, inline=True) if static else jit(fun, inline=True)
        _jitted[fun] = twin
    return twin


def plain_or_compiled(fun: Callable[..., Any], x: Any) -> Any:
    """What to call for this argument: the plain function on a traced value, else its compiled twin."""
    return fun if isinstance(x, Tracer) else compiled(fun)


def publish(names: dict[str, Any]) -> None:
    """Replace every marked plain function in a namespace by its jitted twin."""
    for name, value in list(names.items()):
        if isinstance(value, FunctionType):
            if value in _lists:
                names[name] = _lists[value]
            elif value in _static:
                names[name] = compiled(value)


def publish_as(fun: Callable[..., Any], wrapper: Callable[..., Any]) -> None:
    """Publish `wrapper` in place of the plain function `fun`."""
    _lists[fun] = wrapper


def public_lists(*static: str) -> Callable[[F], F]:
    """`public` for functions whose static arguments are often lists: those become tuples on the way in."""
    def mark(fun: F) -> F:
        names = fun.__code__.co_varnames
        at = [names.index(name) for name in static]
        _static[fun] = static

        @functools.wraps(fun)
        def call(*args: Any, **kwargs: Any) -> Any:
            if now.trace is not EVALUATION:  # a program is being written: no need for a compiled call
                return fun(*args, **kwargs)
            count = len(args)
            for i in at:
                if i < count and type(args[i]) in _LISTS:
                    args = (*args[:i], hashable(args[i]), *args[i + 1:])
            for name in kwargs:
                if type(kwargs[name]) in _LISTS and name in static:
                    kwargs[name] = hashable(kwargs[name])
            return compiled(fun)(*args, **kwargs)
        _lists[fun] = call
        return fun
    return mark


def hashable(x: Any) -> Any:
    """Lists, arrays and nested lists as tuples, so that they can be static arguments."""
    if isinstance(x, (list, tuple)):
        return tuple([hashable(e) for e in x])
    if isinstance(x, np.ndarray):
        return hashable(x.tolist())
    return x
