"""Sums of products: `dot_general` and its common forms."""
from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from lamina_ir import DTypeError, ShapeError, config, dtypes, prims
from lamina_ir.prims import DotAlgorithm, DotAlgorithmPreset, DotDimensionNumbers, Precision, as_dot_precision

from .._core.array import Array
from .._diagnostics.argument_errors import rename_errors
from . import elementwise as ew
from . import shape as sh
from ._sharding.out_sharding import call_with_out_sharding, check_out_sharding
from ._util.operands import ArrayLike, as_dtype, as_ints, bind, scalar, typeof
from ._util.conversions import convert_element_type
from .creation import broadcasted_iota
from lamina_ir.typing import Sharding
from .._typing import Unchecked

__all__ = ["DotAlgorithm", "DotAlgorithmPreset", "DotDimensionNumbers", "Precision", "PrecisionLike",
           "batch_matmul", "dot", "dot_general", "ragged_dot"]

PrecisionLike = Any  # None, a Precision, its name ("high"), or a pair of those; a DotAlgorithmPreset
_dot_general_p = prims.dot_general_p
_default_precision = config.default_matmul_precision


def _axes(axes: Unchecked) -> tuple[int, ...]:
    return as_ints("dot_general", "each part of dimension_numbers", axes)


def dot_general(lhs: ArrayLike, rhs: ArrayLike, dimension_numbers: DotDimensionNumbers,
                precision: PrecisionLike = None, preferred_element_type: str | type | np.dtype | None = None, *,
                out_sharding: Sharding = None) -> Array:
    """Multiply two arrays and sum the products over the contracted axes.

    Args:
      lhs: array `[...]`.
      rhs: array `[...]`; if its dtype differs, both are promoted.
      dimension_numbers: `((lhs_contract, rhs_contract), (lhs_batch, rhs_batch))`, axes in corresponding pairs.
      precision: None, a `Precision`, its name, or one for each operand; None takes `config.default_matmul_precision`. Or a
        `DotAlgorithmPreset`, its name, or an equal `DotAlgorithm`: the dtypes of the products and sums.
      preferred_element_type: dtype of the sums and the result; None for the operands'.
      out_sharding: None, or the sharding of the result over `Explicit` axes: a `PartitionSpec` or a `NamedSharding`.
    Returns:
      Array with the batch axes, then the other axes of `lhs`, then those of `rhs`.
    Raises:
      ShapeError: corresponding axes differ in length.
      ValueError: `out_sharding` names an axis that is not `Explicit`.

    Derivative: linear in each operand. Source: StableHLO `dot_general`.

    >>> dot_general(np.ones((2, 3), np.float32), np.ones(3, np.float32), (((1,), (0,)), ((), ())))
    Array([3., 3.], dtype=float32)
    """
    if out_sharding is not None:
        check_out_sharding("dot_general", out_sharding)
        return call_with_out_sharding("dot_general", partial(
            dot_general, dimension_numbers=dimension_numbers, precision=precision,
            preferred_element_type=preferred_element_type), (lhs, rhs), out_sharding)
    try:
        (lc, rc), (lb, rb) = dimension_numbers
    except (TypeError, ValueError):
        raise TypeError("dot_general: dimension_numbers must be ((lhs_contract, rhs_contract), (lhs_batch, rhs_batch)); "
                        f"got {dimension_numbers!r:.80}") from None
    params = {"dimension_numbers": ((_axes(lc), _axes(rc)), (_axes(lb), _axes(rb))),
              "precision": as_dot_precision(_default_precision.value if precision is None else precision),
              "preferred_element_type": None if preferred_element_type is None
              else as_dtype("dot_general", "preferred_element_type", preferred_element_type)}
    try:
        return bind(_dot_general_p, lhs, rhs, **params)
    except DTypeError:
        x, y = typeof(lhs), typeof(rhs)
        if x.dtype == y.dtype or preferred_element_type is not None:
            raise
        both = dtypes.promote((x.dtype, x.weak_type), (y.dtype, y.weak_type), call="dot_general")[0]
        return bind(_dot_general_p, convert_element_type(lhs, both), convert_element_type(rhs, both), **params)


