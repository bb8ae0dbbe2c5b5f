"""Functions of square matrices: the exponential and its derivative, the square root, and any function of eigenvalues."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_autodiff import custom_jvp, custom_linear_solve, jvp
from lamina_ir import ShapeError
from lamina_numpy.extend import ignore_strict_promotion, public_api
from lamina_tracing import Array, ArrayLike, jit, lax
from lamina_tracing.extend import typeof
from lamina_tracing.lax import factorizations

from ._decompositions import schur
from ._util import adjoint, diagonal, make_diagonal, mm, promote_all, to_matrices

__all__ = ["expm", "expm_frechet", "funm", "sqrtm"]

# Degree of the approximant, and the largest norm that it serves: Higham (2005), table 2.3; (2008), algorithm 10.20 for 24 bits.
_PADE = {4: (7, 3.925724783138660), 8: (13, 5.371920351148152)}


@public_api("upper_triangular", "max_squarings")
def expm(A: ArrayLike, *, upper_triangular: bool = False, max_squarings: int = 16) -> Array:
    """The exponential of square matrices.

    Args:
      A: number array `[..., n, n]`.
      upper_triangular: `A` is: systems are solved by substitution.
      max_squarings: how often the result of a scaled matrix may be squared, which costs so many products in
        derivatives.
    Returns:
      Float or complex array `[..., n, n]`; half precision is computed in float32. NaN where the norm of a matrix is
      beyond about `5 * 2**max_squarings`.
    Raises:
      ShapeError: `A` has fewer than two axes, or its last two differ in length.
      ValueError: `max_squarings` is negative.
      TypeError: `A` is neither an array nor a number.

    Derivative: of the algorithm, which is that of Al-Mohy and Higham (2009).
    Source: Higham, "The scaling and squaring method for the matrix exponential revisited" (2005).

    >>> expm(np.array([[0., 1.], [0., 0.]]))
    Array([[1., 1.],
           [0., 1.]], dtype=float32)
    """
    if max_squarings < 0:
        raise ValueError(f"expm: max_squarings must be a number of products; got {max_squarings}")
    return _expm(to_matrices("expm", A, True, "A"), upper_triangular, max_squarings)


@ignore_strict_promotion
def _expm(a: Any, upper: bool, most: int) -> Any:
    t = typeof(a)
    n = t.shape[-1]
    if 0 in t.shape:
        return a
    degree, reach = _PADE[np.finfo(t.dtype).dtype.itemsize]
    norm = lnp.max(lnp.sum(lnp.abs(lax.stop_gradient(a)), -2), -1)
    real = typeof(norm).dtype
    wanted = lnp.ceil(lnp.log2(lnp.maximum(norm / np.asarray(reach, real), 1)))
    times = lnp.astype(lnp.minimum(wanted, most), np.int32)
    a = a * lnp.astype(lnp.ldexp(lnp.ones((), real), -times), t.dtype)[..., None, None]
    x = _pade(a, degree, upper)
    one = lnp.eye(n, dtype=t.dtype)
    all_times = lnp.max(times)

    def square(i: Any, x: Any) -> Any:
        go = (i < times)[..., None, None]
        y = lnp.where(go, x, one)  # what is not squared stays out of reach of overflow, in derivatives too
        return lnp.where(go, mm(y, y), x)

    x = lax.fori_loop(0, most, lambda i, x: lax.cond(i < all_times, square, lambda i, x: x, i, x), x)
    return lnp.where((wanted > most)[..., None, None], lnp.asarray(np.nan, t.dtype), x)


def _pade(a: Any, degree: int, upper: bool) -> Any:
    """The diagonal approximant of the exponential, by three products more than the degree 7 needs for 13."""
    c = [1.0]
    for j in range(1, degree + 1):
        c.append(c[-1] * (degree - j + 1) / ((2 * degree - j + 1) * j))
    one = lnp.eye(typeof(a).shape[-1], dtype=typeof(a).dtype)
    a2 = mm(a, a)
    a4 = mm(a2, a2)
    a6 = mm(a2, a4)
    odd = c[7] * a6 + c[5] * a4 + c[3] * a2 + c[1] * one
    even = c[6] * a6 + c[4] * a4 + c[2] * a2 + one
    if degree == 13:
        odd = odd + mm(a6, c[13] * a6 + c[11] * a4 + c[9] * a2)
        even = even + mm(a6, c[12] * a6 + c[10] * a4 + c[8] * a2)
    odd = mm(a, odd)
    if upper:
        return factorizations.triangular_solve(lnp.triu(even - odd), even + odd, left_side=True)
    return lnp.linalg.solve(even - odd, even + odd)


@public_api("method", "compute_expm")
def expm_frechet(A: ArrayLike, E: ArrayLike, *, method: str | None = None, compute_expm: bool = True) -> Any:
    """The derivative of the exponential at square matrices, in a direction.

    Args:
      A: number array `[..., n, n]`.
      E: number array `[..., n, n]`: the direction.
      method: None, "SPS" or "blockEnlarge"; the same is computed whichever is named.
      compute_expm: give the exponential too.
    Returns:
      `(expm(A), derivative)`, or the derivative alone; each `[..., n, n]` in the dtype both promote to.
    Raises:
      ShapeError: `A` or `E` is not made of square matrices, or they differ in shape.
      ValueError: `method` is another word.
      TypeError: `A` or `E` is neither an array nor a number.

    Source: Al-Mohy and Higham, "Computing the Frechet derivative of the matrix exponential" (2009).

    >>> expm_frechet(np.zeros((2, 2)), np.array([[1., 2.], [3., 4.]]), compute_expm=False)
    Array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    if method not in (None, "SPS", "blockEnlarge"):
        raise ValueError(f"expm_frechet: method must be 'SPS', 'blockEnlarge' or None; got {method!r}")
    a, e = promote_all("expm_frechet", A, E)
    a, e = to_matrices("expm_frechet", a, True, "A"), to_matrices("expm_frechet", e, True, "E")
    if typeof(a).shape != typeof(e).shape:
        raise ShapeError(f"expm_frechet: expected A and E of one shape; got {typeof(a).str_long()} and {typeof(e).str_long()}")
    value, moved = jvp(lambda x: _expm(x, False, 16), (a,), (e,))
    return (value, moved) if compute_expm else moved


