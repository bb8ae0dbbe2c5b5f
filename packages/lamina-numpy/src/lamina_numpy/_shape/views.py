"""The bytes of an array read as another element type."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import dtypes
from lamina_tracing import lax
from lamina_tracing.extend import typeof, resolve_requested_dtype

from .._core.promotion import convert, literal
from .._core.public_api import public_api
from .._core.axes import split_at
from .layout import reshape, squeeze
from .joining import stack

__all__ = ["view"]

_BYTE = np.dtype("uint8")


def _get_real_dtype(d: np.dtype) -> np.dtype:
    return np.dtype(f"float{d.itemsize * 4}")


def _recast(x: Any, dtype: np.dtype) -> Any:
    """Bit casts between real dtypes; the last axis holds as many elements as its bytes give."""
    a = typeof(x)
    if a.dtype == dtype:
        return x
    lead, last = a.shape[:-1], a.shape[-1] * a.dtype.itemsize // dtype.itemsize
    if a.dtype.itemsize < dtype.itemsize:
        x = reshape(x, (*lead, last, dtype.itemsize // a.dtype.itemsize))
    return reshape(lax.bitcast_convert_type(x, dtype), (*lead, last))


def _split_complex(x: Any) -> Any:
    """Real and imaginary parts in turn, along the last axis."""
    shape = typeof(x).shape
    return reshape(stack([lax.real(x), lax.imag(x)], -1), (*shape[:-1], shape[-1] * 2))


def _join_complex(x: Any) -> Any:
    """Return complex numbers from the result of `_split_complex`."""
    shape = typeof(x).shape
    pairs = reshape(x, (*shape[:-1], shape[-1] // 2, 2))
    return lax.complex(*(squeeze(part, -1) for part in split_at(pairs, [1], len(shape))))


@public_api("dtype", "type")
def view(self: Any, dtype: Any = None, type: None = None) -> Any:
    """The same bytes as another dtype; other widths change the length of the last axis.

    Raises:
      ValueError: the last axis does not hold a whole number of the new elements, or there is none.

    >>> view(np.float32([1, 2]), "int16").shape
    (4,)
    """
    if type is not None:
        raise NotImplementedError("view: type= is not supported; arrays have one class")
    a = typeof(self)
    to = a.dtype if dtype is None else resolve_requested_dtype(dtype)
    if to == a.dtype:
        return self
    if a.dtype.itemsize != to.itemsize and (not a.shape or a.shape[-1] * a.dtype.itemsize % to.itemsize):
        has = f"{a.shape[-1] * a.dtype.itemsize} bytes" if a.shape else "no axis, so only equal widths fit"
        raise ValueError(f"view: the last axis must hold a whole number of elements of {to.name}; got {a.str_long()}: {has}")
    # Complex numbers go by way of their two parts, booleans of bytes: bits are only recast between plain numbers.
    x = self if a.shape else reshape(self, (1,))
    if dtypes.is_complex(a.dtype):
        x = _split_complex(x)
    elif a.dtype == dtypes.BOOL:
        x = convert(x, _BYTE)
    if dtypes.is_complex(to):
        x = _join_complex(_recast(x, _get_real_dtype(to)))
    elif to == dtypes.BOOL:
        x = lax.ne(_recast(x, _BYTE), literal(0, _BYTE))
    else:
        x = _recast(x, to)
    return x if a.shape else reshape(x, ())
