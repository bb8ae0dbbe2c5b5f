"""Softmax and its logarithm, named as SciPy names them; `lamina_nn` has those with masks."""
from __future__ import annotations

from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_ir import DTypeError, dtypes
from lamina_ir.extend import docstring_entries
from lamina_numpy.extend import axes_of, public_api, to_inexact, work_dtype
from lamina_tracing import Array, ArrayLike, AxisLike, lax
from lamina_tracing.extend import typeof

__all__ = ["log_softmax", "softmax"]

_ENTRIES = docstring_entries("""
    x: real array `[...]`; integers and booleans become float.
    axis: an int, the name of a mapped axis, a tuple of them, or None for all axes; negative ones count from the end.
    TypeError: `x` is neither an array nor a number.
    DTypeError: `x` is complex.
    ShapeError: `axis` names an axis that `x` does not have, or one twice.
    UnboundAxisError: `axis` names a mapped axis that is not bound.
    """)


def _shift(call: str, x: Any, axis: Any) -> tuple[Any, Any, Any]:
    """`x` less its largest element, which has no derivative, and the sum of the exponentials; and the result's dtype."""
    x = lnp.asarray(to_inexact(call, x))
    t = typeof(x)
    if dtypes.is_complex(t.dtype):
        raise DTypeError(f"{call}: expected real numbers; got {t.str_long()}. Take real, imag or abs first")
    axes = axes_of(call, axis, len(t.shape))
    work = work_dtype(t.dtype)
    x = x if work == t.dtype else lnp.astype(x, work)
    shifted = lnp.subtract(x, lnp.max(lax.stop_gradient(x), axes, None, True, -np.inf))
    return shifted, lnp.sum(lnp.exp(shifted), axes, None, None, True), t.dtype


@public_api("axis", entries=_ENTRIES)
def softmax(x: ArrayLike, /, *, axis: AxisLike = None) -> Array:
    """`exp(x) / sum(exp(x))` along axes: positive numbers that sum to 1.

    Args: {x, axis}
    Returns:
      Float array of the shape of `x`; NaN where the largest element is infinite, of either sign.
    Raises: {TypeError, DTypeError, ShapeError, UnboundAxisError}

    Derivative: `y (t - sum(y t))` for a tangent t, y the result.
    Source: meaning of `scipy.special.softmax`.

    >>> softmax(np.array([1000., 1000., -np.inf]))
    Array([0.5, 0.5, 0. ], dtype=float32)
    """
    shifted, total, dtype = _shift("softmax", x, axis)
    return lnp.astype(lnp.divide(lnp.exp(shifted), total), dtype)


@public_api("axis", entries=_ENTRIES)
def log_softmax(x: ArrayLike, /, *, axis: AxisLike = None) -> Array:
    """The logarithm of `softmax(x)` along axes.

    Args: {x, axis}
    Returns:
      Float array of the shape of `x`, not above 0; NaN where the largest element is infinite, of either sign.
    Raises: {TypeError, DTypeError, ShapeError, UnboundAxisError}

    Derivative: `t - sum(softmax(x) t)` for a tangent t.
    Source: meaning of `scipy.special.log_softmax`.

    >>> log_softmax(np.array([0., 1000.]))
    Array([-1000.,     0.], dtype=float32)
    """
    shifted, total, dtype = _shift("log_softmax", x, axis)
    return lnp.astype(lnp.subtract(shifted, lnp.log(total)), dtype)
