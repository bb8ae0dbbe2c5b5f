"""Describe memory layouts of arrays: `DeviceLocalLayout` on each device, `Layout` and `Format` with the sharding."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from lamina_ir import trees
from lamina_ir.typing import Sharding, Tree
from lamina_tracing.extend import typeof

from .._backend import deletion
from .._backend.launch_guards import DeletedArrayError
from .._jaxlib import LAUNCH_ERRORS, ArrayImpl, layout_text
from .._typing import Array

__all__ = ["DeviceLocalLayout", "Format", "Layout", "get_format", "get_layout", "with_layout_constraint"]


class DeviceLocalLayout(NamedTuple):
    """The order of dimensions in the memory of one device.

    Attributes:
      major_to_minor: the dimensions, the one with the largest stride first.
      tiling: XLA's text of the tiling; None if the layout is not tiled.

    >>> DeviceLocalLayout((0, 1))
    DeviceLocalLayout(major_to_minor=(0, 1), tiling=None)
    """

    major_to_minor: tuple[int, ...]
    tiling: str | None = None

    @staticmethod
    def from_text(text: str) -> DeviceLocalLayout:
        """Parse XLA's text, as `{1,0}`: the dimension with the smallest stride first, and tiles after a colon."""
        order, _, tiling = text.strip("{}").partition(":")
        return DeviceLocalLayout(tuple([int(n) for n in order.split(",") if n][::-1]), tiling or None)


DeviceLocalLayout.AUTO = None  # type: ignore[attr-defined]  # the compiler chooses


@dataclass(frozen=True)
class Format:
    """The layout of an array on each device, and its sharding. `device_put` and `jit` take one in place of a sharding.

    Arrays are stored in row-major order, so this is the only layout that these accept.

    Attributes:
      layout: a `DeviceLocalLayout`; None if it is not specified.
      sharding: the sharding; None if it is not specified.

    >>> Format(DeviceLocalLayout((0, 1)))
    Format(layout=DeviceLocalLayout(major_to_minor=(0, 1), tiling=None), sharding=None)
    """

    layout: DeviceLocalLayout | None = None
    sharding: Sharding = None

    def to_sharding(self, call: str) -> Sharding:
        """Return the sharding; ValueError for another layout than row-major order."""
        check_row_major(call, self.layout)
        return self.sharding


def check_row_major(call: str, layout: Any, ndim: int | None = None) -> None:
    """Raise ValueError unless a layout is None or row-major order."""
    if layout is None:
        return
    if not isinstance(layout, DeviceLocalLayout):
        raise TypeError(f"{call}: layout must be a Layout; got {type(layout).__name__}: {layout!r:.60}")
    order = tuple(layout.major_to_minor)
    if ndim is not None and len(order) != ndim:
        raise ValueError(f"{call}: layout must have {ndim} dimensions, those of the array; got {layout}")
    if order != tuple(range(len(order))) or layout.tiling:
        raise ValueError(f"{call}: layout must be row-major, {tuple(range(len(order)))} without tiles; got {layout}. Arrays "
                         "have no other layout here; use x.T or transpose for another order of dimensions")


def with_layout_constraint(x: Tree, layouts: Tree) -> Tree:
    """Return a tree of arrays, which are stored in row-major order.

    Args:
      x: a tree of arrays.
      layouts: a tree of layouts that is a prefix of `x`, each row-major; None for any.
    Returns:
      `x`.
    Raises:
      ValueError: another layout.

    >>> import numpy as np
    >>> with_layout_constraint(np.ones((2, 3)), DeviceLocalLayout((1, 0)))
    Traceback (most recent call last):
    ValueError: with_layout_constraint: layout must be row-major, (0, 1) without tiles; got ...
    """
    call = "with_layout_constraint"
    flat = trees.broadcast_prefix(layouts, x, is_leaf=lambda v: v is None or isinstance(v, DeviceLocalLayout))
    for leaf, layout in zip(trees.tree_leaves(x), flat, strict=True):
        check_row_major(call, layout, typeof(leaf).ndim)
    return x


class Layout(NamedTuple):
    """The memory layout and the sharding of an array.

    Attributes:
      device_local_layout: a `DeviceLocalLayout`; None if the compiler chooses it.
      sharding: the sharding; None if it is not specified.
    """

    device_local_layout: DeviceLocalLayout | None = None
    sharding: Sharding = None


def get_layout(x: Array) -> Layout:
    """Return the layout of a concrete array.

    >>> import numpy as np
    >>> from lamina_runtime import device_put
    >>> get_layout(device_put(np.ones((2, 3)))).device_local_layout
    DeviceLocalLayout(major_to_minor=(0, 1), tiling=None)
    """
    piece = x if type(x) is ArrayImpl and len(x.sharding.device_set) == 1 else x.addressable_shards[0].data
    try:
        return Layout(DeviceLocalLayout.from_text(layout_text(deletion.pin(piece, piece.aval))), x.sharding)
    except LAUNCH_ERRORS:  # without `pin`, jaxlib would crash
        if not piece.is_deleted():
            raise
        raise DeletedArrayError(f"layout: Array has been deleted or donated: {x.aval.str_long()}") from None


def get_format(x: Array) -> Format:
    """Return the layout and sharding of a concrete array.

    >>> import numpy as np
    >>> from lamina_runtime import device_put
    >>> get_format(device_put(np.ones((2, 3)))).layout
    DeviceLocalLayout(major_to_minor=(0, 1), tiling=None)
    """
    return Format(*get_layout(x))
