"""Shapes: reshaping, axes, broadcasting. A change that changes nothing writes no equation."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir import ShapeError
from lamina_tracing import Array, ArrayLike, AxisLike, lax, ShapeLike
from lamina_tracing.extend import check_axes, check_axis, typeof

from .._ground.promotion import aval, broadcast, broadcast_shapes_of
from .._ground.publishing import public
from .._ground.axes import as_shape, permuted, reshaped, resolve_sizes, with_axes
from .._ground.conversion import asarray

__all__ = ["atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_shapes", "broadcast_to",
           "expand_dims", "flip", "fliplr", "flipud", "matrix_transpose", "moveaxis", "ndim", "permute_dims", "ravel",
           "reshape", "rollaxis", "rot90", "shape", "size", "squeeze", "swapaxes", "transpose"]


def shape(a: ArrayLike) -> tuple[int, ...]:
    """Sizes of the axes.

    >>> shape(3.0)
    ()
    """
    return np.shape(a) if isinstance(a, (list, tuple)) else aval("shape", a).shape


def ndim(a: ArrayLike) -> int:
    """Number of axes."""
    return len(shape(a))


def size(a: ArrayLike, axis: int | Sequence[int] | None = None) -> int:
    """Number of elements, or the length of `axis` (the product over several)."""
    sizes = shape(a)
    if axis is None:
        return math.prod(sizes)
    return math.prod(sizes[i] for i in check_axes("size", axis, len(sizes)))


@public("shape", "order", "copy", lists=True)
def reshape(a: ArrayLike, shape: ShapeLike | None = None, order: str = "C", *, copy: bool | None = None) -> Array:
    """The same elements in another shape.

    Args:
      a: array.
      shape: sizes, one of which may be -1: what is left over.
      order: "C" reads and writes the last axis fastest, "F" the first.
      copy: accepted for NumPy's sake.

    >>> reshape(3.0, (1, -1))
    Array([[3.]], dtype=float32, weak_type=True)
    """
    old = aval("reshape", a).shape
    new = resolve_sizes("reshape", old, shape)
    if order == "F":
        return transpose(reshaped(transpose(a), old[::-1], new[::-1]))
    if order not in ("C", "A"):
        raise ValueError(f"reshape: order must be 'C' or 'F'; got {order!r}")
    return reshaped(a, old, new)


@public("order")
def ravel(a: ArrayLike, order: str = "C") -> Array:
    """All elements along one axis."""
    old = aval("ravel", a).shape
    if order == "F":
        a, old = transpose(a), old[::-1]
    elif order not in ("C", "A", "K"):
        raise ValueError(f"ravel: order must be 'C' or 'F'; got {order!r}")
    return reshaped(a, old, (math.prod(old),))


@public("axes", lists=True)
def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """Axes in reverse, or in the order given.

    Derivative: linear; the transpose is the inverse order.
    """
    n = len(aval("transpose", a).shape)
    if axes is None:
        order = tuple(range(n - 1, -1, -1))
    else:
        order = check_axes("transpose", axes, n)
        if len(order) != n:
            raise ShapeError(f"transpose: axes must name each of the {n} axes of {typeof(a).long()} once; got "
                             f"{tuple(axes)}")
    return permuted(a, order)


permute_dims = transpose


@public()
def matrix_transpose(x: ArrayLike, /) -> Array:
    """The last two axes swapped."""
    n = len(aval("matrix_transpose", x).shape)
    if n < 2:
        raise ShapeError(f"matrix_transpose: expected at least two axes; got {typeof(x).long()}")
    return permuted(x, (*range(n - 2), n - 1, n - 2))


@public("axis1", "axis2")
def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """Two axes exchanged."""
    n = len(aval("swapaxes", a).shape)
    i, j = check_axis("swapaxes", axis1, n), check_axis("swapaxes", axis2, n)
    order = list(range(n))
    order[i], order[j] = j, i
    return permuted(a, tuple(order))


@public("source", "destination", lists=True)
def moveaxis(a: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """Axes moved to new places; the others keep their order."""
    n = len(aval("moveaxis", a).shape)
    src, dst = check_axes("moveaxis", source, n), check_axes("moveaxis", destination, n)
    if len(src) != len(dst):
        raise ValueError(f"moveaxis: source and destination must name as many axes; got {source} and {destination}")
    order = [i for i in range(n) if i not in src]
    for d, s in sorted(zip(dst, src)):
        order.insert(d, s)
    return permuted(a, tuple(order))


@public("axis", "start")
def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """One axis moved to before `start`."""
    n = len(aval("rollaxis", a).shape)
    at = check_axis("rollaxis", axis, n)
    if not -n <= start <= n:
        raise ShapeError(f"rollaxis: start {start} is out of range for {n} axes")
    start += n if start < 0 else 0
    return moveaxis(a, at, start - 1 if at < start else start)


@public("axis", lists=True)
def expand_dims(a: ArrayLike, axis: AxisLike) -> Array:
    """New axes of length 1 at these places of the result."""
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    n = len(aval("expand_dims", a).shape)
    return with_axes(a, check_axes("expand_dims", axes, n + len(axes)))


@public("axis", lists=True)
def squeeze(a: ArrayLike, axis: AxisLike = None) -> Array:
    """Axes of length 1 removed: all, or those named."""
    sizes = aval("squeeze", a).shape
    if axis is None:
        axes = tuple([i for i, s in enumerate(sizes) if s == 1])
    else:
        axes = check_axes("squeeze", axis, len(sizes))
        if any(sizes[i] != 1 for i in axes):
            raise ShapeError(f"squeeze: axis {axis} of {typeof(a).long()} does not have length 1")
    return lax.squeeze(a, axes) if axes else a


@public("shape", lists=True)
def broadcast_to(array: ArrayLike, shape: ShapeLike) -> Array:
    """Elements repeated along new and length-1 axes up to `shape`."""
    new = as_shape("broadcast_to", shape)
    old = aval("broadcast_to", array).shape
    lead = len(new) - len(old)
    if lead < 0 or any(o not in (1, n) for o, n in zip(old, new[lead:])):
        raise ShapeError(f"broadcast_to: {typeof(array).long()} does not broadcast to {new}; aligned from the right, "
                         "each size must be equal or 1")
    return broadcast(array, old, new)


def broadcast_shapes(*shapes: int | Sequence[int]) -> tuple[int, ...]:
    """The shape that arrays of these shapes broadcast to.

    >>> broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    return broadcast_shapes_of("broadcast_shapes", tuple(as_shape("broadcast_shapes", s) for s in shapes))


