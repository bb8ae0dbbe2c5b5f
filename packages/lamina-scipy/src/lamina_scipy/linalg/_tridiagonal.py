"""Eigenvalues and eigenvectors of symmetric tridiagonal matrices.

Eigenvalues alone are found by bisection on Sturm counts: all at a time, with as much memory as there are of them.
Vectors, and derivatives, which need the vectors, come from the dense decomposition.
"""
from __future__ import annotations

import functools
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_autodiff import custom_jvp
from lamina_ir import DTypeError, ShapeError, dtypes
from lamina_numpy.extend import ignore_strict_promotion, public_api
from lamina_tracing import ArrayLike, lax
from lamina_tracing.extend import typeof
from lamina_tracing.lax import factorizations

from ._util import make_diagonal, promote_all

__all__ = ["eigh_tridiagonal"]


@public_api("eigvals_only", "select", "select_range", "tol")
def eigh_tridiagonal(d: ArrayLike, e: ArrayLike, *, eigvals_only: bool = False, select: str = "a",
                     select_range: tuple[float, float] | None = None, tol: float | None = None) -> Any:
    """Eigenvalues, ascending, and eigenvectors, in columns, of symmetric tridiagonal matrices.

    Args:
      d: real array `[..., n]`: the diagonal.
      e: real array `[..., n - 1]`: the elements above and below it.
      eigvals_only: give the eigenvalues alone.
      select: "a" for all, "i" for those with the indices in `select_range`.
      select_range: first and last index, both within `0, ..., n - 1`, with "i".
      tol: largest error wanted; of no effect, as all are found to the precision of the dtype.
    Returns:
      Eigenvalues `[..., k]`, or these and the eigenvectors `[..., n, k]`, of length 1; half precision is computed in
      float32, integers and booleans in float.
    Raises:
      ShapeError: `e` is not one shorter than `d`, or their leading axes differ; `d` is empty.
      DTypeError: `d` or `e` is complex: LAPACK has no such matrices.
      ValueError: `select` is another word, or `select_range` is missing or not within the matrix.
      NotImplementedError: `select` is "v": the number of eigenvalues in a range depends on the values.
      TypeError: `d` or `e` is neither an array nor a number.

    Derivative: that of the eigenvectors is NaN where eigenvalues are equal; those of eigenvalues are `v^T dT v`.
    Source: meaning of `scipy.linalg.eigh_tridiagonal`, on stacks; Barth, Martin and Wilkinson, "Calculation of the
      eigenvalues of a symmetric tridiagonal matrix by the method of bisection" (1967).

    >>> eigh_tridiagonal(np.array([2., 2.]), np.array([1.]), eigvals_only=True).round(3)
    Array([1., 3.], dtype=float32)
    """
    d, e = promote_all("eigh_tridiagonal", d, e)
    s, t = typeof(d), typeof(e)
    if dtypes.is_complex(s.dtype):
        raise DTypeError(f"eigh_tridiagonal: expected real numbers; got d {s.str_long()} and e {t.str_long()}")
    if not s.shape or s.shape[-1] == 0 or t.shape != (*s.shape[:-1], s.shape[-1] - 1):
        raise ShapeError("eigh_tridiagonal: expected d [..., n] and e [..., n - 1], n at least 1; got "
                         f"{s.str_long()} and {t.str_long()}")
    first, last = _choose_range(select, select_range, s.shape[-1])
    if eigvals_only:
        return _eigenvalues(d, e, first, last)
    v, w = factorizations.eigh(_make_dense(d, e), symmetrize_input=False)
    return w[..., first:last], v[..., first:last]


def _choose_range(select: str, select_range: Any, n: int) -> tuple[int, int]:
    if select == "a":
        return 0, n
    if select == "v":
        raise NotImplementedError("eigh_tridiagonal: select='v' is not available, as the number of eigenvalues in a range "
                                  "depends on the numbers; compute all with select='a' and choose among them")
    if select != "i":
        raise ValueError(f"eigh_tridiagonal: select must be 'a' or 'i'; got {select!r}")
    if select_range is None or len(select_range) != 2 or any(k != int(k) for k in select_range):
        raise ValueError(f"eigh_tridiagonal: select='i' needs select_range=(first, last), two indices; got {select_range!r}")
    first, last = map(int, select_range)
    if not 0 <= first <= last < n:
        raise ValueError(f"eigh_tridiagonal: expected 0 <= first <= last < {n} in select_range; got {select_range!r}")
    return first, last + 1


def _make_dense(d: Any, e: Any) -> Any:
    """The matrices themselves."""
    lead = [(0, 0)] * (len(typeof(e).shape) - 1)
    below = make_diagonal(lnp.pad(e, [*lead, (0, 1)]))  # e[i] in row i; one column to the left is its place
    below = lnp.roll(below, 1, -2)
    return make_diagonal(d) + below + lnp.matrix_transpose(below)


@functools.partial(custom_jvp, nondiff_argnums=(2, 3))
@ignore_strict_promotion
def _eigenvalues(d: Any, e: Any, first: int, last: int) -> Any:
    dtype = typeof(d).dtype
    info = np.finfo(dtype)
    size = lnp.abs(e)
    lead = [(0, 0)] * (len(typeof(e).shape) - 1)
    left, right = lnp.pad(size, [*lead, (1, 0)]), lnp.pad(size, [*lead, (0, 1)])
    low = lnp.min(d - left - right, -1, keepdims=True)  # Gershgorin's circles hold all eigenvalues
    high = lnp.max(d + left + right, -1, keepdims=True)
    margin = lnp.maximum(lnp.abs(low), lnp.abs(high)) * (2 * info.eps * typeof(d).shape[-1]) + info.tiny
    k = lnp.arange(first, last)
    shape = (*typeof(d).shape[:-1], last - first)
    low, high = (lnp.broadcast_to(x, shape) for x in (low - margin, high + margin))
    squares = lnp.pad(lnp.square(e), [*lead, (1, 0)])
    smallest = info.tiny * lnp.maximum(lnp.max(squares, -1, keepdims=True), 1)
    rows = lnp.moveaxis(d, -1, 0)[..., None], lnp.moveaxis(squares, -1, 0)[..., None]

    def count_below(x: Any) -> Any:
        """How many eigenvalues are less than x: how many pivots of `T - x` are negative."""
        def step(carry: Any, row: Any) -> Any:
            pivot, count = carry
            pivot = row[0] - x - row[1] / pivot
            pivot = lnp.where(lnp.abs(pivot) < smallest, -smallest, pivot)
            return (pivot, count + (pivot < 0)), None
        return lax.scan(step, (lnp.ones(shape, dtype), lnp.zeros(shape, np.int32)), rows)[0][1]

    def halve(_: Any, ends: Any) -> Any:
        low, high = ends
        middle = low + (high - low) / 2
        above = count_below(middle) > k
        return lnp.where(above, low, middle), lnp.where(above, middle, high)

    steps = info.nmant + 8  # of the interval of all, which leaves as much as rounding does
    low, high = lax.fori_loop(0, steps, halve, (low, high))
    return low + (high - low) / 2


@_eigenvalues.defjvp
def _eigenvalues_jvp(first: int, last: int, primals: Any, tangents: Any) -> Any:
    v = factorizations.eigh(_make_dense(*primals), symmetrize_input=False)[0][..., first:last]
    d, e = tangents
    moved = lnp.matvec(lnp.matrix_transpose(lnp.square(v)), d)
    moved = moved + 2 * lnp.matvec(lnp.matrix_transpose(v[..., 1:, :] * v[..., :-1, :]), e)
    return _eigenvalues(primals[0], primals[1], first, last), moved
