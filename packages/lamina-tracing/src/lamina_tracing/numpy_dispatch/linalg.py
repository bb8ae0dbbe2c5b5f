"""`numpy.linalg` on the factorizations of `lax`. Matrices are the last two axes; a singular one gives inf or NaN, no error."""
from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np
from lamina_ir import dtypes

from .. import lax
from ..lax import factorizations
from .._core.tracer import typeof
from .elementwise import where
from ._registry import as_array, axes_of, cast, common, inexact, ndim_of, row, rows, shape_of, stretched
from .indexing import diagonal, take_along_axis
from .products import matmul
from .reductions import kept

__all__: list[str] = []

_INT = np.dtype("int32")
_RESULTS: dict[str, Any] = {}


def _result(name: str, *values: Any) -> Any:
    """Values in the named tuple that NumPy's function gives."""
    if name not in _RESULTS:
        _RESULTS[name] = type(getattr(np.linalg, name)(np.eye(1)))
    return _RESULTS[name](*values)


def _matrices(call: str, a: Any, square: bool = True) -> Any:
    x = inexact(a)
    s = shape_of(x)
    if len(s) < 2 or square and s[-1] != s[-2]:
        raise np.linalg.LinAlgError(f"numpy.linalg.{call}: expected {'square ' if square else ''}matrices [..., "
                                    f"{'n, n' if square else 'm, n'}]; got {typeof(x).str_long()}")
    return x if typeof(x).dtype.itemsize >= 4 else cast(x, np.dtype("float32"))


def _adjoint(x: Any) -> Any:
    return rows["conjugate"](rows["swapaxes"](x, -1, -2))


def _solve_stacks(a: Any, b: Any) -> Any:
    batch = np.broadcast_shapes(shape_of(a)[:-2], shape_of(b)[:-2])
    a, b = stretched(a, batch + shape_of(a)[-2:]), stretched(b, batch + shape_of(b)[-2:])
    factors, _, order = factorizations.lu(a)
    b = take_along_axis(b, lax.expand_dims(order, (len(batch) + 1,)), -2)
    b = factorizations.triangular_solve(factors, b, left_side=True, lower=True, unit_diagonal=True)
    return factorizations.triangular_solve(factors, b, left_side=True, lower=False)


@row("linalg.solve")
def solve(a: Any, b: Any) -> Any:
    a, b = map(inexact, common(a, b))
    a = _matrices("solve", a)
    b = cast(b, typeof(a).dtype)
    if ndim_of(b) == 1:
        return lax.squeeze(_solve_stacks(a, lax.expand_dims(b, (1,))), (-1,))
    if not ndim_of(b) or shape_of(b)[-2] != shape_of(a)[-1]:
        raise ValueError(f"numpy.linalg.solve: {typeof(a).str_long()} and {typeof(b).str_long()} do not fit")
    return _solve_stacks(a, b)


@row("linalg.inv")
def inv(a: Any) -> Any:
    a = _matrices("inv", a)
    return _solve_stacks(a, stretched(np.eye(shape_of(a)[-1], dtype=typeof(a).dtype), shape_of(a)))


def _signs_and_diagonal(a: Any) -> tuple[Any, Any]:
    """-1 to the number of exchanges, and what the determinant is the product of."""
    factors, pivots, _ = factorizations.lu(a)
    n = ndim_of(pivots)
    moved = lax.reduce_sum(cast(lax.ne(pivots, lax.broadcasted_iota(_INT, shape_of(pivots), n - 1)), _INT), (n - 1,))
    odd = rows["equal"](lax.rem(moved, lax.full_like(moved, 2)), 1)
    dtype = typeof(factors).dtype
    return where(odd, dtype.type(-1), dtype.type(1)), diagonal(factors, 0, -2, -1)


