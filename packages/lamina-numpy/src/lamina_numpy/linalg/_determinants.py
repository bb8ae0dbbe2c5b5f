"""Determinants, the last part of `numpy.linalg`: from an LU decomposition, or written out for matrices up to 3 x 3."""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from lamina_autodiff import custom_jvp
from lamina_ir import dtypes
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import typeof
from lamina_tracing.lax import factorizations as _linalg

from .._contract import products
from .._elementwise import ufuncs
from .._reduce import reductions
from .._shape import layout
from .._ground.promotion import convert, literal
from .._ground.publishing import public
from .._ground.choosing import choose_by
from .._index.diagonals import diagonal as _diagonal
from ._decompositions import adjoint, matrices

__all__ = ["det", "slogdet", "SlogdetResult"]

_I32 = np.dtype("int32")
_matmul = products.matmul


class SlogdetResult(NamedTuple):
    """What `slogdet` gives."""

    sign: Any
    logabsdet: Any


def _signs(pivots: Any, d: np.dtype) -> Any:
    """-1 to the number of rows that were exchanged with another."""
    axis = len(typeof(pivots).shape) - 1
    here = lax.broadcasted_iota(_I32, typeof(pivots).shape, axis)
    moved = lax.reduce_sum(lax.convert_element_type(lax.ne(pivots, here), _I32), (axis,))
    return choose_by(lax.eq(lax.rem(moved, np.int32(2)), np.int32(1)), literal(-1, d), literal(1, d))


@public("method")
def slogdet(a: ArrayLike, *, method: str | None = None) -> SlogdetResult:
    """Sign and logarithm of the size of determinants, which themselves may overflow.

    Args:
      a: number array `[..., n, n]`.
      method: "lu", "qr" or None; the result comes from an LU decomposition whichever is named.
    Returns:
      `SlogdetResult(sign, logabsdet)`, each `[...]`: a sign of size 1, complex where `a` is, and a real logarithm;
      0 and -inf where a matrix is singular; half precision is computed in float32, integers and booleans in float.
    Raises:
      ValueError: `a` has fewer than two axes, or its last two differ in length.
      ValueError: `method` is another word.
      TypeError: `a` is neither an array nor a number.

    Derivative: NaN where a matrix is singular.
    Source: meaning of `numpy.linalg.slogdet`.

    >>> slogdet(np.diag(np.array([-2., 1.])))
    SlogdetResult(sign=Array(-1., dtype=float32), logabsdet=Array(0.6931472, dtype=float32))
    """
    if method not in (None, "lu", "qr"):
        raise ValueError(f"slogdet: method must be 'lu', 'qr' or None; got {method!r}")
    a = matrices("slogdet", a, square=True)
    factors, pivots, _ = _linalg.lu(a)
    diagonal = _diagonal(factors, 0, -2, -1)
    d = typeof(diagonal).dtype
    size = ufuncs.abs(diagonal)
    if dtypes.is_complex(d):
        none = lax.eq(size, literal(0, typeof(size).dtype))
        signs = lax.div(diagonal, convert(choose_by(none, literal(1, typeof(size).dtype), size), d))
    else:
        signs = ufuncs.sign(diagonal)
    sign = ufuncs.multiply(_signs(pivots, d), reductions.prod(signs, -1))
    return SlogdetResult(sign, reductions.sum(ufuncs.log(size), -1))


@custom_jvp
def _det(a: Any) -> Any:
    factors, pivots, _ = _linalg.lu(a)
    diagonal = _diagonal(factors, 0, -2, -1)
    return ufuncs.multiply(_signs(pivots, typeof(a).dtype), reductions.prod(diagonal, -1))


@custom_jvp
def _adjugate(a: Any) -> Any:
    """adj(a) = det(U) det(V^H) V adj(S) U^H, which exists for singular matrices too."""
    u, s, vh = _linalg.svd(a)
    n = typeof(s).shape[-1]
    s = convert(s, typeof(u).dtype) if typeof(s).dtype != typeof(u).dtype else s
    around = [(0, 0, 0)] * (len(typeof(s).shape) - 1)
    one = literal(1, typeof(s).dtype)
    axis = len(around)
    others = ufuncs.multiply(lax.pad(lax.cumprod(s, axis), np.asarray(one, typeof(s).dtype), [*around, (1, -1, 0)]),
                              lax.pad(lax.cumprod(s, axis, reverse=True), np.asarray(one, typeof(s).dtype),
                                      [*around, (-1, 1, 0)])) if n else s
    turn = ufuncs.multiply(_det(u), _det(vh))
    scale = ufuncs.multiply(others, layout.expand_dims(turn, -1))
    return _matmul(ufuncs.multiply(adjoint(vh), layout.expand_dims(scale, -2)), adjoint(u))


