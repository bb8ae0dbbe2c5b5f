"""The generators there are, and the way to define more."""
from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from lamina_ir import DTypeError, ShapeError, config, dtypes
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import typeof

from ._bits import draw_bits
from ._prng_impl import PRNGImpl, find_impl, register_impl
from ._keys import key, seed_to_words, split_core
from ._named_axes import fold_in_array

__all__ = ["PRNGImpl", "define_prng_impl", "random_seed", "rbg_prng_impl", "seed_with_impl", "threefry_2x32",
           "threefry_prng_impl", "unsafe_rbg_prng_impl"]

_U32 = np.dtype("uint32")


def define_prng_impl(*, key_shape: tuple[int, ...], seed: Callable[[Any], Any], split: Callable[[Any, tuple[int, ...]], Any],
                     random_bits: Callable[[Any, int, tuple[int, ...]], Any], fold_in: Callable[[Any, Any], Any],
                     name: str = "<unnamed>", tag: str = "?") -> PRNGImpl:
    """A generator of one's own: every function of `lamina.random` draws with it, where its keys are given.

    The functions compute with arrays, as any function that is traced: they are called once for a program.

    Args:
      key_shape: of the uint32 words of one key.
      seed: `(integer of rank 0) -> words`, uint32[*key_shape].
      split: `(words, shape) -> words of new keys`, uint32[*shape, *key_shape].
      random_bits: `(words, width, shape) -> bits`, unsigned integers of `width` 8, 16, 32 or 64.
      fold_in: `(words, uint32 number of rank 0) -> words`.
      name: what `random.key(0, impl=name)` takes and `random.key_impl` gives, where no other generator has the name.
      tag: how the dtype of its keys is written, `key<tag>`; with a number behind it where it is another generator's.
    Returns:
      The generator, for `impl=`. Equal arguments give equal generators, whose keys have one dtype.
    Raises:
      TypeError: what should be a function is none.
      ValueError: `key_shape` holds no words, or `tag` is no word.
      ShapeError, where keys are used: a function returned something else.

    Source: the five things that keys are for.

    >>> from lamina_random import key, key_data
    >>> double = define_prng_impl(key_shape=(2,), seed=lambda s: threefry_prng_impl.seed(2 * s),
    ...     split=threefry_prng_impl.split, random_bits=threefry_prng_impl.random_bits,
    ...     fold_in=threefry_prng_impl.fold_in, name="double", tag="dbl")
    >>> key_data(key(21, impl="double"))
    Array([ 0, 42], dtype=uint32)
    """
    functions = {"seed": seed, "split": split, "random_bits": random_bits, "fold_in": fold_in}
    for word, function in functions.items():
        if not callable(function):
            raise TypeError(f"define_prng_impl: {word} must be a function; got {function!r}")
    shape = tuple(n.__index__() for n in key_shape)
    if any(n < 1 for n in shape):
        raise ValueError(f"define_prng_impl: key_shape must hold sizes of 1 or more; got {key_shape!r}")
    if not isinstance(name, str):
        raise TypeError(f"define_prng_impl: name must be a string; got {name!r}")
    return register_impl(PRNGImpl(shape, seed, split, random_bits, fold_in, name, tag))


def _require_impl(call: str, impl: Any) -> PRNGImpl:
    if impl is None:
        raise TypeError(f"{call}: expected a generator, or the name of one; got None")
    return find_impl(call, impl)


def seed_with_impl(impl: Any, seed: ArrayLike) -> Array:
    """A typed key of a generator from a number: `random.key(seed, impl=impl)`.

    Args:
      impl: a generator, or the name of one.
      seed: an integer, or a rank-0 integer array.
    Returns:
      Key, rank 0.
    Raises:
      DTypeError, OverflowError, ShapeError: as `key`.
      ValueError: no generator is called so.

    Source: `random.key`.

    >>> from lamina_random import key_data
    >>> key_data(seed_with_impl(rbg_prng_impl, 7))
    Array([0, 7, 0, 7], dtype=uint32)
    """
    return key(seed, impl=_require_impl("seed_with_impl", impl))


def random_seed(seeds: ArrayLike, impl: Any) -> Array:
    """Typed keys of a generator, one for each number.

    Args:
      seeds: an integer, or an array of integers of any rank.
      impl: a generator, or the name of one.
    Returns:
      Keys of the shape of `seeds`.
    Raises:
      DTypeError: `seeds` are no integers.
      ValueError: no generator is called so.

    Source: `random.key` of each.

    >>> random_seed(np.arange(6).reshape(2, 3), threefry_prng_impl).shape
    (2, 3)
    """
    own = _require_impl("random_seed", impl)
    aval = typeof(seeds)
    if not aval.shape:
        return key(seeds, impl=own)
    if not (dtypes.is_integer(aval.dtype) or dtypes.is_bool(aval.dtype)):
        raise DTypeError(f"random_seed: seeds must be integers; got {aval.str_long()}")
    if not aval.size:
        return lax.reshape(lax.slice(lax.expand_dims(key(0, impl=own), (0,)), (0,), (0,)), aval.shape)
    return lax.reshape(lax.map(lambda s: key(s, impl=own), lax.reshape(seeds, (aval.size,))), aval.shape)