# --- the square root ------------------------------------------------------------------------------------------------


@public_api("blocksize")
def sqrtm(A: ArrayLike, blocksize: int = 1) -> Array:
    """The principal square root of square matrices: that whose eigenvalues have no negative real part.

    Args:
      A: number array `[..., n, n]`.
      blocksize: 1; SciPy's algorithm in blocks is not available.
    Returns:
      Complex array `[..., n, n]`, of a real `A` too; half precision is computed in float32. NaN where there is no
      root.
    Raises:
      ShapeError: `A` has fewer than two axes, or its last two differ in length.
      NotImplementedError: `blocksize` is not 1.
      TypeError: `A` is neither an array nor a number.

    Derivative: the X with `S X + X S = dA`, S the root; not finite where `A` has the eigenvalue 0 twice.
    Source: Bjorck and Hammarling, "A Schur method for the square root of a matrix" (1983). CPU only.

    >>> sqrtm(np.array([[4., 0.], [0., 9.]])).real
    Array([[2., 0.],
           [0., 3.]], dtype=float32)
    """
    if blocksize != 1:
        raise NotImplementedError(f"sqrtm: the algorithm in blocks is not available; got blocksize={blocksize!r}, expected 1")
    a = to_matrices("sqrtm", A, True, "A")
    return lnp.vectorize(_sqrtm, signature="(n,n)->(n,n)")(lnp.astype(a, np.result_type(typeof(a).dtype, np.complex64)))


@custom_jvp
def _sqrtm(a: Any) -> Any:
    t, z = schur(a, "complex")
    return mm(z, mm(_compute_root(t), adjoint(z)))


def _compute_root(t: Any) -> Any:
    """The root of an upper triangular matrix, column by column."""
    n = typeof(t).shape[0]
    d = lnp.sqrt(diagonal(t))
    place = lnp.arange(n)

    def column(j: Any, root: Any) -> Any:
        both = d + d[j]
        none = both == 0
        here = lnp.where(place < j, t[:, j], 0)
        x = _divide_triangular(root - make_diagonal(d) + make_diagonal(lnp.where(none | (place >= j), 1, both)), here)
        x = lnp.where((none & (place < j) & (x != 0)).any(), np.nan, x)  # 0 x = b has no solution
        return lax.dynamic_update_slice(root, (x + lnp.where(place == j, d, 0))[:, None], (0, j))

    return lax.fori_loop(0, n, column, make_diagonal(d)) if n else t


def _divide_triangular(a: Any, b: Any) -> Any:
    return factorizations.triangular_solve(a, b[:, None], left_side=True)[:, 0]


@_sqrtm.defjvp
def _sqrtm_jvp(primals: Any, tangents: Any) -> Any:
    root = _sqrtm(*primals)
    t, z = schur(lax.stop_gradient(root), "complex")

    def solve(_: Any, c: Any) -> Any:
        c = mm(adjoint(z), mm(c, z))

        def column(j: Any, x: Any) -> Any:
            y = _divide_triangular(t + t[j, j] * lnp.eye(typeof(t).shape[0], dtype=typeof(t).dtype),
                                   c[:, j] - mm(x, t[:, j]))
            return lax.dynamic_update_slice(x, y[:, None], (0, j))

        return mm(z, mm(lax.fori_loop(0, typeof(t).shape[0], column, lnp.zeros_like(t)), adjoint(z)))

    def solve_transposed(_: Any, c: Any) -> Any:
        return lnp.matrix_transpose(solve(None, lnp.matrix_transpose(c)))

    return root, custom_linear_solve(lambda x: mm(root, x) + mm(x, root), tangents[0], solve, solve_transposed)