@public()
def broadcast_arrays(*args: ArrayLike) -> list[Array]:
    """The arrays, each broadcast to their common shape."""
    shapes = [aval("broadcast_arrays", a, i).shape for i, a in enumerate(args)]
    new = broadcast_shapes_of("broadcast_arrays", tuple(shapes))
    return [broadcast(a, s, new) for a, s in zip(args, shapes)]


@public("axis", lists=True)
def flip(m: ArrayLike, axis: AxisLike = None) -> Array:
    """Elements in reverse order along all axes, or those named."""
    n = len(aval("flip", m).shape)
    axes = tuple(range(n)) if axis is None else check_axes("flip", axis, n)
    return lax.rev(m, axes) if axes else m


@public()
def fliplr(m: ArrayLike) -> Array:
    """The second axis reversed."""
    return flip(m, 1)


@public()
def flipud(m: ArrayLike) -> Array:
    """The first axis reversed."""
    return flip(m, 0)


@public("k", "axes", lists=True)
def rot90(m: ArrayLike, k: int = 1, axes: Sequence[int] = (0, 1)) -> Array:
    """Turned by `k` quarters from the first of two axes towards the second."""
    found = check_axes("rot90", axes, len(aval("rot90", m).shape))
    if len(found) != 2:
        raise ValueError(f"rot90: expected two axes; got {axes}")
    if not hasattr(k, "__index__"):
        raise TypeError(f"rot90: k must be an integer; got {k!r}")
    i, j = found
    k = k.__index__() % 4
    if k == 0:
        return m
    if k == 2:
        return flip(m, (i, j))
    return swapaxes(flip(m, j), i, j) if k == 1 else flip(swapaxes(m, i, j), j)


def _at_least(call: str, n: int, arys: tuple[Any, ...]) -> Any:
    out = []
    for a in arys:
        a = asarray(a)
        sizes = typeof(a).shape
        short = n - len(sizes)
        if short > 0:
            if n == 3:  # NumPy's places: (1, n, 1) and (m, n, 1)
                new = ((1, 1, 1), (1, *sizes, 1), (*sizes, 1))[len(sizes)]
            else:
                new = (1,) * short + sizes
            a = reshaped(a, sizes, new)
        out.append(a)
    return out[0] if len(out) == 1 else out


def atleast_1d(*arys: ArrayLike) -> Any:
    """Each array with at least one axis."""
    return _at_least("atleast_1d", 1, arys)


def atleast_2d(*arys: ArrayLike) -> Any:
    """Each array with at least two axes; new ones come first."""
    return _at_least("atleast_2d", 2, arys)


def atleast_3d(*arys: ArrayLike) -> Any:
    """Each array with at least three axes, placed as NumPy does."""
    return _at_least("atleast_3d", 3, arys)
