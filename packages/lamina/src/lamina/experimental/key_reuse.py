"""`lamina.experimental.key_reuse`: what is raised under `debug_key_reuse(True)`; see docs/random-keys.md."""
from .. import _rooms as _rooms  # the runtime first: what follows is dispatched through it
from lamina_ir import KeyReuseError

__all__ = ["KeyReuseError"]
