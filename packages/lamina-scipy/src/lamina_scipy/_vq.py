"""Vector quantisation: the nearest of some points."""
from __future__ import annotations

import lamina_numpy as lnp
import numpy as np
from lamina_ir import DTypeError, ShapeError, dtypes
from lamina_numpy.extend import ignore_strict_promotion, public_api, to_inexact
from lamina_tracing import Array, ArrayLike
from lamina_tracing.extend import typeof

__all__ = ["vq"]


@public_api("check_finite")
@ignore_strict_promotion
def vq(obs: ArrayLike, code_book: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """The nearest point of a book to each observation, and how far it is.

    Args:
      obs: real array `[m, n]`: m observations; or `[m]`, of one feature.
      code_book: real array `[k, n]`, k at least 1; or `[k]`.
      check_finite: of no effect; accepted for SciPy's sake.
    Returns:
      The positions in the book, int32 `[m]`, the first of equally near ones, and the Euclidean distances, `[m]`.
    Raises:
      ShapeError: the two differ in rank or in features, have more than two axes, or the book is empty.
      DTypeError: complex numbers.
      TypeError: either is neither an array nor a number.

    Derivative: of the distances, along the line to the nearest point; 0 at the point itself.
    Source: meaning of `scipy.cluster.vq.vq`.

    >>> vq(np.array([[1., 1.], [4., 5.]]), np.array([[0., 1.], [4., 2.]]))
    (Array([0, 1], dtype=int32), Array([1., 3.], dtype=float32))
    """
    x, book = to_inexact("vq", obs), to_inexact("vq", code_book)
    s, t = typeof(x), typeof(book)
    if len(s.shape) != len(t.shape) or len(s.shape) not in (1, 2) or s.shape[1:] != t.shape[1:] or t.shape[0] == 0:
        raise ShapeError(f"vq: expected obs [m, n] and code_book [k, n], or [m] and [k], k at least 1; got {s.str_long()} and "
                          f"{t.str_long()}")
    if dtypes.is_complex(s.dtype) or dtypes.is_complex(t.dtype):
        raise DTypeError(f"vq: expected real numbers; got obs {s.str_long()} and code_book {t.str_long()}")
    if len(s.shape) == 1:
        x, book = x[:, None], book[:, None]
    squares = lnp.sum(lnp.square(x[:, None] - book), -1)
    code = lnp.astype(lnp.argmin(squares, -1), np.int32)
    nearest = lnp.take_along_axis(squares, code[:, None], 1)[:, 0]
    apart = lnp.logical_not(nearest == 0)  # NaN too
    return code, lnp.where(apart, lnp.sqrt(lnp.where(apart, nearest, 1)), 0)
