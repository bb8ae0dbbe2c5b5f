"""How arrays are divided into blocks: `BlockSpec`, `GridSpec`, and the memory that a kernel asks for."""
from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from typing_extensions import override
from lamina_ir.dtypes import as_dtype
from lamina_ir.typing import Tree, Value

__all__ = ["BlockSpec", "Blocked", "Buffered", "CostEstimate", "Element", "GridSpec", "MemoryRef", "MemorySpace",
           "PrefetchScalarGridSpec", "Squeezed", "no_block_spec", "squeezed"]


class _NoBlockSpec:
    """The default of `in_specs` and `out_specs`: every block is the whole array."""

    @override
    def __repr__(self) -> str:
        return "NoBlockSpec"


no_block_spec = _NoBlockSpec()


@dataclass(frozen=True)
class Blocked:
    """An axis of blocks of equal length; the index map gives the number of the block. The same as an int.

    Attributes:
      block_size: the length of a block.
    """

    block_size: int


@dataclass(frozen=True)
class Element:
    """An axis of blocks that may overlap; the index map gives the index of the first element.

    Attributes:
      block_size: the length of a block.
      padding: how many elements are added before and after the axis.
    """

    block_size: int
    padding: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Squeezed:
    """An axis of which a block has one element; the references of the kernel do not have it. The same as None."""


squeezed = Squeezed()


class MemorySpace(enum.Enum):
    """A kind of memory. Kernels run in the memory of their device, so all kinds are the same.

    Calling one describes temporary memory: `VMEM((8, 128), np.float32)`.
    """

    ANY = "any"
    VMEM = "vmem"
    SMEM = "smem"

    def __call__(self, shape: Sequence[int], dtype: Any) -> MemoryRef:
        """Return the description of memory for an array."""
        return MemoryRef(tuple(shape), as_dtype(dtype), self)


@dataclass(frozen=True)
class MemoryRef:
    """Temporary memory of a kernel, for `scratch_shapes` and `run_scoped`.

    Attributes:
      shape, dtype: of the array that it holds.
      memory_space: the kind of memory.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    memory_space: MemorySpace = MemorySpace.ANY


@dataclass(frozen=True)
class Buffered:
    """How many blocks a pipeline holds at once. Blocks are not pipelined here, so it has no effect.

    Attributes:
      buffer_count: their number.
      use_lookahead: whether blocks are loaded as early as possible.
    """

    buffer_count: int
    use_lookahead: bool = False


@dataclass(frozen=True)
class CostEstimate:
    """What a kernel costs. Compilers of kernels use it; it has no effect here.

    Attributes:
      flops, transcendentals: the numbers of operations.
      bytes_accessed, remote_bytes_transferred: in bytes.
    """

    flops: int
    transcendentals: int
    bytes_accessed: int
    remote_bytes_transferred: int = 0


@dataclass(frozen=True)
class BlockSpec:
    """Which block of an array each program of the grid uses.

    Attributes:
      block_shape: for each axis of the array the length of a block (an int or `Blocked`), None or `Squeezed` for one element,
        or an `Element`. None: the whole array.
      index_map: takes the position in the grid, an int32 per axis; returns the number of the block for each axis of the
        array. None: 0 for each axis.
      pipeline_mode: a `Buffered`, which has no effect.
      memory_space: a `MemorySpace`, which has no effect.

    >>> BlockSpec((8, None), lambda i, j: (i, j)).block_shape
    (8, None)
    """

    block_shape: Sequence[Any] | None = None
    index_map: Callable[..., Any] | None = None
    pipeline_mode: Buffered | None = None
    memory_space: Any = None


@dataclass(frozen=True)
class GridSpec:
    """The grid of a kernel and its blocks: the arguments of the same names of `pallas_call`.

    Attributes:
      grid: the size of each axis of the grid.
      in_specs, out_specs: the `BlockSpec`s of arguments and results.
      scratch_shapes: the temporary memory.
    """

    grid: int | Sequence[Value] = ()
    in_specs: Tree = no_block_spec
    out_specs: Tree = no_block_spec
    scratch_shapes: Tree = ()


@dataclass(frozen=True)
class PrefetchScalarGridSpec:
    """A grid whose index maps also take the first arguments, so that data decides which blocks are used.

    Attributes:
      num_scalar_prefetch: the number of these arguments. The kernel and each index map get references to them, the index
        maps after the position in the grid. `in_specs` leaves them out.
      grid, in_specs, out_specs, scratch_shapes: as of `GridSpec`.
    """

    num_scalar_prefetch: int
    grid: int | Sequence[Value] = ()
    in_specs: Tree = no_block_spec
    out_specs: Tree = no_block_spec
    scratch_shapes: Tree = ()
