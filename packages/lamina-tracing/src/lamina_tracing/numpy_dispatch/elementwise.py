"""Elementwise NumPy functions of one or two operands."""
from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from lamina_ir import dtypes

from .. import lax
from .._core.array import Array, ArrayLike
from .._core.tracer import typeof
from ._registry import (as_array, broadcast, cast, common_dtype, implementations, implements, promote_operands,
                        to_inexact)

__all__ = ["is_nonzero", "outer", "where"]

_INEXACT: dict[str, Callable[[ArrayLike], ArrayLike]] = {
    "sin": lax.sin, "cos": lax.cos, "tan": lax.tan, "arcsin": lax.asin, "arccos": lax.acos, "arctan": lax.atan,
    "sinh": lax.sinh, "cosh": lax.cosh, "tanh": lax.tanh, "arcsinh": lax.asinh, "arccosh": lax.acosh,
    "arctanh": lax.atanh, "exp": lax.exp, "exp2": lax.exp2, "expm1": lax.expm1, "log": lax.log, "log1p": lax.log1p,
    "sqrt": lax.sqrt, "cbrt": lax.cbrt, "log2": lambda x: lax.mul(lax.log(x), _constant(x, 1 / math.log(2))),
    "log10": lambda x: lax.mul(lax.log(x), _constant(x, 1 / math.log(10))),
    "deg2rad": lambda x: lax.mul(x, _constant(x, math.pi / 180)),
    "rad2deg": lambda x: lax.mul(x, _constant(x, 180 / math.pi)),
    "fabs": lax.abs}
_UNARY: dict[str, Callable[[ArrayLike], ArrayLike]] = {
    "negative": lax.neg, "absolute": lax.abs, "sign": lax.sign, "square": lax.square, "invert": lax.bitwise_not,
    "positive": lambda x: x, "bitwise_count": lambda x: cast(lax.population_count(lax.abs(x)), np.dtype("uint8"))}
_BINARY: dict[str, Callable[[ArrayLike, ArrayLike], Array]] = {
    "add": lax.add, "subtract": lax.sub, "multiply": lax.mul, "maximum": lax.max, "minimum": lax.min,
    "equal": lax.eq, "not_equal": lax.ne, "less": lax.lt, "less_equal": lax.le, "greater": lax.gt,
    "greater_equal": lax.ge, "bitwise_and": lax.bitwise_and, "bitwise_or": lax.bitwise_or,
    "bitwise_xor": lax.bitwise_xor, "left_shift": lax.shift_left}
_BINARY_INEXACT: dict[str, Callable[[ArrayLike, ArrayLike], Array]] = {
    "divide": lax.div, "arctan2": lax.atan2, "nextafter": lax.nextafter, "float_power": lax.pow}
_ROUNDING: dict[str, Callable[[ArrayLike], ArrayLike]] = {
    "floor": lax.floor, "ceil": lax.ceil, "rint": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "trunc": lambda x: lax.select(lax.lt(x, _zeros(x)), lax.ceil(x), lax.floor(x))}


def _constant(x: ArrayLike, value: float) -> ArrayLike:
    return lax.full_like(x, value) if typeof(x).shape else typeof(x).dtype.type(value)


def _zeros(x: ArrayLike) -> ArrayLike:
    return lax.full_like(x, 0)


def _register_tables() -> None:
    for name, op in _INEXACT.items():
        implements(name)(lambda x, op=op: op(to_inexact(x)))
    for name, op in _UNARY.items():
        implements(name)(op)
    for name, op2 in _BINARY.items():
        implements(name)(lambda x, y, name=name, op=op2: op(*promote_operands(name, x, y)))
    for name, op2 in _BINARY_INEXACT.items():
        implements(name)(lambda x, y, name=name, op=op2: op(*map(to_inexact, promote_operands(name, x, y))))
    for name, op in _ROUNDING.items():  # integers are unchanged
        implements(name)(lambda x, op=op: op(x) if dtypes.is_inexact(typeof(x).dtype) else x)
    for name, same in (("degrees", "rad2deg"), ("radians", "deg2rad"), ("fix", "trunc"), ("abs", "absolute")):
        implementations[name] = implementations[same]


