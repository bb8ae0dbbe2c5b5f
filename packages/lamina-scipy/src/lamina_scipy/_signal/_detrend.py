"""Trends: means and straight lines taken off."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_ir import ShapeError
from lamina_numpy.extend import ignore_strict_promotion, public_api, to_inexact
from lamina_tracing import Array, ArrayLike
from lamina_tracing.extend import check_axis, typeof

__all__ = ["detrend"]


@public_api("axis", "type", "bp", "overwrite_data")
def detrend(data: ArrayLike, axis: int = -1, type: str = "linear", bp: int | Sequence[int] = 0,
            overwrite_data: None = None) -> Array:
    """What is left when a straight line, or the mean, is taken off.

    Args:
      data: number array.
      axis: the axis of length n; negative counts from the end.
      type: "linear" for the line of least squares, "constant" for the mean.
      bp: places within `0, ..., n - 1` where a new line begins.
      overwrite_data: of no effect; accepted for SciPy's sake.
    Returns:
      Array of the shape of `data`, float where it holds integers.
    Raises:
      ShapeError: `axis` is outside of `data`.
      ValueError: `type` is another word, or a place in `bp` is outside of the axis.
      TypeError: `data` is neither an array nor a number.

    Derivative: linear; it is its own transpose.
    Source: meaning of `scipy.signal.detrend`.

    >>> detrend(np.array([1., 2., 4., 5.]), type="constant")
    Array([-2., -1.,  1.,  2.], dtype=float32)
    """
    if type not in ("linear", "constant", "l", "c"):
        raise ValueError(f"detrend: type must be 'linear' or 'constant'; got {type!r}")
    x = to_inexact("detrend", data)
    t = typeof(x)
    axis = check_axis("detrend", axis, len(t.shape))
    if type[0] == "c":
        return x - lnp.mean(x, axis, keepdims=True)
    n = t.shape[axis]
    if n == 0:
        raise ShapeError(f"detrend: expected elements along axis {axis}; got {t.str_long()}")
    places = np.unique([0, *np.atleast_1d(np.asarray(bp)).tolist(), n]).tolist()
    if places[0] < 0 or places[-1] > n:
        raise ValueError(f"detrend: bp must contain positions in 0, ..., {n - 1}; got {bp!r}")
    x = lnp.moveaxis(x, axis, -1)
    return lnp.moveaxis(lnp.concatenate([_subtract_line(x[..., i:j]) for i, j in zip(places, places[1:])], -1), -1,
                        axis)


@ignore_strict_promotion
def _subtract_line(x: Any) -> Any:
    n = typeof(x).shape[-1]
    real = np.finfo(typeof(x).dtype).dtype
    x = x - lnp.mean(x, -1, keepdims=True)
    place = np.arange(n) - (n - 1) / 2
    size = (place ** 2).sum()
    if size == 0:
        return x
    unit = (place / size ** 0.5).astype(real)
    return x - lnp.expand_dims(lnp.matmul(x, unit, precision="highest"), -1) * unit
