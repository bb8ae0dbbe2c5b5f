"""Factorisations and what is computed with them, the second half of `numpy.linalg`; each is a call of `lax.linalg`.

Matrices stand in the last two axes. A matrix without a result (singular, not positive definite) gives inf or NaN, where
NumPy raises.
"""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from lamina_autodiff import custom_jvp, custom_linear_solve
from lamina_ir import dtypes, prims
from lamina_tracing import lax
from lamina_tracing.extend import bind, typeof
from lamina_tracing.lax import factorizations as _linalg

from . import _products, _reductions, _shape, _special, _ufuncs
from ._creation import eye
from ._grids import diagonal as _diagonal
from ._promotion import broadcast, broadcast_shapes_of, cast, convert, literal, to_inexact
from ._publish import compiled, public
from ._taking import take_along_axis

__all__ = ["EigResult", "EighResult", "QRResult", "SVDResult", "SlogdetResult", "cholesky", "cond", "det", "eig",
           "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "matrix_rank", "pinv", "qr", "slogdet", "solve", "svd",
           "svdvals", "tensorinv", "tensorsolve"]

_I32 = np.dtype("int32")
_matmul = _products.matmul


class EigResult(NamedTuple):
    """What `eig` gives."""

    eigenvalues: Any
    eigenvectors: Any


class EighResult(NamedTuple):
    """What `eigh` gives."""

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """What `qr` gives."""

    Q: Any
    R: Any


class SVDResult(NamedTuple):
    """What `svd` gives."""

    U: Any
    S: Any
    Vh: Any


class SlogdetResult(NamedTuple):
    """What `slogdet` gives."""

    sign: Any
    logabsdet: Any


def _matrices(call: str, a: Any, square: bool = False) -> Any:
    """`a` in a float dtype that factorisations have: half precision goes through float32."""
    a = to_inexact(call, a)
    t = typeof(a)
    if len(t.shape) < 2:
        raise ValueError(f"{call}: expected matrices in the last two axes; got {t.long()}")
    if square and t.shape[-1] != t.shape[-2]:
        raise ValueError(f"{call}: expected square matrices in the last two axes; got {t.long()}")
    return convert(a, np.dtype("float32")) if t.dtype.itemsize < 4 else a


def _adjoint(x: Any) -> Any:
    return _ufuncs.conj(_shape.matrix_transpose(x))


