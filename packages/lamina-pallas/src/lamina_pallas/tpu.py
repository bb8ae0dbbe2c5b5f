"""Names of `jax.experimental.pallas.tpu` that kernels use: kinds of memory, grids, and options without effect."""
from __future__ import annotations

from types import SimpleNamespace

from ._grid import force_tpu_interpret_mode
from ._specs import MemorySpace, PrefetchScalarGridSpec

__all__ = ["ANY", "SMEM", "VMEM", "CompilerParams", "InterpretParams", "MemorySpace", "PrefetchScalarGridSpec",
           "TPUMemorySpace", "force_tpu_interpret_mode"]

ANY, SMEM, VMEM = MemorySpace.ANY, MemorySpace.SMEM, MemorySpace.VMEM
TPUMemorySpace = MemorySpace


class CompilerParams(SimpleNamespace):
    """Options of the compiler of kernels, as keyword arguments; they have no effect here."""


class InterpretParams(SimpleNamespace):
    """Options of the simulator of TPUs, as keyword arguments; as a value of `interpret` it counts as True."""
