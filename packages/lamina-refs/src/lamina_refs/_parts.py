"""Parts of the value of a reference: indices of NumPy, and blocks with a traced start."""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from lamina_ir import ShapedArray, dtypes, shaped
from lamina_ir.typing import Tree, Value
from lamina_tracing import lax
from lamina_tracing.extend import typeof

__all__ = ["find_part_type", "is_whole", "read_index", "update_index"]


def is_whole(index: Tree) -> bool:
    """Return whether an index selects everything."""
    return index is Ellipsis or (type(index) is tuple and (not index or len(index) == 1 and index[0] is Ellipsis))


def read_index(value: Value, index: Tree) -> Value:
    """Return `value[index]`; IndexError if a Python number in the index is outside."""
    blocks, rest = _split_blocks(value, index)
    for block in blocks:
        value = lax.dynamic_slice_in_dim(value, block.start, block.size, block.axis)
    _find_type(value, rest)
    return value[rest]


def update_index(value: Value, index: Tree, part: Value, method: str) -> Value:
    """Return `value.at[index].set(part)`, or with `method` "add" the sum."""
    blocks, rest = _split_blocks(value, index)

    def update(value: Value, at: int) -> Value:
        if at == len(blocks):
            return getattr(value.at[rest], method)(part)
        axis, start, size = blocks[at]
        new = update(lax.dynamic_slice_in_dim(value, start, size, axis), at + 1)
        return lax.dynamic_update_slice_in_dim(value, new, start, axis)

    return update(value, 0)


def find_part_type(value: Value, index: Tree) -> ShapedArray:
    """Return the type of `value[index]`; IndexError if a Python number in the index is outside."""
    blocks, rest = _split_blocks(value, index)
    if blocks:
        shape = list(typeof(value).shape)
        for block in blocks:
            shape[block.axis] = block.size
        value = np.broadcast_to(np.zeros((), typeof(value).dtype), shape)
    return _find_type(value, rest)


def _find_type(value: Value, index: Tree) -> ShapedArray:
    aval = typeof(value)
    known = [_known_index(i) for i in (index if type(index) is tuple else (index,))]
    if any(i is None for i in known):
        return shaped(typeof(value[index]).shape, aval.dtype)
    try:
        part = np.broadcast_to(np.int8(0), aval.shape)[tuple([i[0] for i in known])]  # type: ignore[index]
    except IndexError as error:
        raise IndexError(f"Ref: index {index!r:.80} of the reference {aval.str_long()}: {error}") from None
    return shaped(part.shape, aval.dtype)


def _known_index(i: Tree) -> tuple[Any] | None:
    """Return (an index that selects a part of the same shape,); None if it is not simple."""
    if i is None or i is Ellipsis or type(i) is int:
        return i,
    if type(i) is slice and all(k is None or type(k) is int for k in (i.start, i.stop, i.step)):
        return i,
    if hasattr(i, "dtype") and dtypes.is_integer(i.dtype) and not i.shape:
        return 0,
    return None


# --- blocks -------------------------------------------------------------------------------------------------------
class _Block(NamedTuple):
    """A contiguous block of an axis that starts at a traced position."""

    axis: int
    start: Value
    size: int


def _is_block(i: Tree) -> bool:
    """Return whether an index is an object with `start` and `size`, such as `pallas.ds(start, size)`."""
    return type(i) is not slice and hasattr(i, "start") and hasattr(i, "size")


def _split_blocks(value: Value, index: Tree) -> tuple[list[_Block], Tree]:
    """Return the blocks of an index, and the index of what they select."""
    entries = index if type(index) is tuple else (index,)
    if not any(map(_is_block, entries)):
        return [], index
    shape = typeof(value).shape
    used = sum([_count_axes(i) for i in entries])
    blocks, rest, axis = [], [], 0
    for i in entries:
        if _is_block(i):
            block, i = _make_block(i, axis, shape)
            blocks += block
        rest.append(i)
        axis += len(shape) - used if i is Ellipsis else _count_axes(i)
    return blocks, tuple(rest)


def _count_axes(i: Tree) -> int:
    if i is None or i is Ellipsis:
        return 0
    return np.ndim(i) if getattr(i, "dtype", None) == np.bool_ else 1


def _make_block(i: Any, axis: int, shape: tuple[int, ...]) -> tuple[list[_Block], slice]:
    """Return the block of one entry, or none if its start is known, and the slice of what it selects."""
    start, size, stride = i.start, i.size, getattr(i, "stride", 1)
    length = max((size - 1) * stride + 1, 0)
    n = shape[axis] if axis < len(shape) else 0
    if length > n or type(start) is int and not 0 <= start <= n - length:
        raise IndexError(f"Ref: a block of {size} elements with start {start!r:.40} and stride {stride} is outside of axis "
                         f"{axis}, which has {n}")
    if type(start) is int:
        return [], slice(start, start + length, stride)
    return [_Block(axis, start, length)], slice(None, None, stride)