def _expanded(a: Any, columns: tuple[int, ...], at: int) -> Any:
    """Laplace's expansion along the rows from `at` on: exact derivatives, of singular matrices too."""
    if not columns:
        return stretched(typeof(a).dtype.type(1), shape_of(a)[:-2])
    total = None
    for i, c in enumerate(columns):
        entry = lax.index_in_dim(lax.index_in_dim(a, at, -2, False), c, -1, False)
        term = entry if len(columns) == 1 else lax.mul(entry, _expanded(a, columns[:i] + columns[i + 1:], at + 1))
        total = term if total is None else (lax.sub if i % 2 else lax.add)(total, term)
    return total


@row("linalg.det")
def det(a: Any) -> Any:
    a = _matrices("det", a)
    if shape_of(a)[-1] <= 3:
        return _expanded(a, tuple(range(shape_of(a)[-1])), 0)
    sign, parts = _signs_and_diagonal(a)
    return lax.mul(sign, rows["prod"](parts, -1))


@row("linalg.slogdet")
def slogdet(a: Any) -> Any:
    a = _matrices("slogdet", a)
    sign, parts = _signs_and_diagonal(a)
    size = lax.abs(parts)
    if dtypes.is_complex(typeof(a).dtype):
        unit = lax.div(parts, cast(where(rows["equal"](size, 0), typeof(size).dtype.type(1), size), typeof(a).dtype))
    else:
        unit = lax.sign(parts)
    return _result("slogdet", lax.mul(sign, rows["prod"](unit, -1)), rows["sum"](lax.log(size), -1))


@row("linalg.cholesky")
def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    a = _matrices("cholesky", a)
    lower = factorizations.cholesky(_adjoint(a) if upper else a, symmetrize_input=False)
    return _adjoint(lower) if upper else lower


@row("linalg.qr")
def qr(a: Any, mode: str = "reduced") -> Any:
    a = _matrices("qr", a, False)
    if mode not in ("reduced", "complete", "r"):
        raise NotImplementedError(f"numpy.linalg.qr of a traced value: mode must be 'reduced', 'complete' or 'r'; got {mode!r}")
    q, r = factorizations.qr(a, full_matrices=mode == "complete")
    return r if mode == "r" else _result("qr", q, r)


@row("linalg.eigh")
def eigh(a: Any, UPLO: str = "L") -> Any:
    v, w = factorizations.eigh(_from_triangle(_matrices("eigh", a), UPLO))
    return _result("eigh", w, v)


def _from_triangle(a: Any, which: str) -> Any:
    """The Hermitian matrix whose lower or upper triangle is that of `a`."""
    if which.upper() not in ("L", "U"):
        raise ValueError(f"numpy.linalg.eigh: UPLO must be 'L' or 'U'; got {which!r}")
    half = rows["tril" if which.upper() == "L" else "triu"](a, -1 if which.upper() == "L" else 1)
    return lax.add(lax.add(half, _adjoint(half)), lax.select(np.broadcast_to(np.eye(shape_of(a)[-1], dtype=bool), shape_of(a)),
                                                             a, lax.full_like(a, 0)))


@row("linalg.eigvalsh")
def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    return eigh(a, UPLO)[0]


@row("linalg.eig")
def eig(a: Any) -> Any:
    w, v = factorizations.eig(_matrices("eig", a), compute_left_eigenvectors=False)
    return _result("eig", w, v)


@row("linalg.eigvals")
def eigvals(a: Any) -> Any:
    return factorizations.eig(_matrices("eigvals", a), compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]


@row("linalg.svd")
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    if not compute_uv:
        return svdvals(a)
    return _result("svd", *factorizations.svd(_matrices("svd", a, False), full_matrices=full_matrices))


@row("linalg.svdvals")
def svdvals(x: Any, /) -> Any:
    return factorizations.svd(_matrices("svdvals", x, False), full_matrices=False, compute_uv=False)


def _cutoff(call: str, s: Any, shape: tuple[int, ...], rcond: Any, rtol: Any) -> Any:
    """Below which singular values count as 0."""
    given = rtol if rcond is None and rtol is not np._NoValue else rcond
    if given is None:
        given = max(shape[-2:]) * float(dtypes.finfo(typeof(s).dtype).eps)
    return rows["multiply"](rows["max"](s, -1, keepdims=True), given)


