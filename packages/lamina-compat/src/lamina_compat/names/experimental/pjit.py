"""`jax.experimental.pjit`: the primitive of jitted functions, `jit_p` from JAX 0.7 on."""
from ..._vocabulary import jit_p as jit_p
from ..._vocabulary import pjit_p as pjit_p

__all__ = ["jit_p", "pjit_p"]
