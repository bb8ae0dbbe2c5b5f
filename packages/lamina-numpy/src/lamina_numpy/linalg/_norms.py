"""Norms, condition numbers, and products and diagonals as `numpy.linalg` has them."""
from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir import dtypes
from lamina_tracing import Array, ArrayLike, AxisLike, DTypeLike, lax
from lamina_tracing.extend import check_axis, is_axis_name, typeof

from .._products import products
from .._elementwise import powers, ufuncs
from .._elementwise.logic import isnan
from .._reductions import reductions
from .._shape import layout
from .._core.promotion import literal, to_inexact
from .._core.public_api import public_api
from .._core.select import choose_by
from .._core.conversion import asarray, to_array
from .._core.named_axes import ReductionAxes, axes_of, gather_to_front
from .._creation.creation import eye
from .._products.einsum import einsum
from .._indexing.diagonals import diagonal as _diagonal
from .._indexing.diagonals import trace as _trace
from ._decompositions import svdvals, to_matrices
from ._solving import inv

__all__ = ["cond", "cross", "diagonal", "matrix_norm", "matrix_power", "multi_dot", "norm", "trace", "vector_norm"]

def _size_squared(x: Any) -> Any:
    if dtypes.is_complex(typeof(x).dtype):
        return lax.add(lax.integer_pow(lax.real(x), 2), lax.integer_pow(lax.imag(x), 2))
    return lax.integer_pow(x, 2)


def _compute_vector_norm(x: Any, axes: tuple[int, ...], order: Any, keepdims: bool) -> Any:
    d = dtypes.real_dtype(typeof(x).dtype)
    if order is None or order == 2:
        return lax.sqrt(reductions.sum(_size_squared(x), axes, None, None, keepdims))
    size = lax.abs(x)
    if order == np.inf:
        return reductions.max(size, axes, None, keepdims, 0)
    if order == -np.inf:
        return reductions.min(size, axes, None, keepdims, np.inf)
    if order == 1:
        return reductions.sum(size, axes, None, None, keepdims)
    if order == 0:
        return reductions.sum(choose_by(lax.ne(size, literal(0, d)), literal(1, d), literal(0, d)),
                               axes, None, None, keepdims)
    if isinstance(order, str):
        raise ValueError(f"norm: order {order!r} is not a vector norm; use a number, inf or -inf")
    total = reductions.sum(powers.power(size, literal(order, d)), axes, None, None, keepdims)
    return powers.power(total, literal(1.0 / order, d))


def _compute_matrix_norm(x: Any, axes: tuple[Any, ...], order: Any, keepdims: bool) -> Any:
    row, column = axes  # names among them have no place in `x`
    places = tuple([a for a in axes if not is_axis_name(a)])
    if order is None or order == "fro":
        return lax.sqrt(reductions.sum(_size_squared(x), axes, None, None, keepdims))
    size, of_nothing = lax.abs(x), 0 if 0 in typeof(x).shape else None
    if order in (1, -1, np.inf, -np.inf):
        first, second = (row, column) if abs(order) == 1 else (column, row)
        sums = reductions.sum(size, first, None, None, True)
        out = reductions.max(sums, second, keepdims=True, initial=of_nothing) if order > 0 else \
            reductions.min(sums, second, keepdims=True)
        return out if keepdims else layout.squeeze(out, places)
    if order in (2, -2, "nuc"):
        names = tuple([a for a in axes if is_axis_name(a)])
        moved = layout.moveaxis(gather_to_front(x, names),
                                tuple([names.index(a) if a in names else a + len(names) for a in axes]),
                                (-2, -1))
        values = svdvals(moved)
        out = reductions.max(values, -1, initial=of_nothing) if order == 2 else \
            (reductions.sum if order == "nuc" else reductions.min)(values, -1)
        return layout.expand_dims(out, tuple(sorted(places))) if keepdims else out
    raise ValueError(f"norm: {order!r} is not a matrix norm; use None, 'fro', 'nuc', 1, -1, 2, -2, inf or -inf")


