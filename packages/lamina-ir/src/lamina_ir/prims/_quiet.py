"""How NumPy meanings of elementwise ops are called: without floating-point warnings, and where precision matters in double."""
from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import Context
from typing import Any

import numpy as np

from .. import dtypes

__all__ = ["ahead", "quiet", "quietly", "stretches", "wide"]


def ahead(meaning: Any, prepare: Callable[..., Any] | None = None, unrepeated: Callable[..., Any] | None = None) -> Any:
    """Say what a program that is made ready once (numpy_plan.py) may do in the place of a meaning.

    Args:
      meaning: a function of arrays and params.
      prepare: `prepare(avals, **params)` gives a function of arrays of these types, which does the same.
      unrepeated: of an op that repeats the elements of an array: likewise, gives the shape of its operand with as many axes as
        the result, and length 1 along those that are repeated.
    """
    meaning.prepare, meaning.unrepeated = prepare, unrepeated
    return meaning


def stretches(meaning: Any) -> Any:
    """Say of a meaning that it repeats operands along axes of length 1 itself, as NumPy's elementwise functions do."""
    meaning.stretches = True
    return meaning


class _Quiet(threading.local):
    """Of each thread a context in which NumPy gives no warnings: to run a function in it costs a twentieth of `np.errstate`."""

    def __init__(self) -> None:
        context = Context()
        context.run(np.seterr, all="ignore")
        self.run = context.run


_here = _Quiet()
_F64, _C128 = np.dtype("float64"), np.dtype("complex128")


def quietly(f: Callable[..., Any], *xs: Any, **params: Any) -> Any:
    """`f(*xs, **params)`, a function of values alone, without floating-point warnings."""
    try:
        return _here.run(f, *xs, **params)
    except RuntimeError:  # the context is in use, by a finalizer's caller or a meaning made of others; or it is f's own
        with np.errstate(all="ignore"):
            return f(*xs, **params)


def quiet(f: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """`f` with floating-point warnings off, always returning an array."""
    def meaning(*xs: Any, **params: Any) -> np.ndarray:
        out = quietly(f, *xs, **params)
        return out if type(out) is np.ndarray else np.asarray(out)

    # Of NumPy's own functions `quietly` is written out: its call is a third of adding two small arrays.
    def of_one(x: Any) -> np.ndarray:
        try:
            out = _here.run(f, x)
        except RuntimeError:
            return meaning(x)
        return out if type(out) is np.ndarray else np.asarray(out)

    def of_two(x: Any, y: Any) -> np.ndarray:
        try:
            out = _here.run(f, x, y)
        except RuntimeError:
            return meaning(x, y)
        return out if type(out) is np.ndarray else np.asarray(out)

    if not isinstance(f, np.ufunc):
        return meaning
    return of_one if f.nin == 1 else stretches(of_two)


def wide(f: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """`f` computed in float64 or complex128, its result rounded to the dtype of the first operand."""
    def widened(*xs: Any, **params: Any) -> np.ndarray:
        ws = [np.asarray(x).astype(np.complex128 if dtypes.is_complex(x.dtype) else np.float64, copy=False) for x in xs]
        return np.asarray(f(*ws, **params)).astype(xs[0].dtype, copy=False)

    def narrowed(x: Any) -> np.ndarray:
        d = x.dtype
        if d is _F64 or d is _C128:
            return np.asarray(f(x))
        w = x.astype(_C128 if d.kind == "c" else _F64)
        return f(w, w).astype(d)  # in place: the wide operand is ours

    def of_one(x: Any) -> np.ndarray:
        try:
            return _here.run(narrowed, x)
        except RuntimeError:
            return quietly(narrowed, x)

    if isinstance(f, np.ufunc) and f.nin == 1:
        return of_one
    return lambda *xs, **params: quietly(widened, *xs, **params)
