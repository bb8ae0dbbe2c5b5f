"""Sums of products: `dot_general` and its everyday forms."""
from __future__ import annotations

from operator import index as _int
from typing import Any

import numpy as np
from lamina_ir import config, dtypes, prims
from lamina_ir.errors import ShapeError
from lamina_ir.prims.linalg import DotDimensionNumbers, Precision, as_precision

from ..array import Array
from ._common import ArrayLike, bind, typeof

__all__ = ["DotDimensionNumbers", "Precision", "PrecisionLike", "batch_matmul", "dot", "dot_general"]

PrecisionLike = Any  # None, a Precision, its name ("high"), or a pair of those
_dot_general_p = prims.dot_general_p
_default_precision = config.default_matmul_precision


def _axes(axes: Any) -> tuple[int, ...]:
    return tuple([_int(a) for a in axes])


def dot_general(lhs: ArrayLike, rhs: ArrayLike, dimension_numbers: DotDimensionNumbers,
                precision: PrecisionLike = None, preferred_element_type: str | type | np.dtype | None = None) -> Array:
    """Multiply two arrays and sum the products over the contracted axes.

    Args:
      lhs: array `[...]`.
      rhs: array `[...]` of the same dtype.
      dimension_numbers: `((lhs_contract, rhs_contract), (lhs_batch, rhs_batch))`, axes that go together in pairs.
      precision: None, a `Precision`, its name, or one for each operand; None takes `config.default_matmul_precision`.
      preferred_element_type: dtype of the sums and the result; None for the operands'.
    Returns:
      Array with the batch axes, then the other axes of `lhs`, then those of `rhs`.
    Raises:
      ShapeError: axes that go together differ in length.

    Derivative: linear in each operand. Source: StableHLO `dot_general`.

    >>> dot_general(np.ones((2, 3), np.float32), np.ones(3, np.float32), (((1,), (0,)), ((), ())))
    Array([3., 3.], dtype=float32)
    """
    (lc, rc), (lb, rb) = dimension_numbers
    return bind(_dot_general_p, lhs, rhs,
                dimension_numbers=((_axes(lc), _axes(rc)), (_axes(lb), _axes(rb))),
                precision=as_precision(_default_precision.value if precision is None else precision),
                preferred_element_type=None if preferred_element_type is None
                else dtypes.canonical(preferred_element_type))


def dot(lhs: ArrayLike, rhs: ArrayLike, precision: PrecisionLike = None,
        preferred_element_type: str | type | np.dtype | None = None) -> Array:
    """Product of vectors and matrices: the last axis of `lhs` with the first of `rhs`.

    >>> dot(np.array([1., 2.], np.float32), np.array([3., 4.], np.float32))
    Array(11., dtype=float32)
    """
    x, y = typeof(lhs), typeof(rhs)
    if not (1 <= len(x.shape) <= 2 and 1 <= len(y.shape) <= 2 and x.shape[-1] == y.shape[0]):
        raise ShapeError(f"dot: expected vectors or matrices with lhs.shape[-1] == rhs.shape[0]; got lhs {x.long()}, "
                         f"rhs {y.long()}. For other axes use lax.dot_general")
    return dot_general(lhs, rhs, (((len(x.shape) - 1,), (0,)), ((), ())), precision, preferred_element_type)


def batch_matmul(lhs: ArrayLike, rhs: ArrayLike, precision: PrecisionLike = None) -> Array:
    """Matrix products `[..., m, k] @ [..., k, n]` for each index of the leading axes, which agree.

    >>> batch_matmul(np.ones((5, 2, 3), np.float32), np.ones((5, 3, 4), np.float32)).shape
    (5, 2, 4)
    """
    x, y = typeof(lhs), typeof(rhs)
    n = len(x.shape)
    if n < 2 or n != len(y.shape):
        raise ShapeError(f"batch_matmul: expected arrays with equally many axes, at least two; got lhs {x.long()}, "
                         f"rhs {y.long()}")
    batch = tuple(range(n - 2))
    return dot_general(lhs, rhs, (((n - 1,), (n - 2,)), (batch, batch)), precision)
