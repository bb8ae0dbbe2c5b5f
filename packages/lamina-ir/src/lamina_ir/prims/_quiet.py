"""How NumPy meanings of elementwise ops are called: without floating-point warnings, and where precision matters in double."""
from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import Context
from typing import Any

import numpy as np

from .. import dtypes

__all__ = ["quiet", "quietly", "wide"]


class _Quiet(threading.local):
    """Of each thread a context in which NumPy gives no warnings: to run a function in it costs a twentieth of `np.errstate`."""

    def __init__(self) -> None:
        context = Context()
        context.run(np.seterr, all="ignore")
        self.run = context.run


_here = _Quiet()


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
    return meaning


def wide(f: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """`f` computed in float64 or complex128, its result rounded to the dtype of the first operand."""
    in_place = isinstance(f, np.ufunc) and f.nin == 1  # the wide operand is ours to overwrite

    def widened(*xs: Any, **params: Any) -> np.ndarray:
        ws = [np.asarray(x).astype(np.complex128 if dtypes.is_complex(x.dtype) else np.float64) for x in xs]
        out = f(ws[0], ws[0]) if in_place else f(*ws, **params)
        return np.asarray(out).astype(xs[0].dtype, copy=False)

    return lambda *xs, **params: quietly(widened, *xs, **params)
