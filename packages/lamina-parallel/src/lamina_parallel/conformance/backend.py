"""What the maps run on: rows in lockstep on NumPy, or the devices of a runtime that is loaded."""
from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from lamina_tracing import hooks

__all__ = ["ROWS", "devices"]

ROWS = 4


@dataclass(frozen=True)
class Place:
    """A device without a machine: what a mesh asks of one."""

    id: int
    platform: str = "cpu"
    process_index: int = 0


def devices(n: int = ROWS) -> list[Any]:
    """So many devices: those of the runtime that dispatches, else places."""
    count = getattr(hooks.dispatcher, "device_count", lambda backend: None)(None)
    if count is None:
        return [Place(k) for k in range(n)]
    if count < n:
        raise RuntimeError(f"the contract of lamina-parallel maps {n} rows and the runtime has {count} devices: give it more, "
                           "as XLA_FLAGS=--xla_force_host_platform_device_count=8 does for the stock one")
    return list(sys.modules["lamina_runtime"].devices())[:n]