@public_api("ord", "axis", "keepdims")
def norm(x: ArrayLike, ord: float | str | None = None, axis: AxisLike = None, keepdims: bool = False) -> Array:
    """Size of vectors or matrices.

    Args:
      x: number array `[...]`.
      ord: None is the root of the sum of squares. For vectors, a number p is `sum(|x|**p)**(1/p)`, 0 the number of
        elements that are not zero, inf or -inf the largest or smallest size. For matrices, "fro" is the root of the sum
        of squares, "nuc" the sum of the singular values, 2 or -2 the largest or smallest of them. 1 or -1 is the
        largest or smallest column sum of sizes, inf or -inf that of rows.
      axis: an int or the name of a mapped axis for vectors, two of them (rows, columns) for matrices; None takes all of
        `x`. Negative ones count from the end.
      keepdims: leave the axes in place with length 1.
    Returns:
      Real array of the axes that are left, in the units of `x`; float of the precision of `x`, but float32 for half
      precision with the orders "nuc", 2 and -2 of matrices.
    Raises:
      ValueError: `ord` is no order of vectors or of matrices, whichever they are; `axis` is None and `x` with an
        `ord` has not one or two axes; or `axis` names none or more than two.
      ValueError: matrices without elements have no largest or smallest.
      ShapeError: `axis` names an axis that `x` does not have, or one twice.
      TypeError: `x` is neither an array nor a number.

    Derivative: of orders with a root NaN where all elements are zero; equal extremes share equally.
    Source: meaning of `numpy.linalg.norm`.

    >>> norm(np.array([3., 4.])), norm(np.array([[1., -2.], [3., 4.]]), 1)
    (Array(5., dtype=float32), Array(6., dtype=float32))
    """
    x = to_inexact("norm", x)
    n = len(typeof(x).shape)
    if axis is None:
        if ord is None:
            return _compute_vector_norm(x, tuple(range(n)), None, keepdims)
        if n not in (1, 2):
            raise ValueError(f"norm: an order needs one or two axes; got {typeof(x).str_long()}. Name them with axis")
        axes: tuple[int, ...] = tuple(range(n))
    else:
        axes = axes_of("norm", axis, n)
    if isinstance(axes, ReductionAxes):
        given = axis if isinstance(axis, (tuple, list)) else (axis,)
        if len(given) == 2:  # rows and columns, in the order given
            return _compute_matrix_norm(x, tuple([a if is_axis_name(a) else check_axis("norm", a, n) for a in given]),
                                        ord, keepdims)
        axes = axes if len(given) == 1 else ()
    if len(axes) == 1 or isinstance(axes, ReductionAxes):
        return _compute_vector_norm(x, axes, ord, keepdims)
    if len(axes) == 2:
        return _compute_matrix_norm(x, axes, ord, keepdims)
    raise ValueError(f"norm: axis must name one or two axes; got {axis!r}")


@public_api("axis", "keepdims", "ord")
def vector_norm(x: ArrayLike, /, *, axis: AxisLike = None, keepdims: bool = False,
                ord: float | str | None = 2) -> Array:
    """Size of vectors along axes.

    Args:
      x: number array `[...]`.
      axis: an int, the name of a mapped axis, a tuple of them whose elements together make one vector, or None for all
        axes; negative ones count from the end.
      keepdims: leave the axes in place with length 1.
      ord: a number p for `sum(|x|**p)**(1/p)`, 0 for how many are not zero, inf or -inf for the largest or smallest
        size; None means 2.
    Returns:
      Real array of the axes that are left, in the units of `x` and its precision; integers and booleans become
      float.
    Raises:
      ValueError: `ord` is a word.
      ShapeError: `axis` names an axis that `x` does not have, or one twice.
      TypeError: `x` is neither an array nor a number.

    Derivative: of orders with a root NaN where all elements are zero.
    Source: meaning of `numpy.linalg.vector_norm`.

    >>> vector_norm(np.array([[3., 4.], [0., 2.]]), axis=1)
    Array([5., 2.], dtype=float32)
    """
    x = to_inexact("vector_norm", x)
    n = len(typeof(x).shape)
    return _compute_vector_norm(x, axes_of("vector_norm", axis, n), ord, keepdims)


