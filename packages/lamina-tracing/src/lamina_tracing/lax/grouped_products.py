"""Products of groups of rows, columns or batches, and of arrays in blocks with a common scale."""
from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from lamina_ir import DTypeError, ShapeError, dtypes, prims, ShapedArray
from lamina_ir.prims import DotDimensionNumbers
from lamina_ir.typing import Value

from .._core.array import Array
from . import elementwise as ew
from . import shape as sh
from ._util.conversions import convert_element_type
from ._util.operands import ArrayLike, as_dtype, as_ints, bind, scalar, typeof
from .creation import broadcasted_iota
from .products import PrecisionLike, dot_general

__all__ = ["RaggedDotDimensionNumbers", "ragged_dot_general", "scaled_dot"]


@dataclasses.dataclass(frozen=True)
class RaggedDotDimensionNumbers:
    """The axes of `ragged_dot_general`.

    Attributes:
      dot_dimension_numbers: `((lhs_contract, rhs_contract), (lhs_batch, rhs_batch))`, as of `dot_general`.
      lhs_ragged_dimensions: the one axis of `lhs` that is divided into groups.
      rhs_group_dimensions: the axis of `rhs` with one entry for each group; empty if the ragged axis is a contracted or a batch
        axis.
    """

    dot_dimension_numbers: DotDimensionNumbers
    lhs_ragged_dimensions: Sequence[int]
    rhs_group_dimensions: Sequence[int]


def _mark_groups(sizes: Value, lhs: ShapedArray, ragged: int, outer: tuple[int, ...]) -> Value:
    """Return booleans `[g, *lhs.shape]`: whether an index along the ragged axis is in a group. `sizes` is `[g]`, or has
    the axes `outer` of `lhs` before."""
    t = typeof(sizes)
    last = len(t.shape) - 1
    g, full = t.shape[-1], (t.shape[-1], *lhs.shape)
    ends = bind(prims.cumsum_p, sizes, axis=last, reverse=False)
    axes = [a + 1 for a in outer] if last else []
    first_and_last = []
    for bound in (ew.sub(ends, sizes), ends):
        moved = sh.transpose(bound, (last, *sorted(range(last), key=axes.__getitem__)))
        first_and_last.append(sh.broadcast_in_dim(moved, full, (0, *sorted(axes))))
    at = broadcasted_iota(t.dtype, full, ragged + 1)
    return ew.bitwise_and(ew.ge(at, first_and_last[0]), ew.lt(at, first_and_last[1])) if g else ew.lt(at, at)


def _find_outer_axes(ragged: int, ndim: int, contract: tuple[int, ...], batch: tuple[int, ...]) -> tuple[int, ...]:
    """The axes of `lhs` that sizes of groups may depend on: batch axes, and those of the kind of the ragged axis before it."""
    if ragged in batch:
        return batch[:batch.index(ragged)]
    if ragged in contract:
        return batch + contract[:contract.index(ragged)]
    return batch + tuple(a for a in range(ragged) if a not in contract and a not in batch)


def _check_ragged(x: ShapedArray, sizes: ShapedArray, ragged: tuple[int, ...], group: tuple[int, ...],
                  contract: tuple[int, ...], batch: tuple[int, ...]) -> None:
    if len(ragged) != 1 or not 0 <= ragged[0] < len(x.shape):
        raise ValueError(f"ragged_dot_general: lhs_ragged_dimensions must name one axis of lhs {x.str_long()}; got {ragged}")
    needed = 0 if ragged[0] in (*contract, *batch) else 1
    if len(group) != needed:
        raise ValueError(f"ragged_dot_general: rhs_group_dimensions must name {needed} axes if the ragged axis is "
                         f"{'not ' * needed}contracted or a batch axis; got {group}")
    outer = _find_outer_axes(ragged[0], len(x.shape), contract, batch)
    expected = tuple(x.shape[a] for a in outer)
    if not dtypes.is_integer(sizes.dtype) or not sizes.shape or sizes.shape[:-1] not in ((), expected):
        raise ShapeError(f"ragged_dot_general: group_sizes must be integers [g] or [{', '.join(map(str, (*expected, 'g')))}]; "
                         f"got {sizes.str_long()}")


