"""Keys: two uint32 words that stand for a stream of random numbers, plain or typed."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import DTypeError, ShapeError, config, dtypes, prims, shaped
from lamina_tracing import Array, ArrayLike, jit, lax, ShapeLike, hooks
from lamina_tracing.extend import bind, rename_errors, typeof

from ._args import as_shape
from ._bits import draw_words, draw_words_per_element
from ._named_axes import fold_in_array
from ._prng_impl import (THREEFRY, PRNGImpl, find_impl, get_impl, get_impl_name, get_tag, is_typed, make_typed_key,
                         split_typed_key, unwrap_words, wrap_words)
from ._typed_keys import report_legacy_key, unwrap_key, wrap_like

__all__ = ["PRNGKey", "clone", "fold_in", "key", "key_data", "key_dtype", "key_impl", "seed_to_words", "split", "split_core",
           "split_keys", "wrap_key_data"]

_U32 = np.dtype("uint32")
_KEY = shaped((2,), _U32)


@rename_errors
def PRNGKey(seed: ArrayLike, *, impl: Any = None) -> Array:
    """A key from a number, as plain words; `key` makes a typed one, and so does this under `config.enable_custom_prng`.

    Args:
      seed: an integer, or a rank-0 integer array. The lowest 64 bits count in 64-bit mode, else the lowest 32.
      impl: the generator: "threefry2x32", "rbg", "unsafe_rbg", or one that was defined, by name or itself; default:
        `config.default_prng_impl`.
    Returns:
      Key, uint32[2]: the seed's high and low word.
    Raises:
      DTypeError: `seed` is not an integer.
      OverflowError: `seed` does not fit in 64 bits.
      ShapeError: `seed` is an array of rank 1 or more; `vmap` makes several keys.
      ValueError: no generator is called `impl`.

    Source: the classic seeding of Threefry-2x32 streams; the words are the seed itself.

    >>> PRNGKey(42)
    Array([ 0, 42], dtype=uint32)
    """
    own = find_impl("PRNGKey", impl)
    made = _make_key("PRNGKey", seed, own)
    if not config.enable_custom_prng.value:
        return unwrap_words("data", made) if is_typed(made) else made
    return made if is_typed(made) else bind(prims.random_wrap_p, made, impl=get_tag(own))


def _make_key(call: str, seed: Any, impl: PRNGImpl) -> Any:
    """A key from a number: two words for Threefry, else typed."""
    ours = impl.name == THREEFRY and get_tag(impl) == "fry"
    if isinstance(seed, (bool, int, np.integer, np.bool_)):
        number = int(seed)
        if isinstance(seed, np.integer) and seed.dtype.itemsize <= 4:
            number %= 2 ** 32  # has no high word
        if not -2 ** 63 <= number < 2 ** 64:
            raise OverflowError(f"{call}: the seed must fit in 64 bits; got {number}")
        number += config.random_seed_offset.value
        if not ours:
            return make_typed_key(impl, _as_array(number))
        high = (number >> 32) & 0xFFFFFFFF if config.enable_x64.value else 0
        return hooks.evaluator.array(np.array([high, number & 0xFFFFFFFF], _U32), _KEY)
    aval = typeof(seed)
    if not (dtypes.is_integer(aval.dtype) or dtypes.is_bool(aval.dtype)):
        made = "; this is a key already: random.split or random.fold_in make new ones of it" if is_typed(seed) else ""
        raise DTypeError(f"{call}: the seed must be an integer; got {aval.str_long()}{made}")
    if aval.shape:
        raise ShapeError(f"{call}: the seed must be rank 0; got {aval.str_long()}; use vmap for several seeds")
    offset = config.random_seed_offset.value
    if offset:
        wide = "uint64" if aval.dtype.itemsize == 8 else "uint32"
        seed = lax.add(lax.convert_element_type(seed, wide), np.array(offset % 2 ** 64).astype(wide))
    return seed_to_words(seed) if ours else make_typed_key(impl, seed)


def _as_array(number: int) -> np.ndarray:
    """A seed's lowest bits, as many as an integer has here."""
    width = 64 if config.enable_x64.value else 32
    kept = number & (1 << width) - 1
    return np.array(kept, f"uint{width}").view(f"int{width}")