@public_api("keepdims", "ord")
def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: float | str | None = "fro") -> Array:
    """Size of the matrices in the last two axes.

    Args:
      x: number array `[..., m, n]`.
      keepdims: leave the axes in place with length 1.
      ord: "fro" or None is the root of the sum of squares, "nuc" the sum of the singular values, 2 or -2 the largest or
        smallest of them. 1 or -1 is the largest or smallest column sum of sizes, inf or -inf that of rows.
    Returns:
      Real array `[...]`, in the units of `x`; float of the precision of `x`, but float32 for half precision with
      the orders "nuc", 2 and -2 of matrices.
    Raises:
      ValueError: `x` has fewer than two axes, or `ord` is another order.
      ValueError: matrices without elements have no largest or smallest.
      TypeError: `x` is neither an array nor a number.

    Source: meaning of `numpy.linalg.matrix_norm`.

    >>> matrix_norm(np.array([[1., -2.], [3., 4.]]), ord=np.inf)
    Array(7., dtype=float32)
    """
    x = to_inexact("matrix_norm", x)
    n = len(typeof(x).shape)
    if n < 2:
        raise ValueError(f"matrix_norm: expected at least two axes; got {typeof(x).str_long()}")
    return _compute_matrix_norm(x, (n - 2, n - 1), ord, keepdims)


@public_api("p")
def cond(x: ArrayLike, p: Any = None) -> Array:
    """Condition numbers: by how much matrices may amplify relative errors.

    Args:
      x: number array `[..., m, n]`, square unless `p` is None, 2 or -2.
      p: None or 2 for the largest singular value over the smallest, -2 for the inverse of that; any other order of
        `norm` for `norm(x, p) norm(inv(x), p)`.
    Returns:
      Real array `[...]`, without units; inf where a matrix is singular, NaN where it holds NaN; half precision is
      computed in float32, integers and booleans in float.
    Raises:
      ValueError: `x` has fewer than two axes, is not square where it must be, or `p` is no order of matrices.
      TypeError: `x` is neither an array nor a number.
      IndexError: the matrices have no elements.

    Source: meaning of `numpy.linalg.cond`.

    >>> cond(np.diag(np.array([4., 2.])))
    Array(2., dtype=float32)
    """
    x = to_matrices("cond", x, square=p not in (None, 2, -2))
    if p in (None, 2, -2):
        s = svdvals(x)
        top, bottom = s[..., 0], s[..., -1]
        return _replace_nan(ufuncs.divide(bottom, top) if p == -2 else ufuncs.divide(top, bottom), x)
    axes = (len(typeof(x).shape) - 2, len(typeof(x).shape) - 1)
    return _replace_nan(ufuncs.multiply(_compute_matrix_norm(x, axes, p, False),
                                        _compute_matrix_norm(inv(x), axes, p, False)), x)


def _replace_nan(number: Any, x: Any) -> Any:
    """Replace NaN by infinity, except for matrices that contain NaN."""
    has_nan = reductions.any(isnan(x), (-2, -1))
    return choose_by(lax.bitwise_and(isnan(number), lax.bitwise_not(has_nan)), np.inf, number)


@public_api("n")
def matrix_power(a: ArrayLike, n: int) -> Array:
    """The product of `n` copies of square matrices, by repeated squaring.

    Args:
      a: number array `[..., m, m]`.
      n: an int; the identity for 0, powers of the inverse for negative ones.
    Returns:
      Array of the shape and dtype of `a`; as from `inv` where n is negative.
    Raises:
      TypeError: `a` is neither an array nor a number, is not made of square matrices, or `n` is no integer.

    Source: meaning of `numpy.linalg.matrix_power`.

    >>> matrix_power(np.array([[1, 1], [1, 0]]), 5)
    Array([[8, 5],
           [5, 3]], dtype=int32)
    """
    t = typeof(to_array("matrix_power", a))
    if len(t.shape) < 2 or t.shape[-1] != t.shape[-2]:
        raise TypeError(f"matrix_power: expected square matrices; got {t.str_long()}")
    if not hasattr(n, "__index__"):
        raise TypeError(f"matrix_power: n must be an integer; got {n!r}")
    n = operator.index(n)
    if n < 0:
        a, n = inv(a), -n
    if n == 0:
        return layout.broadcast_to(eye(t.shape[-1], dtype=t.dtype), t.shape)
    out: Any = None
    while n:
        if n & 1:
            out = a if out is None else products.matmul(out, a)
        n >>= 1
        if n:
            a = products.matmul(a, a)
    return out


