"""`jax.lax`: primitives of JAX that have another name or other params in lamina."""
from typing import Final

from lamina_ir import Primitive, prims

from ..._vocabulary import JAX_PRIMITIVES

# Primitives of calls and maps, and of factorizations, are in other modules of JAX.
_ELSEWHERE: Final = ("pjit_p", "jit_p", "remat_p", "xla_pmap_p", "random_unwrap_p", "custom_jvp_call_p", "custom_vjp_call_p",
                     "custom_vjp_call_jaxpr_p", "custom_vmap_call_p", "shard_map_p", "transposed_call_p", "xmap_p",
                     *[f"{p.name}_p" for p in prims.ALL if p.family == "factorizations"])
_SHOWN: Final[dict[str, Primitive]] = {name: prim for name, prim in JAX_PRIMITIVES.items() if name not in _ELSEWHERE}

__all__ = list(_SHOWN)

globals().update(_SHOWN)