@public("upper", "symmetrize_input")
def cholesky(a: Any, *, upper: bool = False, symmetrize_input: bool = True) -> Any:
    """The lower triangular L with `a = L L^H`; with `upper` its conjugate transpose. NaN if not positive definite.

    >>> cholesky(np.array([[4., 2.], [2., 5.]]))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    a = _matrices("cholesky", a, square=True)
    out = _linalg.cholesky(_adjoint(a) if upper and not symmetrize_input else a, symmetrize_input=symmetrize_input)
    return _adjoint(out) if upper else out


@public("mode")
def qr(a: Any, mode: str = "reduced") -> Any:
    """`a = Q R`, Q with orthonormal columns and R upper triangular.

    Args:
      a: numbers `[..., m, n]`.
      mode: "reduced" (Q has min(m, n) columns), "complete" (Q is square), "r" (R alone), "raw" (what `lax.linalg.geqrf`
        gives, its matrix transposed).
    """
    a = _matrices("qr", a)
    if mode == "raw":
        packed, taus = _linalg.geqrf(a)
        return QRResult(_shape.matrix_transpose(packed), taus)
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"qr: mode must be 'reduced', 'complete', 'r' or 'raw'; got {mode!r}")
    q, r = _linalg.qr(a, full_matrices=mode == "complete")
    return r if mode == "r" else QRResult(q, r)


@public("full_matrices", "compute_uv", "hermitian", "subset_by_index")
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False,
        subset_by_index: tuple[int, int] | None = None) -> Any:
    """`a = U diag(S) Vh`, singular values descending.

    Args:
      a: numbers `[..., m, n]`.
      full_matrices: U and Vh are square.
      compute_uv: give U and Vh too; else S alone.
      hermitian: `a` is Hermitian: its eigenvalues are computed, which is faster.
      subset_by_index: `(first, last)`: these singular values alone; needs `full_matrices=False`.
    """
    a = _matrices("svd", a, square=hermitian)
    if not hermitian:
        made = _linalg.svd(a, full_matrices=full_matrices, compute_uv=compute_uv, subset_by_index=subset_by_index)
        return SVDResult(*made) if compute_uv else made
    if subset_by_index is not None:
        raise NotImplementedError("svd: subset_by_index is not available with hermitian=True")
    v, w = _linalg.eigh(a)
    size = _ufuncs.abs(w)
    _, order = lax.sort_key_val(lax.neg(size), lax.broadcasted_iota(_I32, typeof(w).shape, len(typeof(w).shape) - 1))
    s = take_along_axis(size, order, -1)
    if not compute_uv:
        return s
    v = take_along_axis(v, _shape.expand_dims(order, -2), -1)
    sign = _ufuncs.where_(_special.signbit(take_along_axis(w, order, -1)), literal(-1, typeof(s).dtype),
                          literal(1, typeof(s).dtype))
    return SVDResult(v, s, _adjoint(_ufuncs.multiply(v, _shape.expand_dims(sign, -2))))


@public()
def svdvals(x: Any, /) -> Any:
    """The singular values of matrices, descending."""
    return svd(x, False, False)


@public("UPLO", "symmetrize_input")
def eigh(a: Any, UPLO: str | None = None, symmetrize_input: bool = True) -> Any:
    """Eigenvalues, ascending, and eigenvectors, in columns, of Hermitian matrices.

    Args:
      a: numbers `[..., n, n]`.
      UPLO: which triangle to read, "L" or "U"; needs `symmetrize_input=False` to make a difference.
      symmetrize_input: take `(a + a^H) / 2`.
    """
    if UPLO not in (None, "L", "U"):
        raise ValueError(f"eigh: UPLO must be 'L', 'U' or None; got {UPLO!r}")
    v, w = _linalg.eigh(_matrices("eigh", a, square=True), lower=UPLO != "U", symmetrize_input=symmetrize_input)
    return EighResult(w, v)


@public("UPLO", "symmetrize_input")
def eigvalsh(a: Any, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Any:
    """The eigenvalues of Hermitian matrices, ascending."""
    return eigh(a, UPLO, symmetrize_input).eigenvalues


@public()
def eig(a: Any) -> Any:
    """Eigenvalues and right eigenvectors, in columns, of square matrices; complex. CPU only."""
    return EigResult(*_linalg.eig(_matrices("eig", a, square=True), compute_left_eigenvectors=False))


@public()
def eigvals(a: Any) -> Any:
    """The eigenvalues of square matrices; complex. CPU only."""
    return _linalg.eig(_matrices("eigvals", a, square=True), compute_left_eigenvectors=False,
                       compute_right_eigenvectors=False)[0]


# --- solving ----------------------------------------------------------------------------------------------------------
def _substitute(factors: Any, b: Any, lower: bool, back: bool = False) -> Any:
    return _linalg.triangular_solve(factors, b, left_side=True, lower=lower, unit_diagonal=lower, transpose_a=back)


def _rows(x: Any, order: Any) -> Any:
    return take_along_axis(x, _shape.expand_dims(order, -1), -2)


def _solve(a: Any, b: Any) -> Any:
    """a^-1 b for stacks of matrices `[..., n, n]`, `[..., n, k]`: one LU decomposition serves derivatives too."""
    s, t = typeof(a).shape, typeof(b).shape
    batch = broadcast_shapes_of("solve", (s[:-2], t[:-2]))
    factors, _, order = _linalg.lu(lax.stop_gradient(a))
    factors = broadcast(factors, s, batch + s[-2:])
    order = broadcast(order, s[:-1], batch + s[-1:])
    places = lax.broadcasted_iota(_I32, typeof(order).shape, len(batch))

    def forth(_: Any, y: Any) -> Any:
        return _substitute(factors, _substitute(factors, _rows(y, order), True), False)

    def back(_: Any, y: Any) -> Any:
        y = _substitute(factors, _substitute(factors, y, False, True), True, True)
        return _rows(y, lax.sort_key_val(order, places)[1])

    return custom_linear_solve(lambda x: _matmul(a, x), broadcast(b, t, batch + t[-2:]), forth, back)


@public()
def solve(a: Any, b: Any) -> Any:
    """The solution x of `a x = b`.

    Args:
      a: numbers `[..., n, n]`.
      b: numbers `[n]`, or `[..., n, k]`.
    Returns:
      Array of the shape of `b`, its leading axes broadcast with those of `a`; inf or NaN where `a` is singular.

    >>> solve(np.array([[2., 0.], [1., 4.]]), np.array([2., 9.]))
    Array([1., 2.], dtype=float32)
    """
    a, b = _same_dtype("solve", a, b)
    a = _matrices("solve", a, square=True)
    s, t = typeof(a).shape, typeof(b).shape
    vector = len(t) == 1
    if not t or s[-1] != t[0 if vector else -2]:
        raise ValueError(f"solve: expected a [..., n, n] and b [n] or [..., n, k]; got {typeof(a).long()} and "
                         f"{typeof(b).long()}")
    if vector:
        return _shape.squeeze(_solve(a, _shape.expand_dims(b, -1)), -1)
    return _solve(a, b)


def _same_dtype(call: str, a: Any, b: Any) -> tuple[Any, Any]:
    a, b = to_inexact(call, a), to_inexact(call, b)
    d, _ = dtypes.promote(*[(typeof(x).dtype, False) for x in (a, b)])
    d = np.dtype("float32") if d.itemsize < 4 else d
    return cast(a, d), cast(b, d)


@public()
def inv(a: Any) -> Any:
    """The inverse of square matrices; inf or NaN where there is none.

    >>> inv(np.array([[2., 0.], [0., 4.]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    a = _matrices("inv", a, square=True)
    t = typeof(a)
    return _solve(a, eye(t.shape[-1], dtype=t.dtype))


def _signs(pivots: Any, d: np.dtype) -> Any:
    """-1 to the number of rows that were exchanged with another."""
    axis = len(typeof(pivots).shape) - 1
    here = lax.broadcasted_iota(_I32, typeof(pivots).shape, axis)
    moved = lax.reduce_sum(lax.convert_element_type(lax.ne(pivots, here), _I32), (axis,))
    return _ufuncs.where_(lax.eq(lax.rem(moved, np.int32(2)), np.int32(1)), literal(-1, d), literal(1, d))


@public("method")
def slogdet(a: Any, *, method: str | None = None) -> Any:
    """Sign (of size 1 if complex; 0 if singular) and logarithm of the size of the determinant, from an LU decomposition.

    >>> slogdet(np.diag(np.array([-2., 1.])))
    SlogdetResult(sign=Array(-1., dtype=float32), logabsdet=Array(0.6931472, dtype=float32))
    """
    if method not in (None, "lu", "qr"):
        raise ValueError(f"slogdet: method must be 'lu', 'qr' or None; got {method!r}")
    a = _matrices("slogdet", a, square=True)
    factors, pivots, _ = _linalg.lu(a)
    diagonal = _diagonal(factors, 0, -2, -1)
    d = typeof(diagonal).dtype
    size = _ufuncs.abs(diagonal)
    if dtypes.is_complex(d):
        none = lax.eq(size, literal(0, typeof(size).dtype))
        signs = lax.div(diagonal, convert(_ufuncs.where_(none, literal(1, typeof(size).dtype), size), d))
    else:
        signs = _ufuncs.sign(diagonal)
    sign = _ufuncs.multiply(_signs(pivots, d), _reductions.prod(signs, -1))
    return SlogdetResult(sign, _reductions.sum(_ufuncs.log(size), -1))


@custom_jvp
def _det(a: Any) -> Any:
    factors, pivots, _ = _linalg.lu(a)
    diagonal = _diagonal(factors, 0, -2, -1)
    return _ufuncs.multiply(_signs(pivots, typeof(a).dtype), _reductions.prod(diagonal, -1))


@custom_jvp
def _adjugate(a: Any) -> Any:
    """adj(a) = det(U) det(V^H) V adj(S) U^H, which exists for singular matrices too."""
    u, s, vh = _linalg.svd(a)
    n = typeof(s).shape[-1]
    s = convert(s, typeof(u).dtype) if typeof(s).dtype != typeof(u).dtype else s
    around = [(0, 0, 0)] * (len(typeof(s).shape) - 1)
    one = literal(1, typeof(s).dtype)
    axis = len(around)
    others = _ufuncs.multiply(lax.pad(lax.cumprod(s, axis), np.asarray(one, typeof(s).dtype), [*around, (1, -1, 0)]),
                              lax.pad(lax.cumprod(s, axis, reverse=True), np.asarray(one, typeof(s).dtype),
                                      [*around, (-1, 1, 0)])) if n else s
    turn = _ufuncs.multiply(_det(u), _det(vh))
    scale = _ufuncs.multiply(others, _shape.expand_dims(turn, -1))
    return _matmul(_ufuncs.multiply(_adjoint(vh), _shape.expand_dims(scale, -2)), _adjoint(u))


def _trace_of(a: Any, b: Any) -> Any:
    """tr(a b)."""
    return _reductions.sum(_ufuncs.multiply(a, _shape.matrix_transpose(b)), (-2, -1))


@_det.defjvp
def _det_jvp(primals: Any, tangents: Any) -> Any:
    """Jacobi's formula: d det(a) = tr(adj(a) da)."""
    return _det(primals[0]), _trace_of(_adjugate(primals[0]), tangents[0])


@_adjugate.defjvp
def _adjugate_jvp(primals: Any, tangents: Any) -> Any:
    """d adj(a) = (tr(x) - x) adj(a) with x = a^-1 da; this one needs a to be regular."""
    made, x = _adjugate(primals[0]), _solve(primals[0], tangents[0])
    trace = _reductions.sum(_diagonal(x, 0, -2, -1), -1)
    return made, _ufuncs.subtract(_ufuncs.multiply(trace[..., None, None], made), _matmul(x, made))


@public()
def det(a: Any) -> Any:
    """The determinants of square matrices. The first derivative exists for singular ones too.

    >>> det(np.array([[1., 2.], [3., 4.]]))
    Array(-2., dtype=float32)
    """
    a = _matrices("det", a, square=True)
    n = typeof(a).shape[-1]
    if n > 3:
        return _det(a)
    return _expanded(a, tuple(range(n)), 0)


def _expanded(a: Any, columns: tuple[int, ...], row: int) -> Any:
    """Laplace's expansion along the rows from `row` on, over these columns: exact derivatives for small matrices."""
    t = typeof(a)
    if not columns:
        return np.ones(t.shape[:-2], t.dtype)
    total = None
    for i, c in enumerate(columns):
        entry = a[..., row, c]
        term = entry if len(columns) == 1 else _ufuncs.multiply(
            entry, _expanded(a, columns[:i] + columns[i + 1:], row + 1))
        total = term if total is None else (_ufuncs.subtract if i % 2 else _ufuncs.add)(total, term)
    return total


def _threshold(s: Any, shape: tuple[int, ...], rtol: Any) -> Any:
    """The singular values below which a matrix counts as singular, one per matrix, with an axis of length 1."""
    d = typeof(s).dtype
    if rtol is None:
        rtol = literal(float(np.finfo(d).eps) * max(shape[-2:], default=0), d)
    else:
        rtol = cast(to_inexact("rtol", rtol), d)
        rtol = _shape.expand_dims(rtol, -1) if typeof(rtol).shape else rtol
    return _ufuncs.multiply(rtol, _reductions.max(s, -1, None, True, 0))


@public("hermitian")
def matrix_rank(M: Any, rtol: Any = None, *, hermitian: bool = False, tol: Any = None) -> Any:
    """How many singular values are above `rtol` times the largest (or above `tol`); int.

    >>> matrix_rank(np.ones((2, 2)))
    Array(1, dtype=int32)
    """
    m = to_inexact("matrix_rank", M)
    t = typeof(m)
    if len(t.shape) < 2:
        return cast(_reductions.any(lax.ne(m, literal(0, t.dtype))), dtypes.canonical_int())
    s = svd(m, False, False, hermitian)
    if tol is not None:
        limit = cast(to_inexact("matrix_rank", tol), typeof(s).dtype)
        limit = _shape.expand_dims(limit, -1) if typeof(limit).shape else limit
    else:
        limit = _threshold(s, t.shape, rtol)
    return _reductions.sum(_ufuncs.where_(_above(s, limit), 1, 0), -1)


def _above(s: Any, limit: Any) -> Any:
    shape = broadcast_shapes_of("matrix_rank", (typeof(s).shape, typeof(limit).shape))
    return lax.gt(broadcast(s, typeof(s).shape, shape), broadcast(limit, typeof(limit).shape, shape))


@custom_jvp
def _pinv(a: Any, rtol: Any) -> Any:
    return _pinv_svd(a, rtol, False)


def _pinv_svd(a: Any, rtol: Any, hermitian: bool) -> Any:
    u, s, vh = svd(a, False, True, hermitian)
    d = typeof(s).dtype
    good = _above(s, _ufuncs.multiply(rtol, _reductions.max(s, -1, None, True, 0)))
    inverse = _ufuncs.where_(good, lax.div(literal(1, d), _ufuncs.where_(good, s, literal(1, d))), literal(0, d))
    return _matmul(_adjoint(vh), _ufuncs.multiply(_shape.expand_dims(inverse, -1), _adjoint(u)))


@_pinv.defjvp
def _pinv_jvp(primals: Any, tangents: Any) -> Any:
    """Golub and Pereyra (1973), 4.12, for matrices whose rank does not change."""
    (a, rtol), da = primals, tangents[0]
    p = _pinv(a, rtol)
    ph, dah = _adjoint(p), _adjoint(da)
    first = _ufuncs.negative(_matmul(_matmul(p, da), p))
    second, third = _matmul(_matmul(p, ph), dah), _matmul(dah, _matmul(ph, p))
    second = _ufuncs.subtract(second, _matmul(_matmul(second, a), p))
    third = _ufuncs.subtract(third, _matmul(p, _matmul(a, third)))
    return p, _ufuncs.add(first, _ufuncs.add(second, third))


@public("hermitian")
def pinv(a: Any, rtol: Any = None, hermitian: bool = False, *, rcond: Any = None) -> Any:
    """The pseudo-inverse of Moore and Penrose; singular values up to `rtol` times the largest count as zero.

    Args:
      a: numbers `[..., m, n]`.
      rtol: one number, or one per matrix; None for 10 max(m, n) times the precision of the dtype.
      hermitian: `a` is Hermitian, which is faster.
      rcond: an older name of `rtol`.
    Returns:
      Array `[..., n, m]`.
    """
    a = _matrices("pinv", a, square=hermitian)
    t = typeof(a)
    d = dtypes.real_of(t.dtype)
    rtol = rcond if rtol is None else rtol
    if not t.size:
        return bind(prims.broadcast_in_dim_p, np.zeros((), t.dtype), shape=(*t.shape[:-2], t.shape[-1], t.shape[-2]),
                    broadcast_dimensions=())
    if rtol is None:
        limit = np.asarray(10 * max(t.shape[-2:]) * float(np.finfo(d).eps), d)
    else:
        limit = cast(to_inexact("pinv", rtol), d)
        limit = _shape.expand_dims(limit, -1) if typeof(limit).shape else limit
    return _pinv_svd(a, limit, True) if hermitian else _pinv(a, limit)


def lstsq(a: Any, b: Any, rcond: Any = None, *, numpy_resid: bool = False) -> Any:
    """The least-squares solution of `a x = b`, the shortest if there are several, by singular values.

    Args:
      a: numbers `[m, n]`.
      b: numbers `[m]` or `[m, k]`.
      rcond: singular values up to this times the largest count as zero; None for max(m, n) times the precision.
      numpy_resid: give residuals of length 0 where `a` has not full rank or m <= n, as NumPy does; not under `jit`.
    Returns:
      `(x, residuals, rank, s)`: x `[n]` or `[n, k]`, sums of squared residuals `[k]` (or `[1]`), the rank, and the
      singular values of `a`.
    """
    x, residuals, rank, s = compiled(_lstsq)(a, b, rcond)
    if numpy_resid:
        m, n = np.shape(a)
        if m <= n or int(rank) < n:
            residuals = residuals[:0]
    return x, residuals, rank, s


@public()
def _lstsq(a: Any, b: Any, rcond: Any) -> Any:
    a, b = _same_dtype("lstsq", a, b)
    a = _matrices("lstsq", a)
    s_a, s_b = typeof(a).shape, typeof(b).shape
    if len(s_a) != 2 or len(s_b) not in (1, 2) or s_a[0] != s_b[0]:
        raise ValueError(f"lstsq: expected a [m, n] and b [m] or [m, k]; got {typeof(a).long()} and {typeof(b).long()}")
    vector = len(s_b) == 1
    b = _shape.expand_dims(b, -1) if vector else b
    u, s, vh = svd(a, False)
    d = typeof(s).dtype
    good = _above(s, _threshold(s, s_a, rcond))
    rank = _reductions.sum(_ufuncs.where_(good, 1, 0))
    inverse = _ufuncs.where_(good, lax.div(literal(1, d), _ufuncs.where_(good, s, literal(1, d))), literal(0, d))
    x = _matmul(_adjoint(vh), _ufuncs.multiply(_shape.expand_dims(inverse, -1), _matmul(_adjoint(u), b)))
    left = _ufuncs.subtract(b, _matmul(a, x))
    residuals = _reductions.sum(_ufuncs.square(_ufuncs.abs(left)), 0)
    return _shape.squeeze(x, -1) if vector else x, residuals, rank, s


@public("p")
def cond(x: Any, p: Any = None) -> Any:
    """How much `x` may amplify relative errors: `norm(x, p) norm(inv(x), p)`; for None, 2 and -2 from singular values."""
    from .linalg import matrix_norm_
    x = _matrices("cond", x, square=p not in (None, 2, -2))
    if p in (None, 2, -2):
        s = svdvals(x)
        top, bottom = s[..., 0], s[..., -1]
        return _ufuncs.divide(bottom, top) if p == -2 else _ufuncs.divide(top, bottom)
    return _ufuncs.multiply(matrix_norm_(x, p), matrix_norm_(inv(x), p))


@public("ind")
def tensorinv(a: Any, ind: int = 2) -> Any:
    """The inverse of `a` seen as a square matrix whose rows are its first `ind` axes."""
    a = to_inexact("tensorinv", a)
    shape = typeof(a).shape
    n, m = int(np.prod(shape[:ind], dtype=int)), int(np.prod(shape[ind:], dtype=int))
    if not 0 < ind or n != m:
        raise ValueError(f"tensorinv: the first {ind} axes must hold as many elements as the others; got "
                         f"{typeof(a).long()}")
    return _shape.reshape(inv(_shape.reshape(a, (n, m))), shape[ind:] + shape[:ind])


@public("axes")
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    """The x with `tensordot(a, x, x.ndim) = b`; `axes` of `a` are moved to its end first."""
    a, b = _same_dtype("tensorsolve", a, b)
    n = len(typeof(a).shape)
    if axes is not None:
        moved = [x % n for x in axes]
        a = _shape.transpose(a, [x for x in range(n) if x not in moved] + moved)
    s, t = typeof(a).shape, typeof(b).shape
    rest = s[len(t):]
    if s[:len(t)] != t or np.prod(rest, dtype=int) != np.prod(t, dtype=int):
        raise ValueError(f"tensorsolve: a must have the axes of b and as many elements more; got {typeof(a).long()} and "
                         f"{typeof(b).long()}")
    size = int(np.prod(t, dtype=int))
    return _shape.reshape(solve(_shape.reshape(a, (size, size)), _shape.reshape(b, (size,))), rest)