def dot(lhs: ArrayLike, rhs: ArrayLike, precision: PrecisionLike = None,
        preferred_element_type: str | type | np.dtype | None = None, *,
        dimension_numbers: DotDimensionNumbers | None = None) -> Array:
    """Multiply vectors and matrices: the last axis of `lhs` with the first of `rhs`.

    Args:
      lhs, rhs: arrays of rank 1 or 2; of any rank with `dimension_numbers`.
      precision, preferred_element_type: as for `dot_general`.
      dimension_numbers: as for `dot_general`; None for vectors and matrices.
    Raises:
      ShapeError: another rank, or lengths that differ.

    >>> dot(np.array([1., 2.], np.float32), np.array([3., 4.], np.float32))
    Array(11., dtype=float32)
    """
    if dimension_numbers is not None:
        return dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type)
    x, y = typeof(lhs), typeof(rhs)
    if not (1 <= len(x.shape) <= 2 and 1 <= len(y.shape) <= 2 and x.shape[-1] == y.shape[0]):
        raise ShapeError(f"dot: expected vectors or matrices with lhs.shape[-1] == rhs.shape[0]; got lhs {x.str_long()}, "
                         f"rhs {y.str_long()}. For other axes use lax.dot_general")
    return dot_general(lhs, rhs, (((len(x.shape) - 1,), (0,)), ((), ())), precision, preferred_element_type)


@rename_errors
def batch_matmul(lhs: ArrayLike, rhs: ArrayLike, precision: PrecisionLike = None) -> Array:
    """Multiply matrices `[..., m, k] @ [..., k, n]` for each index of the leading axes, which must agree.

    >>> batch_matmul(np.ones((5, 2, 3), np.float32), np.ones((5, 3, 4), np.float32)).shape
    (5, 2, 4)
    """
    x, y = typeof(lhs), typeof(rhs)
    n = len(x.shape)
    if n < 2 or n != len(y.shape):
        raise ShapeError(f"batch_matmul: expected arrays with equally many axes, at least two; got lhs {x.str_long()}, "
                         f"rhs {y.str_long()}")
    batch = tuple(range(n - 2))
    return dot_general(lhs, rhs, (((n - 1,), (n - 2,)), (batch, batch)), precision)


def ragged_dot(lhs: ArrayLike, rhs: ArrayLike, group_sizes: ArrayLike, precision: PrecisionLike = None,
               preferred_element_type: str | type | np.dtype | None = None, group_offset: None = None) -> Array:
    """Multiply consecutive groups of rows of `lhs` by separate matrices.

    Args:
      lhs: array `[m, k]`.
      rhs: array `[g, k, n]`.
      group_sizes: integers `[g]`: the number of rows of `lhs` in each group; rows after the last group give zeros.
      precision, preferred_element_type: as in `dot_general`.
      group_offset: must be None.
    Returns:
      Array `[m, n]`.

    Derivative: linear in `lhs` and in `rhs`. Source: one `dot_general` over groups and `k`, other groups' rows zeroed.

    >>> ragged_dot(np.ones((3, 2), np.float32), np.float32([[[1], [1]], [[5], [5]]]), np.int32([1, 2]))[:, 0]
    Array([ 2., 10., 10.], dtype=float32)
    """
    x, y, sizes = typeof(lhs), typeof(rhs), typeof(group_sizes)
    if group_offset is not None:
        raise ValueError("ragged_dot: group_offset must be None; take the groups of rhs you need instead")
    if (len(x.shape), len(y.shape), len(sizes.shape)) != (2, 3, 1) or x.shape[1] != y.shape[1] \
            or sizes.shape[0] != y.shape[0] or not dtypes.is_integer(sizes.dtype):
        raise ShapeError(f"ragged_dot: expected lhs [m, k], rhs [g, k, n] and integer group_sizes [g]; got "
                         f"lhs {x.str_long()}, rhs {y.str_long()}, group_sizes {sizes.str_long()}")
    (m, k), g = x.shape, y.shape[0]
    ends = bind(prims.cumsum_p, group_sizes, axis=0, reverse=False)
    first = sh.broadcast_in_dim(ew.sub(ends, group_sizes), (g, m, k), (0,))
    last = sh.broadcast_in_dim(ends, (g, m, k), (0,))
    row = broadcasted_iota(sizes.dtype, (g, m, k), 1)
    mine = ew.bitwise_and(ew.ge(row, first), ew.lt(row, last))
    rows = ew.select(mine, sh.broadcast_in_dim(lhs, (g, m, k), (1, 2)), scalar(0, x.dtype))
    return dot_general(rows, rhs, (((0, 2), (0, 1)), ((), ())), precision, preferred_element_type)
