"""`lamina.experimental.key_reuse`: what is raised under `debug_key_reuse(True)`; see docs/random-keys.md."""
from lamina_ir import KeyReuseError

__all__ = ["KeyReuseError"]