_register_tables()


@implements("conjugate", "conj")
def conjugate(x: ArrayLike) -> ArrayLike:
    return lax.conj(x) if dtypes.is_complex(typeof(x).dtype) else x


@implements("real")
def real(val: ArrayLike) -> ArrayLike:
    x = as_array(val)
    return lax.real(x) if dtypes.is_complex(typeof(x).dtype) else x


@implements("imag")
def imag(val: ArrayLike) -> ArrayLike:
    x = as_array(val)
    return lax.imag(x) if dtypes.is_complex(typeof(x).dtype) else _zeros(x)


@implements("reciprocal")
def reciprocal(x: ArrayLike) -> Array:
    return lax.div(lax.full_like(x, 1), x)


@implements("where")
def where(condition: ArrayLike, x: ArrayLike | None = None, y: ArrayLike | None = None) -> Array:
    if x is None or y is None:
        raise TypeError("numpy.where of a traced value needs all three arguments: the positions where it is true are "
                        "known only with its numbers")
    condition = is_nonzero(condition)
    condition, x, y = broadcast(condition, *common_dtype(x, y))
    return lax.select(condition, x, y)


def is_nonzero(x: ArrayLike) -> ArrayLike:
    """Return which elements are nonzero."""
    x = as_array(x)
    return x if typeof(x).dtype == dtypes.BOOL else lax.ne(x, _zeros(x))


