"""Samples of the random_bits family."""
from __future__ import annotations

import numpy as np

from ... import prims
from ..sampling import sample, uints

sample(prims.threefry2x32_p, uints(), uints(), uints(2, 3), uints(2, 3))
sample(prims.threefry2x32_p, uints(3), uints(3), uints(3), uints())
sample(prims.threefry2x32_p, uints(), uints(), uints(), uints())

_KEY = np.array([1, 2, 3, 4], np.uint32)
_shape: tuple[int, ...]
for _shape, _dtype in (((8,), "uint32"), ((5,), "uint32"), ((3, 2), "uint16"), ((3,), "uint8"), ((), "uint32"),
                       ((0,), "uint32")):
    sample(prims.rng_bit_generator_p, _KEY, dtype=np.dtype(_dtype), shape=_shape,
           algorithm=prims.RandomAlgorithm.RNG_THREE_FRY)
sample(prims.rng_bit_generator_p, np.array([9, 8, 2**32 - 1, 0], np.uint32), dtype=np.dtype("uint32"), shape=(6,),
       algorithm=prims.RandomAlgorithm.RNG_THREE_FRY)
sample(prims.rng_bit_generator_p, _KEY, dtype=np.dtype("uint32"), shape=(0,),
       algorithm=prims.RandomAlgorithm.RNG_PHILOX)
sample(prims.rng_uniform_p, np.float32(2), np.float32(2), shape=(2, 3))  # one value: draws are not repeatable
sample(prims.rng_uniform_p, np.int32(2), np.int32(3), shape=(4,))
for _shape in ((2, 2), (3, 5), (3, 4, 2)):  # the two numbers of a counter are adjacent along the first even axis
    sample(prims.rng_bit_generator_p, _KEY, dtype=np.dtype("uint8"), shape=_shape,
           algorithm=prims.RandomAlgorithm.RNG_THREE_FRY)
sample(prims.rng_uniform_p, np.int8(-3), np.int8(-2), shape=(2, 3))
sample(prims.rng_uniform_p, np.uint16(7), np.uint16(8), shape=())
