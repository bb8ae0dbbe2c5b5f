"""The door for dispatchers and for people who write mapped operations."""
from .pmap import PmapSpec, StagedPmap

__all__ = ["PmapSpec", "StagedPmap"]
