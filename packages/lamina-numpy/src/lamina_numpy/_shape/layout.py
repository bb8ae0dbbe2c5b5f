"""Shapes: reshaping, axes, broadcasting. A change that changes nothing writes no equation."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir import ShapeDtypeStruct, ShapeError
from lamina_tracing import Array, ArrayLike, AxisLike, lax, ShapeLike
from lamina_tracing.extend import check_axes, check_axis, check_no_axis_name, typeof

from .._core.promotion import aval, broadcast, broadcast_shapes_of
from .._core.public_api import public_api, to_hashable
from .._core.axes import as_shape, insert_axes, permute_axes, reshape_to, resolve_sizes
from .._core.conversion import asarray
from .._core.named_axes import ReductionAxes, axes_of, count_along

__all__ = ["atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_shapes", "broadcast_to",
           "expand_dims", "flip", "fliplr", "flipud", "matrix_transpose", "moveaxis", "ndim", "permute_dims", "ravel",
           "reshape", "rollaxis", "rot90", "shape", "size", "squeeze", "swapaxes", "transpose"]


def shape(a: ArrayLike) -> tuple[int, ...]:
    """The lengths of the axes.

    Args:
      a: array, type of one, number, or nested lists of numbers; may be traced. None counts as a number.
    Returns:
      Tuple of ints; `()` of a number.
    Raises:
      TypeError: `a` is neither an array nor a number.
      ValueError: nested lists have unequal lengths.

    Source: meaning of `numpy.shape`.

    >>> shape(np.ones((2, 3))), shape(3.0)
    ((2, 3), ())
    """
    if a is None or isinstance(a, (list, tuple, range)):
        return np.shape(a)
    return a.shape if isinstance(a, ShapeDtypeStruct) else aval("shape", a).shape


def ndim(a: ArrayLike) -> int:
    """The number of axes.

    Args:
      a: array, type of one, number, or nested lists of numbers; may be traced. None counts as a number.
    Returns:
      Int; 0 of a number.
    Raises:
      TypeError: `a` is neither an array nor a number.
      ValueError: nested lists have unequal lengths.

    Source: meaning of `numpy.ndim`.

    >>> ndim(np.ones((2, 3))), ndim(3.0)
    (2, 0)
    """
    return len(shape(a))


def size(a: ArrayLike, axis: int | Sequence[int] | None = None) -> int:
    """The number of elements, or of places along axes.

    Args:
      a: array, type of one, number, or nested lists of numbers; may be traced. None counts as a number.
      axis: an int, the name of a mapped axis, a sequence of them (the product of their lengths), or None for all elements;
        negative ones count from the end.
    Returns:
      Int; 1 of a number.
    Raises:
      TypeError: `a` is neither an array nor a number.
      ShapeError: `axis` names an axis that `a` does not have, or one twice.
      ValueError: nested lists have unequal lengths.

    Source: meaning of `numpy.size`, which takes one axis.

    >>> size(np.ones((2, 3))), size(np.ones((2, 3)), axis=1)
    (6, 3)
    """
    sizes = shape(a)
    if axis is None:
        return math.prod(sizes)
    return count_along(axes_of("size", to_hashable(axis), len(sizes)), sizes)


@public_api("shape", "order", "copy", "newshape")
def reshape(a: ArrayLike, shape: ShapeLike | None = None, order: str = "C", *, copy: bool | None = None,
            newshape: ShapeLike | None = None) -> Array:
    """The same elements in another shape.

    Args:
      a: array of any shape and dtype.
      shape: an int or a sequence of ints; one may be -1, which stands for what is left over. Known while tracing.
      order: "C" (or "A") reads and writes the last axis fastest, "F" the first.
      copy: without meaning, as arrays never change.
      newshape: an older name of `shape`.
    Returns:
      Array of the new shape, with the dtype and units of `a`.
    Raises:
      ShapeError: the numbers of elements differ, there are several -1, or both a -1 and a 0.
      TypeError: `a` is neither an array nor a number, or `shape` holds no integers; traced ones are none.
      ValueError: another `order`, or both `shape` and `newshape`.

    Derivative: linear; the transpose gives the old shape back.
    Source: meaning of `numpy.reshape`.

    >>> reshape(np.arange(6), (2, -1))
    Array([[0, 1, 2],
           [3, 4, 5]], dtype=int32)
    >>> reshape(np.arange(6), (2, 3), order="F")
    Array([[0, 2, 4],
           [1, 3, 5]], dtype=int32)
    """
    if newshape is not None:
        if shape is not None:
            raise ValueError("reshape: newshape is an older name of shape; give one of them")
        shape = newshape
    old = aval("reshape", a).shape
    new = resolve_sizes("reshape", old, shape)
    if order == "F":
        return transpose(reshape_to(transpose(a), old[::-1], new[::-1]))
    if order not in ("C", "A"):
        raise ValueError(f"reshape: order must be 'C' or 'F'; got {order!r}")
    return reshape_to(a, old, new)


@public_api("order")
def ravel(a: ArrayLike, order: str = "C") -> Array:
    """All elements along one axis.

    Args:
      a: array of any shape and dtype.
      order: "C" (or "A", "K") reads the last axis fastest, "F" the first.
    Returns:
      Array `[n]` of the `n` elements of `a`, with its dtype and units.
    Raises:
      TypeError: `a` is neither an array nor a number.
      ValueError: another `order`.

    Derivative: linear; the transpose gives the old shape back.
    Source: meaning of `numpy.ravel`.

    >>> ravel(np.array([[1, 2], [3, 4]]), order="F")
    Array([1, 3, 2, 4], dtype=int32)
    """
    old = aval("ravel", a).shape
    if order == "F":
        a, old = transpose(a), old[::-1]
    elif order not in ("C", "A", "K"):
        raise ValueError(f"ravel: order must be 'C' or 'F'; got {order!r}")
    return reshape_to(a, old, (math.prod(old),))


@public_api("axes")
def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """The axes in reverse, or in the order given.

    Args:
      a: array of any shape and dtype.
      axes: every axis of `a` once, in the order of the result; negative ones count from the end. None reverses them.
    Returns:
      Array with the axes in the new order, and the dtype and units of `a`.
    Raises:
      ShapeError: `axes` leaves an axis out, names one twice, or one that `a` does not have.
      TypeError: `a` is neither an array nor a number.

    Derivative: linear; the transpose is the inverse order.
    Source: meaning of `numpy.transpose`.

    >>> transpose(np.array([[1, 2, 3]]))
    Array([[1],
           [2],
           [3]], dtype=int32)
    >>> transpose(np.ones((2, 3, 4)), (1, 0, 2)).shape
    (3, 2, 4)
    """
    n = len(aval("transpose", a).shape)
    if axes is None:
        order = tuple(range(n - 1, -1, -1))
    else:
        order = check_axes("transpose", axes, n, "axes")
        if len(order) != n:
            raise ShapeError(f"transpose: axes must name each of the {n} axes of {typeof(a).str_long()} once; got "
                             f"{tuple(axes)}")
    return permute_axes(a, order)


permute_dims = transpose


@public_api()
def matrix_transpose(x: ArrayLike, /) -> Array:
    """The last two axes exchanged.

    Args:
      x: array `[..., n, m]` of any dtype.
    Returns:
      Array `[..., m, n]` of the dtype and units of `x`.
    Raises:
      ShapeError: `x` has fewer than two axes.
      TypeError: `x` is neither an array nor a number.

    Derivative: linear; the transpose is the same exchange.
    Source: meaning of `numpy.matrix_transpose`.

    >>> matrix_transpose(np.ones((5, 2, 3))).shape
    (5, 3, 2)
    """
    n = len(aval("matrix_transpose", x).shape)
    if n < 2:
        raise ShapeError(f"matrix_transpose: expected at least two axes; got {typeof(x).str_long()}")
    return permute_axes(x, (*range(n - 2), n - 1, n - 2))


@public_api("axis1", "axis2")
def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """Two axes exchanged.

    Args:
      a: array of any shape and dtype.
      axis1, axis2: the axes; negative ones count from the end.
    Returns:
      Array with the two axes exchanged, and the dtype and units of `a`.
    Raises:
      ShapeError: `a` does not have the axis.
      TypeError: an axis is no integer, or `a` is neither an array nor a number.

    Derivative: linear; the transpose is the same exchange.
    Source: meaning of `numpy.swapaxes`.

    >>> swapaxes(np.ones((2, 3, 4)), 0, -1).shape
    (4, 3, 2)
    """
    n = len(aval("swapaxes", a).shape)
    i, j = check_axis("swapaxes", axis1, n, "axis1"), check_axis("swapaxes", axis2, n, "axis2")
    order = list(range(n))
    order[i], order[j] = j, i
    return permute_axes(a, tuple(order))


@public_api("source", "destination")
def moveaxis(a: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """Axes moved to new places; the others keep their order.

    Args:
      a: array of any shape and dtype.
      source: the axis to move, or a sequence of them; negative ones count from the end.
      destination: their positions in the result, one for each; negative ones count from the end.
    Returns:
      Array with the axes moved, and the dtype and units of `a`.
    Raises:
      ShapeError: an axis or a place that `a` does not have, or one named twice.
      ValueError: `source` and `destination` are of different lengths.
      TypeError: they are no integers, or `a` is neither an array nor a number.

    Derivative: linear; the transpose is the inverse permutation of axes.
    Source: meaning of `numpy.moveaxis`.

    >>> moveaxis(np.ones((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    n = len(aval("moveaxis", a).shape)
    src, dst = check_axes("moveaxis", source, n, "source"), check_axes("moveaxis", destination, n, "destination")
    if len(src) != len(dst):
        raise ValueError(f"moveaxis: source and destination must name the same number of axes; got {source} and {destination}")
    order = [i for i in range(n) if i not in src]
    for d, s in sorted(zip(dst, src)):
        order.insert(d, s)
    return permute_axes(a, tuple(order))


@public_api("axis", "start")
def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """Move one axis before another.

    Args:
      a: array of any shape and dtype.
      axis: the axis to move; negative ones count from the end.
      start: the axis of `a` before which it is placed, up to `a.ndim`, which is after all axes; negative ones count
        from the end.
    Returns:
      Array with the axis moved, and the dtype and units of `a`.
    Raises:
      ShapeError: `axis` is outside `[-a.ndim, a.ndim)`, or `start` outside `[-a.ndim, a.ndim]`.
      TypeError: `a` is neither an array nor a number.

    Derivative: linear; the transpose is the inverse permutation of axes.
    Source: meaning of `numpy.rollaxis`; `moveaxis` says the same more plainly.

    >>> rollaxis(np.ones((2, 3, 4)), 2).shape, rollaxis(np.ones((2, 3, 4)), 0, 3).shape
    ((4, 2, 3), (3, 4, 2))
    """
    n = len(aval("rollaxis", a).shape)
    at = check_axis("rollaxis", axis, n)
    check_no_axis_name("rollaxis", "start", start)
    if not -n <= start <= n:
        raise ShapeError(f"rollaxis: start {start} is out of range for {n} axes")
    start += n if start < 0 else 0
    return moveaxis(a, at, start - 1 if at < start else start)


@public_api("axis")
def expand_dims(a: ArrayLike, axis: AxisLike) -> Array:
    """New axes of length 1.

    Args:
      a: array of any shape and dtype.
      axis: an int or a sequence of ints: positions of the new axes in the result; negative ones count from its end.
    Returns:
      Array with the new axes, and the dtype and units of `a`.
    Raises:
      ShapeError: the result does not have the axis, or it is named twice.
      TypeError: `axis` is None or holds no integers, or `a` is neither an array nor a number.

    Derivative: linear; the transpose gives the old shape back.
    Source: meaning of `numpy.expand_dims`.

    >>> expand_dims(np.array([1, 2]), 0)
    Array([[1, 2]], dtype=int32)
    >>> expand_dims(np.ones(3), (0, -1)).shape
    (1, 3, 1)
    """
    axes = axis if isinstance(axis, (tuple, list, range)) else (axis,)
    n = len(aval("expand_dims", a).shape)
    return insert_axes(a, check_axes("expand_dims", axes, n + len(axes)))


@public_api("axis")
def squeeze(a: ArrayLike, axis: AxisLike = None) -> Array:
    """Axes of length 1 left out.

    Args:
      a: array of any shape and dtype.
      axis: an int, a sequence of ints, or None for every axis of length 1; negative ones count from the end.
    Returns:
      Array without the axes, with the dtype and units of `a`.
    Raises:
      ShapeError: the axis has another length, is named twice, or `a` does not have it.
      TypeError: `a` is neither an array nor a number.

    Derivative: linear; the transpose gives the old shape back.
    Source: meaning of `numpy.squeeze`.

    >>> squeeze(np.ones((1, 3, 1))).shape, squeeze(np.ones((1, 3, 1)), axis=0).shape
    ((3,), (3, 1))
    """
    sizes = aval("squeeze", a).shape
    if axis is None:
        axes = tuple([i for i, s in enumerate(sizes) if s == 1])
    else:
        axes = check_axes("squeeze", axis, len(sizes))
        if any(sizes[i] != 1 for i in axes):
            raise ShapeError(f"squeeze: axis {axis} of {typeof(a).str_long()} does not have length 1")
    return lax.squeeze(a, axes) if axes else a  # type: ignore[return-value]  # an array, as `public_api` gives it


@public_api("shape")
def broadcast_to(array: ArrayLike, shape: ShapeLike) -> Array:
    """Elements repeated along new axes and axes of length 1.

    Args:
      array: array of any dtype; aligned with `shape` from the right, each axis has its length or 1.
      shape: an int or a sequence of ints.
    Returns:
      Array of this shape, with the dtype and units of `array`.
    Raises:
      ShapeError: the array does not broadcast to `shape`.
      ValueError: `shape` has a negative size.
      TypeError: `array` is neither an array nor a number.

    Derivative: linear; the transpose is a sum over the repeated axes.
    Source: meaning of `numpy.broadcast_to`.

    >>> broadcast_to(np.array([1, 2]), (2, 2))
    Array([[1, 2],
           [1, 2]], dtype=int32)
    """
    new = as_shape("broadcast_to", shape)
    old = aval("broadcast_to", array).shape
    lead = len(new) - len(old)
    if lead < 0 or any(o not in (1, n) for o, n in zip(old, new[lead:])):
        raise ShapeError(f"broadcast_to: {typeof(array).str_long()} does not broadcast to {new}; aligned from the right, "
                         "each size must be equal or 1")
    return broadcast(array, old, new)


def broadcast_shapes(*shapes: int | Sequence[int]) -> tuple[int, ...]:
    """The shape that arrays of these shapes broadcast to.

    Args:
      shapes: shapes, each a sequence of ints or an int.
    Returns:
      Tuple of ints; `()` of no shapes.
    Raises:
      ShapeError: sizes of aligned axes differ and are not 1.
      TypeError: a shape holds no integers.
      ValueError: a shape has a negative size.

    Source: meaning of `numpy.broadcast_shapes`.

    >>> broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    return broadcast_shapes_of("broadcast_shapes", tuple(as_shape("broadcast_shapes", s) for s in shapes))


@public_api()
def broadcast_arrays(*args: ArrayLike) -> list[Array]:
    """Arrays, each broadcast to their common shape.

    Args:
      args: arrays and numbers, of any dtypes.
    Returns:
      List of arrays of one shape, each with its own dtype and units; empty of no arguments.
    Raises:
      ShapeError: sizes of aligned axes differ and are not 1.
      TypeError: an argument is neither an array nor a number.

    Derivative: linear; the transpose is a sum over the repeated axes.
    Source: meaning of `numpy.broadcast_arrays`, which gives a tuple.

    >>> broadcast_arrays(np.array([1, 2]), np.array([[3], [4]]))[1]
    Array([[3, 3],
           [4, 4]], dtype=int32)
    """
    shapes = [aval("broadcast_arrays", a, i).shape for i, a in enumerate(args)]
    new = broadcast_shapes_of("broadcast_arrays", tuple(shapes))
    return [broadcast(a, s, new) for a, s in zip(args, shapes)]


@public_api("axis")
def flip(m: ArrayLike, axis: AxisLike = None) -> Array:
    """Elements in reverse order along axes.

    Args:
      m: array of any shape and dtype.
      axis: an int, the name of a mapped axis, a sequence of them, or None for all axes; negative ones count from the end.
    Returns:
      Array of the shape, dtype and units of `m`.
    Raises:
      ShapeError: `axis` names an axis that `m` does not have, or one twice.
      UnboundAxisError: `axis` names a mapped axis that is not bound.
      TypeError: `m` is neither an array nor a number.

    Derivative: linear; its own transpose.
    Source: meaning of `numpy.flip`.

    >>> flip(np.array([[1, 2], [3, 4]]), axis=1)
    Array([[2, 1],
           [4, 3]], dtype=int32)
    """
    axes = axes_of("flip", axis, len(aval("flip", m).shape))
    if isinstance(axes, ReductionAxes):
        for name in axes.names:
            m = lax.pshuffle(m, (name,), range(lax.axis_size((name,)))[::-1])
    return lax.rev(m, tuple(axes)) if axes else m  # type: ignore[return-value]  # an array, as `public_api` gives it


@public_api()
def fliplr(m: ArrayLike) -> Array:
    """The second axis in reverse order.

    Args:
      m: array of at least two axes, of any dtype.
    Returns:
      Array of the shape, dtype and units of `m`.
    Raises:
      ShapeError: `m` has no second axis.
      TypeError: `m` is neither an array nor a number.

    Derivative: linear; its own transpose.
    Source: meaning of `numpy.fliplr`.

    >>> fliplr(np.array([[1, 2], [3, 4]]))
    Array([[2, 1],
           [4, 3]], dtype=int32)
    """
    return flip(m, 1)


@public_api()
def flipud(m: ArrayLike) -> Array:
    """The first axis in reverse order.

    Args:
      m: array of any dtype; it has at least one axis.
    Returns:
      Array of the shape, dtype and units of `m`.
    Raises:
      ShapeError: `m` has no axis.
      TypeError: `m` is neither an array nor a number.

    Derivative: linear; its own transpose.
    Source: meaning of `numpy.flipud`.

    >>> flipud(np.array([1, 2, 3]))
    Array([3, 2, 1], dtype=int32)
    """
    return flip(m, 0)


@public_api("k", "axes")
def rot90(m: ArrayLike, k: int = 1, axes: Sequence[int] = (0, 1)) -> Array:
    """An array turned by quarters in the plane of two axes.

    Args:
      m: array of at least two axes, of any dtype.
      k: number of quarter turns; negative ones turn back.
      axes: two axes; the turn goes from the first towards the second.
    Returns:
      Array of the dtype and units of `m`; for odd `k` the lengths of the two axes are exchanged.
    Raises:
      ShapeError: `m` does not have the axes, or they are the same.
      ValueError: `axes` are not two.
      TypeError: `k` is no integer, or `m` is neither an array nor a number.

    Derivative: linear; the transpose turns back.
    Source: meaning of `numpy.rot90`.

    >>> rot90(np.array([[1, 2], [3, 4]]))
    Array([[2, 4],
           [1, 3]], dtype=int32)
    """
    found = check_axes("rot90", axes, len(aval("rot90", m).shape), "axes")
    if len(found) != 2:
        raise ValueError(f"rot90: expected two axes; got {axes}")
    if not hasattr(k, "__index__"):
        raise TypeError(f"rot90: k must be an integer; got {k!r}")
    i, j = found
    k = k.__index__() % 4
    if k == 0:
        return m  # type: ignore[return-value]  # an array, as `public_api` gives it
    if k == 2:
        return flip(m, (i, j))
    return swapaxes(flip(m, j), i, j) if k == 1 else flip(swapaxes(m, i, j), j)


def _add_axes(call: str, n: int, arys: tuple[Any, ...]) -> Any:
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
            a = reshape_to(a, sizes, new)
        out.append(a)
    return out[0] if len(out) == 1 else out


def atleast_1d(*arys: ArrayLike) -> Any:
    """Arrays with at least one axis.

    Args:
      arys: arrays, numbers or lists of numbers.
    Returns:
      The array, or with several arguments the list of arrays: those with fewer axes as `[1]`, all with their own dtype
      and units.
    Raises:
      TypeError: an argument has no number dtype.

    Source: meaning of `numpy.atleast_1d`.

    >>> atleast_1d(3.5, np.array([1, 2]))[0].shape
    (1,)
    """
    return _add_axes("atleast_1d", 1, arys)


def atleast_2d(*arys: ArrayLike) -> Any:
    """Arrays with at least two axes.

    Args:
      arys: arrays, numbers or lists of numbers.
    Returns:
      The array, or with several arguments the list of arrays: those with fewer axes as `[1, 1]` and `[1, n]`, all with
      their own dtype and units.
    Raises:
      TypeError: an argument has no number dtype.

    Source: meaning of `numpy.atleast_2d`.

    >>> atleast_2d(np.array([1, 2]))
    Array([[1, 2]], dtype=int32)
    """
    return _add_axes("atleast_2d", 2, arys)


def atleast_3d(*arys: ArrayLike) -> Any:
    """Arrays with at least three axes.

    Args:
      arys: arrays, numbers or lists of numbers.
    Returns:
      The array, or with several arguments the list of arrays: those with fewer axes as `[1, 1, 1]`, `[1, n, 1]` and
      `[n, m, 1]`, all with their own dtype and units.
    Raises:
      TypeError: an argument has no number dtype.

    Source: meaning of `numpy.atleast_3d`.

    >>> atleast_3d(np.ones(2)).shape, atleast_3d(np.ones((2, 3))).shape
    ((1, 2, 1), (2, 3, 1))
    """
    return _add_axes("atleast_3d", 3, arys)
