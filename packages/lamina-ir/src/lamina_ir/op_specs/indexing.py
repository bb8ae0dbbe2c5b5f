"""Specs of gather, scatter and dynamic slices."""
from ._spec import op

__all__ = ["INTRO", "SPECS"]

INTRO = """
**Windows** of gather and scatter. `indices` is an array of integers; its last axis holds index vectors, the axes before it
are the batch. For each batch index b there is a window into x: along axis a it begins at start[a] and has length size[a].
start[a] is indices[b, j] if a is entry j of the map (`start_index_map`, `scatter_dims_to_operand_dims`); b[t] if a is entry j
of `operand_batching_dims` and t entry j of the batching axes of the indices; else 0. A window is inside if 0 <= start[a] <=
n[a] - size[a] for all axes of the map. Otherwise: with `CLIP` it is moved to the nearest position inside; with `FILL_OR_DROP`
it is not read or written; `PROMISE_IN_BOUNDS` asserts that this does not happen. Negative starts never count from the end.

In the result of gather, and in the updates of scatter, the window axes (`offset_dims`, `update_window_dims`) run over a
window, without its axes of length 1 that are collapsed (inserted) or batching ones, in order; the other axes are the batch,
in order.
"""

SPECS = [
    op("dynamic_slice", "x start...", "the dtype of x, shape `slice_sizes`",
       "One start per axis, an integer of rank 0: the window that begins there, moved to the nearest position inside."),
    op("dynamic_update_slice", "x update start...", "like x",
       "One start per axis, an integer of rank 0: x with `update` written there, moved to the nearest position inside."),
    op("gather", "x indices", "the dtype of x; window axes from `slice_sizes`, batch axes from `indices`",
       "The windows of x. The elements of a window that is not read are the fill value.",
       dimension_numbers="a record `GatherDimensionNumbers`",
       fill_value="""null: NaN of inexact dtypes, the lowest of signed integers, the highest of unsigned ones, true of
       bool, all bits of keys; of complex dtypes NaN + 0i"""),
    op("scatter_add", "x indices updates", "like x",
       """x, in which for each window, in row-major order of the batch, the elements of the updates are added. Elements of
       windows that are not written are left out.""", dimension_numbers="a record `ScatterDimensionNumbers`"),
    op("scatter_max", "x indices updates", "like x",
       """x, in which for each window, in row-major order of the batch, the elements of the updates are joined by `max`.
       Elements of windows that are not written are left out.""", dimension_numbers="a record `ScatterDimensionNumbers`"),
    op("scatter_min", "x indices updates", "like x",
       """x, in which for each window, in row-major order of the batch, the elements of the updates are joined by `min`.
       Elements of windows that are not written are left out.""", dimension_numbers="a record `ScatterDimensionNumbers`"),
    op("scatter_mul", "x indices updates", "like x",
       """x, in which for each window, in row-major order of the batch, the elements of the updates are multiplied.
       Elements of windows that are not written are left out.""", dimension_numbers="a record `ScatterDimensionNumbers`"),
    op("scatter", "x indices updates", "like x",
       """x, in which for each window, in row-major order of the batch, the elements of the updates are written. Elements of
       windows that are not written are ignored. If windows overlap, any of them may be written last; here it is the last.""",
       dimension_numbers="a record `ScatterDimensionNumbers`"),
]
