"""Kernels on blocks of arrays, in the interface of Pallas, run as loops of ordinary operations."""
from . import _version as _version  # first: it checks the versions of sibling packages
from lamina_numpy import broadcast_to
from lamina_refs import Slice, ds
from lamina_tracing.extend import hide_frames_of as _hide_frames_of

from . import tpu, triton
from ._call import pallas_call
from ._functions import (align_to, cdiv, debug_print, empty, empty_like, loop, multiple_of, next_power_of_2, run_scoped,
                         strides_from_shape, when)
from ._grid import num_programs, program_id
from ._memory import (atomic_add, atomic_and, atomic_cas, atomic_max, atomic_min, atomic_or, atomic_xchg, atomic_xor, load,
                      store, swap)
from ._specs import (Blocked, BlockSpec, Buffered, CostEstimate, Element, GridSpec, MemoryRef, MemorySpace, Squeezed,
                     no_block_spec, squeezed)
from ._version import __version__

ANY = MemorySpace.ANY
dslice = ds

__all__ = ["ANY", "BlockSpec", "Blocked", "Buffered", "CostEstimate", "Element", "GridSpec", "MemoryRef", "MemorySpace",
           "Slice", "Squeezed", "__version__", "align_to", "atomic_add", "atomic_and", "atomic_cas", "atomic_max",
           "atomic_min", "atomic_or", "atomic_xchg", "atomic_xor", "broadcast_to", "cdiv", "debug_print", "ds", "dslice",
           "empty", "empty_like", "load", "loop", "multiple_of", "next_power_of_2", "no_block_spec", "num_programs",
           "pallas_call", "program_id", "run_scoped", "squeezed", "store", "strides_from_shape", "swap", "tpu", "triton",
           "when"]

_hide_frames_of(__file__.rsplit("/", 1)[0])