def _trace_of(a: Any, b: Any) -> Any:
    """tr(a b)."""
    return reductions.sum(ufuncs.multiply(a, layout.matrix_transpose(b)), (-2, -1))


@_det.defjvp
def _det_jvp(primals: Any, tangents: Any) -> Any:
    """Jacobi's formula: d det(a) = tr(adj(a) da)."""
    return _det(primals[0]), _trace_of(_adjugate(primals[0]), tangents[0])


def _but_two(s: Any) -> Any:
    """The products of all numbers but the i-th and the j-th, `[..., n, n]`; 0 where i is j."""
    n = typeof(s).shape[-1]
    same = np.eye(n, dtype=bool)
    out = same[:, None, :] | same[None, :, :]
    wide = layout.broadcast_to(s[..., None, None, :], (*typeof(s).shape[:-1], n, n, n))
    products = reductions.prod(choose_by(np.broadcast_to(out, typeof(wide).shape), literal(1, typeof(s).dtype), wide), -1)
    return ufuncs.multiply(products, np.asarray(~same, typeof(s).dtype))


@_adjugate.defjvp
def _adjugate_jvp(primals: Any, tangents: Any) -> Any:
    """Of a diagonal S: d adj(S) is -P dS beside the diagonal, and on it P times that of dS, where P has the products of all
    singular values but two. So it holds for singular matrices too."""
    a, da = primals[0], tangents[0]
    u, s, vh = _linalg.svd(a)
    s = convert(s, typeof(u).dtype) if typeof(s).dtype != typeof(u).dtype else s
    products, x = _but_two(s), _matmul(_matmul(adjoint(u), da), adjoint(vh))
    on = _matmul(products, _diagonal(x, 0, -2, -1)[..., None])
    eye = np.eye(typeof(s).shape[-1], dtype=typeof(u).dtype)
    change = ufuncs.subtract(ufuncs.multiply(eye, on), ufuncs.multiply(products, x))
    turn = ufuncs.multiply(_det(u), _det(vh))[..., None, None]
    return _adjugate(a), ufuncs.multiply(turn, _matmul(_matmul(adjoint(vh), change), adjoint(u)))


def _expanded(a: Any, columns: tuple[int, ...], row: int) -> Any:
    """Laplace's expansion along the rows from `row` on, over these columns: exact derivatives for small matrices."""
    t = typeof(a)
    if not columns:
        return np.ones(t.shape[:-2], t.dtype)
    total = None
    for i, c in enumerate(columns):
        entry = a[..., row, c]
        term = entry if len(columns) == 1 else ufuncs.multiply(
            entry, _expanded(a, columns[:i] + columns[i + 1:], row + 1))
        total = term if total is None else (ufuncs.subtract if i % 2 else ufuncs.add)(total, term)
    return total


@public()
def det(a: ArrayLike) -> Array:
    """The determinants of square matrices.

    Args:
      a: number array `[..., n, n]`.
    Returns:
      Float or complex array `[...]`; 1 for n = 0; half precision is computed in float32, integers and booleans in
      float.
    Raises:
      ValueError: `a` has fewer than two axes, or its last two differ in length.
      TypeError: `a` is neither an array nor a number.

    Derivative: Jacobi's formula, by the adjugate: the first two hold for singular matrices too; above n = 3 further ones
      where no two singular values are equal.
    Source: meaning of `numpy.linalg.det`; written out up to n = 3, from an LU decomposition above.

    >>> det(np.array([[1., 2.], [3., 4.]]))
    Array(-2., dtype=float32)
    """
    a = matrices("det", a, square=True)
    n = typeof(a).shape[-1]
    if n > 3:
        return _det(a)
    return _expanded(a, tuple(range(n)), 0)
