"""`jax.lib.xla_client`: jaxlib's module, with the error that lamina raises in place of jaxlib's."""
from lamina_ir import ExecutionError as XlaRuntimeError
from lamina_ir.layers import explain_absent_names

__all__ = ["XlaRuntimeError"]

explain_absent_names(globals())