@row("linalg.pinv")
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = np._NoValue) -> Any:
    a = _matrices("pinv", a, False)
    if shape_of(a)[-2] >= shape_of(a)[-1]:
        return _pinv_tall(a, rcond, rtol)
    return _adjoint(_pinv_tall(_adjoint(a), rcond, rtol))


def _pinv_tall(a: Any, rcond: Any, rtol: Any) -> Any:
    """Of matrices with at least as many rows as columns."""
    u, s, vh = factorizations.svd(a, full_matrices=False)
    cutoff = _cutoff("pinv", s, shape_of(a), rcond if rcond is not None else 1e-15 if rtol is np._NoValue else None, rtol)
    large = rows["greater"](s, cutoff)
    inverse = where(large, lax.div(lax.full_like(s, 1), where(large, s, typeof(s).dtype.type(1))), typeof(s).dtype.type(0))
    u = rows["multiply"](u, lax.expand_dims(cast(inverse, typeof(u).dtype), (ndim_of(s) - 1,)))
    return matmul(_adjoint(vh), _adjoint(u))


@row("linalg.lstsq")
def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    a, b = map(inexact, common(a, b))
    column = ndim_of(b) == 1
    b = lax.expand_dims(b, (1,)) if column else b
    m, n = shape_of(a)
    s = svdvals(a)
    cutoff = _cutoff("lstsq", s, (m, n), None if rcond == -1 else rcond, np._NoValue)
    rank = rows["sum"](rows["greater"](s, cutoff))
    x = matmul(_pinv_tall(a, rcond, None) if m >= n else _adjoint(_pinv_tall(_adjoint(a), rcond, None)), b)
    apart = lax.sub(b, matmul(a, x))
    left = rows["sum"](rows["real"](rows["multiply"](apart, rows["conjugate"](apart))), 0)
    return lax.squeeze(x, (1,)) if column else x, left if m > n else left[:0], rank, s


@row("linalg.matrix_rank")
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    a = as_array(A)
    if ndim_of(a) < 2:
        return rows["any"](a).astype("int32")
    s = svdvals(lax.stop_gradient(inexact(a)))
    cutoff = _cutoff("matrix_rank", s, shape_of(a), None, rtol) if tol is None else rows["expand_dims"](as_array(tol), -1)
    return rows["sum"](rows["greater"](s, cutoff), -1)


@row("linalg.matrix_power")
def matrix_power(a: Any, n: int) -> Any:
    a = as_array(a)
    if n < 0:
        a, n = inv(a), -n
    if ndim_of(a) < 2 or shape_of(a)[-1] != shape_of(a)[-2]:
        raise np.linalg.LinAlgError(f"numpy.linalg.matrix_power: expected square matrices; got {typeof(a).str_long()}")
    out, power = None, a
    while n:
        if n % 2:
            out = power if out is None else matmul(out, power)
        n //= 2
        power = matmul(power, power) if n else power
    return stretched(np.eye(shape_of(a)[-1], dtype=typeof(a).dtype), shape_of(a)) if out is None else out


@row("linalg.multi_dot")
def multi_dot(arrays: Any, *, out: None = None) -> Any:
    xs = list(map(as_array, arrays))
    if len(xs) < 3:
        return reduce(rows["dot"], xs)
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    words = [letters[i:i + 2] for i in range(len(xs))]
    words[0] = words[0][-ndim_of(xs[0]):]
    words[-1] = words[-1][:ndim_of(xs[-1])]
    ends = (words[0][0] if ndim_of(xs[0]) == 2 else "") + (words[-1][-1] if ndim_of(xs[-1]) == 2 else "")
    return rows["einsum"](",".join(words) + "->" + ends, *xs)


@row("linalg.tensorsolve")
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    a, b = as_array(a), as_array(b)
    if axes is not None:
        axes = axes_of("tensorsolve", axes, a)
        a = lax.transpose(a, (*[i for i in range(ndim_of(a)) if i not in axes], *axes))
    rest = shape_of(a)[ndim_of(b):]
    n = typeof(b).size
    return lax.reshape(solve(lax.reshape(a, (n, math.prod(rest))), lax.reshape(b, (n,))), rest)


