"""`jax._src.dispatch`: run single primitives, and wait for effects."""
from lamina_ir import Primitive
from lamina_ir.typing import ParamValue, Value
from lamina_runtime import effects_barrier

__all__ = ["apply_primitive", "wait_for_tokens"]


def apply_primitive(prim: Primitive, *args: Value, **params: ParamValue) -> Value:
    """Apply a primitive to arrays."""
    return prim.bind(*args, **params)


def wait_for_tokens(*args: object) -> None:
    """Wait until the effects of the programs launched so far have happened."""
    effects_barrier()
