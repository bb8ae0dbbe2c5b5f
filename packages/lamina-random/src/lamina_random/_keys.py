"""Keys: two uint32 words that stand for a stream of random numbers."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import DTypeError, ShapeError, config, dtypes, shaped
from lamina_tracing import Array, ArrayLike, jit, lax, ShapeLike, slots
from lamina_tracing.extend import typeof

from ._arguments import as_shape
from ._bits import own_words, raw_words
from ._named import folded

__all__ = ["PRNGKey", "clone", "fold_in", "halves", "key", "key_data", "key_impl", "split", "split_core", "wrap_key_data"]

_U32 = np.dtype("uint32")
_KEY = shaped((2,), _U32)


def PRNGKey(seed: ArrayLike) -> Array:
    """A key from a number.

    Args:
      seed: an integer, or a rank-0 integer array. The lowest 64 bits count in 64-bit mode, else the lowest 32.
    Returns:
      Key, uint32[2]: the seed's high and low word.
    Raises:
      DTypeError: `seed` is not an integer.
      OverflowError: `seed` does not fit in 64 bits.
      ShapeError: `seed` is an array of rank 1 or more; `vmap` makes several keys.

    Source: the classic seeding of Threefry-2x32 streams; the words are the seed itself.

    >>> PRNGKey(42)
    Array([ 0, 42], dtype=uint32)
    """
    if isinstance(seed, (bool, int, np.integer, np.bool_)):
        number = int(seed)
        if not -2 ** 63 <= number < 2 ** 64:
            raise OverflowError(f"PRNGKey: the seed must fit in 64 bits; got {number}")
        number += config.random_seed_offset.value
        high = (number >> 32) & 0xFFFFFFFF if config.enable_x64.value else 0
        return slots.evaluator.array(np.array([high, number & 0xFFFFFFFF], _U32), _KEY)
    aval = typeof(seed)
    if not (dtypes.is_integer(aval.dtype) or dtypes.is_bool(aval.dtype)):
        raise DTypeError(f"PRNGKey: the seed must be an integer; got {aval.long()}")
    if aval.shape:
        raise ShapeError(f"PRNGKey: the seed must be rank 0; got {aval.long()}; use vmap for several seeds")
    offset = config.random_seed_offset.value
    if offset:
        wide = "uint64" if aval.dtype.itemsize == 8 else "uint32"
        seed = lax.add(lax.convert_element_type(seed, wide), np.array(offset % 2 ** 64).astype(wide))
    return _key_of(seed)


def _key_of_core(seed: Any) -> Any:
    dtype = typeof(seed).dtype
    high: Any
    if dtype.itemsize == 8:
        high = lax.shift_right_logical(seed, lax.full((), 32, dtype))
    else:
        high = np.uint32(0)
    words = [lax.reshape(lax.convert_element_type(w, _U32), (1,)) for w in (high, seed)]
    return lax.concatenate(words, 0)


_key_of = jit(_key_of_core, inline=True)


def key(seed: ArrayLike) -> Array:
    """A key from a number: the same as `PRNGKey`, since keys are plain uint32[2] arrays.

    Args:
      seed: an integer, or a rank-0 integer array.
    Returns:
      Key, uint32[2].
    Raises:
      DTypeError: `seed` is not an integer.
      ShapeError: `seed` is an array of rank 1 or more.

    Source: `PRNGKey`.

    >>> key(42)
    Array([ 0, 42], dtype=uint32)
    """
    return PRNGKey(seed)


def key_data(keys: ArrayLike) -> Array:
    """The words of keys, which are those words: `keys` itself.

    Args:
      keys: uint32[..., 2].
    Returns:
      `keys`.
    Raises:
      Nothing: whatever comes is given back.

    Source: keys here are their words.

    >>> key_data(PRNGKey(42))
    Array([ 0, 42], dtype=uint32)
    """
    return keys  # type: ignore[return-value]  # as it came


def wrap_key_data(key_bits_array: Any) -> Array:
    """Keys from their words, returned as they are.

    Args:
      key_bits_array: uint32[..., 2].
    Returns:
      `key_bits_array`.
    Raises:
      ShapeError: the array is not uint32[..., 2].

    Source: keys here are their words.

    >>> wrap_key_data(np.array([0, 42], np.uint32))
    array([ 0, 42], dtype=uint32)
    """
    _check_keys("wrap_key_data", key_bits_array)
    return key_bits_array


def _check_keys(call: str, keys: Any) -> None:
    aval = typeof(keys)
    if aval.dtype != _U32 or aval.shape[-1:] != (2,):
        raise ShapeError(f"{call}: expected uint32[..., 2]; got {aval.long()}")


def clone(key: ArrayLike) -> Array:
    """The same key, to say that it is used again on purpose; nothing here keeps count of uses.

    Args:
      key: uint32[..., 2].
    Returns:
      `key`.
    Raises:
      ShapeError: `key` is not uint32[..., 2].

    Source: a name that programs use where key reuse is checked.

    >>> clone(PRNGKey(42))
    Array([ 0, 42], dtype=uint32)
    """
    _check_keys("clone", key)
    return key  # type: ignore[return-value]  # as it came


def key_impl(keys: ArrayLike) -> str:
    """The generator keys are for: always "threefry2x32".

    Args:
      keys: uint32[..., 2].
    Returns:
      The name, a string.
    Raises:
      ShapeError: `keys` is not uint32[..., 2].

    Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).

    >>> key_impl(PRNGKey(42))
    'threefry2x32'
    """
    _check_keys("key_impl", keys)
    return "threefry2x32"


def split(key: ArrayLike, num: ShapeLike = 2) -> Array:
    """New, independent keys from one, which should not be used again.

    Args:
      key: uint32[2].
      num: how many, or a shape of how many.
    Returns:
      Keys: uint32[num, 2], so that `a, b = split(key)` works; uint32[*num, 2] for a shape.
    Raises:
      ShapeError: `key` is not uint32[2], or `num` is negative.

    Source: the first `2 num` words of the key's stream.

    >>> split(PRNGKey(42))
    Array([[2465931498, 3679230171],
           [ 255383827,  267815257]], dtype=uint32)
    """
    return _split(key, as_shape("split", num), config.threefry_partitionable.value)


def split_core(key: Any, shape: tuple[int, ...], partitionable: bool) -> Any:
    if partitionable:
        words = [lax.expand_dims(y, (len(shape),)) for y in own_words("split", key, shape)]
        return lax.concatenate(words, len(shape))
    count = 2 * int(np.prod(shape, dtype=int))
    if not count:
        return lax.full((*shape, 2), 0, _U32)
    return lax.reshape(raw_words("split", key, count), (*shape, 2))


def halves(key: Any, count: int, part: bool) -> list[Any]:
    """`count` independent keys."""
    keys = split_core(key, (count,), part)
    return [lax.index_in_dim(keys, i, 0, keepdims=False) for i in range(count)]


_split = jit(split_core, static_argnums=(1, 2), inline=True)


def fold_in(key: ArrayLike, data: ArrayLike) -> Array:
    """A new key from a key and a number, as a step counter; equal inputs give equal keys.

    Args:
      key: uint32[2].
      data: an integer or a rank-0 integer array; its lowest 32 bits count.
    Returns:
      Key, uint32[2].
    Raises:
      ShapeError: `key` is not uint32[2], or `data` no rank-0 integer; `vmap` folds in several.

    Source: Threefry-2x32 of the counter (0, data).

    >>> fold_in(PRNGKey(42), 7)
    Array([2547012911, 1371500959], dtype=uint32)
    """
    if isinstance(data, int):
        data = np.uint32(data & 0xFFFFFFFF)
    return folded(key, data)


