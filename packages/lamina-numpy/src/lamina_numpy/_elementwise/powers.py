"""Powers: of Python int exponents one `integer_pow`; of integer arrays repeated squaring; else `pow`."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import dtypes
from lamina_tracing import Array, ArrayLike, jit, lax
from lamina_tracing.extend import typeof

from .._ground.promotion import aval, convert, inexact_pair, is_staging, literal, pair
from .._ground.publishing import compiled, public

__all__ = ["float_power", "pow", "power"]

_I32 = np.dtype("int32")


def _int_power(x: Any, y: Any, d: np.dtype) -> Any:
    """Repeated squaring over the six low bits of the exponent: 2**64 overflows every integer anyhow."""
    zero, one = literal(0, d), literal(1, d)
    shape = typeof(lax.mul(x, y)).shape if typeof(x).shape != typeof(y).shape else typeof(x).shape
    out = lax.broadcast_in_dim(one, shape, ())
    for bit in range(6):
        odd = lax.ne(lax.bitwise_and(y, one), zero)
        out = lax.select(odd, lax.mul(out, x), out)
        if bit < 5:
            y = lax.shift_right_logical(y, one)
            x = lax.mul(x, x)
    negative_power = lax.lt(y, zero)
    return lax.select(negative_power, lax.broadcast_in_dim(zero, shape, ()), out)


def _by_exponent(plain: Any) -> Any:
    """`power` as it is shown: a Python int exponent is part of the program."""
    of_int = jit(plain, static_argnums=1, inline=True)

    def call(x: Any, y: Any, /) -> Any:
        if is_staging():
            return plain(x, y)
        return of_int(x, y) if type(y) is int else compiled(plain)(x, y)
    return call


@public(face=_by_exponent)
def power(x: ArrayLike, y: ArrayLike, /) -> Array:
    """`x ** y`; a Python int exponent is one `integer_pow`, integers to array powers go by repeated squaring.

    >>> power(2.0, 3)
    Array(8., dtype=float32, weak_type=True)
    """
    a = aval("power", x, 0)
    if type(y) is int:
        if not dtypes.is_inexact(a.dtype):
            if y < 0:
                raise TypeError(f"power: integers cannot be raised to the negative power {y}; got {a.long()}. Convert "
                                "to float first")
            if a.dtype == dtypes.BOOL:
                x = convert(x, _I32, True)
        return lax.integer_pow(x, y)
    if type(x) is int and not dtypes.is_inexact(aval("power", y, 1).dtype):
        x = literal(x, dtypes.promote((a.dtype, True), (typeof(y).dtype, typeof(y).weak_type))[0])
    x, y = pair("power", x, y)
    d = typeof(x).dtype
    if dtypes.is_inexact(d):
        return lax.pow(x, y)
    if d == dtypes.BOOL:
        x, y, d = convert(x, _I32), convert(y, _I32), _I32
    return _int_power(x, y, d)


pow = power


@public()
def float_power(x: ArrayLike, y: ArrayLike, /) -> Array:
    """`x ** y`, in float."""
    x, y = inexact_pair("float_power", x, y)
    return lax.pow(x, y)
