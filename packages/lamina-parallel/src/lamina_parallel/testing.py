"""Fake devices for tests that run without a backend."""
from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override

__all__ = ["FakeDevice", "fake_devices"]


@dataclass(frozen=True)
class FakeDevice:
    """The attributes that a mesh reads from a device."""

    id: int
    platform: str = "cpu"
    process_index: int = 0

    @override
    def __repr__(self) -> str:
        return f"{self.platform}:{self.id}"


def fake_devices(n: int, processes: int = 1) -> list[FakeDevice]:
    """Return `n` fake CPU devices, distributed evenly over `processes` processes.

    >>> fake_devices(4, processes=2)[2].process_index
    1
    """
    return [FakeDevice(i, "cpu", i * processes // n) for i in range(n)]
