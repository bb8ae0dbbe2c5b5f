"""Index arrays and meshes."""
from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import numpy as np
from typing_extensions import override
from lamina_ir import dtypes
from lamina_tracing import Array, ArrayLike, DTypeLike, lax, ShapeLike
from lamina_tracing.extend import typeof, resolve_requested_dtype

from .._core.axes import as_shape
from .._core.conversion import asarray, put
from .._shape.layout import ravel
from .._shape.joining import concatenate, stack
from .creation import arange

__all__ = ["c_", "fromfunction", "index_exp", "indices", "meshgrid", "mgrid", "ogrid", "r_", "s_"]

_I32 = np.dtype("int32")
s_ = np.s_
index_exp = np.index_exp


def indices(dimensions: Sequence[int], dtype: DTypeLike | None = None, sparse: bool = False) -> Any:
    """The indices of every place of a grid.

    Args:
      dimensions: the lengths of its `k` axes: a sequence of ints, or an int.
      dtype: element type; None for the default integer.
      sparse: whether to leave axes of length 1, to be broadcast.
    Returns:
      Array `[k, *dimensions]`, the index along each axis in turn; with `sparse` a tuple of `k` arrays that have only
      their own axis.
    Raises:
      ValueError: a size is negative.
      TypeError: `dimensions` holds no integers.

    Source: meaning of `numpy.indices`.

    >>> indices((2, 2))
    Array([[[0, 0],
            [1, 1]],
    <BLANKLINE>
           [[0, 1],
            [0, 1]]], dtype=int32)
    """
    shape = as_shape("indices", dimensions)
    d = dtypes.canonical_int() if dtype is None else resolve_requested_dtype(dtype)
    n = len(shape)
    out = []
    for i, size in enumerate(shape):
        full = tuple(size if j == i else 1 for j in range(n)) if sparse else shape
        out.append(lax.broadcast_in_dim(arange(size, dtype=d), full, (i,)))
    if sparse:
        return tuple(out)
    return stack(out) if out else asarray(np.zeros((0,), d))


def meshgrid(*xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> list[Array]:
    """The coordinates of every place of a grid.

    Args:
      xi: the coordinates along each axis: arrays or lists of one axis, or numbers.
      copy: must be True: arrays never change.
      sparse: whether to leave axes of length 1, to be broadcast.
      indexing: "ij" lets the `i`-th axis go with the `i`-th argument; "xy" exchanges the first two axes.
    Returns:
      List of one array per argument, with its dtype and units, all of one shape unless `sparse`.
    Raises:
      ValueError: coordinates have several axes, `copy` is False, or another `indexing`.
      TypeError: coordinates hold what is no number.

    Derivative: linear; the transpose is a sum over the repeated axes.
    Source: meaning of `numpy.meshgrid`.

    >>> meshgrid(np.array([1, 2]), np.array([3, 4]))
    [Array([[1, 2],
           [1, 2]], dtype=int32), Array([[3, 3],
           [4, 4]], dtype=int32)]
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
        kind = dtypes.canonicalize(np.result_type(*parts))
        if isinstance(made, np.ndarray):
            return put(made, kind)
        if self.sparse:
            return [put(p, kind) for p in parts]
        return put(np.stack(np.broadcast_arrays(*parts)), kind)

    @override
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
    """What a function gives for the indices of a grid.

    Args:
      function: function of one index array per axis, each of the shape of the grid; it is called once.
      shape: the lengths of the axes: a sequence of ints, or an int.
      dtype: element type of the index arrays; the default float unless given.
      kwargs: further arguments of `function`.
    Returns:
      What `function` returns, as it is.
    Raises:
      ValueError: a size is negative.
      TypeError: `shape` holds no integers, or `function` is none of as many arguments.

    Source: meaning of `numpy.fromfunction`.

    >>> fromfunction(lambda i, j: 10 * i + j, (2, 2))
    Array([[ 0.,  1.],
           [10., 11.]], dtype=float32)
    """
    return function(*indices(as_shape("fromfunction", shape), dtype=dtype), **kwargs)
