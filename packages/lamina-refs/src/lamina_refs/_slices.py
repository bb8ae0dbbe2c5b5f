"""`Slice` and `ds`: parts of references with a start that may be traced."""
from __future__ import annotations

from typing import NamedTuple

from lamina_ir.typing import Value

__all__ = ["Slice", "ds"]


class Slice(NamedTuple):
    """A range of indices of one axis, in the index of a reference: `ref[ds(start, size)]`.

    If its start is traced and it exceeds the axis, it is moved to its end, as in `lax.dynamic_slice`.

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
