"""Dtypes of PRNG keys: `key<fry>`, one element of which is the uint32 data of one key.

A key dtype is a NumPy structured dtype with one field of uint32 data. Primitives that move elements therefore move keys
without further code, and arithmetic rejects them. Programs for devices store the data along an additional last axis;
`lower_keys` converts programs to that form.
"""
from __future__ import annotations


import numpy as np

from ..typing import Value

__all__ = ["KEY_TYPES", "extended", "is_key", "key_size", "key_tag", "key_type", "new_key_type", "prng_key",
           "read_on_host"]

_U32 = np.dtype("uint32")


class extended(np.generic):
    """The abstract type of dtypes that NumPy does not have."""


class prng_key(np.void, extended):  # type: ignore[misc]  # flexible is final only in NumPy's stubs
    """The scalar type of key dtypes: `keys.dtype.type` and `issubdtype(keys.dtype, prng_key)`."""

    def __new__(cls) -> prng_key:
        raise TypeError("prng_key: the scalar type of keys has no instances of its own; random.key makes keys")


def _key_dtype(tag: str, size: int) -> np.dtype:
    return np.dtype((prng_key, [(f"key<{tag}>", _U32, (size,))]))


KEY_TYPES = {tag: _key_dtype(tag, size) for tag, size in (("fry", 2), ("rbg", 4), ("urbg", 4))}
_KEYS = set(KEY_TYPES.values())


def new_key_type(tag: str, size: int) -> np.dtype:
    """Make a new key dtype: `key<tag>`, or `key<tag.2>`, `key<tag.3>` and so on if the tag is in use."""
    name, n = tag, 2
    while (found := KEY_TYPES.setdefault(name, made := _key_dtype(name, size))) is not made:
        name, n = f"{tag}.{n}", n + 1
    _KEYS.add(found)
    return found


def key_type(tag: str) -> np.dtype:
    """Return the key dtype of a generator, by its tag; KeyError if absent.

    >>> is_key(key_type("fry")), key_size(key_type("fry"))
    (True, 2)
    """
    return KEY_TYPES[tag]


def is_key(d: np.dtype) -> bool:
    """Whether a dtype is a key dtype."""
    return d.names is not None and d in _KEYS


def read_on_host(x: Value) -> np.ndarray:
    """Return a value as a NumPy array; also key arrays on devices, which `np.asarray` does not convert."""
    data = getattr(x, "key_data", None)
    if data is None:
        return np.asarray(x)
    return np.ascontiguousarray(data).view(x.dtype).reshape(x.shape)


def key_tag(d: np.dtype) -> str:
    """Return the tag of a key dtype: `fry` for `key<fry>`."""
    assert d.names is not None
    return d.names[0][4:-1]


def key_size(d: np.dtype) -> int:
    """Return the number of uint32 values in a key of this dtype."""
    return d.itemsize // 4
