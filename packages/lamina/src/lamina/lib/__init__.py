"""`lamina.lib`: older homes of names that moved."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from . import xla_bridge

__all__ = ["xla_bridge"]
