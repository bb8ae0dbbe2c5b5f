"""Describe memory layouts of arrays: `DeviceLocalLayout` on each device, `Layout` with the sharding."""
from __future__ import annotations

from typing import NamedTuple

from lamina_ir.typing import Sharding

from .._backend import deletion
from .._backend.launch_guards import DeletedArrayError
from .._jaxlib import LAUNCH_ERRORS, ArrayImpl, layout_text
from .._typing import Array

__all__ = ["DeviceLocalLayout", "Layout", "get_layout"]


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
