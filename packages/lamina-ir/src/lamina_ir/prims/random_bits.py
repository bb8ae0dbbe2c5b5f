"""The counter-based random number generator, a primitive that hashes counters with a key; and the compiler's
generators.

Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011): Threefry-2x32-20.
"""
from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from math import prod

import numpy as np
from typing_extensions import override

from .._types import dtypes
from .._types.avals import ShapedArray
from ..errors import DTypeError, ShapeError
from .._types.param_values import register_param_type
from .._core.param_types import KINDS, is_enum_of
from .._core.primitive import Primitive
from .elementwise import one_shape, shaped
from ..typing import Value

__all__ = ["THREEFRY_PARITY", "THREEFRY_ROTATIONS", "RandomAlgorithm", "rng_bit_generator_p", "rng_uniform_p",
           "threefry2x32_p"]

THREEFRY_PARITY = 0x1BD11BDA
THREEFRY_ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)  # of the four rounds of even and of odd groups
_U32 = np.dtype("uint32")


def _threefry_infer(k0: ShapedArray, k1: ShapedArray, x0: ShapedArray, x1: ShapedArray) -> tuple[ShapedArray, ...]:
    operands = (k0, k1, x0, x1)
    if any(a.dtype != _U32 for a in operands):
        raise DTypeError("threefry2x32: operands must be uint32; got " + ", ".join(a.str_long() for a in operands))
    out = shaped(one_shape("threefry2x32", *operands), _U32)
    return out, out


