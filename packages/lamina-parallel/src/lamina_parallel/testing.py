"""Fake devices for tests that run without a backend."""
from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MadeUpDevice", "made_up_devices"]


@dataclass(frozen=True)
class MadeUpDevice:
    """The attributes that a mesh reads from a device."""

    id: int
    platform: str = "cpu"
    process_index: int = 0

    def __repr__(self) -> str:
        return f"{self.platform}:{self.id}"


def made_up_devices(n: int, processes: int = 1) -> list[MadeUpDevice]:
    """Return `n` fake CPU devices, distributed evenly over `processes` processes.

    >>> made_up_devices(4, processes=2)[2].process_index
    1
    """
    return [MadeUpDevice(i, "cpu", i * processes // n) for i in range(n)]
