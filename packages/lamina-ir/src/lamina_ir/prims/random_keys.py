"""Typed keys and their words: what stands between `key<fry>[...]` and `uint32[..., 2]`.

Everything done with a key is done with its words, so two ops suffice: `random_wrap` makes keys of words, `random_unwrap` words
of keys, and says what they are for.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes
from ..avals import ShapedArray, shaped
from ..errors import DTypeError, ShapeError
from ..primitive import Primitive

__all__ = ["random_unwrap_p", "random_wrap_p"]

_U32 = np.dtype("uint32")


def _wrap_infer(words: ShapedArray, *, impl: str) -> ShapedArray:
    if impl not in dtypes.KEY_TYPES:
        raise DTypeError(f"random_wrap: no generator is called {impl!r}; expected one of {', '.join(dtypes.KEY_TYPES)}")
    kind = dtypes.key_type(impl)
    n = dtypes.words_of(kind)
    if words.dtype != _U32 or words.shape[-1:] != (n,):
        raise ShapeError(f"random_wrap: the words of a key<{impl}> are uint32[..., {n}]; got {words.long()}")
    return shaped(words.shape[:-1], kind)


def _unwrap_infer(keys: ShapedArray, *, use: str) -> ShapedArray:
    if not dtypes.is_key(keys.dtype):
        raise DTypeError(f"random_unwrap: expected keys; got {keys.long()}; random.key(seed) makes one")
    return shaped((*keys.shape, dtypes.words_of(keys.dtype)), _U32)


def _wrap(words: Any, *, impl: str) -> np.ndarray:
    return np.ascontiguousarray(words).view(dtypes.key_type(impl)).reshape(words.shape[:-1])


def _unwrap(keys: Any, *, use: str) -> np.ndarray:
    return np.array(keys[keys.dtype.names[0]])


random_wrap_p = Primitive("random_wrap", params=("impl",), infer=_wrap_infer, numpy=_wrap, family="random_keys",
                          spec="keys of words")
random_unwrap_p = Primitive("random_unwrap", params=("use",), infer=_unwrap_infer, numpy=_unwrap, family="random_keys",
                            spec="words of keys")
