"""`lamina.lib`: older homes of names that moved."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from . import xla_bridge

__all__ = ["xla_bridge"]

_explain_absent_names(globals())
