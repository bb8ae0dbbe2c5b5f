"""The random number generator primitive, which `lamina_random` uses; and the compiler's generators."""
from __future__ import annotations

from collections.abc import Sequence

from lamina_ir.prims import RandomAlgorithm, rng_bit_generator_p, rng_uniform_p, threefry2x32_p

from .._core.array import Array, ArrayLike, DTypeLike
from ._util.operands import as_dtype, as_ints, bind, match_scalars

__all__ = ["RandomAlgorithm", "rng_bit_generator", "rng_uniform", "threefry2x32"]


def threefry2x32(k0: ArrayLike, k1: ArrayLike, x0: ArrayLike, x1: ArrayLike) -> tuple[Array, Array]:
    """Scramble pairs of uint32 counters with a key.

    Args:
      k0, k1: the two halves of the key, uint32; rank 0 or of the counters' shape.
      x0, x1: the two halves of the counters, uint32.
    Returns:
      Two uint32 arrays of the counters' shape.

    Source: Threefry-2x32 with 20 rounds, Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).

    >>> import numpy as np
    >>> [hex(int(y)) for y in threefry2x32(*np.zeros(4, np.uint32))]
    ['0x6b200159', '0x99ba4efe']
    """
    out: tuple[Array, Array] = bind(threefry2x32_p, k0, k1, x0, x1)
    return out


def rng_bit_generator(key: ArrayLike, shape: Sequence[int], dtype: DTypeLike = "uint32",
                      algorithm: RandomAlgorithm = RandomAlgorithm.RNG_DEFAULT) -> tuple[Array, Array]:
    """Generate random bits with the compiler's generator; return them and the next key.

    Args:
      key: uint32[4], or uint64[2]: a key and a counter.
      shape: of the bits.
      dtype: uint8, uint16, uint32 or uint64.
      algorithm: Threefry gives the same bits on every device; the others need not.
    Returns:
      The key with its counter advanced, and the bits.

    Source: StableHLO `rng_bit_generator`.

    >>> import numpy as np
    >>> key = np.array([1, 2, 3, 4], np.uint32)
    >>> rng_bit_generator(key, (2,), algorithm=RandomAlgorithm.RNG_THREE_FRY)[1]
    Array([1576285164, 2249660814], dtype=uint32)
    """
    try:
        how = RandomAlgorithm(algorithm)
    except ValueError:
        raise ValueError(f"rng_bit_generator: algorithm must be one of {', '.join(map(str, RandomAlgorithm))}; got "
                         f"{algorithm!r}") from None
    after, bits = bind(rng_bit_generator_p, key, algorithm=how, dtype=as_dtype("rng_bit_generator", "dtype", dtype),
                       shape=as_ints("rng_bit_generator", "shape", shape))
    return after, bits


def rng_uniform(a: ArrayLike, b: ArrayLike, shape: Sequence[int]) -> Array:
    """Draw numbers uniformly from `[a, b)` with a generator with hidden state: different ones at every call.

    Use `lamina.random.uniform` for reproducible numbers.

    Args:
      a, b: scalars of one float or integer dtype.
      shape: of the result.

    Source: StableHLO `rng`.

    >>> rng_uniform(0., 1., (2, 3)).shape
    (2, 3)
    """
    return bind(rng_uniform_p, *match_scalars(a, b), shape=as_ints("rng_uniform", "shape", shape))
