"""`ragged_all_to_all`: members exchange blocks of rows whose numbers differ."""
from __future__ import annotations

from collections.abc import Hashable, Sequence

from lamina_ir import DTypeError, ShapeError
from lamina_ir.dtypes import is_integer
from lamina_ir.extend import check_axis_names
from lamina_ir.typing import Value

from .._core.array import Array
from .._typing import AxisGroups
from . import elementwise as ew
from . import shape as sh
from ._util.conversions import convert_element_type
from ._util.operands import ArrayLike, typeof
from .collectives import all_gather, all_to_all, find_group_size
from .creation import broadcasted_iota
from .indexing import index_take
from .reductions import reduce_max

__all__ = ["ragged_all_to_all"]

_CALL = "ragged_all_to_all"


def _check_rows(operand: Value, output: Value) -> None:
    x, y = typeof(operand), typeof(output)
    if x.dtype != y.dtype:
        raise DTypeError(f"{_CALL}: operand and output must have one dtype; got {x.str_long()} and {y.str_long()}. "
                         "Convert one with astype")
    if not x.ndim or not y.ndim or x.shape[1:] != y.shape[1:]:
        raise ShapeError(f"{_CALL}: operand and output must have the same axes after the first, which counts rows; got "
                         f"{x.str_long()} and {y.str_long()}")


def _check_counts(argument: str, counts: Value, size: int) -> Value:
    """Return numbers of rows as int32; an error unless there is one for each member."""
    aval = typeof(counts)
    if not is_integer(aval.dtype):
        raise DTypeError(f"{_CALL}: {argument} must be integers; got {aval.str_long()}")
    if aval.shape != (size,):
        raise ShapeError(f"{_CALL}: {argument} must have an entry for each of {size} members; got {aval.str_long()}")
    return convert_element_type(counts, "int32")


def ragged_all_to_all(operand: ArrayLike, output: ArrayLike, input_offsets: ArrayLike, send_sizes: ArrayLike,
                      output_offsets: ArrayLike, recv_sizes: ArrayLike, *, axis_name: Hashable | Sequence[Hashable],
                      axis_index_groups: AxisGroups = None) -> Array:
    """Exchange blocks of rows between the members of a mapped axis; the blocks may have different numbers of rows.

    Member `i` sends its rows `operand[input_offsets[j]:][:send_sizes[j]]` to member `j`, which stores them in its result
    from row `output_offsets[j]` (of member `i`) on. If blocks overlap there, the one of the last sender is kept. Rows beyond
    the end of the result are dropped.

    Args:
      operand: the rows that are sent, `[rows, ...]`.
      output: `[result rows, ...]` of the same dtype: the values of rows that no member sends.
      input_offsets, send_sizes, output_offsets: integers `[n]`, one for each of `n` members.
      recv_sizes: integers `[n]`: how many rows are received from each member. The senders' `send_sizes` decide.
      axis_name: mapped axis, or several.
      axis_index_groups: as for `psum`.
    Returns:
      Array of the type of `output`.
    Raises:
      DTypeError: the dtypes of `operand` and `output` differ, or offsets and sizes are not integers.
      ShapeError: the shapes do not fit, or there is not one offset or size for each member.
      UnboundAxisError: a name is not bound.

    Derivative: linear in `operand` and `output`. Source: `all_gather` of the rows, of which each member takes its own.

    >>> from lamina_tracing import eval_shape
    >>> from lamina_tracing.extend import AxisFrame, extend_axis_env
    >>> rows, counts = np.ones((3, 2), np.float32), np.zeros(4, np.int32)
    >>> with extend_axis_env(AxisFrame("i", 4)):
    ...     eval_shape(lambda x: ragged_all_to_all(x, x, counts, counts, counts, counts, axis_name="i"), rows).shape
    (3, 2)
    """
    names = check_axis_names(_CALL, axis_name)
    size = find_group_size(_CALL, names, axis_index_groups)
    _check_rows(operand, output)
    starts, sizes, targets, _ = [_check_counts(argument, counts, size) for argument, counts in (
        ("input_offsets", input_offsets), ("send_sizes", send_sizes), ("output_offsets", output_offsets),
        ("recv_sizes", recv_sizes))]
    # What the members say about the blocks that they send to this one: [sender].
    starts, sizes, targets = [all_to_all(v, names, 0, 0, axis_index_groups=axis_index_groups)
                              for v in (starts, sizes, targets)]
    n_in, n_out = typeof(operand).shape[0], typeof(output).shape[0]
    if not n_in or not n_out:
        return ew.copy(output)
    grid = (size, n_out)
    row = ew.sub(broadcasted_iota("int32", grid, 1), _repeat(targets, grid))  # the row of the block, if it is one
    source = ew.add(_repeat(starts, grid), row)
    is_sent = ew.bitwise_and(ew.bitwise_and(ew.ge(row, 0), ew.lt(row, _repeat(sizes, grid))),
                             ew.bitwise_and(ew.ge(source, 0), ew.lt(source, n_in)))
    source = ew.add(source, ew.mul(broadcasted_iota("int32", grid, 0), n_in))
    source = reduce_max(ew.select(is_sent, source, -1), (0,))  # the number of the row among those of all members
    everything = sh.collapse(all_gather(operand, names, axis_index_groups=axis_index_groups), 0, 2)
    received = index_take(everything, (ew.max(source, 0),), (0,))
    shape = typeof(output).shape
    return ew.select(sh.broadcast_in_dim(ew.ge(source, 0), shape, (0,)), received, output)


def _repeat(per_sender: Value, grid: tuple[int, int]) -> Value:
    return sh.broadcast_in_dim(per_sender, grid, (0,))