# --- any function ---------------------------------------------------------------------------------------------------


def funm(A: ArrayLike, func: Callable[[Array], Array], disp: bool = True) -> Any:
    """A function of a square matrix, given as a function of numbers.

    Args:
      A: number array `[..., n, n]`.
      func: takes a complex array of eigenvalues and gives its value at each; analytic there.
      disp: give the matrix alone; where False, with an estimate of its relative error in the 1-norm.
    Returns:
      Complex array `[..., n, n]`, or that and a real `[...]`. Digits are lost where eigenvalues nearly coincide, which
      the estimate shows; NaN where two that coincide exactly are coupled through another one.
    Raises:
      ShapeError: `A` has fewer than two axes, or its last two differ in length; `func` gives another shape.
      MissingRuleError: a derivative is asked for.
      TypeError: `A` is neither an array nor a number, or `func` is no function.

    Source: Parlett, "A recurrence among the elements of functions of triangular matrices" (1976), with the derivative of
      `func` where SciPy leaves two equal eigenvalues alone. CPU only.

    >>> import lamina_numpy as lnp
    >>> funm(np.array([[1., 1.], [0., 1.]]), lnp.exp).real.round(3)
    Array([[2.718, 2.718],
           [0.   , 2.718]], dtype=float32)
    """
    if not callable(func):
        raise TypeError(f"funm: func must be a function of numbers; got {type(func).__name__}")
    t, z = _complex_schur(A)
    w = diagonal(t)
    values, derivatives = jvp(func, (w,), (lnp.ones_like(w),))
    if typeof(values).shape != typeof(w).shape:
        raise ShapeError(f"funm: func must return a value for each eigenvalue, {typeof(w).str_long()}; "
                         f"got {typeof(values).str_long()}")
    d = typeof(t).dtype
    f, error = _parlett(t, z, lnp.asarray(values, d), lnp.asarray(derivatives, d))
    return f if disp else (f, error)


@functools.partial(jit, inline=True)
def _complex_schur(A: Any) -> Any:
    a = to_matrices("funm", A, True, "A")
    return schur(lnp.astype(a, np.result_type(typeof(a).dtype, np.complex64)), "complex")


@functools.partial(jit, inline=True)
@ignore_strict_promotion
def _parlett(t: Any, z: Any, values: Any, derivatives: Any) -> Any:
    return lnp.vectorize(_parlett_one, signature="(n,n),(n,n),(n),(n)->(n,n),()")(t, z, values, derivatives)


def _parlett_one(t: Any, z: Any, values: Any, derivatives: Any) -> Any:
    n, real = typeof(t).shape[0], np.finfo(typeof(t).dtype).dtype
    eps = np.finfo(real).eps
    w = diagonal(t)
    row, column = lnp.arange(n)[:, None], lnp.arange(n)
    gap = w - w[:, None]
    divided = lnp.where(gap == 0, derivatives, (values - values[:, None]) / lnp.where(gap == 0, 1, gap))
    strict = lnp.triu(t, 1)
    coupled = lnp.asarray(strict != 0, real)

    def off_diagonal(p: Any, done: Any) -> Any:
        """Return the p-th superdiagonal, from those below it, which this sum over the elements in between needs.

        `joined`: pairs of eigenvalues that are connected by elements of `t`. Equal eigenvalues with others in between need
        more derivatives."""
        f, joined = done
        inside = (column - row > 0) & (column - row < p)
        inner = f * inside
        rest = mm(strict, inner) - mm(inner, strict)
        far = mm(joined * inside, coupled) > 0
        rest = lnp.where(gap == 0, lnp.where(far, np.nan, 0), rest / lnp.where(gap == 0, 1, gap))
        here = column - row == p
        return lnp.where(here, t * divided + rest, f), lnp.where(here, lnp.maximum(coupled, far), joined)

    f, _ = lax.fori_loop(1, n, off_diagonal, (make_diagonal(values), lnp.zeros_like(coupled)))
    least = lnp.min(lnp.where(column > row, lnp.abs(gap), 1), initial=1)
    least = lnp.where(least == 0, eps, least)
    f = mm(z, mm(f, adjoint(z)))
    size = lnp.max(lnp.sum(lnp.abs(strict), 0), initial=0)
    error = lnp.minimum(1, lnp.maximum(eps, eps / least * size))
    return f, lnp.asarray(lnp.where(lnp.isfinite(f).all(), error, np.inf), real)
