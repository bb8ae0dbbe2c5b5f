"""`qdwh`: the polar decomposition, by an iteration of products and QR decompositions."""
from __future__ import annotations

import numpy as np
from lamina_ir import DTypeError, ShapeError, dtypes, prims
from lamina_ir.typing import Value

from .._core.array import Array
from .._diagnostics.argument_errors import rename_errors
from . import elementwise as _e
from . import reductions as _r
from . import shape as _s
from ._util.operands import ArrayLike, bind, scalar, typeof
from ._util.conversions import convert_element_type
from ._control_flow.loops import while_loop
from .products import Precision, dot_general

__all__ = ["qdwh"]

_ITERATIONS = 10


def _matmul(a: Value, b: Value) -> Value:
    return dot_general(a, b, (((1,), (0,)), ((), ())), precision=Precision.HIGHEST)


def _adjoint(x: Value) -> Value:
    x = _s.transpose(x, (1, 0))
    return _e.conj(x) if dtypes.is_complex(typeof(x).dtype) else x


def _frobenius_norm(x: Value) -> Value:
    """Return the Frobenius norm."""
    y = _e.abs(x)
    return _e.sqrt(_r.reduce_sum(_e.mul(y, y), (0, 1)))


def _step_weights(l: Value) -> tuple[Value, Value, Value]:
    """Return (a, b, c) of the best rational step for singular values in [l, 1]: Nakatsukasa, Bai and Gygi (2010), (3.11)."""
    square = l * l
    # l is a lower bound of the singular values. The weights maximize the new bound after one step.
    d: Value = _e.cbrt(4.0 * (1.0 - square) / (square * square))
    root: Value = _e.sqrt(1.0 + d)
    rest: Value = _e.sqrt(_e.max(8.0 - 4.0 * d + 8.0 * (2.0 - square) / (square * root), scalar(0, typeof(l).dtype)))
    a = root + 0.5 * rest
    b = (a - 1.0) * (a - 1.0) * 0.25
    return a, b, a + b - 1.0


@rename_errors
def qdwh(x: ArrayLike, *, is_hermitian: bool = False, max_iterations: int | None = None, eps: float | None = None,
         dynamic_shape: tuple[int, int] | None = None) -> tuple[Array, Array, Array, Array]:
    """Compute the polar decomposition `x = u h`: u with orthonormal columns, h Hermitian and positive semi-definite.

    Args:
      x: float or complex array `[m, n]`, m >= n, of full rank.
      is_hermitian: accepted for compatibility; the steps are the same.
      max_iterations: the most steps; None for 10 (6 suffice in exact arithmetic for 64 bits).
      eps: the target precision; None for that of the dtype.
      dynamic_shape: not supported; must be None.
    Returns:
      `(u, h, steps, converged)`: `[m, n]`, `[n, n]`, an int32 and a bool.

    Source: Nakatsukasa, Bai and Gygi, "Optimizing Halley's iteration for computing the matrix polar decomposition"
    (2010), each step by a QR decomposition.

    >>> u, h, steps, converged = qdwh(np.array([[0., -2.], [3., 0.]], np.float32))
    >>> bool(converged), np.allclose(h, [[3., 0.], [0., 2.]], atol=1e-5)
    (True, True)
    """
    aval = typeof(x)
    if len(aval.shape) != 2 or aval.shape[0] < aval.shape[1]:
        raise ShapeError(f"qdwh: expected a matrix [m, n] with m >= n; got {aval.str_long()}")
    if not dtypes.is_inexact(aval.dtype):
        raise DTypeError(f"qdwh: expected real or complex numbers; got {aval.str_long()}")
    if dynamic_shape is not None:
        raise NotImplementedError("qdwh: dynamic_shape is not supported; pass x without the padding")
    m, n = aval.shape
    dtype, real = aval.dtype, dtypes.real_dtype(aval.dtype)
    precision = float(np.finfo(real).eps) if eps is None else float(eps)
    close = scalar((4 * precision) ** (1 / 3), real)
    size = _e.abs(x)
    largest = [_r.reduce_max(_r.reduce_sum(size, (axis,)), (0,)) for axis in (0, 1)]
    # |x|_2 <= sqrt(|x|_1 |x|_inf) [Golub and Van Loan, section 2.3].
    top = _e.mul(*map(_e.sqrt, largest))  # at least the largest singular value
    one = np.eye(n, dtype=dtype)

    def wide(v: Value) -> Value:
        return convert_element_type(v, dtype)

    def is_unfinished(state: tuple[Value, ...]) -> Value:
        k, _, l, moved = state
        unfinished = _e.bitwise_or(_e.gt(moved, close), _e.lt(l, scalar(1 - 5 * precision, real)))
        return _e.bitwise_and(_e.lt(k, np.int32(max_iterations or _ITERATIONS)), unfinished)

    def step(state: tuple[Value, ...]) -> tuple[Value, ...]:
        k, u, l, _ = state
        a, b, c = _step_weights(l)
        root = _e.sqrt(c)
        stacked = _s.concatenate((_e.mul(u, wide(root)), one), 0)
        # The step u (b/c) + (a - b/c) u (I + c u^H u)^-1 without an inverse: if [sqrt(c) u; I] = [q1; q2] r, then q1
        # q2^H = sqrt(c) u (I + c u^H u)^-1. This is stable, since it forms no u^H u.
        q = bind(prims.qr_p, stacked, full_matrices=False, pivoting=False)[0]
        product = _matmul(_s.slice_in_dim(q, 0, m), _adjoint(_s.slice_in_dim(q, m, m + n)))
        new_u = _e.add(_e.mul(u, wide(b / c)), _e.mul(product, wide((a - b / c) / root)))
        # The image of the bound under the same rational function, limited to 1 against rounding.
        new_bound = _e.min(l * (a + b * l * l) / (1.0 + c * l * l), scalar(1, real))
        return k + np.int32(1), new_u, new_bound, _frobenius_norm(_e.sub(new_u, u))

    start = (np.int32(0), _e.div(x, wide(top)), scalar(precision, real), scalar(1, real))
    steps, u, l, moved = while_loop(is_unfinished, step, start)
    # One Newton-Schulz step, u (3 I - u^H u) / 2, makes u orthonormal to working precision.
    polished = _e.mul(_matmul(u, _e.sub(scalar(3, dtype) * one, _matmul(_adjoint(u), u))), scalar(0.5, dtype))
    h = _matmul(_adjoint(polished), x)
    # h = u^H x is Hermitian up to rounding; average it with its adjoint.
    return polished, _e.mul(_e.add(h, _adjoint(h)), scalar(0.5, typeof(h).dtype)), steps, _e.le(moved, close)
