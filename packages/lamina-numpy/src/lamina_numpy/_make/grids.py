"""Index arrays and meshes."""
from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir import dtypes
from lamina_tracing import Array, ArrayLike, DTypeLike, lax, ShapeLike
from lamina_tracing.extend import typeof

from .._ground.axes import as_shape
from .._ground.conversion import asarray, put
from .._shape.layout import ravel
from .._shape.joining import concatenate, stack
from .creation import arange

__all__ = ["c_", "fromfunction", "index_exp", "indices", "meshgrid", "mgrid", "ogrid", "r_", "s_"]

_I32 = np.dtype("int32")
s_ = np.s_
index_exp = np.index_exp


def indices(dimensions: Sequence[int], dtype: DTypeLike | None = None, sparse: bool = False) -> Any:
    """Index arrays of a grid: stacked along a new first axis, or one open array per axis when `sparse`."""
    shape = as_shape("indices", dimensions)
    d = dtypes.canonical_int() if dtype is None else dtypes.canonical(dtype)
    n = len(shape)
    out = []
    for i, size in enumerate(shape):
        full = tuple(size if j == i else 1 for j in range(n)) if sparse else shape
        out.append(lax.broadcast_in_dim(arange(size, dtype=d), full, (i,)))
    if sparse:
        return tuple(out)
    return stack(out) if out else asarray(np.zeros((0,), d))


def meshgrid(*xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> list[Array]:
    """Coordinate arrays of a grid from its axes.

    Args:
      xi: one-dimensional coordinates.
      sparse: leave axes of length 1 to be broadcast.
      indexing: "xy" (the second axis varies with the first argument) or "ij".
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij'; got {indexing!r}")
    if not copy:
        raise ValueError("meshgrid: arrays are immutable, so copy=False has no meaning")
    xs = [asarray(x) for x in xi]
    if any(len(typeof(x).shape) > 1 for x in xs):
        raise ValueError("meshgrid: coordinates must have one axis")
    xs = [ravel(x) for x in xs]
    order = list(range(len(xs)))  # axis of the grid along which each argument varies
    if indexing == "xy" and len(xs) > 1:
        order[0], order[1] = 1, 0
    sizes = [typeof(x).shape[0] for x in xs]
    shape = [0] * len(xs)
    for i, at in enumerate(order):
        shape[at] = sizes[i]
    out = []
    for i, (x, at) in enumerate(zip(xs, order)):
        full = tuple(sizes[i] if j == at else 1 for j in range(len(xs))) if sparse else tuple(shape)
        out.append(lax.broadcast_in_dim(x, full, (at,)))
    return out


class _Grid:
    """`mgrid[0:3, 0:1:5j]` and its open form."""

    def __init__(self, name: str, sparse: bool) -> None:
        self.name = name
        self.sparse = sparse

    def __getitem__(self, key: Any) -> Any:
        made = np.ogrid[key]
        parts = [made] if isinstance(made, np.ndarray) else list(made)
        kind = dtypes.canonical(np.result_type(*parts))
        if isinstance(made, np.ndarray):
            return put(made, kind)
        if self.sparse:
            return [put(p, kind) for p in parts]
        return put(np.stack(np.broadcast_arrays(*parts)), kind)

    def __repr__(self) -> str:
        return f"<{self.name}>"


mgrid, ogrid = _Grid("mgrid", False), _Grid("ogrid", True)


class _Join:
    """`r_[...]` and `c_[...]`: pieces written as slices, numbers and arrays, joined along an axis."""

    def __init__(self, name: str, axis: int, ndmin: int, place: int) -> None:
        self.name, self.axis, self.ndmin, self.place = name, axis, ndmin, place

    def __getitem__(self, key: Any) -> Any:
        parts = list(key) if isinstance(key, tuple) else [key]
        axis, ndmin, place = self.axis, self.ndmin, self.place
        # "axis,ndmin,place": join along axis, with at least ndmin axes, the piece's own beginning at `place`.
        if parts and isinstance(parts[0], str):
            numbers = [int(s) for s in parts.pop(0).split(",")]
            axis = numbers[0]
            ndmin = numbers[1] if len(numbers) > 1 else ndmin
            place = numbers[2] if len(numbers) > 2 else place
        out = []
        for part in parts:
            scalar = not isinstance(part, slice) and np.ndim(part) == 0
            if isinstance(part, slice):
                x = put(np.r_[part])
            else:
                x = asarray(part)
            have = len(typeof(x).shape) if not scalar else 0
            short = ndmin - have
            if scalar:
                x = lax.reshape(x, (1,) * max(ndmin, 1))
            elif short > 0:
                front = place if place >= 0 else short + place + 1
                front = min(max(front, 0), short)
                sizes = typeof(x).shape
                x = lax.reshape(x, (1,) * front + sizes + (1,) * (short - front))
            out.append(x)
        return concatenate(out, axis)


r_ = _Join("r_", 0, 1, -1)
c_ = _Join("c_", -1, 2, 0)


def fromfunction(function: Callable[..., Any], shape: ShapeLike, *, dtype: DTypeLike = float, **kwargs: Any) -> Any:
    """The values of a function of the indices: it is called once, with the index arrays."""
    return function(*indices(as_shape("fromfunction", shape), dtype=dtype), **kwargs)
