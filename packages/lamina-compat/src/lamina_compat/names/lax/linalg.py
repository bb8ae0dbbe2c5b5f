"""`jax.lax.linalg`: primitives of JAX that have other params in lamina."""
from typing import Final

from lamina_ir import Primitive, prims

from ..._vocabulary import JAX_PRIMITIVES

_SHOWN: Final[dict[str, Primitive]] = {
    f"{p.name}_p": JAX_PRIMITIVES[f"{p.name}_p"] for p in prims.ALL if p.family == "factorizations"
    and f"{p.name}_p" in JAX_PRIMITIVES}

__all__ = list(_SHOWN)

globals().update(_SHOWN)