def ragged_dot_general(lhs: ArrayLike, rhs: ArrayLike, group_sizes: ArrayLike,
                       ragged_dot_dimension_numbers: RaggedDotDimensionNumbers, precision: PrecisionLike = None,
                       preferred_element_type: str | type | np.dtype | None = None, group_offset: None = None) -> Array:
    """Multiply two arrays as `dot_general` does, with one axis of `lhs` divided into groups.

    Args:
      lhs: array `[...]` with a ragged axis. If it is neither contracted nor a batch axis, each group is multiplied by
        its entry of `rhs` along the group axis. If it is contracted, each group gives a product. If it is a batch axis,
        the groups have no effect.
      rhs: array `[...]`.
      group_sizes: integers `[g]`: the length of each group along the ragged axis; what comes after the last one gives zeros.
        They may differ along the batch axes and the axes of the same kind before the ragged one: `[..., g]`.
      ragged_dot_dimension_numbers: the axes.
      precision, preferred_element_type: as in `dot_general`.
      group_offset: must be None.
    Returns:
      Array with the axes of `dot_general`, and a leading axis for the groups if the ragged axis is contracted.
    Raises:
      ShapeError: the shapes do not fit.
      ValueError: the axes do not fit together, or `group_offset` is not None.

    Derivative: linear in `lhs` and in `rhs`. Source: `dot_general` with the elements of other groups zeroed.

    >>> numbers = RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), [0], [])
    >>> ragged_dot_general(np.float32([1, 2, 3]), np.float32([1, 1, 1]), np.int32([1, 2]), numbers)
    Array([1., 5.], dtype=float32)
    """
    call = "ragged_dot_general"
    if group_offset is not None:
        raise ValueError(f"{call}: group_offset must be None; take the groups of rhs you need instead")
    if not isinstance(ragged_dot_dimension_numbers, RaggedDotDimensionNumbers):
        raise TypeError(f"{call}: ragged_dot_dimension_numbers must be a RaggedDotDimensionNumbers; got "
                        f"{type(ragged_dot_dimension_numbers).__name__}")
    (lc, rc), (lb, rb) = (tuple(as_ints(call, "each part of dot_dimension_numbers", axes) for axes in pair)
                          for pair in ragged_dot_dimension_numbers.dot_dimension_numbers)
    ragged = as_ints(call, "lhs_ragged_dimensions", ragged_dot_dimension_numbers.lhs_ragged_dimensions)
    group = as_ints(call, "rhs_group_dimensions", ragged_dot_dimension_numbers.rhs_group_dimensions)
    x, sizes = typeof(lhs), typeof(group_sizes)
    _check_ragged(x, sizes, ragged, group, lc, lb)
    if ragged[0] in lb:
        return dot_general(lhs, rhs, ((lc, rc), (lb, rb)), precision, preferred_element_type)
    mine = _mark_groups(group_sizes, x, ragged[0], _find_outer_axes(ragged[0], len(x.shape), lc, lb))
    full = typeof(mine).shape
    rows = ew.select(mine, sh.broadcast_in_dim(lhs, full, tuple(range(1, len(full)))), scalar(0, x.dtype))
    lc, lb = tuple(a + 1 for a in lc), tuple(a + 1 for a in lb)
    if group:
        return dot_general(rows, rhs, (((0, *lc), (*group, *rc)), (lb, rb)), precision, preferred_element_type)
    out = dot_general(rows, rhs, ((lc, rc), (lb, rb)), precision, preferred_element_type)
    n = len(lb)
    return sh.transpose(out, (n, *range(n), *range(n + 1, len(typeof(out).shape))))


