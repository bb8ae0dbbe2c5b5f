"""Typed keys, `key<fry>[...]`, beside keys that are plain words, uint32[..., 2]: every function takes both.

What is done with a key is done with its words, and what gives keys gives typed ones for typed ones. An op says what the words
are for, so that programs show which keys are used up.
"""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import ShapeError, config, dtypes, prims
from lamina_tracing.extend import bind, typeof, warn_user

from ._args import refuse_key
from ._prng_impl import THREEFRY, default_name, found, is_typed, key_of, words_for

__all__ = ["is_typed", "opened", "settled", "tell_legacy", "words_for", "wrapped"]

_U32 = np.dtype("uint32")


def wrapped(made: Any, like: Any) -> Any:
    """New keys as cores give them, typed if the keys `like` which they were made are."""
    if is_typed(like):
        return made if is_typed(made) else bind(prims.random_wrap_p, made, impl=dtypes.key_tag(like.dtype))
    return words_for("data", made) if is_typed(made) else made


def opened(call: str, key: Any, use: str = "bits") -> Any:
    """One key, given as words or typed, as cores take it: two words for Threefry, else typed."""
    if not is_typed(key):
        if config.legacy_prng_key.value != "allow":
            tell_legacy(call)
        if default_name() != THREEFRY:
            return key_of(f"{call} (with config default_prng_impl {default_name()!r})", key, found(call, None), ())
        if getattr(key, "shape", None) != (2,) or key.dtype != _U32:
            refuse_key(call, key)
        return key
    if (aval := typeof(key)).shape:
        raise ShapeError(f"{call}: expected one key; got {aval.str_long()}; use vmap for several keys")
    words = bind(prims.random_unwrap_p, key, use=use)
    return words if (tag := dtypes.key_tag(aval.dtype)) == "fry" else bind(prims.random_wrap_p, words, impl=tag)


def settled() -> bool:
    """Whether a key that was opened may be opened again, as a key of the user's."""
    return config.legacy_prng_key.value == "allow" and default_name() == THREEFRY


def tell_legacy(call: str) -> None:
    """Say that a key is plain words, as `config.legacy_prng_key` asks."""
    text = f"{call}: the key is an array of uint32 words; random.key(seed) makes a typed one, random.wrap_key_data(words) " \
           f"one of words. This is told because config legacy_prng_key is {config.legacy_prng_key.value!r}"
    if config.legacy_prng_key.value == "error":
        raise ValueError(text)
    warn_user(text)