def _key_of_core(seed: Any) -> Any:
    dtype = typeof(seed).dtype
    high: Any
    if dtype.itemsize == 8:
        high = lax.shift_right_logical(seed, lax.full((), 32, dtype))
    else:
        high = np.uint32(0)
    words = [lax.reshape(lax.convert_element_type(w, _U32), (1,)) for w in (high, seed)]
    return lax.concatenate(words, 0)


seed_to_words = jit(_key_of_core, inline=True)


@rename_errors
def key(seed: ArrayLike, *, impl: Any = None) -> Array:
    """A typed key from a number: one element of dtype `key<fry>`.

    Typed keys are indexed, stacked, mapped and passed on as elements of arrays; arithmetic with them is a DTypeError, so no
    number is taken for a key nor a key for a number. They give the same random numbers as `PRNGKey` of the same seed.

    Args:
      seed: an integer, or a rank-0 integer array.
      impl: the generator: "threefry2x32", "rbg", "unsafe_rbg", or one that was defined, by name or itself; default:
        `config.default_prng_impl`.
    Returns:
      Key, rank 0, of dtype `key<fry>`.
    Raises:
      DTypeError: `seed` is not an integer.
      OverflowError: `seed` does not fit in 64 bits.
      ShapeError: `seed` is an array of rank 1 or more; `vmap` makes several keys.
      ValueError: no generator is called `impl`.

    Source: `PRNGKey`.

    >>> key_data(key(42))
    Array([ 0, 42], dtype=uint32)
    >>> key(42).shape
    ()
    """
    own = find_impl("key", impl)
    made = _make_key("key", seed, own)
    return made if is_typed(made) else bind(prims.random_wrap_p, made, impl=get_tag(own))


@rename_errors
def key_data(keys: ArrayLike) -> Array:
    """Return the uint32 data of keys.

    Args:
      keys: typed keys; or words, uint32[..., 2], which are given back.
    Returns:
      uint32[..., 2].
    Raises:
      ShapeError: `keys` are neither.

    Source: typed keys hold these words.

    >>> key_data(key(42))
    Array([ 0, 42], dtype=uint32)
    """
    if is_typed(keys):
        return unwrap_words("data", keys)
    _check_keys("key_data", keys)
    if config.legacy_prng_key.value != "allow":
        report_legacy_key("key_data")
    return keys  # type: ignore[return-value]  # as they came


@rename_errors
def wrap_key_data(key_bits_array: Any, *, impl: Any = None) -> Array:
    """Typed keys from their words.

    Args:
      key_bits_array: uint32[..., 2].
      impl: the generator: "threefry2x32", "rbg", "unsafe_rbg", or one that was defined, by name or itself; default:
        `config.default_prng_impl`.
    Returns:
      Keys of the array's shape without its last axis.
    Raises:
      ShapeError: the array is not uint32[..., 2].
      ValueError: no generator is called `impl`.

    Source: typed keys hold these words.

    >>> wrap_key_data(np.array([[0, 42], [0, 43]], np.uint32)).shape
    (2,)
    """
    own = find_impl("wrap_key_data", impl)
    if is_typed(key_bits_array):
        raise DTypeError(f"wrap_key_data: expected words, uint32[..., 2]; got {typeof(key_bits_array).str_long()}, "
                         "which are keys already")
    return wrap_words("wrap_key_data", key_bits_array, own)


def _check_keys(call: str, keys: Any) -> None:
    aval, impl = typeof(keys), find_impl(call, None)
    if aval.dtype != _U32 or aval.shape[-len(impl.key_shape):] != impl.key_shape:
        raise ShapeError(f"{call}: expected keys, or their words, uint32[..., {', '.join(map(str, impl.key_shape))}]; "
                         f"got {aval.str_long()}; make them with random.key(seed)")


@rename_errors
def clone(key: ArrayLike) -> Array:
    """The same key, to say that it is used again on purpose: with `config.debug_key_reuse` it counts as another one.

    Args:
      key: typed keys, or words, uint32[..., 2].
    Returns:
      `key`.
    Raises:
      ShapeError: `key` is neither.

    Source: a name that programs use where key reuse is checked.

    >>> clone(PRNGKey(42))
    Array([ 0, 42], dtype=uint32)
    """
    if is_typed(key):
        return bind(prims.random_wrap_p, bind(prims.random_unwrap_p, key, use="clone"), impl=dtypes.key_tag(typeof(key).dtype))
    _check_keys("clone", key)
    return key  # type: ignore[return-value]  # as it came