def _promote_numbers(call: str, x: ArrayLike, y: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
    """Promote and broadcast two operands; booleans become int8, as in NumPy."""
    x, y = broadcast(*promote_operands(call, x, y))
    if typeof(x).dtype == dtypes.BOOL:
        return cast(x, np.dtype("int8")), cast(y, np.dtype("int8"))
    return x, y


@implements("right_shift")
def right_shift(x: ArrayLike, y: ArrayLike) -> Array:
    x, y = promote_operands("right_shift", x, y)
    unsigned = dtypes.issubdtype(typeof(x).dtype, np.unsignedinteger)
    return lax.shift_right_logical(x, y) if unsigned else lax.shift_right_arithmetic(x, y)


@implements("fmod")
def fmod(x: ArrayLike, y: ArrayLike) -> ArrayLike:
    x, y = _promote_numbers("fmod", x, y)
    return _zero_if_divisor_is_zero(lax.rem(x, y), y)


def _zero_if_divisor_is_zero(r: ArrayLike, y: ArrayLike) -> ArrayLike:
    """Replace the remainder of an integer division by 0 with 0."""
    if dtypes.is_inexact(typeof(y).dtype):
        return r
    return lax.select(lax.eq(y, _zeros(y)), _zeros(y), r)


@implements("remainder", "mod")
def remainder(x: ArrayLike, y: ArrayLike) -> ArrayLike:
    x, y = _promote_numbers("remainder", x, y)
    r, zero = lax.rem(x, y), _zeros(y)
    off = lax.bitwise_and(lax.ne(r, zero), lax.ne(lax.lt(r, zero), lax.lt(y, zero)))
    return _zero_if_divisor_is_zero(lax.select(off, lax.add(r, y), r), y)


@implements("floor_divide")
def floor_divide(x: ArrayLike, y: ArrayLike) -> ArrayLike:
    x, y = _promote_numbers("floor_divide", x, y)
    zero = _zeros(y)
    if dtypes.is_inexact(typeof(x).dtype):
        r = remainder(x, y)
        whole = lax.round(lax.div(lax.sub(x, r), y), lax.RoundingMethod.TO_NEAREST_EVEN)
        # for a divisor of 0: an infinity with the sign of the quotient, or NaN for 0 / 0
        return lax.select(lax.eq(y, zero), lax.div(x, y), whole)
    safe = lax.select(lax.eq(y, zero), lax.full_like(y, 1), y)
    return lax.select(lax.eq(y, zero), zero, lax.div(lax.sub(x, remainder(x, safe)), safe))


@implements("divmod")
def divmod_(x: ArrayLike, y: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
    return floor_divide(x, y), remainder(x, y)


@implements("power")
def power(x: ArrayLike, y: ArrayLike) -> ArrayLike:
    if type(y) is int and (y >= 0 or dtypes.is_inexact(typeof(x).dtype)):
        x = cast(x, np.dtype("int8")) if typeof(x).dtype == dtypes.BOOL else x
        return lax.integer_pow(x, y)
    x, y = broadcast(*promote_operands("power", x, y))
    if dtypes.is_inexact(typeof(x).dtype):
        return lax.pow(x, y)
    if type(y) is int:
        raise ValueError("numpy.power: integers cannot be raised to negative powers; convert them to float first")
    return _integer_power(x, y)


def _integer_power(x: ArrayLike, y: ArrayLike) -> ArrayLike:
    """Raise integers to integer powers by repeated squaring, one step per bit."""
    x, y = _promote_numbers("power", x, y)
    out, one = lax.full_like(x, 1), lax.full_like(y, 1)
    for bit in range(typeof(y).dtype.itemsize * 8 - 1):
        odd = lax.ne(lax.bitwise_and(lax.shift_right_logical(y, lax.full_like(y, bit)), one), _zeros(y))
        out = lax.select(odd, lax.mul(out, x), out)
        x = lax.mul(x, x)
    return out


@implements("logical_not")
def logical_not(x: ArrayLike) -> Array:
    return lax.bitwise_not(is_nonzero(x))


def _logical(name: str, op: Callable[[ArrayLike, ArrayLike], Array]) -> None:
    implements(name)(lambda x, y: op(*broadcast(is_nonzero(x), is_nonzero(y))))


_logical("logical_and", lax.bitwise_and)
_logical("logical_or", lax.bitwise_or)
_logical("logical_xor", lax.bitwise_xor)


@implements("isfinite")
def isfinite(x: ArrayLike) -> Array:
    return lax.is_finite(to_inexact(x)) if not dtypes.is_complex(typeof(x).dtype) else lax.bitwise_and(
        lax.is_finite(lax.real(x)), lax.is_finite(lax.imag(x)))


@implements("isnan")
def isnan(x: ArrayLike) -> Array:
    x = to_inexact(x)
    return lax.ne(x, x)


@implements("isinf")
def isinf(x: ArrayLike) -> Array:
    x = to_inexact(x)
    return lax.bitwise_not(lax.bitwise_or(isfinite(x), isnan(x)))


@implements("clip")
def clip(a: ArrayLike, a_min: ArrayLike | None = None, a_max: ArrayLike | None = None, out: None = None, *,
         min: ArrayLike | None = None, max: ArrayLike | None = None) -> ArrayLike:
    for bound, op in ((a_min if min is None else min, implementations["maximum"]),
                      (a_max if max is None else max, implementations["minimum"])):
        a = a if bound is None else op(as_array(a), as_array(bound))
    return a


@implements("round", "around")
def round_(a: ArrayLike, decimals: int = 0, out: None = None) -> ArrayLike:
    x = as_array(a)
    if not dtypes.is_inexact(typeof(x).dtype) and decimals >= 0:
        return x
    if dtypes.is_complex(typeof(x).dtype):
        return lax.complex(round_(lax.real(x), decimals), round_(lax.imag(x), decimals))
    dtype = typeof(x).dtype
    x = to_inexact(x)
    factor = _constant(x, 10.0 ** abs(decimals))
    scale, unscale = (lax.mul, lax.div) if decimals > 0 else (lax.div, lax.mul)
    whole = implementations["rint"](scale(x, factor) if decimals else x)
    return cast(unscale(whole, factor) if decimals else whole, dtype)


def outer(op: Callable[[ArrayLike, ArrayLike], Array], x: ArrayLike, y: ArrayLike) -> Array:
    """Apply a binary function to each pair of elements, as `numpy.add.outer` does."""
    x, y = as_array(x), as_array(y)
    s, n = typeof(x).shape, len(typeof(y).shape)
    return op(lax.reshape(x, (*s, *(1,) * n)), y)
