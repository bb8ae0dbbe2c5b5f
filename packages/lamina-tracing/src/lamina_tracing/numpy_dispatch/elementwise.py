"""NumPy's elementwise functions: names -> functions of one or two operands."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from lamina_ir import dtypes

from .. import lax
from .._core.tracer import typeof
from ._registry import as_array, broadcast, cast, common, inexact, promote_operands, row, rows

__all__ = ["outer", "where"]

_INEXACT: dict[str, Callable[[Any], Any]] = {
    "sin": lax.sin, "cos": lax.cos, "tan": lax.tan, "arcsin": lax.asin, "arccos": lax.acos, "arctan": lax.atan,
    "sinh": lax.sinh, "cosh": lax.cosh, "tanh": lax.tanh, "arcsinh": lax.asinh, "arccosh": lax.acosh, "arctanh": lax.atanh,
    "exp": lax.exp, "exp2": lax.exp2, "expm1": lax.expm1, "log": lax.log, "log1p": lax.log1p, "sqrt": lax.sqrt,
    "cbrt": lax.cbrt, "log2": lambda x: lax.mul(lax.log(x), _like(x, 1 / math.log(2))),
    "log10": lambda x: lax.mul(lax.log(x), _like(x, 1 / math.log(10))),
    "deg2rad": lambda x: lax.mul(x, _like(x, math.pi / 180)), "rad2deg": lambda x: lax.mul(x, _like(x, 180 / math.pi)),
    "fabs": lax.abs}
_PLAIN: dict[str, Callable[[Any], Any]] = {
    "negative": lax.neg, "absolute": lax.abs, "sign": lax.sign, "square": lax.square, "invert": lax.bitwise_not,
    "positive": lambda x: x, "bitwise_count": lambda x: cast(lax.population_count(lax.abs(x)), np.dtype("uint8"))}
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lax.add, "subtract": lax.sub, "multiply": lax.mul, "maximum": lax.max, "minimum": lax.min,
    "equal": lax.eq, "not_equal": lax.ne, "less": lax.lt, "less_equal": lax.le, "greater": lax.gt, "greater_equal": lax.ge,
    "bitwise_and": lax.bitwise_and, "bitwise_or": lax.bitwise_or, "bitwise_xor": lax.bitwise_xor,
    "left_shift": lax.shift_left}
_BINARY_INEXACT: dict[str, Callable[[Any, Any], Any]] = {
    "divide": lax.div, "arctan2": lax.atan2, "nextafter": lax.nextafter, "float_power": lax.pow}
_ROUNDING: dict[str, Callable[[Any], Any]] = {
    "floor": lax.floor, "ceil": lax.ceil, "rint": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "trunc": lambda x: lax.select(lax.lt(x, _zeros(x)), lax.ceil(x), lax.floor(x))}


def _like(x: Any, value: float) -> Any:
    return lax.full_like(x, value) if typeof(x).shape else typeof(x).dtype.type(value)


def _zeros(x: Any) -> Any:
    return lax.full_like(x, 0)


def _enter() -> None:
    for name, op in _INEXACT.items():
        row(name)(lambda x, op=op: op(inexact(x)))
    for name, op in _PLAIN.items():
        row(name)(op)
    for name, op2 in _BINARY.items():
        row(name)(lambda x, y, name=name, op=op2: op(*promote_operands(name, x, y)))
    for name, op2 in _BINARY_INEXACT.items():
        row(name)(lambda x, y, name=name, op=op2: op(*map(inexact, promote_operands(name, x, y))))
    for name, op in _ROUNDING.items():  # whole numbers stay as they are
        row(name)(lambda x, op=op: op(x) if dtypes.is_inexact(typeof(x).dtype) else x)
    for name, other in (("degrees", "rad2deg"), ("radians", "deg2rad"), ("fix", "trunc"), ("abs", "absolute")):
        rows[name] = rows[other]


_enter()


@row("conjugate", "conj")
def conjugate(x: Any) -> Any:
    return lax.conj(x) if dtypes.is_complex(typeof(x).dtype) else x


@row("real")
def real(val: Any) -> Any:
    x = as_array(val)
    return lax.real(x) if dtypes.is_complex(typeof(x).dtype) else x


@row("imag")
def imag(val: Any) -> Any:
    x = as_array(val)
    return lax.imag(x) if dtypes.is_complex(typeof(x).dtype) else _zeros(x)


@row("angle")
def angle(z: Any, deg: bool = False) -> Any:
    x = inexact(z)
    turned = lax.atan2(imag(x), real(x))
    return rows["rad2deg"](turned) if deg else turned


@row("reciprocal")
def reciprocal(x: Any) -> Any:
    return lax.div(lax.full_like(x, 1), x)


@row("where")
def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    if x is None or y is None:
        raise TypeError("numpy.where of a traced value needs all three arguments: the places where it is true are known "
                        "only with its numbers")
    condition = truth(condition)
    condition, x, y = broadcast(condition, *common(x, y))
    return lax.select(condition, x, y)


def truth(x: Any) -> Any:
    """Whether elements are nonzero."""
    x = as_array(x)
    return x if typeof(x).dtype == dtypes.BOOL else lax.ne(x, _zeros(x))


def _whole_numbers(call: str, x: Any, y: Any) -> tuple[Any, Any]:
    x, y = broadcast(*promote_operands(call, x, y))
    if typeof(x).dtype == dtypes.BOOL:
        return cast(x, np.dtype("int8")), cast(y, np.dtype("int8"))
    return x, y


@row("right_shift")
def right_shift(x: Any, y: Any) -> Any:
    x, y = promote_operands("right_shift", x, y)
    unsigned = dtypes.issubdtype(typeof(x).dtype, np.unsignedinteger)
    return lax.shift_right_logical(x, y) if unsigned else lax.shift_right_arithmetic(x, y)


@row("fmod")
def fmod(x: Any, y: Any) -> Any:
    x, y = _whole_numbers("fmod", x, y)
    return _but_for_zero(lax.rem(x, y), y)


def _but_for_zero(r: Any, y: Any) -> Any:
    """A remainder, and 0 where integers are divided by 0."""
    if dtypes.is_inexact(typeof(y).dtype):
        return r
    return lax.select(lax.eq(y, _zeros(y)), _zeros(y), r)


@row("remainder", "mod")
def remainder(x: Any, y: Any) -> Any:
    x, y = _whole_numbers("remainder", x, y)
    r, zero = lax.rem(x, y), _zeros(y)
    off = lax.bitwise_and(lax.ne(r, zero), lax.ne(lax.lt(r, zero), lax.lt(y, zero)))
    return _but_for_zero(lax.select(off, lax.add(r, y), r), y)


@row("floor_divide")
def floor_divide(x: Any, y: Any) -> Any:
    x, y = _whole_numbers("floor_divide", x, y)
    zero = _zeros(y)
    if dtypes.is_inexact(typeof(x).dtype):
        r = remainder(x, y)
        whole = lax.round(lax.div(lax.sub(x, r), y), lax.RoundingMethod.TO_NEAREST_EVEN)
        return lax.select(lax.eq(y, zero), lax.div(x, y), whole)  # infinite with the sign of the quotient; NaN for 0 / 0
    safe = lax.select(lax.eq(y, zero), lax.full_like(y, 1), y)
    return lax.select(lax.eq(y, zero), zero, lax.div(lax.sub(x, remainder(x, safe)), safe))


@row("divmod")
def divmod_(x: Any, y: Any) -> tuple[Any, Any]:
    return floor_divide(x, y), remainder(x, y)


@row("power")
def power(x: Any, y: Any) -> Any:
    if type(y) is int and (y >= 0 or dtypes.is_inexact(typeof(x).dtype)):
        x = cast(x, np.dtype("int8")) if typeof(x).dtype == dtypes.BOOL else x
        return lax.integer_pow(x, y)
    x, y = broadcast(*promote_operands("power", x, y))
    if dtypes.is_inexact(typeof(x).dtype):
        return lax.pow(x, y)
    if type(y) is int:
        raise ValueError("numpy.power: integers cannot be raised to negative powers; convert them to float first")
    return _integer_power(x, y)


def _integer_power(x: Any, y: Any) -> Any:
    """By repeated squaring, one step per bit."""
    x, y = _whole_numbers("power", x, y)
    out, one = lax.full_like(x, 1), lax.full_like(y, 1)
    for bit in range(typeof(y).dtype.itemsize * 8 - 1):
        odd = lax.ne(lax.bitwise_and(lax.shift_right_logical(y, lax.full_like(y, bit)), one), _zeros(y))
        out = lax.select(odd, lax.mul(out, x), out)
        x = lax.mul(x, x)
    return out


@row("logical_not")
def logical_not(x: Any) -> Any:
    return lax.bitwise_not(truth(x))


def _logical(name: str, op: Callable[[Any, Any], Any]) -> None:
    row(name)(lambda x, y: op(*broadcast(truth(x), truth(y))))


_logical("logical_and", lax.bitwise_and)
_logical("logical_or", lax.bitwise_or)
_logical("logical_xor", lax.bitwise_xor)


@row("isfinite")
def isfinite(x: Any) -> Any:
    return lax.is_finite(inexact(x)) if not dtypes.is_complex(typeof(x).dtype) else lax.bitwise_and(
        lax.is_finite(lax.real(x)), lax.is_finite(lax.imag(x)))


@row("isnan")
def isnan(x: Any) -> Any:
    x = inexact(x)
    return lax.ne(x, x)


@row("isinf")
def isinf(x: Any) -> Any:
    x = inexact(x)
    return lax.bitwise_not(lax.bitwise_or(isfinite(x), isnan(x)))


@row("isposinf")
def isposinf(x: Any) -> Any:
    x = inexact(x)
    return lax.eq(x, _like(x, math.inf))


@row("isneginf")
def isneginf(x: Any) -> Any:
    x = inexact(x)
    return lax.eq(x, _like(x, -math.inf))


@row("signbit")
def signbit(x: Any) -> Any:
    x = inexact(x)
    bits = np.dtype(f"int{8 * typeof(x).dtype.itemsize}")
    seen = lax.bitcast_convert_type(x, bits)
    return lax.lt(seen, _zeros(seen))


@row("copysign")
def copysign(x: Any, y: Any) -> Any:
    x, y = broadcast(*map(inexact, promote_operands("copysign", x, y)))
    size = lax.abs(x)
    return lax.select(signbit(lax.stop_gradient(y)), lax.neg(size), size)


@row("fmax")
def fmax(x: Any, y: Any) -> Any:
    x, y = broadcast(*promote_operands("fmax", x, y))
    return lax.select(isnan(x), y, lax.select(isnan(y), x, lax.max(x, y)))


@row("fmin")
def fmin(x: Any, y: Any) -> Any:
    x, y = broadcast(*promote_operands("fmin", x, y))
    return lax.select(isnan(x), y, lax.select(isnan(y), x, lax.min(x, y)))


@row("hypot")
def hypot(x: Any, y: Any) -> Any:
    x, y = broadcast(*map(inexact, promote_operands("hypot", x, y)))
    x, y = lax.abs(x), lax.abs(y)
    large, small = lax.max(x, y), lax.min(x, y)
    none = lax.eq(large, _zeros(large))
    ratio = lax.div(small, lax.select(none, lax.full_like(large, 1), large))
    return lax.mul(large, lax.sqrt(lax.add(lax.square(ratio), lax.full_like(ratio, 1))))


@row("logaddexp")
def logaddexp(x: Any, y: Any) -> Any:
    x, y = broadcast(*map(inexact, promote_operands("logaddexp", x, y)))
    large, apart = lax.max(x, y), lax.sub(x, y)
    sum_ = lax.add(large, lax.log1p(lax.exp(lax.neg(lax.abs(apart)))))
    return lax.select(isnan(apart), lax.add(x, y), sum_)  # infinities of one sign


@row("logaddexp2")
def logaddexp2(x: Any, y: Any) -> Any:
    x, y = map(inexact, promote_operands("logaddexp2", x, y))
    two = math.log(2)
    return lax.mul(logaddexp(lax.mul(x, _like(x, two)), lax.mul(y, _like(y, two))), 1 / two)


@row("heaviside")
def heaviside(x: Any, y: Any) -> Any:
    x, y = broadcast(*map(inexact, promote_operands("heaviside", x, y)))
    zero, one = _zeros(x), lax.full_like(x, 1)
    step = lax.select(lax.lt(x, zero), zero, lax.select(lax.gt(x, zero), one, y))
    return lax.select(isnan(x), x, step)


@row("ldexp")
def ldexp(x: Any, y: Any) -> Any:
    x = inexact(x)
    x, y = broadcast(x, cast(y, typeof(x).dtype))
    return lax.mul(x, lax.exp2(y))


@row("modf")
def modf(x: Any) -> tuple[Any, Any]:
    x = inexact(x)
    whole = rows["trunc"](x)
    return lax.select(isinf(x), _zeros(x), lax.sub(x, whole)), whole


@row("sinc")
def sinc(x: Any) -> Any:
    x = lax.mul(inexact(x), math.pi)
    none = lax.eq(x, _zeros(x))
    safe = lax.select(none, lax.full_like(x, 1), x)
    # near 0 by its series, whose second derivative is right at 0 as well
    return lax.select(none, lax.sub(lax.full_like(x, 1), lax.div(lax.square(x), 6.0)), lax.div(lax.sin(safe), safe))


@row("i0")
def i0(x: Any) -> Any:
    x = lax.abs(inexact(x))
    return lax.mul(lax.exp(x), lax.bessel_i0e(x))


@row("nan_to_num")
def nan_to_num(x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    x = as_array(x)
    dtype = typeof(x).dtype
    if not dtypes.is_inexact(dtype):
        return x
    if dtypes.is_complex(dtype):
        return lax.complex(*[nan_to_num(part(x), copy, nan, posinf, neginf) for part in (lax.real, lax.imag)])
    limits = dtypes.finfo(dtype)
    for places, value in ((isnan(x), nan), (isposinf(x), limits.max if posinf is None else posinf),
                          (isneginf(x), limits.min if neginf is None else neginf)):
        x = where(places, dtype.type(value), x)
    return x


@row("clip")
def clip(a: Any, a_min: Any = None, a_max: Any = None, out: None = None, *, min: Any = None, max: Any = None) -> Any:
    for bound, op in ((a_min if min is None else min, rows["maximum"]), (a_max if max is None else max, rows["minimum"])):
        a = a if bound is None else op(as_array(a), as_array(bound))
    return a


@row("round", "around")
def round_(a: Any, decimals: int = 0, out: None = None) -> Any:
    x = as_array(a)
    if not dtypes.is_inexact(typeof(x).dtype) and decimals >= 0:
        return x
    if dtypes.is_complex(typeof(x).dtype):
        return lax.complex(round_(lax.real(x), decimals), round_(lax.imag(x), decimals))
    dtype = typeof(x).dtype
    x = inexact(x)
    factor = _like(x, 10.0 ** abs(decimals))
    scale, back = (lax.mul, lax.div) if decimals > 0 else (lax.div, lax.mul)
    whole = rows["rint"](scale(x, factor) if decimals else x)
    return cast(back(whole, factor) if decimals else whole, dtype)


def outer(op: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
    """`numpy.add.outer` and its siblings: each element of one with each of the other."""
    x, y = as_array(x), as_array(y)
    s, n = typeof(x).shape, len(typeof(y).shape)
    return op(lax.reshape(x, (*s, *(1,) * n)), y)
