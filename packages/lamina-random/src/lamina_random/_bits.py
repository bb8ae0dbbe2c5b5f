"""Random bits: counters, one per number drawn, scrambled with the key; or as another generator draws them.

Two layouts give two streams. The classic one scrambles the counters 0..n-1 in pairs (i, i + n/2) and lists all first
words before all second words. The partitionable one gives element i the pair (i >> 32, i) to itself, so that any part
of an array can be drawn on its own, at twice the work.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir import DTypeError, ShapeError, config, dtypes
from lamina_tracing import Array, ArrayLike, DTypeLike, jit, lax, ShapeLike
from lamina_tracing.extend import typeof

from ._args import as_dtype, as_shape, key_data_pair
from ._prng_impl import draw_typed_bits, is_typed
from ._named_axes import NamedShape, fold_in_position
from ._typed_keys import unwrap_key

__all__ = ["bits", "draw_bits", "draw_per_key", "draw_words", "split_to_lanes"]

_U32 = np.dtype("uint32")
_SHORT = tuple(dtypes.as_dtype(name) for name in ("uint2", "uint4"))
_UINTS: dict[int, np.dtype] = {8: np.dtype("uint8"), 16: np.dtype("uint16"), 32: _U32, 64: np.dtype("uint64")}


def bits(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike | None = None) -> Array:
    """Uniform random bits as unsigned integers.

    Args:
      key: a key, from `random.key` or `split`.
      shape: of the result.
      dtype: uint8, uint16, uint32 or uint64 (in 64-bit mode), or uint2 or uint4, the lowest bits of eight; default the
        widest: uint32, in 64-bit mode uint64.
    Returns:
      Array of `shape`, every value of the dtype equally likely.
    Raises:
      ShapeError: `key` is not uint32[2], or `shape` holds a negative size.
      DTypeError: `dtype` is no unsigned integer dtype of 2 to 64 bits.

    Source: Threefry-2x32-20 of counters (Salmon, Moraes, Dror and Shaw, 2011).

    >>> from lamina_random import PRNGKey
    >>> bits(PRNGKey(42), (3,))
    Array([2465931498,  430176367,  255383827], dtype=uint32)
    """
    if shape.__class__ is NamedShape:
        return bits(fold_in_position("bits", key, shape), shape.sizes, dtype)
    found = dtypes.canonicalize(np.uint64) if dtype is None else as_dtype("bits", dtype)
    if found not in _UINTS.values():
        if found not in _SHORT:
            raise DTypeError(f"bits: dtype must be an unsigned integer dtype of 2 to 64 bits; got {found.name}")
        return lax.convert_element_type(bits(key, shape, np.uint8), found)  # the lowest ones of eight
    return _bits(unwrap_key("bits", key), 8 * found.itemsize, as_shape("bits", shape),
                 config.threefry_partitionable.value)


def draw_words(call: str, key: Any, count: int) -> Any:
    """`count` words in the classic layout: uint32[count].

    One elementwise expression for all elements: element i takes the first word of its pair in the first half of the
    array and the second word in the second. It computes each pair twice, which costs no more than joining two halves
    (the compiler then does the same inside) and compiles faster.
    """
    if count >= 1 << 32:
        raise ShapeError(f"{call}: one key gives at most 2**32 - 1 words; got a request for {count}; split the key")
    k0, k1 = key_data_pair(call, key)
    half = np.uint32((count + 1) // 2)
    at = lax.iota(_U32, count)
    first = lax.lt(at, half)
    x0 = lax.select(first, at, lax.sub(at, half))
    x1 = lax.add(x0, half)
    if count % 2:  # the last pair has no second counter; it takes 0
        x1 = lax.select(lax.eq(x1, np.uint32(count)), np.uint32(0), x1)
    y0, y1 = lax.threefry2x32(k0, k1, x0, x1)
    return lax.select(first, y0, y1)


def draw_words_per_element(call: str, key: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Both words of each element's own counter: two uint32 arrays of `shape`."""
    count = int(np.prod(shape, dtype=object))
    k0, k1 = key_data_pair(call, key)
    if count >= 1 << 32:
        raise ShapeError(f"{call}: at most 2**32 - 1 elements are drawn at once; got shape {shape}; split the key")
    return lax.threefry2x32(k0, k1, np.uint32(0), lax.reshape(lax.iota(_U32, count), shape))


