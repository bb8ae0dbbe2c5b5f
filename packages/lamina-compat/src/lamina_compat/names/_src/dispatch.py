"""`jax._src.dispatch`: run single primitives, and wait for effects."""
from lamina_runtime import effects_barrier

from ..interpreters.xla import apply_primitive

__all__ = ["apply_primitive", "wait_for_tokens"]


def wait_for_tokens(*args: object) -> None:
    """Wait until the effects of the programs launched so far have happened."""
    effects_barrier()
