"""Interpolation on grids."""
from __future__ import annotations

import itertools as itertools
from collections.abc import Sequence
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_ir import ShapeError
from lamina_numpy.extend import ignore_strict_promotion, to_inexact
from lamina_tracing import Array, ArrayLike, jit
from lamina_tracing.extend import closes_over_tracers, typeof

from ._util import name_method_errors

__all__ = ["RegularGridInterpolator"]

_METHODS = ("linear", "nearest")


@name_method_errors
class RegularGridInterpolator:
    """Values on a grid, interpolated between its points.

    Args:
      points: for each axis of the grid its coordinates, real `[n]`, strictly ascending, n at least 2; strictly
        descending ones where their numbers are known.
      values: number array `[n1, n2, ..., ...]`, float or complex: a value, or an array of them, at each point of the
        grid.
      method: "linear" or "nearest".
      bounds_error: False: no number is looked at while a program is written.
      fill_value: the result outside of the grid (NaN at NaN); None to extrapolate the outermost cells.
    Raises:
      ValueError: `method` is another word; a coordinate's numbers neither ascend nor descend, where they are known.
      ShapeError: the coordinates are not of one axis or do not fit the values.
      NotImplementedError: `bounds_error` is not False.

    Source: meaning of `scipy.interpolate.RegularGridInterpolator`.

    >>> grid = RegularGridInterpolator((np.arange(3.), np.arange(2.)), np.array([[0., 1.], [2., 3.], [6., 7.]]))
    >>> grid(np.array([[0.5, 0.5], [1.25, 0.]]))
    Array([1.5, 3. ], dtype=float32)
    """

    def __init__(self, points: Sequence[ArrayLike], values: ArrayLike, method: str = "linear", bounds_error: bool = False,
                 fill_value: Any = np.nan) -> None:
        call = "RegularGridInterpolator"
        self._check_method(method)
        if bounds_error:
            raise NotImplementedError(f"{call}: bounds_error=True is not supported, since compiled programs "
                                      "raise no errors; use fill_value")
        self.method, self.bounds_error, self.fill_value = method, bounds_error, fill_value
        self.grid = tuple(to_inexact(call, lnp.asarray(p)) for p in points)
        self.values = to_inexact(call, lnp.asarray(values))
        sizes = tuple(typeof(p).shape for p in self.grid)
        if any(len(s) != 1 or s[0] < 2 for s in sizes) or typeof(self.values).shape[:len(sizes)] != tuple(s[0] for s in sizes):
            raise ShapeError(f"{call}: expected points [n] of each axis, n at least 2, and values [n1, n2, ...]; got points "
                             f"of shapes {', '.join(map(str, sizes))} and values {typeof(self.values).str_long()}")
        for i, p in enumerate(self.grid):
            if closes_over_tracers(p):
                continue
            steps = np.diff(np.asarray(p))
            if (steps < 0).all():  # turned round, with the values
                self.grid = (*self.grid[:i], lnp.flip(p), *self.grid[i + 1:])
                self.values = lnp.flip(self.values, i)
            elif not (steps > 0).all():
                raise ValueError(f"{call}: points must ascend strictly, or descend; those of axis {i} do not")

    @staticmethod
    def _check_method(method: str) -> None:
        if method not in _METHODS:
            raise ValueError(f"RegularGridInterpolator: method must be 'linear' or 'nearest'; got {method!r}")

    def __call__(self, xi: Any, method: str | None = None) -> Array:
        """The values at points.

        Args:
          xi: real array `[..., d]`, of d coordinates each; or a tuple of d arrays that broadcast.
          method: "linear" or "nearest"; None for that of the object.
        Returns:
          Array `[...]`, followed by the axes of a value.
        """
        method = self.method if method is None else method
        self._check_method(method)
        d = len(self.grid)
        if isinstance(xi, tuple):
            xi = lnp.stack(lnp.broadcast_arrays(*map(lnp.asarray, xi)), -1)
        xi = to_inexact("RegularGridInterpolator", lnp.asarray(xi))
        t = typeof(xi)
        if not t.shape or t.shape[-1] != d:
            raise ShapeError(f"RegularGridInterpolator: expected xi [..., {d}], a coordinate for each axis; got {t.str_long()}")
        fill = self.fill_value
        return _interpolate(self.grid, self.values, xi, np.nan if fill is None else fill, method, fill is None)


@ignore_strict_promotion
def _interpolate_core(grid: Any, values: Any, xi: Any, fill: Any, method: str, beyond: bool) -> Any:
    cells, outside = [], lnp.zeros(typeof(xi).shape[:-1], bool)
    for i, points in enumerate(grid):
        x = xi[..., i]
        n = typeof(points).shape[0]
        cell = lnp.clip(lnp.searchsorted(points, x, side="right") - 1, 0, n - 2)
        left = points[cell]
        share = (x - left) / (points[cell + 1] - left)
        outside = outside | ~((x >= points[0]) & (x <= points[-1]))
        cells.append([(cell + (share > 0.5), None)] if method == "nearest" else [(cell, 1 - share), (cell + 1, share)])
    inner = len(typeof(values).shape) - len(grid)
    wide = (..., *[None] * inner)
    total: Any = 0
    for corner in itertools.product(*cells):
        value = values[tuple(index for index, _ in corner)]
        for _, weight in corner:
            if weight is not None:
                value = value * weight[wide]
        total = total + value
    if not beyond:
        total = lnp.where(outside[wide], fill, total)
    return lnp.where(lnp.isnan(xi).any(-1)[wide], np.nan, total)


_interpolate = jit(_interpolate_core, static_argnames=("method", "beyond"), inline=True)
