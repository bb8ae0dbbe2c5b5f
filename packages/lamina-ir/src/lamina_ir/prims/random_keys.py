"""Conversions between typed keys, `key<fry>[...]`, and their data, `uint32[..., 2]`.

All computations with a key use its uint32 data, so two primitives suffice: `random_wrap` makes keys from data, and
`random_unwrap` returns the data of keys. The param `use` of the latter states the purpose, for the key-reuse check.
"""
from __future__ import annotations


import numpy as np

from .._types import dtypes
from .._types.avals import ShapedArray, shaped
from ..errors import DTypeError, ShapeError
from .._core.primitive import Primitive
from ..typing import Value

__all__ = ["random_unwrap_p", "random_wrap_p"]

_U32 = np.dtype("uint32")


def _wrap_infer(data: ShapedArray, *, impl: str) -> ShapedArray:
    if impl not in dtypes.KEY_TYPES:
        raise DTypeError(f"random_wrap: impl must be one of {', '.join(dtypes.KEY_TYPES)}; got {impl!r}")
    kind = dtypes.key_type(impl)
    n = dtypes.key_size(kind)
    if data.dtype != _U32 or data.shape[-1:] != (n,):
        raise ShapeError(f"random_wrap: the data of a key<{impl}> must be uint32[..., {n}]; got {data.str_long()}")
    return shaped(data.shape[:-1], kind)


def _unwrap_infer(keys: ShapedArray, *, use: str) -> ShapedArray:
    if not dtypes.is_key(keys.dtype):
        raise DTypeError(f"random_unwrap: expected keys; got {keys.str_long()}; random.key(seed) makes one")
    return shaped((*keys.shape, dtypes.key_size(keys.dtype)), _U32)


def _wrap(data: Value, *, impl: str) -> np.ndarray:
    return np.ascontiguousarray(data).view(dtypes.key_type(impl)).reshape(data.shape[:-1])


def _unwrap(keys: Value, *, use: str) -> np.ndarray:
    return np.array(keys[keys.dtype.names[0]])


random_wrap_p = Primitive("random_wrap", params=("impl",), infer=_wrap_infer, numpy=_wrap, family="random_keys",
                          spec="keys of uint32 data")
random_unwrap_p = Primitive("random_unwrap", params=("use",), infer=_unwrap_infer, numpy=_unwrap, family="random_keys",
                            spec="uint32 data of keys")