def threefry_2x32(keypair: Any, count: ArrayLike) -> Array:
    """Numbers scrambled with a key: the first half of them are the first words of pairs, the second half the second.

    Args:
      keypair: two uint32 words, a pair of them or uint32[2].
      count: uint32 array of any shape; of an odd number of elements the last one is paired with 0.
    Returns:
      uint32 array of the shape of `count`.
    Raises:
      DTypeError: a word or `count` is not uint32.
      ShapeError: `keypair` are not two words.

    Source: Threefry-2x32-20 (Salmon, Moraes, Dror and Shaw, 2011).

    >>> threefry_2x32((np.uint32(0), np.uint32(42)), np.arange(4, dtype=np.uint32))
    Array([2465931498, 3679230171,  255383827,  267815257], dtype=uint32)
    """
    if isinstance(keypair, (tuple, list)):
        if len(keypair) != 2:
            raise ShapeError(f"threefry_2x32: keypair must be two words; got {len(keypair)}")
        k0, k1 = keypair
    else:
        if typeof(keypair).shape != (2,):
            raise ShapeError(f"threefry_2x32: keypair must be two words; got {typeof(keypair).str_long()}")
        k0, k1 = (lax.index_in_dim(keypair, i, 0, keepdims=False) for i in (0, 1))
    for x in (k0, k1, count):
        if typeof(x).dtype != _U32:
            raise DTypeError(f"threefry_2x32: the words and count must be uint32; got {typeof(x).str_long()}")
    shape, n = typeof(count).shape, typeof(count).size
    flat = lax.reshape(count, (n,))
    if n % 2:
        flat = lax.concatenate([flat, lax.full((1,), 0, _U32)], 0)
    half = (n + 1) // 2
    both = lax.threefry2x32(k0, k1, lax.slice(flat, (0,), (half,)), lax.slice(flat, (half,), (2 * half,)))
    return lax.reshape(lax.slice(lax.concatenate(list(both), 0), (0,), (n,)), shape)


def _is_partitionable() -> bool:
    return config.threefry_partitionable.value


def _threefry_split(words: Any, shape: tuple[int, ...]) -> Any:
    return split_core(words, shape, _is_partitionable())


def _threefry_bits(words: Any, width: int, shape: tuple[int, ...]) -> Any:
    return draw_bits("bits", words, width, shape, _is_partitionable())


threefry_prng_impl = register_impl(
    PRNGImpl((2,), seed_to_words, _threefry_split, _threefry_bits, fold_in_array, "threefry2x32", "fry"),
    dtypes.key_type("fry"))


# --- the device's own generator -----------------------------------------------------------------------------------
def _rbg_seed(seed: Any) -> Any:
    half = seed_to_words(seed)
    return lax.concatenate([half, half], 0)


def _split_halves(words: Any) -> list[Any]:
    return [lax.slice(words, (i,), (i + 2,)) for i in (0, 2)]


def _rbg_split(words: Any, shape: tuple[int, ...]) -> Any:
    return lax.concatenate([_threefry_split(half, shape) for half in _split_halves(words)], len(shape))


def _rbg_fold_in(words: Any, data: Any) -> Any:
    return lax.concatenate([fold_in_array(half, data) for half in _split_halves(words)], 0)


def _rbg_bits(words: Any, width: int, shape: tuple[int, ...]) -> Any:
    return lax.rng_bit_generator(words, shape, np.dtype(f"uint{width}"))[1]


rbg_prng_impl = register_impl(PRNGImpl((4,), _rbg_seed, _rbg_split, _rbg_bits, _rbg_fold_in, "rbg", "rbg"),
                              dtypes.key_type("rbg"))

_APART = 10  # every tenth draw becomes a key: those between are the ones that draws with the key itself give first


def _unsafe_split(words: Any, shape: tuple[int, ...]) -> Any:
    n = prod(shape)
    rows = lax.reshape(_rbg_bits(words, 32, (_APART * n, 4)), (n, _APART, 4))
    return lax.reshape(lax.index_in_dim(rows, 0, 1, keepdims=False), (*shape, 4))


def _unsafe_fold_in(words: Any, data: Any) -> Any:
    drawn = _rbg_bits(_rbg_seed(data), 32, (_APART, 4))
    return lax.bitwise_xor(words, lax.index_in_dim(drawn, _APART - 1, 0, keepdims=False))


unsafe_rbg_prng_impl = register_impl(
    PRNGImpl((4,), _rbg_seed, _unsafe_split, _rbg_bits, _unsafe_fold_in, "unsafe_rbg", "urbg"), dtypes.key_type("urbg"))
