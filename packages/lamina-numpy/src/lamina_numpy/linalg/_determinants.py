"""Determinants, the last part of `numpy.linalg`: from an LU decomposition, or written out for matrices up to 3 x 3."""
from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from lamina_autodiff import custom_jvp, jvp
from lamina_ir import dtypes, prims
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import EVALUATION, Tracer, bind, trace_state, typeof
from lamina_tracing.lax import factorizations as _linalg

from .._products import products
from .._elementwise import ufuncs
from .._reductions import reductions
from .._shape import joining, layout
from .._core.promotion import convert, literal
from .._core.public_api import public_api
from .._core.select import choose_by
from .._indexing.diagonals import diagonal as _diagonal
from ._decompositions import adjoint, runs_on_numpy, to_matrices

__all__ = ["det", "slogdet", "SlogdetResult"]

_I32 = np.dtype("int32")
_matmul = products.matmul


class SlogdetResult(NamedTuple):
    """What `slogdet` gives."""

    sign: Any
    logabsdet: Any


def _compute_signs(pivots: Any, d: np.dtype) -> Any:
    """-1 to the number of rows that were exchanged with another."""
    axis = len(typeof(pivots).shape) - 1
    here = lax.broadcasted_iota(_I32, typeof(pivots).shape, axis)
    moved = lax.reduce_sum(lax.convert_element_type(lax.ne(pivots, here), _I32), (axis,))
    return choose_by(lax.eq(lax.rem(moved, np.int32(2)), np.int32(1)), literal(-1, d), literal(1, d))


@public_api("method")
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
    a = to_matrices("slogdet", a, square=True)
    if runs_on_numpy():
        return SlogdetResult(*bind(prims.slogdet_p, a))
    factors, pivots, _ = _linalg.lu(a)
    diagonal = _diagonal(factors, 0, -2, -1)
    d = typeof(diagonal).dtype
    size = ufuncs.abs(diagonal)
    if dtypes.is_complex(d):
        none = lax.eq(size, literal(0, typeof(size).dtype))
        signs = lax.div(diagonal, convert(choose_by(none, literal(1, typeof(size).dtype), size), d))
    else:
        signs = ufuncs.sign(diagonal)
    sign = ufuncs.multiply(_compute_signs(pivots, d), reductions.prod(signs, -1))
    return SlogdetResult(sign, reductions.sum(ufuncs.log(size), -1))


def _compute_det(a: Any) -> Any:
    if runs_on_numpy():
        sign, logarithm = bind(prims.slogdet_p, a)
        return lax.mul(sign, convert(lax.exp(logarithm), typeof(sign).dtype))
    factors, pivots, _ = _linalg.lu(a)
    diagonal = _diagonal(factors, 0, -2, -1)
    return ufuncs.multiply(_compute_signs(pivots, typeof(a).dtype), reductions.prod(diagonal, -1))


_det = custom_jvp(_compute_det)


def _adjugate_of_regular(a: Any, det: Any) -> Any:
    """adj(a) = det(a) a^-1, if `a` is known to NumPy and well conditioned; else None. It takes less time."""
    t = typeof(a)
    if trace_state.trace is not EVALUATION or not runs_on_numpy() or isinstance(a, Tracer) or not t.size:
        return None
    inverse = bind(prims.solve_p, a, np.broadcast_to(np.eye(t.shape[-1], dtype=t.dtype), t.shape))
    with np.errstate(all="ignore"):  # the norms of the columns; NaN if the matrix is singular
        condition = math.prod([np.abs(np.asarray(x)).sum(-2).max(-1) for x in (a, inverse)])
        if not np.all(condition < float(np.finfo(t.dtype).eps) ** (-1 / 3)):  # the error grows with the condition
            return None
    return lax.mul(lax.broadcast_in_dim(det, t.shape, tuple(range(len(t.shape) - 2))), inverse)


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
    """tr(a b), the sum of a^T times b."""
    n = len(typeof(a).shape)
    return lax.reduce_sum(lax.mul(lax.transpose(a, (*range(n - 2), n - 1, n - 2)), b), (n - 2, n - 1))


@_det.defjvp
def _det_jvp(primals: Any, tangents: Any) -> Any:
    """Jacobi's formula: d det(a) = tr(adj(a) da)."""
    a = primals[0]
    out = _det(a) if isinstance(a, Tracer) else _compute_det(a)
    adjugate = _adjugate_of_regular(a, out)
    return out, _trace_of(_adjugate(a) if adjugate is None else adjugate, tangents[0])


@custom_jvp
def _inverse(b: Any) -> Any:
    """Of regular matrices that are diagonal, though their tangents need not be."""
    d = _diagonal(b, 0, -2, -1)
    return ufuncs.multiply(layout.expand_dims(ufuncs.reciprocal(d), -1), np.eye(typeof(d).shape[-1], dtype=typeof(d).dtype))