def split_to_lanes(call: str, key: Any, shape: tuple[int, ...], partitionable: bool) -> Any:
    """The words of `split(key, shape)`, first words before second words: uint32[2, *shape], one elementwise expression.

    Of several keys, `uint32[rows, 2]`, each gives those of a row: `shape` begins with the number of rows.
    """
    rows = typeof(key).shape[:-1] if len(typeof(key).shape) == 2 else ()
    own, whole = shape[len(rows):], (2, *shape)
    size = int(np.prod(own, dtype=object))
    if size * (1 if partitionable else 2) >= 1 << 32:
        raise ShapeError(f"{call}: one key gives at most 2**32 - 1 words; got a request for {2 * size}; split the key")
    if rows:
        k0, k1 = (lax.broadcast_in_dim(lax.index_in_dim(key, i, 1, keepdims=False), whole, (1,)) for i in (0, 1))
    else:
        k0, k1 = key_data_pair(call, key)
    word = lax.broadcasted_iota(_U32, whole, 0)
    lane = lax.broadcast_in_dim(lax.reshape(lax.iota(_U32, size), own), whole, tuple(range(1 + len(rows), len(whole))))
    if partitionable:
        return lax.select(lax.eq(word, np.uint32(0)), *lax.threefry2x32(k0, k1, np.uint32(0), lane))
    at, half = lax.add(lax.mul(lane, np.uint32(2)), word), np.uint32(size)
    first = lax.lt(at, half)
    x0 = lax.select(first, at, lax.sub(at, half))
    return lax.select(first, *lax.threefry2x32(k0, k1, x0, lax.add(x0, half)))


def draw_bits(call: str, key: Any, width: int, shape: tuple[int, ...], partitionable: bool) -> Any:
    """Unsigned integers of `width` bits; for use inside other draws."""
    size = int(np.prod(shape, dtype=object))
    kind = _UINTS[width]
    if is_typed(key):
        return draw_typed_bits(key, width, shape)
    if size == 0:
        key_data_pair(call, key)
        return lax.full(shape, 0, kind)
    if partitionable:
        y0, y1 = draw_words_per_element(call, key, shape)
        if width == 64:
            return _join_words(y0, y1)
        return lax.convert_element_type(lax.bitwise_xor(y0, y1), kind)
    if width == 32:
        return lax.reshape(draw_words(call, key, size), shape)
    if width == 64:
        words = draw_words(call, key, 2 * size)
        return lax.reshape(_join_words(lax.slice(words, (0,), (size,)), lax.slice(words, (size,), (2 * size,))), shape)
    per = 32 // width  # each word is cut into pieces, lowest bits first
    words = draw_words(call, key, -(-size // per))
    pieces = lax.reshape(lax.bitcast_convert_type(words, kind), (words.shape[0] * per,))
    return lax.reshape(lax.slice(pieces, (0,), (size,)), shape)


def draw_per_key(keys: Sequence[Any], width: int, partitionable: bool) -> Any:
    """One number of `width` bits from each key, given as arrays of first and of second words: `bits(key)` of each."""
    zero, kind = np.uint32(0), _UINTS[width]
    k0, k1 = keys
    y0, y1 = lax.threefry2x32(k0, k1, zero, np.uint32(width == 64 and not partitionable))
    if width == 64:
        return _join_words(y0, y1)
    return lax.convert_element_type(lax.bitwise_xor(y0, y1) if partitionable else y0, kind)


def _join_words(high: Any, low: Any) -> Any:
    u64 = _UINTS[64]
    high = lax.shift_left(lax.convert_element_type(high, u64), np.uint64(32))
    return lax.bitwise_or(high, lax.convert_element_type(low, u64))


def _bits_core(key: Any, width: int, shape: tuple[int, ...], partitionable: bool) -> Any:
    return draw_bits("bits", key, width, shape, partitionable)


_bits = jit(_bits_core, static_argnums=(1, 2, 3), inline=True)
