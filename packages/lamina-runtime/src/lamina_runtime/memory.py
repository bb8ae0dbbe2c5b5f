"""`Space`: kinds of memory, of which `device_put` takes one in place of a device."""
from __future__ import annotations

from ._array.memory_space import Space

__all__ = ["Space"]