@row("linalg.tensorinv")
def tensorinv(a: Any, ind: int = 2) -> Any:
    a = as_array(a)
    s = shape_of(a)
    return lax.reshape(inv(lax.reshape(a, (math.prod(s[:ind]), math.prod(s[ind:])))), s[ind:] + s[:ind])


# --- norms -----------------------------------------------------------------------------------------------------------


def _root(total: Any) -> Any:
    """The square root of a sum of squares, whose derivative at 0 is 0."""
    none = rows["equal"](total, 0)
    one = typeof(total).dtype.type(1)
    return where(none, typeof(total).dtype.type(0), lax.sqrt(where(none, one, total)))


def _euclidean(x: Any, axes: tuple[int, ...]) -> Any:
    squares = lax.add(lax.square(lax.real(x)), lax.square(lax.imag(x))) if dtypes.is_complex(typeof(x).dtype) else lax.square(x)
    return _root(lax.reduce_sum(squares, axes))


def _vector_norm(x: Any, order: Any, axes: tuple[int, ...]) -> Any:
    if order is None or order == 2:
        return _euclidean(x, axes)
    size = lax.abs(x)
    if order == math.inf:
        return lax.reduce_max(size, axes)
    if order == -math.inf:
        return lax.reduce_min(size, axes)
    if order == 0:
        return lax.reduce_sum(cast(rows["not_equal"](x, 0), typeof(size).dtype), axes)
    if order == 1:
        return lax.reduce_sum(size, axes)
    return rows["power"](lax.reduce_sum(rows["power"](size, order), axes), 1.0 / order)


def _matrix_norm(x: Any, order: Any, i: int, j: int) -> Any:
    if order is None or order == "fro":
        return _euclidean(x, (i, j))
    if order in (1, -1, math.inf, -math.inf):
        sums, at = lax.reduce_sum(lax.abs(x), (i if abs(order) == 1 else j,)), j if abs(order) == 1 else i
        gone = i if abs(order) == 1 else j
        return (lax.reduce_max if order > 0 else lax.reduce_min)(sums, (at - (gone < at),))
    if order in (2, -2, "nuc"):
        s = svdvals(rows["moveaxis"](x, (i, j), (-2, -1)))
        return rows[{2: "max", -2: "min", "nuc": "sum"}[order]](s, -1)
    raise ValueError(f"numpy.linalg.norm: there is no matrix norm of order {order!r}")


@row("linalg.norm")
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    x = inexact(x)
    if axis is None and (ord is None or ndim_of(x) == 1):
        found = _vector_norm(lax.reshape(x, (typeof(x).size,)), ord, (0,))
        return kept(found, shape_of(x), tuple(range(ndim_of(x))), keepdims)
    axes = axes_of("norm", axis, x)
    if len(axes) == 1:
        return kept(_vector_norm(x, ord, axes), shape_of(x), axes, keepdims)
    if len(axes) != 2:
        raise ValueError(f"numpy.linalg.norm: axis must be an integer or two of them; got {axis!r} for {typeof(x).str_long()}")
    return kept(_matrix_norm(x, ord, *axes), shape_of(x), axes, keepdims)


@row("linalg.vector_norm")
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    x = inexact(x)
    axes = axes_of("vector_norm", axis, x)
    return kept(_vector_norm(x, ord, axes), shape_of(x), axes, keepdims)


@row("linalg.matrix_norm")
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    return norm(x, ord, (-2, -1), keepdims)


@row("linalg.cond")
def cond(x: Any, p: Any = None) -> Any:
    x = _matrices("cond", x, p not in (None, 2, -2))
    if p in (None, 2, -2):
        s = svdvals(x)
        first, last = (lax.index_in_dim(s, i, -1, False) for i in (0, -1))
        return lax.div(last, first) if p == -2 else lax.div(first, last)
    return lax.mul(norm(x, p, (-2, -1)), norm(inv(x), p, (-2, -1)))
