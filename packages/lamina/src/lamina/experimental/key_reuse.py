"""`lamina.experimental.key_reuse`: what is raised under `debug_key_reuse(True)`; see docs/how-to/random-keys.md."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir import KeyReuseError

__all__ = ["KeyReuseError"]
