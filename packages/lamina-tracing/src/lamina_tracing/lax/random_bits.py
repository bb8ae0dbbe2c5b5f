"""The random number generator's one op; `lamina_random` draws numbers with it."""
from __future__ import annotations

from typing import Any

from lamina_ir.prims import threefry2x32_p

from ..array import Array, ArrayLike
from ._common import bind

__all__ = ["threefry2x32"]


def threefry2x32(k0: ArrayLike, k1: ArrayLike, x0: ArrayLike, x1: ArrayLike) -> tuple[Array, Array]:
    """Scramble pairs of uint32 counters with a key.

    Args:
      k0, k1: the key's words, uint32; rank 0 or of the counters' shape.
      x0, x1: the counters' words, uint32.
    Returns:
      Two uint32 arrays of the counters' shape.

    Source: Threefry-2x32 with 20 rounds, Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).

    >>> import numpy as np
    >>> [hex(int(y)) for y in threefry2x32(*np.zeros(4, np.uint32))]
    ['0x6b200159', '0x99ba4efe']
    """
    out: Any = bind(threefry2x32_p, k0, k1, x0, x1)
    return out
