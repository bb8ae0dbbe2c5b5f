"""Memory layouts of arrays under the names of later releases of JAX: `Layout` on each device, `Format` with the sharding."""
from ._array.memory_layout import DeviceLocalLayout, Format, with_layout_constraint

__all__ = ["DeviceLocalLayout", "Format", "Layout", "with_layout_constraint"]

Layout = DeviceLocalLayout
