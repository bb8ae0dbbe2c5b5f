"""For people who write maps over axes: `in_axes` and sizes checked as `vmap` does."""
from ..mapping import axis_specs, mapped_size

__all__ = ["axis_specs", "mapped_size"]