def _apply_scale(argument: str, x: Value, scale: Value, contract: tuple[int, ...], dtype: np.dtype) -> Value:
    """Multiply an array by a scale whose contracted axes are shorter by whole factors: one scale for each block."""
    x = convert_element_type(x, dtype)
    if scale is None:
        return x
    shape, scales = typeof(x).shape, typeof(scale).shape
    fits = len(shape) == len(scales) and all(
        n == m if a not in contract else m and n % m == 0 for a, (n, m) in enumerate(zip(shape, scales)))
    if not fits:
        raise ShapeError(f"scaled_dot: {argument}_scale must have the axes of {argument}, the contracted ones shorter "
                         f"by a whole factor; got {argument} {typeof(x).str_long()}, {argument}_scale "
                         f"{typeof(scale).str_long()}")
    parts = [p for n, m in zip(shape, scales) for p in (m, n // m if m else 1)]
    blocks = sh.broadcast_in_dim(convert_element_type(scale, dtype), parts, tuple(range(0, 2 * len(scales), 2)))
    return ew.mul(x, sh.reshape(blocks, shape))


def scaled_dot(lhs: ArrayLike, rhs: ArrayLike, *, lhs_scale: ArrayLike | None = None, rhs_scale: ArrayLike | None = None,
               dimension_numbers: DotDimensionNumbers | None = None,
               preferred_element_type: str | type | np.dtype | None = None) -> Array:
    """Multiply two arrays in blocks with a scale each: `(lhs * lhs_scale) @ (rhs * rhs_scale)`.

    Args:
      lhs, rhs: float arrays, of a narrow dtype as a rule.
      lhs_scale, rhs_scale: float arrays with the axes of `lhs` and `rhs`, of which the contracted ones may be shorter
        by a whole factor, the length of a block; None for 1.
      dimension_numbers: as of `dot_general`; None for matrices `[m, k]` and `[k, n]` or stacks `[b, m, k]` and `[b, k, n]`.
      preferred_element_type: dtype of the scaled operands, the sums and the result: bfloat16 or float32; None for bfloat16.
    Returns:
      Array of the axes of `dot_general`.
    Raises:
      ShapeError: the shapes do not fit.
      DTypeError: an operand is not float.

    Derivative: that of the product. Source: OCP Microscaling Formats (MX) 1.0, 6.2.

    >>> x, scale = np.ones((1, 4), np.float32), np.float32([[2, 3]])
    >>> scaled_dot(x, x.T, lhs_scale=scale, preferred_element_type=np.float32)
    Array([[10.]], dtype=float32)
    """
    x, y = typeof(lhs), typeof(rhs)
    for t in (x, y):
        if not dtypes.is_float(t.dtype):
            raise DTypeError(f"scaled_dot: expected float operands; got {t.str_long()}")
    dtype = dtypes.bfloat16 if preferred_element_type is None else as_dtype(
        "scaled_dot", "preferred_element_type", preferred_element_type)
    if dimension_numbers is None:
        n = len(x.shape)
        if n not in (2, 3) or len(y.shape) != n:
            raise ShapeError(f"scaled_dot: expected two matrices or two stacks of matrices; got lhs {x.str_long()}, rhs "
                             f"{y.str_long()}. For other axes give dimension_numbers")
        dimension_numbers = (((n - 1,), (n - 2,)), (tuple(range(n - 2)), tuple(range(n - 2))))
    (lc, rc), batch = dimension_numbers
    left = _apply_scale("lhs", lhs, lhs_scale, as_ints("scaled_dot", "each part of dimension_numbers", lc), dtype)
    right = _apply_scale("rhs", rhs, rhs_scale, as_ints("scaled_dot", "each part of dimension_numbers", rc), dtype)
    return dot_general(left, right, ((lc, rc), batch), None, dtype)
