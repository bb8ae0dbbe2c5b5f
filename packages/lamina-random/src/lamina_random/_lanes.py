"""Draws in which each element has a key of its own: what `split` and scalar draws give for every key of an array of keys.

`vmap` would say the same; written out, one threefry op serves all elements, and this room needs no batching.
"""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_tracing import lax

from ._bits import word_of
from ._keys import split_core
from ._normal import normal_of, unit_of, unit_width

__all__ = ["Keys", "lane_keys", "lane_normal", "lane_split", "lane_unit", "where_keys"]

Keys = tuple[Any, Any]  # first and second words, each uint32 of the shape drawn


def lane_keys(key: Any, shape: tuple[int, ...], part: bool) -> Keys:
    """A key for each element: `split(key, shape)`."""
    keys = split_core(key, shape, part)
    first, second = (lax.index_in_dim(keys, i, len(shape), keepdims=False) for i in (0, 1))
    return first, second


def lane_split(keys: Keys, count: int, part: bool) -> list[Keys]:
    """`split(key, count)` of each key."""
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
    return unit_of(word_of(keys, unit_width(dtype), part), dtype)


def lane_normal(keys: Keys, dtype: np.dtype, part: bool) -> Any:
    """A normal number for each key."""
    return normal_of(lane_unit(keys, dtype, part), dtype)


def where_keys(which: Any, yes: Keys, no: Keys) -> Keys:
    """Keys chosen element by element."""
    return lax.select(which, yes[0], no[0]), lax.select(which, yes[1], no[1])