@_inverse.defjvp
def _inverse_jvp(primals: Any, tangents: Any) -> Any:
    m = _inverse(primals[0])
    return m, ufuncs.negative(_matmul(_matmul(m, tangents[0]), m))


@custom_jvp
def _volume(b: Any) -> Any:
    """The determinants of such matrices."""
    return reductions.prod(_diagonal(b, 0, -2, -1), -1)


@_volume.defjvp
def _volume_jvp(primals: Any, tangents: Any) -> Any:
    out = _volume(primals[0])
    return out, ufuncs.multiply(out, _trace_of(_inverse(primals[0]), tangents[0]))


def _adjugate_around(a: Any) -> Any:
    """Return adj(a) in a form whose derivatives of every order exist.

    det(a) = det(U) det(V^H) det(B) of B = U^H a V with constant U and V. B is computed in blocks; the last, of the
    three least singular values, is written out. The other block is inverted, so its zeros are replaced by tiny
    numbers: four derivatives of det are right there too."""
    u, s, vh = _linalg.svd(lax.stop_gradient(a))
    d, n = typeof(s).dtype, typeof(s).shape[-1]
    least, top = literal(float(np.finfo(d).tiny) ** 0.25, d), s[..., :1]  # of which no power needed here overflows
    raised = ufuncs.maximum(s, ufuncs.multiply(least, choose_by(lax.eq(top, literal(0, d)), literal(1, d), top)))
    scale = ufuncs.exp(reductions.sum(ufuncs.divide(ufuncs.log(raised), literal(n, d)), -1, keepdims=True))
    s = ufuncs.divide(joining.concatenate([raised[..., :n - 3], s[..., n - 3:]], -1), scale)
    scale, v = layout.expand_dims(scale, -1), adjoint(vh)
    change = _matmul(_matmul(adjoint(u), ufuncs.subtract(a, lax.stop_gradient(a))), v)
    b = ufuncs.add(ufuncs.multiply(layout.expand_dims(s, -1), np.eye(n, dtype=d)), ufuncs.divide(change, scale))
    large, low, right = b[..., :n - 3, :n - 3], b[..., n - 3:, :n - 3], b[..., :n - 3, n - 3:]
    inverse = _inverse(large)
    right, low_of = _matmul(inverse, right), _matmul(low, inverse)
    rest = ufuncs.subtract(b[..., n - 3:, n - 3:], _matmul(low, right))
    one, two = (np.roll(np.arange(3), -k) for k in (1, 2))
    minors = ufuncs.subtract(ufuncs.multiply(rest[..., one, :][..., one], rest[..., two, :][..., two]),
                             ufuncs.multiply(rest[..., one, :][..., two], rest[..., two, :][..., one]))
    least_det, small = reductions.sum(ufuncs.multiply(rest[..., 0, :], minors[..., 0, :]), -1), layout.matrix_transpose(minors)
    corner = _matmul(right, small)
    first = ufuncs.add(ufuncs.multiply(inverse, least_det[..., None, None]), _matmul(corner, low_of))
    blocks = [[first, ufuncs.negative(corner)], [ufuncs.negative(_matmul(small, low_of)), small]]
    whole = joining.concatenate([joining.concatenate(row, -1) for row in blocks], -2)
    turn = ufuncs.multiply(ufuncs.multiply(_det(u), _det(vh)), _volume(large))[..., None, None]
    turn = ufuncs.multiply(turn, lax.integer_pow(scale, n - 1))
    return ufuncs.multiply(turn, _matmul(_matmul(v, whole), adjoint(u)))


@_adjugate.defjvp
def _adjugate_jvp(primals: Any, tangents: Any) -> Any:
    return _adjugate(primals[0]), jvp(_adjugate_around, primals, tangents)[1]


def _expand_minors(a: Any, columns: tuple[int, ...], row: int) -> Any:
    """Laplace's expansion along the rows from `row` on, over these columns: exact derivatives for small matrices."""
    t = typeof(a)
    if not columns:
        return np.ones(t.shape[:-2], t.dtype)
    total = None
    for i, c in enumerate(columns):
        entry = a[..., row, c]
        term = entry if len(columns) == 1 else ufuncs.multiply(
            entry, _expand_minors(a, columns[:i] + columns[i + 1:], row + 1))
        total = term if total is None else (ufuncs.subtract if i % 2 else ufuncs.add)(total, term)
    return total


@public_api()
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

    Derivative: Jacobi's formula, by the adjugate: the first four hold for singular matrices too; above n = 3 further ones
      where no more than three singular values are next to none.
    Source: meaning of `numpy.linalg.det`; written out up to n = 3, from an LU decomposition above.

    >>> det(np.array([[1., 2.], [3., 4.]]))
    Array(-2., dtype=float32)
    """
    a = to_matrices("det", a, square=True)
    n = typeof(a).shape[-1]
    if n > 3:
        return _det(a)
    return _expand_minors(a, tuple(range(n)), 0)
