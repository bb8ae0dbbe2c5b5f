"""Element types of keys for random numbers: `key<fry>`, whose elements are the words of one key.

A key type is a NumPy dtype with one field of uint32 words, so that ops that move elements move keys, with the meanings they
have, and ops that compute refuse them: a key is no number. Programs for devices hold the words along one more, last axis
instead; `physical` makes them so.
"""
from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["KEY_TYPES", "extended", "host_value", "is_key", "key_type", "made_key_type", "prng_key", "tag_of", "words_of"]

_U32 = np.dtype("uint32")


class extended(np.generic):
    """The kind of element types that NumPy does not have."""


class prng_key(extended):
    """The kind of element types of keys: `issubdtype(keys.dtype, prng_key)`."""


def _made(tag: str, words: int) -> np.dtype:
    return np.dtype([(f"key<{tag}>", _U32, (words,))])


KEY_TYPES = {tag: _made(tag, words) for tag, words in (("fry", 2), ("rbg", 4), ("urbg", 4))}
_KEYS = set(KEY_TYPES.values())


def made_key_type(tag: str, words: int) -> np.dtype:
    """A new element type: `key<tag>`, or where there is one of this tag `key<tag.2>`, `key<tag.3>` and so on."""
    name, n = tag, 2
    while (found := KEY_TYPES.setdefault(name, made := _made(name, words))) is not made:
        name, n = f"{tag}.{n}", n + 1
    _KEYS.add(found)
    return found


def key_type(tag: str) -> np.dtype:
    """The element type of keys of a generator; KeyError when there is none of this tag.

    >>> is_key(key_type("fry")), words_of(key_type("fry"))
    (True, 2)
    """
    return KEY_TYPES[tag]


def is_key(d: np.dtype) -> bool:
    return d.names is not None and d in _KEYS


def host_value(x: Any) -> np.ndarray:
    """A NumPy array of a value, also of keys on devices, which give none when they are asked for it."""
    words = getattr(x, "words", None)
    if words is None:
        return np.asarray(x)
    return np.ascontiguousarray(words).view(x.dtype).reshape(x.shape)


def tag_of(d: np.dtype) -> str:
    """`fry` of `key<fry>`."""
    assert d.names is not None
    return d.names[0][4:-1]


def words_of(d: np.dtype) -> int:
    """How many uint32 words a key of this type has."""
    return d.itemsize // 4
