"""`check_args`: type checks of the arguments of public functions.

Functions that process whole programs check before they start, if they are called through a public module. Functions that
run for each primitive do not: they find the invalid argument in an `except` clause, which costs nothing unless an error
occurs.
"""
from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from .._util.short_repr import short_repr
from .._types.avals import ShapedArray
from ..errors import LaminaError, ProgramError, mark_builtin_error
from .primitive import Primitive
from .jaxpr import ClosedJaxpr, Eqn, Jaxpr
from ..typing import Params, Tree

__all__ = ["AVAL", "AVALS", "AXES", "ArgType", "BYTES", "CLOSED_JAXPR", "EQN", "FLAGS", "FUNCTION", "INT", "ITEMS",
           "LOOP", "MAPPING", "MARKS", "PRIMITIVE", "PROGRAM", "TEXT", "argument_error", "as_closed_jaxpr",
           "check_args", "count_operands", "export_checked", "instance_of", "optional", "raise_for_bad_args",
           "raise_type_rule_error"]

_F = TypeVar("_F", bound=Callable[..., Any])


class ArgType:
    """A type of arguments: its description for messages, and a test."""

    __slots__ = ("description", "test")

    def __init__(self, words: str, test: Callable[[Any], bool]) -> None:
        self.description = words
        self.test = test


def instance_of(words: str, *types: type) -> ArgType:
    """Make the argument type of instances of these classes."""
    return ArgType(words, lambda v: isinstance(v, types))


def optional(kind: ArgType) -> ArgType:
    """Make the argument type that also allows None."""
    return ArgType(f"{kind.description}, or None", lambda v: v is None or kind.test(v))


def _items(v: object) -> bool:
    return isinstance(v, Iterable) and not isinstance(v, (str, bytes, Mapping, type)) and getattr(v, "shape", True) != ()


def _mark(m: object) -> bool:
    return isinstance(m, (bool, frozenset, np.bool_))


PROGRAM = instance_of("a Jaxpr or a ClosedJaxpr", Jaxpr, ClosedJaxpr)
CLOSED_JAXPR = instance_of("a ClosedJaxpr", ClosedJaxpr)
EQN = instance_of("an Eqn", Eqn)
AVAL = instance_of("a ShapedArray", ShapedArray)
AXES = instance_of("a frozenset of axis names", frozenset)
LOOP = ArgType("an equation of a loop", lambda v: isinstance(v, Eqn) and v.primitive.region_signature is not None
               and v.primitive.region_signature.loops)
PRIMITIVE = instance_of("a Primitive", Primitive)
TEXT = instance_of("a string", str)
BYTES = instance_of("bytes", bytes, bytearray, memoryview)
MAPPING = instance_of("a mapping", Mapping)
FUNCTION = ArgType("a function", lambda v: callable(v) and not isinstance(v, (Primitive, type)))
AVALS = ArgType("a list of ShapedArrays", lambda v: _items(v) and all(isinstance(a, ShapedArray) for a in v))
MARKS = ArgType("a list of truth values, or of sets", lambda v: isinstance(v, (tuple, list)) and all(map(_mark, v)))
INT = ArgType("an int of at least 0", lambda v: isinstance(v, int) and not isinstance(v, bool) and v >= 0)
ITEMS = ArgType("a list or a tuple", _items)
FLAGS = ArgType("a truth value, or a list with one for each", lambda v: isinstance(v, bool) or _items(v))


def as_closed_jaxpr(call: str, program: object) -> ClosedJaxpr:
    """Convert a program to a `ClosedJaxpr`; a `Jaxpr` must have no constants.

    Raises:
      TypeError: it is not a program, or its constants have no values.
    """
    if isinstance(program, ClosedJaxpr):
        return program
    if not isinstance(program, Jaxpr):
        raise TypeError(f"{call}: expected a ClosedJaxpr; got {short_repr(program)}")
    if program.constvars:
        raise TypeError(f"{call}: expected a ClosedJaxpr; got a Jaxpr that has {len(program.constvars)} constants without "
                        "values. Pass ClosedJaxpr(jaxpr, consts)")
    return ClosedJaxpr(program)


