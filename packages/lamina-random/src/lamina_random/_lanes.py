"""Draws in which each element has a key of its own: what `split` and scalar draws give for every key of an array of keys.

`vmap` would say the same; written out, one threefry op serves all elements, and this room needs no batching. Keys of other
generators, which are typed, draw one after the other.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from lamina_tracing import lax
from lamina_tracing.extend import typeof

from ._bits import draw_bits, word_of
from ._impls import is_typed
from ._keys import split_core
from ._normal import normal_of, unit_of, unit_width

__all__ = ["Keys", "lane_keys", "lane_normal", "lane_split", "lane_unit", "where_keys"]

Keys = Any  # first and second words, a pair of uint32 of the shape drawn; or typed keys of this shape


def _one_by_one(draw: Callable[[Any], Any], keys: Any) -> Any:
    """`draw` of each key; its results have more axes behind those of the keys."""
    shape = typeof(keys).shape
    if not shape:
        return draw(keys)
    made = lax.map(draw, lax.reshape(keys, (typeof(keys).size,)))
    return lax.reshape(made, (*shape, *typeof(made).shape[1:]))


def lane_keys(key: Any, shape: tuple[int, ...], part: bool) -> Keys:
    """A key for each element: `split(key, shape)`."""
    keys = split_core(key, shape, part)
    if is_typed(keys):
        return keys
    first, second = (lax.index_in_dim(keys, i, len(shape), keepdims=False) for i in (0, 1))
    return first, second


def lane_split(keys: Keys, count: int, part: bool) -> list[Keys]:
    """`split(key, count)` of each key."""
    if is_typed(keys):
        made, at = _one_by_one(lambda key: split_core(key, (count,), part), keys), len(typeof(keys).shape)
        return [lax.index_in_dim(made, j, at, keepdims=False) for j in range(count)]
    # One turn per counter: written out, the compiler would scramble again for each reader of each word.
    low = np.arange(count, dtype=np.uint32)
    # The classic stream pairs the counters j and j + count and lists first words before second words.
    counters = (np.zeros(count, np.uint32), low) if part else (low, low + np.uint32(count))
    _, both = lax.scan(lambda _, pair: ((), lax.threefry2x32(*keys, *pair)), (), counters)
    words = [[lax.index_in_dim(y, j, 0, keepdims=False) for j in range(count)] for y in both]
    if part:
        return list(zip(*words))
    flat = words[0] + words[1]
    return list(zip(flat[::2], flat[1::2]))


def lane_unit(keys: Keys, dtype: np.dtype, part: bool) -> Any:
    """A number in [0, 1) for each key."""
    width = unit_width(dtype)
    if is_typed(keys):
        return unit_of(_one_by_one(lambda key: draw_bits("gamma", key, width, (), part), keys), dtype)
    return unit_of(word_of(keys, width, part), dtype)


def lane_normal(keys: Keys, dtype: np.dtype, part: bool) -> Any:
    """A normal number for each key."""
    return normal_of(lane_unit(keys, dtype, part), dtype)


def where_keys(which: Any, yes: Keys, no: Keys) -> Keys:
    """Keys chosen element by element."""
    if is_typed(yes):
        return lax.select(which, yes, no)
    return lax.select(which, yes[0], no[0]), lax.select(which, yes[1], no[1])
