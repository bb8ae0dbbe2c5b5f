"""Packing booleans into bytes."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import dtypes
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import as_int, check_axis, typeof

from .._core.promotion import aval, cast, literal
from .._core.public_api import public_api
from .._core.select import truth
from .layout import moveaxis, ravel, reshape

__all__ = ["packbits", "unpackbits"]

_U8 = np.dtype("uint8")


def _get_shifts(call: str, bitorder: str) -> Any:
    """How far each of eight bits is shifted; counted, not read: a table has the compiler make each byte by itself."""
    if bitorder not in ("big", "little"):
        raise ValueError(f"{call}: bitorder must be 'big' or 'little'; got {bitorder!r}")
    places = lax.iota(_U8, 8)
    return lax.sub(literal(7, _U8), places) if bitorder == "big" else places


@public_api("axis", "bitorder")
def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = "big") -> Array:
    """Eight truth values to a byte.

    Args:
      a: boolean or integer array `[..., n, ...]`; what is not zero is true.
      axis: the axis of length `n`; None flattens `a` first.
      bitorder: "big" puts the first of eight into the highest bit, "little" into the lowest.
    Returns:
      uint8 array `[..., ceil(n / 8), ...]`; the last byte is filled up with zeros.
    Raises:
      TypeError: `a` holds floats or complex numbers, or is neither an array nor a number.
      ShapeError: `axis` is outside `[-a.ndim, a.ndim)`.
      ValueError: another `bitorder`.

    Source: meaning of `numpy.packbits`.

    >>> packbits(np.array([1, 0, 1]))
    Array([160], dtype=uint8)
    """
    d = aval("packbits", a).dtype
    if dtypes.is_inexact(d):
        raise TypeError(f"packbits: expected integers or booleans; got {typeof(a).str_long()}")
    a = cast(truth("packbits", a), _U8)
    if axis is None:
        a, axis = ravel(a), 0
    at = check_axis("packbits", axis, len(typeof(a).shape))
    a = moveaxis(a, at, -1)
    *lead, n = typeof(a).shape
    config = ((0, 0, 0),) * len(lead) + ((0, -n % 8, 0),)
    a = reshape(lax.pad(a, literal(0, _U8), config), (*lead, -(-n // 8), 8))
    shifts = lax.broadcast_in_dim(_get_shifts("packbits", bitorder), typeof(a).shape, (len(lead) + 1,))
    out = lax.reduce_sum(lax.shift_left(a, shifts), (len(lead) + 1,))
    return moveaxis(out, -1, at)


@public_api("axis", "count", "bitorder")
def unpackbits(a: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Array:
    """Each byte as eight bits.

    Args:
      a: uint8 array `[..., n, ...]`.
      axis: the axis of length `n`; None flattens `a` first.
      count: how many bits of the `8 n` to keep; more are filled up with zeros, negative ones leave as many off the
        end. None keeps all.
      bitorder: "big" takes the highest bit of a byte first, "little" the lowest.
    Returns:
      uint8 array of zeros and ones, with `8 n` or `count` of them along the axis.
    Raises:
      TypeError: `a` is no uint8 array.
      ShapeError: `axis` is outside `[-a.ndim, a.ndim)`.
      ValueError: another `bitorder`, or `count` below `-8 n`.

    Source: meaning of `numpy.unpackbits`.

    >>> unpackbits(np.array([5], np.uint8))
    Array([0, 0, 0, 0, 0, 1, 0, 1], dtype=uint8)
    """
    if aval("unpackbits", a).dtype != _U8:
        raise TypeError(f"unpackbits: expected uint8; got {typeof(a).str_long()}")
    if axis is None:
        a, axis = ravel(a), 0
    at = check_axis("unpackbits", axis, len(typeof(a).shape))
    a = moveaxis(a, at, -1)
    *lead, n = typeof(a).shape
    wide = lax.broadcast_in_dim(a, (*lead, n, 8), tuple(range(len(lead) + 1)))
    shifts = lax.broadcast_in_dim(_get_shifts("unpackbits", bitorder), (*lead, n, 8), (len(lead) + 1,))
    bits = lax.bitwise_and(lax.shift_right_logical(wide, shifts), literal(1, _U8))
    bits = reshape(bits, (*lead, 8 * n))
    if count is not None:
        count = as_int("unpackbits", "count", count)
        stop = 8 * n + count if count < 0 else count
        if stop < 0:
            raise ValueError(f"unpackbits: count {count} removes more than all {8 * n} bits")
        short = max(0, stop - 8 * n)
        config = ((0, 0, 0),) * len(lead) + ((0, short, 0),)
        bits = lax.pad(bits, literal(0, _U8), config)
        bits = lax.slice(bits, (0,) * (len(lead) + 1), (*lead, stop))
    return moveaxis(bits, -1, at)
