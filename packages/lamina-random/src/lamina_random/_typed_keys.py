"""Typed keys, `key<fry>[...]`, and keys that are plain uint32[..., 2] data: every function accepts both.

Functions compute with the uint32 data of a key; functions that return keys return typed keys for typed keys. The parameter
`use` of the unwrap primitive states the purpose of the data, so that programs show which keys are consumed.
"""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import ShapeError, config, dtypes, prims
from lamina_tracing.extend import bind, typeof, warn_user

from ._args import refuse_key
from ._prng_impl import THREEFRY, find_impl, get_default_name, is_typed, unwrap_words, wrap_words

__all__ = ["can_unwrap_again", "is_typed", "report_legacy_key", "unwrap_key", "unwrap_words", "wrap_like"]

_U32 = np.dtype("uint32")


def wrap_like(made: Any, like: Any) -> Any:
    """New keys as cores give them, typed if the keys `like` which they were made are."""
    if is_typed(like):
        return made if is_typed(made) else bind(prims.random_wrap_p, made, impl=dtypes.key_tag(like.dtype))
    return unwrap_words("data", made) if is_typed(made) else made


def unwrap_key(call: str, key: Any, use: str = "bits") -> Any:
    """One key, given as words or typed, as cores take it: two words for Threefry, else typed."""
    if not is_typed(key):
        if config.legacy_prng_key.value != "allow":
            report_legacy_key(call)
        if get_default_name() != THREEFRY:
            name = f"{call} (with config default_prng_impl {get_default_name()!r})"
            return wrap_words(name, key, find_impl(call, None), ())
        if getattr(key, "shape", None) != (2,) or key.dtype != _U32:
            refuse_key(call, key)
        return key
    if (aval := typeof(key)).shape:
        raise ShapeError(f"{call}: expected one key; got {aval.str_long()}; use vmap for several keys")
    words = bind(prims.random_unwrap_p, key, use=use)
    return words if (tag := dtypes.key_tag(aval.dtype)) == "fry" else bind(prims.random_wrap_p, words, impl=tag)


def can_unwrap_again() -> bool:
    """Whether a key that was opened may be opened again, as a key of the user's."""
    return config.legacy_prng_key.value == "allow" and get_default_name() == THREEFRY


def report_legacy_key(call: str) -> None:
    """Warn, or raise ValueError, for a key that is plain data, as `config.legacy_prng_key` sets."""
    text = f"{call}: the key is an array of uint32 words; random.key(seed) makes a typed one, random.wrap_key_data(words) " \
           f"converts it. This is reported because config legacy_prng_key is {config.legacy_prng_key.value!r}"
    if config.legacy_prng_key.value == "error":
        raise ValueError(text)
    warn_user(text)