@rename_errors
def key_impl(keys: ArrayLike) -> Any:
    """The generator keys are for, as `impl=` takes it: its name, as "threefry2x32", or where that is another's too, itself.

    Args:
      keys: typed keys, or words, uint32[..., 2].
    Returns:
      The name, a string; of generators without a name of their own, the `PRNGImpl`.
    Raises:
      ShapeError: `keys` are neither.

    Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).

    >>> key_impl(key(42))
    'threefry2x32'
    """
    if is_typed(keys):
        return get_impl_name(get_impl(keys))
    _check_keys("key_impl", keys)
    if config.legacy_prng_key.value != "allow":
        report_legacy_key("key_impl")
    return get_impl_name(find_impl("key_impl", None))


def key_dtype(impl_spec: Any = None) -> np.dtype:
    """The element type of the keys of a generator.

    Args:
      impl_spec: the generator, or its name; None for `config.default_prng_impl`.
    Returns:
      The dtype of what `key` returns.
    Raises:
      ValueError: no generator has that name.

    Source: the dtype that `key` gives its result.

    >>> key_dtype() == key(0).dtype
    True
    """
    return dtypes.key_type(get_tag(find_impl("key_dtype", impl_spec)))


def split(key: ArrayLike, num: ShapeLike = 2) -> Array:
    """New, independent keys from one, which should not be used again.

    Args:
      key: one key, typed or uint32[2].
      num: how many, or a shape of how many.
    Returns:
      Keys `[num]`, or `[*num]` for a shape, so that `a, b = split(key)` works: typed if `key` is, else words `[..., 2]`.
    Raises:
      ShapeError: `key` is not one key, or `num` is negative.

    Source: the first `2 num` uint32 numbers of the key's stream.

    >>> split(PRNGKey(42))
    Array([[2465931498, 3679230171],
           [ 255383827,  267815257]], dtype=uint32)
    """
    sizes, part = as_shape("split", num, "num"), config.threefry_partitionable.value
    return wrap_like(_split(unwrap_key("split", key, "split"), sizes, part), key)


def split_core(key: Any, shape: tuple[int, ...], partitionable: bool) -> Any:
    if is_typed(key):
        return split_typed_key(key, shape)
    if partitionable:
        words = [lax.expand_dims(y, (len(shape),)) for y in draw_words_per_element("split", key, shape)]
        return lax.concatenate(words, len(shape))
    count = 2 * int(np.prod(shape, dtype=int))
    if not count:
        return lax.full((*shape, 2), 0, _U32)
    return lax.reshape(draw_words("split", key, count), (*shape, 2))


def split_keys(key: Any, count: int, part: bool) -> list[Any]:
    """`count` independent keys."""
    keys = split_core(key, (count,), part)
    return [lax.index_in_dim(keys, i, 0, keepdims=False) for i in range(count)]


_split = jit(rename_errors(split_core, "split"), static_argnums=(1, 2), inline=True)


def fold_in(key: ArrayLike, data: ArrayLike) -> Array:
    """A new key from a key and a number, as a step counter; equal inputs give equal keys.

    Args:
      key: one key, typed or uint32[2].
      data: an integer or a rank-0 integer array; its lowest 32 bits count. Of a float its whole part is taken.
    Returns:
      Key, typed if `key` is.
    Raises:
      ShapeError: `key` is not one key, or `data` no rank-0 integer; `vmap` folds in several.
      ValueError: `data` is NaN.
      OverflowError: `data` is infinite.

    Source: Threefry-2x32 of the counter (0, data).

    >>> fold_in(PRNGKey(42), 7)
    Array([2547012911, 1371500959], dtype=uint32)
    """
    if isinstance(data, (int, float, np.floating, np.bool_)):
        data = np.uint32(_truncate(data) & 0xFFFFFFFF)
    return wrap_like(fold_in_array(unwrap_key("fold_in", key, "fold_in"), data), key)


def _truncate(data: Any) -> int:
    try:
        return int(data)
    except (ValueError, OverflowError) as error:
        raise type(error)(f"fold_in: data must be a finite number; got {data!r}") from None
