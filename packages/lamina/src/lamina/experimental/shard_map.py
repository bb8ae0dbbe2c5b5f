"""`lamina.experimental.shard_map`: a function of one device's blocks, from `lamina_parallel`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_parallel import shard_map

__all__ = ["shard_map"]

_explain_absent_names(globals())
