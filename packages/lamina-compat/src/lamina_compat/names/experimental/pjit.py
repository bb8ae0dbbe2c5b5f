"""`jax.experimental.pjit`: the primitive of jitted functions."""
from ..._vocabulary import pjit_p as pjit_p

__all__ = ["pjit_p"]
