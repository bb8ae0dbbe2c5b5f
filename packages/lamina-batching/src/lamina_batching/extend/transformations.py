"""For people who write maps over axes: `in_axes` and sizes checked as `vmap` does."""
from ..axes import MappedAxes

__all__ = ["MappedAxes"]
