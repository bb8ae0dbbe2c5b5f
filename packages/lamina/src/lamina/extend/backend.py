"""`lamina.extend.backend`: the clients behind the devices, from `lamina_runtime`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_runtime import clear_backends, get_backend

__all__ = ["clear_backends", "get_backend"]

_explain_absent_names(globals())
