"""For tests without devices."""
from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MadeUpDevice", "made_up_devices"]


@dataclass(frozen=True)
class MadeUpDevice:
    """What a mesh asks of a device."""

    id: int
    platform: str = "cpu"
    process_index: int = 0

    def __repr__(self) -> str:
        return f"{self.platform}:{self.id}"


def made_up_devices(n: int, processes: int = 1) -> list[MadeUpDevice]:
    """So many, of so many processes.

    >>> made_up_devices(4, processes=2)[2].process_index
    1
    """
    return [MadeUpDevice(i, "cpu", i * processes // n) for i in range(n)]
