"""`Space`: kinds of memory of a device."""
from __future__ import annotations

import enum

__all__ = ["Space"]


class Space(enum.Enum):
    """A kind of memory. Arrays are in the memory of their device, so `device_put` accepts `Space.Device` only."""

    Device = enum.auto()
    Host = enum.auto()
    Any = enum.auto()

    def check(self, call: str) -> None:
        """Raise ValueError unless this is the memory of devices."""
        if self is not Space.Device:
            raise ValueError(f"{call}: the memory space must be Space.Device; got Space.{self.name}. Arrays are in the memory "
                             "of their device; device_get copies to the host")
