"""Powers: of Python int exponents one `integer_pow`; of integer arrays repeated squaring; else `pow`."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import dtypes
from lamina_tracing import Array, ArrayLike, jit, lax
from lamina_tracing.extend import rename_errors, typeof

from .._core.promotion import alike, aval, cast, convert, inexact_pair, is_staging, literal, pair
from .._core.public_api import compiled, public_api
from .._core.select import choose_by
from ._docstrings import PAIRWISE

__all__ = ["float_power", "pow", "power"]

_I32 = np.dtype("int32")
_AT_ONCE = 6  # bits: exponents above 63 are of -1, 0 and 1, or wrap around


def _int_power(x: Any, y: Any, d: np.dtype, weak: bool) -> Any:
    """Repeated squaring: the lowest bits of the exponents at once, as one kernel, the others one by one, as many as the
    largest has. A whole number to a negative power is 0, but for 1 and -1."""
    zero, one = literal(0, d), literal(1, d)
    x, y = alike("power", [cast(x, d, weak), cast(y, d, weak)])
    signed = not dtypes.issubdtype(d, np.unsignedinteger)
    size = lax.abs(y) if signed else y

    def some_left(state: Any) -> Any:
        left = lax.ne(state[1], zero)
        return lax.reduce_or(left, tuple(range(len(typeof(left).shape))))

    def one_bit(state: Any) -> Any:
        base, left, out = state
        out = lax.select(lax.ne(lax.bitwise_and(left, one), zero), lax.mul(out, base), out)
        return lax.mul(base, base), lax.shift_right_logical(left, one), out
    state = x, size, cast(lax.full(typeof(x).shape, 1, d), d, weak)
    for _ in range(_AT_ONCE):
        state = one_bit(state)
    *_, out = lax.while_loop(some_left, one_bit, state)
    if not signed:
        return out
    gone = lax.bitwise_and(lax.lt(y, zero), lax.ne(lax.abs(x), one))
    return choose_by(gone, zero, out)


def _by_exponent(plain: Any) -> Any:
    """Return the exported `power`, in which a Python int exponent is static."""
    named = rename_errors(plain)
    of_int = jit(named, static_argnums=1, inline=True)

    def call(x: Any, y: Any, /) -> Any:
        if is_staging():
            return named(x, y)
        return of_int(x, y) if type(y) is int else compiled(plain)(x, y)
    return call


@public_api(wrap=_by_exponent)
def power(x: ArrayLike, y: ArrayLike, /) -> Array:
    """`x` to the power `y`.

    Args:
      x, y: number or boolean arrays that broadcast to each other. A Python int `y` is part of the
        program; then `x` may hold integers only where `y` is not negative.
    Returns:
      Array of the shape `x` and `y` broadcast to, in the dtype they meet in, int32 for booleans. Integers
      wrap around; to negative powers they are 0, but for 1 and -1. NaN for negative real numbers to fractional powers.
    Raises:
      TypeError: one of them is neither an array nor a number, or integers meet a negative Python int.
      ShapeError: `x` and `y` do not broadcast to each other.

    Derivative: `y x**(y - 1)` for `x`, `log(x) x**y` for `y`, which is NaN for negative `x`.
    Source: meaning of `numpy.power`; NumPy refuses negative powers of integers altogether.

    >>> power(np.array([2., 3.]), 2)
    Array([4., 9.], dtype=float32)
    >>> power(2, np.array([0, 10]))
    Array([   1, 1024], dtype=int32)
    """
    a = aval("power", x, 0)
    if type(y) is int:
        if not dtypes.is_inexact(a.dtype):
            if y < 0:
                raise TypeError(f"power: integers cannot be raised to the negative power {y}; got {a.str_long()}. Convert "
                                "to float first")
            if a.dtype == dtypes.BOOL:
                x = convert(x, _I32)
        return lax.integer_pow(x, y)
    if type(x) is int and not dtypes.is_inexact(aval("power", y, 1).dtype):
        x = literal(x, dtypes.promote((a.dtype, True), (typeof(y).dtype, typeof(y).weak_type))[0])
    b = aval("power", y, 1)
    weak = typeof(x).weak_type and b.weak_type
    if a.weak_type and dtypes.is_inexact(a.dtype) and b.dtype.kind in "iu" and not b.weak_type:
        y = convert(y, a.dtype)  # a Python float to powers that are an array of integers is an array like others
    x, y = pair("power", x, y)
    d = typeof(x).dtype
    if dtypes.is_inexact(d):
        return lax.pow(x, y)
    if d == dtypes.BOOL:
        x, y, d = convert(x, _I32), convert(y, _I32), _I32
    return _int_power(x, y, d, weak)


pow = power


@public_api(entries=PAIRWISE)
def float_power(x: ArrayLike, y: ArrayLike, /) -> Array:
    """`x` to the power `y`, in float.

    Args:
      x, y: number arrays that broadcast to each other; booleans and integers become float.
    Returns: {floats}
      NaN for negative real numbers to fractional powers.
    Raises: {ShapeError, TypeError}

    Derivative: `y x**(y - 1)` for `x`, `log(x) x**y` for `y`, which is NaN for negative `x`.
    Source: meaning of `numpy.float_power`; NumPy's result has 64 bits or more.

    >>> float_power(2, -1)
    Array(0.5, dtype=float32, weak_type=True)
    """
    x, y = inexact_pair("float_power", x, y)
    return lax.pow(x, y)
