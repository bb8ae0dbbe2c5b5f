"""`Slice` and `ds`: parts of references with a start that may be traced."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from lamina_ir.errors import ShapeError
from lamina_ir.typing import Tree, Value
from lamina_tracing import lax

__all__ = ["Slice", "Window", "ds", "find_window"]


class Slice(NamedTuple):
    """A range of indices of one axis, in the index of a reference: `ref[ds(start, size)]`.

    If it exceeds the axis, it is moved to its end, as in `lax.dynamic_slice`.

    Attributes:
      start: the first index; may be traced.
      size: the number of indices, an int.
      stride: the distance between two, an int.
    """

    start: Value
    size: int
    stride: int = 1


def ds(start: Value, size: int | None = None, stride: int | None = None) -> Slice:
    """Return a `Slice` for the index of a reference.

    Args:
      start: the first index, which may be traced. With one argument it is the size, and the first index is 0.
      size: the number of indices.
      stride: the distance between two indices; None for 1.
    Returns:
      A `Slice`.
    Raises:
      TypeError: `size` or `stride` is not an int.
      ValueError: `size` is negative, or `stride` less than 1.

    Source: jax.ds

    >>> ds(2, 3), ds(4)
    (Slice(start=2, size=3, stride=1), Slice(start=0, size=4, stride=1))
    """
    if size is None:
        start, size = 0, start
    for what, n, least in (("size", size, 0), ("stride", 1 if stride is None else stride, 1)):
        if not hasattr(n, "__index__"):
            raise TypeError(f"ds: {what} must be an int, as shapes are fixed; got {type(n).__name__}: {n!r:.60}")
        if n.__index__() < least:
            raise ValueError(f"ds: {what} must be at least {least}; got {n}")
    return Slice(0 if start is None else start, size.__index__(), 1 if stride is None else stride.__index__())


class Window(NamedTuple):
    """The part of an array that the `Slice`s of an index select.

    Attributes:
      starts, sizes: of `lax.dynamic_slice`.
      rest: the index of the window that gives the indexed part.
    """

    starts: tuple[Value, ...]
    sizes: tuple[int, ...]
    rest: tuple[Any, ...]

    def read(self, value: Value) -> Value:
        """Return the window of an array."""
        return lax.dynamic_slice(value, self.starts, self.sizes)

    def write(self, value: Value, window: Value) -> Value:
        """Return an array in which the window has another value."""
        return lax.dynamic_update_slice(value, window, self.starts)


def find_window(index: Tree, shape: Sequence[int]) -> Window | None:
    """Return the window of an index; None if it has no `Slice`."""
    entries = [index] if type(index) is Slice or type(index) is not tuple else [*index]
    if not any(type(entry) is Slice for entry in entries):
        return None
    count = len([e for e in entries if e is not None and e is not Ellipsis])
    if count > len(shape):
        raise ShapeError(f"Ref: an index of a reference of shape {tuple(shape)} must have at most {len(shape)} entries; got "
                         f"{count}")
    starts: list[Value] = [0] * len(shape)
    sizes, axis = list(shape), 0
    for k, entry in enumerate(entries):
        if entry is Ellipsis:
            axis = len(shape) - len([e for e in entries[k + 1:] if e is not None])
        elif type(entry) is Slice:
            starts[axis] = entry.start
            sizes[axis] = (entry.size - 1) * entry.stride + 1 if entry.size else 0
            if sizes[axis] > shape[axis]:
                raise ShapeError(f"Ref: the slice {entry} is longer than axis {axis} of a reference of shape {tuple(shape)}")
            entries[k] = slice(None, None, entry.stride)
            axis += 1
        elif entry is not None:
            axis += 1
    return Window(tuple(starts), tuple(sizes), tuple(entries))
