"""NumPy functions applied to traced values.

NumPy passes a call with a traced operand to the operand (`__array_ufunc__`, `__array_function__`). The functions on
which operators and methods are based are implemented here, directly with `lax`: elementwise functions, sums, extremes,
`matmul`, changes of shape. All others are those of lamina_numpy, found with `hooks.operators.find_numpy_function`. If
lamina-numpy is not installed, an error says how to install it.

Implementations take NumPy's parameters in NumPy's order. Dtypes promote as with operators: in the lattice of
`lamina_ir.dtypes`. This package is imported by the first such call.
"""
from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable
from functools import lru_cache
from types import FrameType
from typing import Any

import numpy as np
from lamina_ir import errors

from .._jit import hooks
from .._core.args import resolve_requested_dtype
from .._core.operator_expressions import is_operator_expression
from .._core.tracer import Tracer, get_concrete_value, is_object_array, typeof
from . import products, reductions, shape
from .elementwise import outer
from ._registry import as_array, cast, describe, find_tracers, implementations, make_object_array
from .indexing import getitem
from .unsupported import CHANGES, METHODS, NUMBERS_ONLY, REFUSED

__all__ = ["array_function", "array_ufunc", "as_array", "call", "call_ufunc", "getitem", "implementations",
           "make_object_array", "name_of", "refusals"]

del products, reductions, shape  # importing them fills `implementations`

refusals = {**CHANGES, **NUMBERS_ONLY, **REFUSED}
_OUT = "out= cannot be written to with what has no numbers yet; use what the function returns"
_NOT_INSTALLED = 'traced values need lamina-numpy. pip install "lamina-autodiff[numpy]"'
_MISSING = "traced values do not support it"
# Values with which a keyword changes nothing.
_NEUTRAL: dict[str, Any] = {"out": None, "where": True, "casting": "same_kind", "order": "K", "subok": True,
                            "like": None, "optimize": False, "dtype": None}
_ARRAY_TYPES = (Tracer, np.ndarray, np.generic, int, float, complex)
_ufunc_implementations = {ufunc: implementation for name, implementation in implementations.items()
                          if isinstance(ufunc := getattr(np, name, None), np.ufunc)}
_UNKNOWN = object()


def name_of(func: Callable[..., Any]) -> str:
    """Return the name of a NumPy function, with its module unless that is `numpy`: `sum`, `linalg.solve`."""
    module = (getattr(func, "__module__", None) or "numpy").partition(".")[2]
    return f"{module}.{func.__name__}" if module else func.__name__


def array_function(func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...],
                   kwargs: dict[str, Any]) -> Any:
    """Apply a NumPy function to arguments of which at least one is traced."""
    if not all(issubclass(kind, (Tracer, np.ndarray)) for kind in types):
        return NotImplemented
    name = name_of(func)
    if name in implementations:
        return call(name, args, kwargs)
    operands = (*args, *kwargs.values())
    if name in CHANGES:
        raise _refusal(name, operands)
    if name in NUMBERS_ONLY:
        numbers = [_concrete(x) for x in operands]
        if not any(x is _UNKNOWN for x in numbers):
            return func(*numbers[:len(args)], **dict(zip(kwargs, numbers[len(args):])))
    implementation = _find_in_library(name, operands)
    _check_out(name, func, args)
    return implementation(*args, **_drop_neutral(name, None, kwargs))


def call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the implementation of the NumPy function `name`, for methods of arrays and tracers."""
    implementation = implementations.get(name)
    if implementation is None:
        return _call_in_library(name, args, kwargs)
    _check_out(name, implementation, args)
    return implementation(*args, **_drop_neutral(name, implementation, kwargs)) if kwargs else implementation(*args)


def _call_in_library(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function of lamina_numpy. Without it, compute methods of concrete arrays with NumPy."""
    found = hooks.operators.find_numpy_function(name)
    if found is not None:
        return found(*args, **kwargs)
    if next(find_tracers((*args, *kwargs.values())), None) is not None:
        raise _refusal(name, args, _NOT_INSTALLED)
    result = getattr(np, name)(*[np.asarray(x) if hasattr(x, "aval") else x for x in args], **kwargs)
    return hooks.evaluator.array(np.asarray(result), typeof(result))


