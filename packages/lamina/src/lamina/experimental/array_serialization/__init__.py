"""`lamina.experimental.array_serialization`: single arrays and trees in TensorStore, from `lamina_checkpoint`."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir.layers import explain_absent_names as _explain_absent_names

from . import pytree_serialization as pytree_serialization, serialization as serialization, tensorstore_impl as tensorstore_impl

__all__ = ["pytree_serialization", "serialization", "tensorstore_impl"]

_explain_absent_names(globals())
