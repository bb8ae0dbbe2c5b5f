"""`lamina.lib`: older homes of names that moved."""
from . import xla_bridge

__all__ = ["xla_bridge"]