def array_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Apply a NumPy ufunc, or a method of one, to operands of which at least one is traced."""
    if not kwargs and method == "__call__" and ufunc in _ufunc_implementations:  # the most frequent call
        for x in inputs:
            if not isinstance(x, _ARRAY_TYPES) or type(x) is np.ndarray and x.dtype.hasobject:
                break
        else:
            return _ufunc_implementations[ufunc](*inputs)
    for x in inputs:
        if not isinstance(x, (*_ARRAY_TYPES, list, tuple)) and not hasattr(x, "aval"):
            return NotImplemented
        if isinstance(x, (list, tuple)) or is_object_array(x):
            return array_ufunc(ufunc, method, tuple(map(as_array, inputs)), kwargs)
    name = ufunc.__name__
    if getattr(np, name, None) is not ufunc:
        raise _refusal(name, inputs, "it is none of NumPy's own functions; use functions of lax, or pure_callback to call it")
    if method != "__call__":
        return _call_ufunc_method(ufunc, method, inputs, kwargs)
    if "out" in kwargs and kwargs["out"] is not None:
        if not _rebinds(inputs, kwargs["out"], sys._getframe(2)):
            raise _refusal(name, inputs, _OUT)
        kwargs = {key: value for key, value in kwargs.items() if key != "out"}
    implementation = implementations.get(name) or _find_in_library(name, inputs)
    if not kwargs:
        return implementation(*inputs)
    given = _drop_neutral(name, None, kwargs)
    dtype = given.pop("dtype", None)
    if "where" in given:
        raise _refusal(name, inputs, "where= leaves the other places as they are; use numpy.where(condition, ..., ...)")
    inputs = inputs if dtype is None else tuple([cast(x, resolve_requested_dtype(dtype)) for x in inputs])
    return implementation(*inputs, **_drop_neutral(name, implementations.get(name), given))


def call_ufunc(name: str, *operands: Any) -> Any:
    """Apply a ufunc to items of an object array."""
    return getattr(np, name)(*operands)


def _call_ufunc_method(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call `numpy.add.reduce` and the like."""
    name = f"{ufunc.__name__}.{method}"
    if name in implementations:
        return call(name, inputs, kwargs)
    if method in METHODS:
        raise _refusal(name, inputs, METHODS[method])
    if method == "outer" and ufunc.nin == 2 and ufunc.signature is None:
        return outer(implementations.get(ufunc.__name__) or _find_in_library(ufunc.__name__, inputs), *inputs)
    return _find_in_library(name, inputs)(*inputs, **_drop_neutral(name, None, kwargs))


def _rebinds(inputs: tuple[Any, ...], out: tuple[Any, ...], caller: FrameType) -> bool:
    """Return whether this is `x += y` for a whole NumPy array `x`; the name `x` is then bound to the traced result.

    The same call comes from `numpy.add(x, y, out=x)`, whose `x` would silently keep its values. Nor may `x` be a part
    of another array, which the caller expects to change.
    """
    return len(out) == 1 and out[0] is inputs[0] and out[0].base is None and is_operator_expression(caller)


def _find_in_library(name: str, args: tuple[Any, ...]) -> Callable[..., Any]:
    """Return the function of lamina_numpy with this NumPy name. Raise TracerArrayError if there is none."""
    found = hooks.operators.find_numpy_function(name)
    if found is None:
        installed = hooks.operators.find_numpy_function("sin") is not None
        raise _refusal(name, args, refusals.get(name) or (_MISSING if installed else _NOT_INSTALLED))
    return found


def _check_out(name: str, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Raise TracerArrayError if `out` is given by position."""
    at = _out_position(function) if len(args) > 1 else len(args)
    if at < len(args) and args[at] is not None:
        raise _refusal(name, args, _OUT)


@lru_cache(maxsize=512)
def _out_position(function: Callable[..., Any]) -> int:
    """Return the position of the parameter `out`; a large number if it has none."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:  # a function of NumPy's in C, in some versions
        return sys.maxsize
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return positional.index("out") if "out" in positional else sys.maxsize


def _drop_neutral(name: str, implementation: Callable[..., Any] | None, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Remove keywords whose values change nothing, such as `out=None`; raise an error for unknown keywords.

    Args:
      name: the NumPy name, for errors.
      implementation: a function whose parameters are checked; None: do not check.
      kwargs: the keywords.
    """
    given = {}
    for key, value in kwargs.items():
        neutral = key in _NEUTRAL and (value is _NEUTRAL[key] or type(value) is str and value == _NEUTRAL[key])
        if value is np._NoValue or neutral:
            continue
        if key == "out":
            raise _refusal(name, (), _OUT)
        if implementation is not None and key not in _parameters(implementation):
            if key in ("order", "casting", "subok"):
                continue  # they concern memory layout and checks that traced values do not have
            raise NotImplementedError(f"numpy.{name} of a traced value: the argument {key}= is not supported; leave it out")
        given[key] = value
    return given


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    code = function.__code__
    return code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]


def _concrete(x: Any) -> Any:
    """Replace tracers in an argument by their concrete values, if these are known."""
    if isinstance(x, Tracer):
        value = get_concrete_value(x)
        return _UNKNOWN if value is None else np.asarray(value)
    if type(x) in (list, tuple):
        parts = [_concrete(v) for v in x]
        return _UNKNOWN if any(v is _UNKNOWN for v in parts) else type(x)(parts)
    return x


def _refusal(name: str, args: tuple[Any, ...], remedy: str | None = None) -> errors.TracerArrayError:
    remedy = remedy or refusals[name]
    traced = next(find_tracers(args), None)
    provenance = "" if traced is None else traced._describe_provenance()
    return errors.TracerArrayError(f"numpy.{name} of {describe(traced)}: {remedy}.{provenance}")