def _threefry(k0: np.ndarray, k1: np.ndarray, x0: np.ndarray, x1: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Run 20 rounds of add, rotate, xor; a subkey is added before the first round and after every fourth."""
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


# --- the compiler's generators -----------------------------------------------------------------------------------
@register_param_type
class RandomAlgorithm(IntEnum):
    """The algorithm of `rng_bit_generator`: the device's fastest one, Threefry-2x32-20, or Philox-4x32-10."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2

    @override
    def __repr__(self) -> str:
        return f"RandomAlgorithm.{self.name}"

    __str__ = __repr__


_UINTS = frozenset(np.dtype(f"uint{n}") for n in (8, 16, 32, 64))


@lru_cache(maxsize=1024)
def _generator_infer(key: ShapedArray, *, algorithm: RandomAlgorithm, dtype: np.dtype,
                     shape: tuple[int, ...]) -> tuple[ShapedArray, ShapedArray]:
    if (key.shape, key.dtype.name) not in (((4,), "uint32"), ((2,), "uint64")):
        # StableHLO rng_bit_generator
        raise ShapeError(f"rng_bit_generator: the key must be uint32[4] or uint64[2]; got {key.str_long()}")
    if dtype not in _UINTS:
        raise DTypeError(f"rng_bit_generator: dtype must be an unsigned integer dtype; got {dtype.name}")
    if any(n < 0 for n in shape):
        raise ShapeError(f"rng_bit_generator: shape must not be negative; got {shape}")
    return key, shaped(shape, dtype)


def _philox(key: int, counter: int, count: int) -> np.ndarray:
    """Return `count` blocks of four uint32 each: ten Philox rounds of Salmon et al. (2011), table 2."""
    step = np.arange(count, dtype=np.uint64)
    low = step + np.uint64(counter & 0xFFFFFFFFFFFFFFFF)
    # A 128-bit sum of counter and step: the low half has overflowed if it is smaller than an addend.
    high = np.uint64(counter >> 64) + (low < step).astype(np.uint64)
    x = [half >> np.uint64(shift) & np.uint64(0xFFFFFFFF) for half in (low, high) for shift in (0, 32)]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        # Factors below 2^32, so the products fit into uint64. The round uses their high and low halves.
        p, q = np.uint64(0xD2511F53) * x[0], np.uint64(0xCD9E8D57) * x[2]
        mask = np.uint64(0xFFFFFFFF)
        x = [(q >> np.uint64(32)) ^ x[1] ^ np.uint64(k0), q & mask, (p >> np.uint64(32)) ^ x[3] ^ np.uint64(k1), p & mask]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(x, 1).astype(np.uint32).reshape(-1)


def _threefry_bits(state: np.ndarray, dtype: np.dtype, shape: tuple[int, ...]) -> tuple[np.ndarray, int]:
    """Return random bits, and the number of counters used.

    The two uint32 outputs of a counter make one 64-bit number, or two smaller numbers. These two are adjacent along the
    first axis of even length, or along the longest axis if all lengths are odd.
    """
    shape = shape or (1,)
    axis = next((a for a, n in enumerate(shape) if n % 2 == 0), max(range(len(shape)), key=shape.__getitem__))
    half = shape if dtype.itemsize == 8 else (*shape[:axis], -(-shape[axis] // 2), *shape[axis + 1:])
    count, k = prod(half), state[:1].view(np.uint32)
    with np.errstate(over="ignore"):
        counters = (state[1] + np.arange(count, dtype=np.uint64)).view(np.uint32).reshape(*half, 2)
    words = _threefry(k[0], k[1], counters[..., 0], counters[..., 1])
    if dtype.itemsize == 8:
        return np.stack(words, -1).view(np.uint64), count
    pairs = np.stack(words, axis + 1).reshape(*half[:axis], 2 * half[axis], *half[axis + 1:])
    return np.take(pairs, range(shape[axis]), axis).astype(dtype), count


def _generator(key: Value, *, algorithm: RandomAlgorithm, dtype: np.dtype, shape: tuple[int, ...]) -> Value:
    """Generate bits from consecutive counters, and return the advanced state too.

    By default XLA on the CPU uses Philox, with the key as the upper half of the counter, as here. On other platforms
    compilers choose differently; only Threefry gives the same bits everywhere.
    """
    state = np.ascontiguousarray(key).view(np.uint64)
    if algorithm == RandomAlgorithm.RNG_THREE_FRY:
        bits, count = _threefry_bits(state, dtype, shape)
    else:
        words = prod(shape) * max(dtype.itemsize // 4, 1)
        count = -(-words // 4)
        made = _philox(int(state[0]), int(state[1]) | int(state[0]) << 64, count)[:words]
        bits = made.view(np.uint64) if dtype.itemsize == 8 else made.astype(dtype)
    with np.errstate(over="ignore"):
        after = np.array([state[0], state[1] + np.uint64(count)], np.uint64).view(key.dtype)
    return after.reshape(key.shape), bits.reshape(shape)


KINDS["random algorithm"] = ("an enum `RandomAlgorithm`", is_enum_of(RandomAlgorithm))
rng_bit_generator_p = Primitive("rng_bit_generator", params=("algorithm", "dtype", "shape"), family="random_bits",
                                infer=_generator_infer, numpy=_generator, multiple=True, spec="rng_bit_generator",
                                kinds={"algorithm": "random algorithm"})


def _uniform_infer(a: ShapedArray, b: ShapedArray, *, shape: tuple[int, ...]) -> ShapedArray:
    if a.shape or b.shape or a.dtype != b.dtype:
        # StableHLO rng C1
        raise ShapeError(f"rng_uniform: the bounds must be scalars of one dtype; got {a.str_long()} and {b.str_long()}")
    if not (dtypes.is_float(a.dtype) or dtypes.is_integer(a.dtype)):
        raise DTypeError(f"rng_uniform: the bounds must be floats or integers; got {a.str_long()}")
    if any(n < 0 for n in shape):
        raise ShapeError(f"rng_uniform: shape must not be negative; got {shape}")
    return shaped(shape, a.dtype)


def _uniform(a: Value, b: Value, *, shape: tuple[int, ...]) -> Value:
    rng = np.random.default_rng()
    if dtypes.is_integer(a.dtype):
        return np.full(shape, a) if b <= a else rng.integers(a, b, shape).astype(a.dtype)
    return (a + rng.random(shape) * (b - a)).astype(a.dtype)


rng_uniform_p = Primitive("rng_uniform", params=("shape",), family="random_bits", infer=_uniform_infer,
                          numpy=_uniform, spec="rng",
                          varying_axes=lambda total, names, params, bound: bound)  # each member draws independently
