"""Specs of the primitives that move elements."""
from ._spec import op

__all__ = ["INTRO", "SPECS"]

INTRO = """
Elements of any dtype, including keys, are moved and not changed. Axes are counted from 0, and are never negative.
"""

SPECS = [
    op("broadcast_in_dim", "x", "the dtype of x, shape `shape`",
       "y[j] = x[i] with i[a] = j[broadcast_dimensions[a]], or 0 if x has length 1 along a.",
       broadcast_dimensions="for each axis of x the axis of the result that it becomes, ascending"),
    op("concatenate", "x...", "the dtype of the operands; along `dimension` the sum of their lengths, else their lengths",
       "The operands one after the other along the axis.", dimension="the axis"),
    op("expand_dims", "x", "like x, with axes of length 1", "x.", dimensions="the new axes of the result"),
    op("iota", "", "dtype `dtype`, a number's, and shape `shape`", "y[i] = i[dimension].",
       dimension="the axis along which it counts"),
    op("pad", "x value", "the dtype of x",
       """value has the dtype of x and rank 0. Element i of x along an axis with (low, high, interior) is at position low + i
       (interior + 1), if that is inside; all other positions contain value. The length is low + n + high + interior (n - 1),
       the last term only if n > 0.""", padding_config="per axis (low, high, interior); low and high may be negative"),
    op("reshape", "x", "the dtype of x, shape `new_sizes`", "The elements in row-major order.",
       dimensions="null, or a permutation of the axes by which x is transposed first", new_sizes="the new shape"),
    op("rev", "x", "like x", "The elements along each of `dimensions` in reverse order.", dimensions="the axes"),
    op("slice", "x", "the dtype of x; along each axis ceil((limit - start) / stride)",
       "y[i] = x[start + i stride] along each axis.", start_indices="per axis the first index",
       limit_indices="per axis the index before which it ends", strides="per axis the step; null: 1"),
    op("squeeze", "x", "like x, without axes `dimensions`", "x.", dimensions="axes of length 1 to remove"),
    op("transpose", "x", "the dtype of x; axis a is axis permutation[a] of x",
       "y[i[permutation[0]], i[permutation[1]], ...] = x[i].", permutation="for each axis of the result the axis of x"),
]
