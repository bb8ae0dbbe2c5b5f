"""Matrices made of blocks, of diagonals and of a formula."""
from __future__ import annotations

from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_ir import ShapeError, dtypes
from lamina_numpy.extend import ignore_strict_promotion, public_api, to_inexact
from lamina_tracing import Array, ArrayLike, jit, lax
from lamina_tracing.extend import typeof

from .._util import check_count

__all__ = ["block_diag", "hilbert", "toeplitz"]


def block_diag(*arrs: ArrayLike) -> Array:
    """Matrices along the diagonal of one matrix, zeros elsewhere.

    Args:
      *arrs: number arrays of at most two axes, or lists of numbers: `[m, n]`; `[n]` is a row, a number one element.
    Returns:
      Array `[sum of m, sum of n]` in the dtype all promote to; `[1, 0]` in float where there are none.
    Raises:
      ShapeError: an argument has more than two axes.
      TypeError: an argument is neither an array nor a number, nor a list of them.

    Derivative: linear.
    Source: meaning of `scipy.linalg.block_diag`, which since SciPy 1.17 places stacks side by side: here they are
      refused.

    >>> block_diag(1, [[2, 3]])
    Array([[1, 0, 0],
           [0, 2, 3]], dtype=int32)
    """
    return _block_diag(*[lnp.asarray(x) if isinstance(x, (list, tuple)) else x for x in arrs])


@jit
def _block_diag(*arrs: Any) -> Any:
    if not arrs:
        return lnp.zeros((1, 0))
    for i, x in enumerate(arrs):
        t = typeof(x)
        if len(t.shape) > 2:
            raise ShapeError(f"block_diag: expected at most two axes; got {t.str_long()} at position {i}. Map it over stacks")
    d, _ = dtypes.promote(*[(typeof(x).dtype, typeof(x).weak_type) for x in arrs])
    blocks = [lnp.atleast_2d(lnp.asarray(x, d)) for x in arrs]
    widths = [typeof(x).shape[1] for x in blocks]
    rows, before = [], 0
    for x, width in zip(blocks, widths):
        rows.append(lnp.pad(x, ((0, 0), (before, sum(widths) - before - width))))
        before += width
    return lnp.concatenate(rows, 0)


@public_api("n")
@ignore_strict_promotion
def hilbert(n: int) -> Array:
    """The Hilbert matrix: 1 / (i + j + 1) in row i and column j.

    Args:
      n: how many rows and columns.
    Returns:
      Float array `[n, n]`.
    Raises:
      ValueError: `n` is negative.
      TypeError: `n` is not an integer.

    Source: Hilbert, "Ein Beitrag zur Theorie des Legendre'schen Polynoms" (1894).

    >>> hilbert(2)
    Array([[1.        , 0.5       ],
           [0.5       , 0.33333334]], dtype=float32)
    """
    k = lnp.arange(check_count("hilbert", "n", n), dtype=float)
    return 1 / (k[:, None] + k + 1)


@public_api()
def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """Matrices with the same number along each diagonal.

    Args:
      c: number array `[..., m]`: the first column.
      r: number array `[..., n]`: the first row, whose first element is not read; None for the conjugate of `c`. Its
        leading axes broadcast with those of `c`.
    Returns:
      Array `[..., m, n]` in the dtype both promote to.
    Raises:
      ShapeError: the leading axes do not broadcast.
      TypeError: `c` or `r` is neither an array nor a number.

    Derivative: linear; each number's cotangent is the sum along its diagonal.
    Source: meaning of `scipy.linalg.toeplitz`; leading axes are a stack, as in SciPy 1.17.

    >>> toeplitz(np.array([1, 2, 3]), np.array([0, 5]))
    Array([[1, 5],
           [2, 1],
           [3, 2]], dtype=int32)
    """
    to_inexact("toeplitz", c)
    column = lnp.atleast_1d(c)
    row = lnp.conj(column) if r is None else r
    to_inexact("toeplitz", row)
    row = lnp.atleast_1d(row)
    m, n = typeof(column).shape[-1], typeof(row).shape[-1]
    lead = lnp.broadcast_shapes(typeof(column).shape[:-1], typeof(row).shape[:-1])
    if m == 0 or n == 0:
        return lnp.zeros((*lead, m, n), lnp.promote_types(typeof(column).dtype, typeof(row).dtype))
    line = lnp.concatenate([lnp.broadcast_to(lnp.flip(column, -1), (*lead, m)),
                            lnp.broadcast_to(row[..., 1:], (*lead, n - 1))], -1)
    at = lax.sub(lax.broadcasted_iota(np.dtype("int32"), (m, n), 1), lax.broadcasted_iota(np.dtype("int32"), (m, n), 0))
    return lnp.take(line, lax.add(at, np.int32(m - 1)), axis=-1)
