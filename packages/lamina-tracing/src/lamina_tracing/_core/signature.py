"""Names of functions and of their parameters, for cache keys and error messages."""
from __future__ import annotations

import functools
from collections.abc import Callable
from inspect import CO_VARARGS, CO_VARKEYWORDS, Parameter, signature
from types import FunctionType
from typing import Any, TypeVar

from lamina_ir.typing import Function

__all__ = ["argument_name", "count_positional", "function_name", "get_parameters", "parameter_names", "wraps"]

_F = TypeVar("_F", bound=Callable[..., Any])

Parameters = tuple[tuple[str, ...], tuple[str, ...], bool, bool]  # as `get_parameters` returns them


def function_name(fun: Function) -> str:
    """Return a function's name for messages; partials are unwrapped.

    Args:
      fun: the function.
    Returns:
      Its name, or the name of its class for a callable object.

    >>> function_name(functools.partial(max, 3))
    'max'
    """
    if type(fun) is FunctionType and fun.__name__:
        return fun.__name__
    while isinstance(fun, functools.partial):
        fun = fun.func
    name = getattr(fun, "__name__", None)
    return name if isinstance(name, str) and name else type(fun).__name__


def wraps(fun: Function) -> Callable[[_F], _F]:
    """Give a wrapper the name, docstring, signature and attributes of a user's function: `functools.wraps` for callables.

    Attributes that a function cannot have, such as a `__name__` that is not a string, are left out. A partial has no
    name: the wrapper gets that of its function.

    Args:
      fun: the function.
    Returns:
      A decorator for the wrapper. Attributes that the wrapper already has stay.

    >>> @wraps(max)
    ... def largest(*args):
    ...     return max(*args)
    >>> largest.__name__, largest.__wrapped__
    ('max', <built-in function max>)
    """
    def decorate(wrapper: _F) -> _F:
        is_function = type(fun) is FunctionType
        if is_function and not getattr(fun, "__type_params__", ()):  # as `functools.update_wrapper`, but faster
            wrapper.__module__, wrapper.__name__, wrapper.__qualname__ = fun.__module__, fun.__name__, fun.__qualname__
            wrapper.__doc__, wrapper.__annotations__ = fun.__doc__, fun.__annotations__
            wrapper.__wrapped__ = fun  # type: ignore[attr-defined]
        else:
            _update_wrapper(wrapper, fun)
        if is_function and fun.__dict__ and "spec" not in fun.__dict__:  # not one that `jit` made
            for name, value in fun.__dict__.items():
                if not hasattr(wrapper, name):
                    setattr(wrapper, name, value)
        return wrapper

    return decorate


def _update_wrapper(wrapper: Function, fun: Function) -> None:
    try:
        functools.update_wrapper(wrapper, fun, updated=())
    except TypeError:  # an attribute of another type: copy the others
        names = [n for n in functools.WRAPPER_ASSIGNMENTS if isinstance(getattr(fun, n, None), str)]
        functools.update_wrapper(wrapper, fun, names, updated=())
    if isinstance(fun, functools.partial):
        wrapper.__name__ = wrapper.__qualname__ = function_name(fun)


def get_parameters(fun: Function) -> Parameters | None:
    """Return (positional names, all names, has `*args`, has `**kwargs`); None if `fun` has no readable signature."""
    if type(fun) is FunctionType and not fun.__dict__:  # read the code object, in a tenth of the time of `signature`
        code = fun.__code__
        names, count = code.co_varnames, code.co_argcount
        return (names[:count], names[:count + code.co_kwonlyargcount], bool(code.co_flags & CO_VARARGS),
                bool(code.co_flags & CO_VARKEYWORDS))
    try:
        found = signature(fun).parameters.values()
    except (TypeError, ValueError):
        return None
    kinds = [p.kind for p in found]
    positional = tuple([p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)])
    keyword = tuple([p.name for p in found if p.kind is p.KEYWORD_ONLY])
    return positional, positional + keyword, Parameter.VAR_POSITIONAL in kinds, Parameter.VAR_KEYWORD in kinds


def parameter_names(fun: Function) -> tuple[str, ...] | None:
    """Return the names of a function's parameters, without `*args` and `**kwargs`.

    Args:
      fun: the function.
    Returns:
      A tuple of names; None if the signature is not readable.

    >>> parameter_names(lambda x, y=2, *rest, z: None)
    ('x', 'y', 'z')
    """
    known = get_parameters(fun)
    return None if known is None else known[1]


def count_positional(fun: Function) -> int | None:
    """Return the number of positional parameters of `fun`; None if it has `*args` or no readable signature."""
    known = get_parameters(fun)
    return None if known is None or known[2] else len(known[0])


def argument_name(fun: Function, position: int) -> str:
    """Return the name of a positional parameter.

    Args:
      fun: the function.
      position: non-negative position.
    Returns:
      A name; text such as `args[2]` if it has none.

    >>> argument_name(lambda x, *more: x, 0), argument_name(lambda x, *more: x, 2)
    ('x', 'args[2]')
    """
    known = get_parameters(fun)
    return known[0][position] if known is not None and position < len(known[0]) else f"args[{position}]"
