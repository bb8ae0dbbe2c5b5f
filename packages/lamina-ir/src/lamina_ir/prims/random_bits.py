"""The counter-based random number generator: one op that scrambles counters with a key.

Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011): Threefry-2x32-20.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from ..avals import ShapedArray
from ..errors import DTypeError
from ..primitive import Primitive
from .elementwise import one_shape, shaped

__all__ = ["THREEFRY_PARITY", "THREEFRY_ROTATIONS", "threefry2x32_p"]

THREEFRY_PARITY = 0x1BD11BDA
THREEFRY_ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)  # of the four rounds of even and of odd groups
_U32 = np.dtype("uint32")


def _threefry_infer(k0: ShapedArray, k1: ShapedArray, x0: ShapedArray, x1: ShapedArray) -> tuple[ShapedArray, ...]:
    operands = (k0, k1, x0, x1)
    if any(a.dtype != _U32 for a in operands):
        raise DTypeError("threefry2x32: operands must be uint32; got " + ", ".join(a.long() for a in operands))
    out = shaped(one_shape("threefry2x32", *operands), _U32)
    return out, out


def _threefry(k0: Any, k1: Any, x0: Any, x1: Any) -> tuple[np.ndarray, np.ndarray]:
    """20 rounds of add, rotate, xor; a subkey is added before the first and after every fourth."""
    with np.errstate(over="ignore"):
        k0, k1, x0, x1 = np.broadcast_arrays(k0, k1, x0, x1)
        keys = k0, k1, k0 ^ k1 ^ _U32.type(THREEFRY_PARITY)
        x0, x1 = x0 + keys[0], x1 + keys[1]
        for group in range(5):
            for r in THREEFRY_ROTATIONS[group % 2]:
                x0 = x0 + x1
                x1 = ((x1 << _U32.type(r)) | (x1 >> _U32.type(32 - r))) ^ x0
            x0 = x0 + keys[(group + 1) % 3]
            x1 = x1 + keys[(group + 2) % 3] + _U32.type(group + 1)
    return np.asarray(x0, _U32), np.asarray(x1, _U32)


threefry2x32_p = Primitive("threefry2x32", infer=_threefry_infer, numpy=_threefry, family="random_bits",
                           multiple=True, elementwise=True, spec="Threefry-2x32-20, Salmon et al. 2011")
