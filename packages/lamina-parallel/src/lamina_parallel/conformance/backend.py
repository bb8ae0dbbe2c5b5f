"""Devices for the maps: fake devices with the NumPy evaluator, or those of a loaded runtime."""
from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from lamina_tracing import hooks

__all__ = ["ROWS", "devices"]

ROWS = 4


@dataclass(frozen=True)
class FakeDevice:
    """A fake device with the attributes that a mesh reads."""

    id: int
    platform: str = "cpu"
    process_index: int = 0


def devices(n: int = ROWS) -> list[Any]:
    """Return `n` devices: those of the installed runtime, else fake ones."""
    count = getattr(hooks.dispatcher, "device_count", lambda backend: None)(None)
    if count is None:
        return [FakeDevice(k) for k in range(n)]
    if count < n:
        raise RuntimeError(f"the conformance tests of lamina-parallel need {n} devices; the runtime has {count}. "
                           "Set XLA_FLAGS=--xla_force_host_platform_device_count=8 for the default runtime")
    return list(sys.modules["lamina_runtime"].devices())[:n]