def multi_dot(arrays: Sequence[ArrayLike] | ArrayLike, *, precision: Any = None) -> Array:
    """The product of several matrices, multiplied in the cheapest order.

    Args:
      arrays: at least two number arrays, `[l, m], [m, n], [n, ...], ...`; the first and the last may be vectors.
      precision: of the products, where the hardware offers several: None, "high", "highest", or a pair; as in
        `matmul`.
    Returns:
      Array `[l, ...]` of the outer axes, in the dtype that the arrays promote to.
    Raises:
      ValueError: there are fewer than two arrays, or one has another number of axes.
      ShapeError: lengths of neighbours do not match; 1 matches any.
      TypeError: one is neither an array nor a number.

    Source: meaning of `numpy.linalg.multi_dot`; the order is `opt_einsum`'s.

    >>> multi_dot([np.ones(2), np.ones((2, 3)), np.ones(3)])
    Array(6., dtype=float32)
    """
    xs = [asarray(a) for a in arrays]  # type: ignore[union-attr]  # a number raises TypeError
    if len(xs) < 2:
        raise ValueError(f"multi_dot: expected at least two arrays; got {len(xs)}")
    letters = [chr(ord_) for ord_ in range(97, 98 + len(xs))]
    terms = ["".join(letters[i:i + 2]) for i in range(len(xs))]
    if len(typeof(xs[0]).shape) == 1:
        terms[0] = letters[1]
    if len(typeof(xs[-1]).shape) == 1:
        terms[-1] = letters[-2]
    out = (terms[0][0] if len(terms[0]) == 2 else "") + (terms[-1][-1] if len(terms[-1]) == 2 else "")
    return einsum(",".join(terms) + "->" + out, *xs, optimize="auto", precision=precision)


@public_api("axis")
def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """Cross product of vectors of length 3.

    Args:
      x1, x2: number arrays; length 3 along `axis`, the other axes broadcast.
      axis: the axis of the vectors, in both and in the result; negative counts from the end.
    Returns:
      Array of the broadcast shape, in the dtype that both promote to and the product of their units.
    Raises:
      ValueError: the vectors do not have length 3.
      ShapeError: the other axes do not broadcast, or `axis` is outside.
      TypeError: `x1` or `x2` is neither an array nor a number.

    Source: meaning of `numpy.linalg.cross`.

    >>> cross(np.array([1., 0., 0.]), np.array([0., 1., 0.]))
    Array([0., 0., 1.], dtype=float32)
    """
    for x in (x1, x2):
        shape = typeof(to_array("cross", x)).shape
        if not shape or shape[check_axis("cross", axis, len(shape))] != 3:
            raise ValueError(f"cross: vectors must have length 3 along axis {axis}; got shape {shape}")
    return products.cross(x1, x2, axis=axis)


@public_api("offset")
def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """The diagonals of the matrices in the last two axes.

    Args:
      x: array `[..., m, n]` of any dtype.
      offset: how far above the main diagonal; negative ones are below.
    Returns:
      Array `[..., k]`, dtype and units of `x`; k is 0 if the diagonal is outside.
    Raises:
      ShapeError: `x` has fewer than two axes.
      TypeError: `x` is neither an array nor a number, or `offset` is no integer.

    Derivative: linear.
    Source: meaning of `numpy.linalg.diagonal`.

    >>> diagonal(np.array([[1, 2], [3, 4]]), offset=1)
    Array([2], dtype=int32)
    """
    return _diagonal(x, offset, -2, -1)


@public_api("offset", "dtype")
def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Array:
    """The sums of the diagonals of the matrices in the last two axes.

    Args:
      x: number array `[..., m, n]`.
      offset: how far above the main diagonal; negative ones are below.
      dtype: element type to sum in, and of the result; None for that of `x`, integers and booleans narrower than
        the default integer widened to it.
    Returns:
      Array `[...]`, in the units of `x`; 0 if the diagonal is outside.
    Raises:
      ShapeError: `x` has fewer than two axes.
      TypeError: `x` is neither an array nor a number, or `offset` is no integer.

    Derivative: linear.
    Source: meaning of `numpy.linalg.trace`.

    >>> trace(np.array([[1, 2], [3, 4]]))
    Array(5, dtype=int32)
    """
    return _trace(x, offset, -2, -1, dtype)
