"""Whole quotients and remainders, with the signs of Python's `//` and `%` or of C's `fmod`."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import DTypeError, dtypes
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import typeof

from .._core.promotion import convert, literal, pair
from .._core.public_api import public_api
from .._core.select import choose_by
from ._docstrings import PAIRWISE

__all__ = ["divmod", "floor_divide", "fmod", "mod", "remainder"]

_I32 = np.dtype("int32")


def _ordered_pair(call: str, x: Any, y: Any) -> tuple[Any, Any, np.dtype]:
    """`pair` on real numbers, and their dtype; truth values count as the int32 0 and 1."""
    x, y = pair(call, x, y)
    d = typeof(x).dtype
    if d == dtypes.BOOL:
        return convert(x, _I32), convert(y, _I32), _I32
    if dtypes.is_complex(d):
        raise DTypeError(f"{call}: complex numbers have no order; got {typeof(x).str_long()}")
    return x, y, d


def _nonzero(x: Any, d: np.dtype) -> Any:
    return lax.ne(x, literal(0, d))


def _python_rem(x: Any, y: Any, d: np.dtype) -> Any:
    r = lax.rem(x, y)
    zero = literal(0, d)
    differ = lax.ne(lax.lt(r, zero), lax.lt(y, zero))
    return lax.select(lax.bitwise_and(differ, lax.ne(r, zero)), lax.add(r, y), r)


def _zero_by_zero(r: Any, y: Any, d: np.dtype) -> Any:
    """The remainder `r`, and 0 where the divisor `y` is the integer 0, as NumPy has it."""
    if dtypes.is_inexact(d) or type(y) is int and y:
        return r
    return choose_by(_nonzero(y, d), r, literal(0, d))


@public_api(entries=PAIRWISE)
def floor_divide(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Quotient rounded down, to a whole number.

    Args: {x, y}
    Returns:
      Array of the shape `x` and `y` broadcast to, in the dtype they meet in, int32 for booleans. Floats
      divided by 0 are infinite, with the sign of the quotient, and NaN for 0 / 0; integers divided by 0 are what the
      backend gives.
    Raises: {ShapeError, TypeError, DTypeError}

    Derivative: zero.
    Source: meaning of `numpy.floor_divide`, but for integers divided by 0, which NumPy makes 0.

    >>> floor_divide(np.array([7, -7]), 2)
    Array([ 3, -4], dtype=int32)
    >>> floor_divide(-7.5, 2)
    Array(-4., dtype=float32, weak_type=True)
    """
    x, y, d = _ordered_pair("floor_divide", x, y)
    if dtypes.issubdtype(d, np.unsignedinteger):
        return lax.div(x, y)
    if dtypes.is_integer(d):
        q = lax.div(x, y)
        differ = lax.ne(lax.sign(x), lax.sign(y))
        off = lax.bitwise_and(differ, _nonzero(lax.rem(x, y), d))
        return lax.select(off, lax.sub(q, literal(1, d)), q)
    r, zero = lax.rem(x, y), literal(0, d)  # of C, below x in size: with Python's remainder -1 // inf would be inf / inf
    q = lax.div(lax.sub(x, r), y)
    off = lax.bitwise_and(lax.ne(r, zero), lax.ne(lax.lt(r, zero), lax.lt(y, zero)))
    q = lax.select(off, lax.sub(q, literal(1, d)), q)
    q = choose_by(lax.eq(y, zero), lax.div(x, y), q)  # infinite with the sign of the quotient; NaN for 0 / 0
    return lax.round(q, lax.RoundingMethod.TO_NEAREST_EVEN)


@public_api(entries=PAIRWISE)
def remainder(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Remainder with the sign of the divisor, as Python's `%`.

    Args: {x, y}
    Returns: {ints}
      `x - y * floor_divide(x, y)`; for `y` 0 it is NaN, of integers 0.
    Raises: {ShapeError, TypeError, DTypeError}

    Derivative: 1 for `x`, `-floor(x / y)` for `y`.
    Source: meaning of `numpy.remainder`.

    >>> remainder(np.array([7, -7]), 3)
    Array([1, 2], dtype=int32)
    """
    x, y, d = _ordered_pair("remainder", x, y)
    if dtypes.issubdtype(d, np.unsignedinteger):
        return _zero_by_zero(lax.rem(x, y), y, d)
    return _zero_by_zero(_python_rem(x, y, d), y, d)


mod = remainder


@public_api(entries=PAIRWISE)
def fmod(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Remainder with the sign of the dividend, as C's `fmod`.

    Args: {x, y}
    Returns: {ints}
      For `y` 0 it is NaN, of integers 0.
    Raises: {ShapeError, TypeError, DTypeError}

    Derivative: 1 for `x`, `-trunc(x / y)` for `y`.
    Source: meaning of `numpy.fmod`.

    >>> fmod(np.array([7, -7]), 3)
    Array([ 1, -1], dtype=int32)
    """
    x, y, d = _ordered_pair("fmod", x, y)
    return _zero_by_zero(lax.rem(x, y), y, d)


@public_api(entries=PAIRWISE)
def divmod(x: ArrayLike, y: ArrayLike, /) -> tuple[Array, Array]:
    """Quotient rounded down, and the remainder that goes with it.

    Args: {x, y}
    Returns:
      (`floor_divide(x, y)`, `remainder(x, y)`), two arrays of the shape `x` and `y` broadcast to, in the dtype they meet
      in, int32 for booleans.
    Raises: {ShapeError, TypeError, DTypeError}

    Derivative: as of the two functions.
    Source: meaning of `numpy.divmod`, but for quotients of integers divided by 0, which NumPy makes 0.

    >>> divmod(np.array([7, -7]), 2)
    (Array([ 3, -4], dtype=int32), Array([1, 1], dtype=int32))
    """
    return floor_divide(x, y), remainder(x, y)
