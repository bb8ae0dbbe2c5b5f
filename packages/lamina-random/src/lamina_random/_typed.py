"""Typed keys, `key<fry>[...]`, beside keys that are plain words, uint32[..., 2]: every function takes both.

What is done with a key is done with its words, and what gives keys gives typed ones for typed ones. An op says what the words
are for, so that programs show which keys are used up.
"""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import ShapeError, config, dtypes, prims
from lamina_tracing.extend import bind, typeof, warn_user

__all__ = ["TAGS", "is_typed", "opened", "words_for", "wrapped"]

TAGS = {"threefry2x32": "fry"}  # name of a generator -> how its keys' dtype is written


def is_typed(key: Any) -> bool:
    """Whether `key` holds typed keys."""
    found = getattr(key, "dtype", None)
    return isinstance(found, np.dtype) and dtypes.is_key(found)


def words_for(use: str, keys: Any) -> Any:
    """The words of typed keys, to be used as said."""
    return bind(prims.random_unwrap_p, keys, use=use)


def wrapped(words: Any, like: Any) -> Any:
    """New keys: words, typed if the keys `like` which they were made are."""
    return bind(prims.random_wrap_p, words, impl=dtypes.tag_of(like.dtype)) if is_typed(like) else words


def opened(call: str, key: Any, use: str = "bits") -> Any:
    """The words of one key, given as words or typed."""
    if not is_typed(key):
        if config.legacy_prng_key.value != "allow":
            _tell_legacy(call)
        return key
    if (aval := typeof(key)).shape:
        raise ShapeError(f"{call}: expected one key; got {aval.long()}; use vmap for several keys")
    return words_for(use, key)


def _tell_legacy(call: str) -> None:
    text = f"{call}: the key is an array of uint32 words; random.key(seed) makes a typed one, random.wrap_key_data(words) " \
           f"one of words. This is told because config legacy_prng_key is {config.legacy_prng_key.value!r}"
    if config.legacy_prng_key.value == "error":
        raise ValueError(text)
    warn_user(text)
