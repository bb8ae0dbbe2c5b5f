"""`lamina.extend.backend`: the clients behind the devices, from `lamina_runtime`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_runtime import backends, clear_backends, get_backend, get_default_device
from lamina_runtime import clear_memory as clear_in_memory_compilation_cache

__all__ = ["backends", "clear_backends", "clear_in_memory_compilation_cache", "get_backend", "get_default_device"]

_explain_absent_names(globals())
