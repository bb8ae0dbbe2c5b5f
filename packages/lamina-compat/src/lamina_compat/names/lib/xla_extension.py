"""`jax.lib.xla_extension`: classes of jaxlib, with the error that lamina raises in place of jaxlib's."""
from lamina_ir import ExecutionError as XlaRuntimeError

__all__ = ["XlaRuntimeError"]
