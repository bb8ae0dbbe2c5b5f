"""Wrappers for the NumPy implementations of primitives: suppress floating-point warnings, or compute in double
precision."""
from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import Context
from typing import Any, TypeVar

import numpy as np

from ..._types import dtypes
from ...typing import Function, ParamValue, Value

__all__ = ["call_without_warnings", "in_double_precision", "mark_broadcasting", "set_plan_hooks", "without_warnings"]

_F = TypeVar("_F", bound=Any)  # a function; NumPy plans read attributes that are set on it


def set_plan_hooks(implementation: _F, prepare: Function | None = None,
                   unexpanded_shape: Function | None = None) -> _F:
    """Set what `NumpyPlan` may do in place of calling a NumPy implementation. Return the implementation.

    Args:
      implementation: a function of arrays and params.
      prepare: `prepare(avals, **params)` returns an equivalent function for arrays of these types, or None.
      unexpanded_shape: for a primitive that broadcasts an array: `unexpanded_shape(avals, **params)` returns the shape
        of the operand with as many axes as the result, and length 1 along the broadcast ones.
    """
    implementation.prepare, implementation.unexpanded_shape = prepare, unexpanded_shape
    return implementation


def mark_broadcasting(implementation: _F) -> _F:
    """Mark an implementation that broadcasts operands along axes of length 1, as NumPy's elementwise functions do."""
    implementation.broadcasts = True
    return implementation


class _WarningFreeContext(threading.local):
    """A context per thread in which NumPy gives no warnings. Running a function in it costs a twentieth of
    `np.errstate`."""

    def __init__(self) -> None:
        context = Context()
        context.run(np.seterr, all="ignore")
        self.run = context.run


_context = _WarningFreeContext()
_F64, _C128 = np.dtype("float64"), np.dtype("complex128")


def call_without_warnings(f: Function, *xs: Value, **params: ParamValue) -> Value:
    """Return `f(*xs, **params)` with floating-point warnings off. `f` must be free of side effects, as it may run
    twice."""
    try:
        return _context.run(f, *xs, **params)
    except RuntimeError:
        # Either the context is entered already (an implementation that calls another one, or a finalizer that runs
        # during a call), or `f` itself raised RuntimeError, which then happens again.
        with np.errstate(all="ignore"):
            return f(*xs, **params)


def without_warnings(f: Function) -> Callable[..., np.ndarray]:
    """Return `f` with floating-point warnings off and its result converted to an array."""
    def implementation(*xs: Value, **params: ParamValue) -> np.ndarray:
        out = call_without_warnings(f, *xs, **params)
        return out if type(out) is np.ndarray else np.asarray(out)

    # For NumPy's own ufuncs `call_without_warnings` is inlined: calling it takes a third of the time of adding two
    # small arrays.
    def unary(x: Value) -> np.ndarray:
        try:
            out = _context.run(f, x)
        except RuntimeError:
            return implementation(x)
        return out if type(out) is np.ndarray else np.asarray(out)

    def binary(x: Value, y: Value) -> np.ndarray:
        try:
            out = _context.run(f, x, y)
        except RuntimeError:
            return implementation(x, y)
        return out if type(out) is np.ndarray else np.asarray(out)

    if not isinstance(f, np.ufunc):
        return implementation
    return unary if f.nin == 1 else mark_broadcasting(binary)


def in_double_precision(f: Function) -> Callable[..., np.ndarray]:
    """Return `f` computed in float64 or complex128, with its result rounded to the dtype of the first operand."""
    def compute_wide(*xs: Value, **params: ParamValue) -> np.ndarray:
        ws = [np.asarray(x).astype(np.complex128 if dtypes.is_complex(x.dtype) else np.float64, copy=False) for x in xs]
        return np.asarray(f(*ws, **params)).astype(xs[0].dtype, copy=False)

    def compute_unary(x: Value) -> np.ndarray:
        d = x.dtype
        if d is _F64 or d is _C128:
            return np.asarray(f(x))
        w = x.astype(_C128 if d.kind == "c" else _F64)
        return f(w, w).astype(d)  # in place: `w` is a copy

    def unary(x: Value) -> np.ndarray:
        try:
            return _context.run(compute_unary, x)
        except RuntimeError:
            return call_without_warnings(compute_unary, x)

    if isinstance(f, np.ufunc) and f.nin == 1:
        return unary
    return lambda *xs, **params: call_without_warnings(compute_wide, *xs, **params)
