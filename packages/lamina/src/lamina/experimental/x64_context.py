"""`lamina.experimental.x64_context`: 64-bit types for a block, from `lamina_tracing`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_tracing import disable_x64, enable_x64

__all__ = ["disable_x64", "enable_x64"]
