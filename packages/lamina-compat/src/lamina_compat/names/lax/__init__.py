"""`jax.lax`: primitives of JAX that have another name or other params in lamina."""
from typing import Final

from lamina_ir import Primitive

from ..._vocabulary import JAX_PRIMITIVES

_SHOWN: Final[dict[str, Primitive]] = {name: prim for name, prim in JAX_PRIMITIVES.items()
                                      if name.startswith(("scatter", "reduce", "scan", "while", "cond"))}

__all__ = list(_SHOWN)

globals().update(_SHOWN)
