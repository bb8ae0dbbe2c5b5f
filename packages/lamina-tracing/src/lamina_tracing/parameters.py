"""What a function calls itself and its parameters."""
from __future__ import annotations

import functools
from inspect import CO_VARARGS, CO_VARKEYWORDS, Parameter, signature
from types import FunctionType
from typing import Any

__all__ = ["argument_name", "function_name", "parameter_names", "parameters_of", "positional_count"]


def function_name(fun: Any) -> str:
    """A name for print and errors, looking through partials and callable objects.

    Args:
      fun: the function.
    Returns:
      Its name, or that of its class.

    >>> function_name(functools.partial(max, 3))
    'max'
    """
    while isinstance(fun, functools.partial):
        fun = fun.func
    return getattr(fun, "__name__", None) or type(fun).__name__


def parameters_of(fun: Any) -> tuple[tuple[str, ...], tuple[str, ...], bool, bool] | None:
    """Positional names, all names, and whether `*args` and `**kwargs` are taken; None where this is not to be had."""
    if type(fun) is FunctionType and not fun.__dict__:  # its code says it, without `inspect`: a tenth of the time
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


def parameter_names(fun: Any) -> tuple[str, ...] | None:
    """Names of a function's parameters, `*args` and `**kwargs` apart.

    Args:
      fun: the function.
    Returns:
      A tuple of names; None where they are not to be had.

    >>> parameter_names(lambda x, y=2, *rest, z: None)
    ('x', 'y', 'z')
    """
    known = parameters_of(fun)
    return None if known is None else known[1]


def positional_count(fun: Any) -> int | None:
    """How many positional arguments `fun` takes; None for any number."""
    known = parameters_of(fun)
    return None if known is None or known[2] else len(known[0])


def argument_name(fun: Any, position: int) -> str:
    """What a function calls the argument at a position.

    Args:
      fun: the function.
      position: counted from the front.
    Returns:
      A name; where there is none to be had, text such as `args[2]`.

    >>> argument_name(lambda x, *more: x, 0), argument_name(lambda x, *more: x, 2)
    ('x', 'args[2]')
    """
    known = parameters_of(fun)
    return known[0][position] if known is not None and position < len(known[0]) else f"args[{position}]"