def argument_error(call: str, name: str, kind: ArgType, value: object) -> TypeError:
    """Make the error for an invalid argument."""
    text = f"{call}: {name} must be {kind.description}; got {short_repr(value)}"
    if kind is CLOSED_JAXPR and isinstance(value, Jaxpr):
        text += ". Use ClosedJaxpr(jaxpr, consts)"
    return mark_builtin_error(TypeError(text))


def check_args(**kinds: ArgType) -> Callable[[_F], _F]:
    """Decorator: declare the types of the arguments of a public function.

    The function itself checks nothing, so calls inside the package cost no more. Its attribute `checked` raises a
    TypeError with a clear message if an argument has the wrong type; public modules export that (`export_checked`).

    >>> @check_args(times=INT)
    ... def repeated(program, times=1):
    ...     return program * times
    >>> repeated.checked("ab", times=-1)
    Traceback (most recent call last):
    TypeError: repeated: times must be an int of at least 0; got int: -1
    """
    def decorate(f: _F) -> _F:
        inner: Any = inspect.unwrap(f)
        names, name = inner.__code__.co_varnames, inner.__name__
        checks = [(names.index(n), n, kind.test, kind) for n, kind in kinds.items()]

        @functools.wraps(f, updated=())
        def checked(*args: Tree, **kwargs: Tree) -> Any:
            count = len(args)
            for i, n, test, kind in checks:
                if i < count:
                    if not test(args[i]):
                        raise argument_error(name, n, kind, args[i])
                elif n in kwargs and not test(kwargs[n]):
                    raise argument_error(name, n, kind, kwargs[n])
            return f(*args, **kwargs)

        f.checked = checked  # type: ignore[attr-defined]
        return f

    return decorate


def export_checked(module: dict[str, object]) -> None:
    """Replace each function that has `check_args`, in the namespace of a public module, by the version that checks."""
    for name, value in list(module.items()):
        if inspect.isfunction(value) and hasattr(value, "checked"):
            value.checked.__module__ = module["__name__"]  # where `pickle` finds it
            module[name] = value.checked


def count_operands(p: Primitive) -> int | None:
    """Return the number of operands of a primitive; None if it is variable."""
    found = inspect.signature(p.infer).parameters.values()
    if any(q.kind is q.VAR_POSITIONAL for q in found):
        return None
    return sum(q.kind in (q.POSITIONAL_ONLY, q.POSITIONAL_OR_KEYWORD) for q in found)


def raise_type_rule_error(call: str, error: Exception, prim: Primitive, avals: Sequence[ShapedArray],
                          params: Params) -> None:
    """Raise a clear error after a type rule failed. Use it in an `except` clause.

    If the error of the type rule is already clear, return, so that the caller re-raises it.

    Args:
      call: the calling function.
      error: the exception of the type rule.
      prim, avals, params: the primitive, the types of its operands, its params.
    """
    raise_for_bad_args(call, ("prim", PRIMITIVE, prim), ("operands", AVALS, avals), ("params", MAPPING, params))
    if isinstance(error, LaminaError) or isinstance(error, (TypeError, ValueError)) and str(error).startswith(f"{prim.name}:"):
        return
    wanted, types = count_operands(prim), ", ".join([a.str_long() for a in avals]) or "none"
    missing, more = [p for p in prim.params if p not in params], [p for p in params if p not in prim.expected_params(params)]
    if missing or more:
        text = f"its params are {', '.join(prim.params) or '(none)'}; got {', '.join(map(str, params)) or 'none'}"
    elif wanted not in (None, len(avals)):
        text = f"it takes {wanted} operands; got {types}"
    else:
        text = f"it has no type for the operands {types}: {type(error).__name__}: {error}"
    raise ProgramError(f"{call}: `{prim.name}`: {text}") from error


def raise_for_bad_args(call: str, *given: tuple[str, ArgType, object]) -> None:
    """Raise the error for the first argument of the wrong type, if any.

    Use it in an `except` clause; the caller re-raises the original exception afterwards.

    Args:
      call: the calling function.
      *given: (name, type, value) of each argument.
    """
    for name, kind, value in given:
        if not kind.test(value):
            raise argument_error(call, name, kind, value) from None
