"""NumPy's functions applied to traced values: the table of their names, and how a call finds its row.

NumPy asks an operand what to do (`__array_ufunc__`, `__array_function__`); a traced one answers with the row of that name,
which is written with `lax` functions. Rows take NumPy's parameters in NumPy's order. Dtypes are those of operators: the lattice
of `lamina_ir.dtypes`. Functions without a row are looked up with `hooks.operators.find_numpy_function`, which a higher package
sets; otherwise an error names the function and a replacement. This package is loaded by the first such call.
"""
from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from lamina_ir import errors

from .._jit import hooks
from .._core.args import resolve_requested_dtype
from .._core.operator_expressions import is_operator_expression
from .._core.tracer import Tracer, get_concrete_value
from . import _numerics, einsum, fft, joining, linalg, logic, creation, sorting, products, reductions, shape
from .elementwise import outer
from ._registry import as_array, cast, out_at, rows, shown, traced_in
from .indexing import getitem
from .unsupported import CHANGES, METHODS, NUMBERS_ONLY, REFUSED

__all__ = ["array_function", "array_ufunc", "call", "getitem", "name_of", "refusals", "rows"]

del _numerics, einsum, fft, joining, linalg, logic, creation, sorting, products, reductions, shape  # they fill `rows`

refusals = {**CHANGES, **NUMBERS_ONLY, **REFUSED}
_OUT = "out= cannot be written to with what has no numbers yet; use what the function returns"
# Keywords that say nothing where they have these values.
_SILENT: dict[str, Any] = {"out": None, "where": True, "casting": "same_kind", "order": "K", "subok": True, "like": None,
                           "optimize": False, "dtype": None}
_UNKNOWN = object()


def name_of(func: Any) -> str:
    """The name of a function of NumPy's, with its module where that is not `numpy`: `sum`, `linalg.solve`."""
    module = (getattr(func, "__module__", None) or "numpy").partition(".")[2]
    return f"{module}.{func.__name__}" if module else func.__name__


def array_function(func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a function of NumPy's gives for arguments with a traced value among them."""
    if not all(issubclass(kind, (Tracer, np.ndarray)) for kind in types):
        return NotImplemented
    name = name_of(func)
    if name in rows:
        return call(name, args, kwargs)
    everything = (*args, *kwargs.values())
    if name in CHANGES:
        raise _refusal(name, everything)
    if name in NUMBERS_ONLY:
        numbers = [_numbers(x) for x in everything]
        if not any(x is _UNKNOWN for x in numbers):
            return func(*numbers[:len(args)], **dict(zip(kwargs, numbers[len(args):])))
    return _from_above(name, everything)(*args, **_said(name, None, kwargs))


def call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A row, called as NumPy's function of that name is."""
    row, at = rows[name], out_at.get(name)
    if at is not None and len(args) > at and args[at] is not None:
        raise _refusal(name, args, _OUT)
    return row(*args, **_said(name, row, kwargs)) if kwargs else row(*args)


def array_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What an elementwise function of NumPy's, or a method of one, gives for operands with a traced value among them."""
    for x in inputs:
        if not isinstance(x, (Tracer, np.ndarray, np.generic, int, float, complex, list, tuple)) and not hasattr(x, "aval"):
            return NotImplemented
        if isinstance(x, (list, tuple)):
            return array_ufunc(ufunc, method, tuple(map(as_array, inputs)), kwargs)
    name = ufunc.__name__
    if getattr(np, name, None) is not ufunc:
        raise _refusal(name, inputs, "it is none of NumPy's own functions; use the one of lax, or of a library above it")
    if method == "__call__":
        if "out" in kwargs and kwargs["out"] is not None:
            if not _rebinds(inputs, kwargs["out"], sys._getframe(2)):
                raise _refusal(name, inputs, _OUT)
            kwargs = {key: value for key, value in kwargs.items() if key != "out"}
        row = rows.get(name) or _from_above(name, inputs)
        if not kwargs:
            return row(*inputs)
        said = _said(name, None, kwargs)
        dtype = said.pop("dtype", None)
        if "where" in said:
            raise _refusal(name, inputs, "where= leaves the other places as they are; use numpy.where(condition, ..., ...)")
        inputs = inputs if dtype is None else tuple([cast(x, resolve_requested_dtype(dtype)) for x in inputs])
        return row(*inputs, **_said(name, row, said))
    whole = f"{name}.{method}"
    if whole in rows:
        return call(whole, inputs, kwargs)
    if method == "outer" and ufunc.nin == 2 and ufunc.signature is None:
        return outer(rows.get(name) or _from_above(name, inputs), *inputs)
    raise _refusal(whole, inputs, METHODS.get(method))


def _rebinds(inputs: tuple[Any, ...], out: tuple[Any, ...], caller: Any) -> bool:
    """Return whether this is `x += y` for a whole NumPy array `x`; the name `x` is then bound to the traced result.

    The same call comes from `numpy.add(x, y, out=x)`, whose `x` would silently keep its values. Nor may `x` be a part of
    another array, which the caller expects to change.
    """
    return len(out) == 1 and out[0] is inputs[0] and out[0].base is None and is_operator_expression(caller)


def _from_above(name: str, args: tuple[Any, ...]) -> Callable[..., Any]:
    """The function of this name of a room above; an error where there is none."""
    found = hooks.operators.find_numpy_function(name)
    if found is None:
        raise _refusal(name, args)
    return found


def _said(name: str, row: Callable[..., Any] | None, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Keywords without those that say nothing, as `out=None`; an error where the row does not know one."""
    said = {}
    for key, value in kwargs.items():
        if value is np._NoValue or key in _SILENT and (value is _SILENT[key] or type(value) is str and value == _SILENT[key]):
            continue
        if key == "out":
            raise _refusal(name, (), _OUT)
        if row is not None and key not in row.__code__.co_varnames[:row.__code__.co_argcount + row.__code__.co_kwonlyargcount]:
            if key in ("order", "casting", "subok"):
                continue  # of memory and checks that traced values do not have
            raise NotImplementedError(f"numpy.{name} of a traced value: the argument {key}= is not supported; leave it out, or "
                                      "use the function of lamina_numpy")
        said[key] = value
    return said


def _numbers(x: Any) -> Any:
    """An argument with the numbers beside traced values in their place, where they are known."""
    if isinstance(x, Tracer):
        value = get_concrete_value(x)
        return _UNKNOWN if value is None else np.asarray(value)
    if type(x) in (list, tuple):
        parts = [_numbers(v) for v in x]
        return _UNKNOWN if any(v is _UNKNOWN for v in parts) else type(x)(parts)
    return x


def _refusal(name: str, args: tuple[Any, ...], remedy: str | None = None) -> errors.TracerArrayError:
    remedy = remedy or refusals.get(name) or "no function of this floor does it; lamina_numpy may have one of that name"
    traced = next(traced_in(args), None)
    provenance = "" if traced is None else traced._describe_provenance()
    return errors.TracerArrayError(f"numpy.{name} of {shown(traced)}: {remedy}.{provenance}")
