"""Elementwise mathematics: each function is a few equations after promotion.

Tables make the functions that are one equation; the rest are written out. Names and meanings follow NumPy; angles are
in radians unless a name says degrees.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from lamina_ir import config, dtypes, prims
from lamina_ir.errors import DTypeError
from lamina_tracing import lax
from lamina_tracing.extend import bind, typeof

from ._promotion import aval, convert, fixed, inexact_dtype, inexact_pair, is_staging, literal, meet, pair, to_inexact
from ._publish import compiled, public, publish_as

__all__ = ["abs", "absolute", "acos", "acosh", "add", "angle", "arccos", "arccosh", "arcsin", "arcsinh", "arctan",
           "arctan2", "arctanh", "around", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "clip", "conj",
           "conjugate", "cos", "cosh", "deg2rad", "degrees", "divide", "divmod", "exp", "exp2", "expm1", "fabs",
           "fix", "float_power", "floor", "floor_divide", "fmod", "imag", "log", "log10", "log1p", "log2", "maximum",
           "minimum", "mod", "modf", "multiply", "negative", "nextafter", "positive", "pow", "power", "rad2deg",
           "radians", "real", "reciprocal", "remainder", "rint", "round", "sign", "sin", "sinh", "sqrt", "square",
           "subtract", "tan", "tanh", "true_divide", "trunc"]

_I32 = np.dtype("int32")
_LN2 = float(np.log(2.0))
_LN10 = float(np.log(10.0))
_abs, _sign, _floor, _ceil = prims.abs_p, prims.sign_p, prims.floor_p, prims.ceil_p
_add, _sub, _mul, _div, _rem = prims.add_p, prims.sub_p, prims.mul_p, prims.div_p, prims.rem_p
_max, _min, _neg, _log, _log1p, _exp = prims.max_p, prims.min_p, prims.neg_p, prims.log_p, prims.log1p_p, prims.exp_p
_eq, _ne, _lt, _gt, _and, _or, _not = (prims.eq_p, prims.ne_p, prims.lt_p, prims.gt_p, prims.and_p, prims.or_p,
                                       prims.not_p)


def where_(pred: Any, x: Any, y: Any) -> Any:
    """`select` on promoted operands, as the functions below use it."""
    from ._selection import where
    return where(pred, x, y)


def _named(fun: Callable[..., Any], name: str, doc: str) -> Any:
    fun.__name__ = fun.__qualname__ = name
    fun.__doc__ = doc
    return public()(fun)


def _unary(name: str, prim: Any, doc: str) -> Any:
    """One equation on any number dtype."""
    def op(x: Any, /) -> Any:
        aval(name, x)
        return bind(prim, x)
    return _named(op, name, doc)


def _float_unary(name: str, prim: Any, doc: str) -> Any:
    """One equation in float."""
    def op(x: Any, /) -> Any:
        return bind(prim, to_inexact(name, x))
    return _named(op, name, doc)


def _rounding(name: str, prim: Any, doc: str) -> Any:
    """One equation on floats; integers are round already."""
    def op(x: Any, /) -> Any:
        d = aval(name, x).dtype
        if dtypes.is_complex(d):
            raise DTypeError(f"{name}: complex numbers have no order to round in; got {typeof(x).long()}. Take real "
                             "and imag first")
        if not dtypes.is_float(d):
            return positive(x)
        return bind(prim, x)
    return _named(op, name, doc)


def _binary(name: str, prim: Any, doc: str) -> Any:
    def op(x: Any, y: Any, /) -> Any:
        x, y, _ = meet(name, x, y)
        return bind(prim, x, y)
    return _named(op, name, doc)


def _arith(name: str, prim: Any, on_bool: Any, doc: str) -> Any:
    """`_binary` whose meaning on booleans is logical."""
    bool_ = dtypes.BOOL

    def op(x: Any, y: Any, /) -> Any:
        x, y, d = meet(name, x, y)
        if d is bool_:
            if on_bool is None:
                raise DTypeError(f"{name}: not defined on booleans; use logical_xor or convert with astype(int)")
            return bind(on_bool, x, y)
        return bind(prim, x, y)
    return _named(op, name, doc)


def _float_binary(name: str, prim: Any, doc: str) -> Any:
    def op(x: Any, y: Any, /) -> Any:
        x, y = inexact_pair(name, x, y)
        return bind(prim, x, y)
    return _named(op, name, doc)


sin = _float_unary("sin", prims.sin_p, "Sine, in radians.\n\n>>> sin(0.0)\nArray(0., dtype=float32, weak_type=True)")
cos = _float_unary("cos", prims.cos_p, "Cosine, in radians.\n\n>>> cos(0.0)\nArray(1., dtype=float32, weak_type=True)")
tan = _float_unary("tan", prims.tan_p, "Tangent, in radians.")
arcsin = asin = _float_unary("arcsin", prims.asin_p, "Angle in radians, in [-pi/2, pi/2], whose sine is `x`.")
arccos = acos = _float_unary("arccos", prims.acos_p, "Angle in radians, in [0, pi], whose cosine is `x`.")
arctan = atan = _float_unary("arctan", prims.atan_p, "Angle in radians, in [-pi/2, pi/2], whose tangent is `x`.")
sinh = _float_unary("sinh", prims.sinh_p, "Hyperbolic sine.")
cosh = _float_unary("cosh", prims.cosh_p, "Hyperbolic cosine.")
tanh = _float_unary("tanh", prims.tanh_p, "Hyperbolic tangent.")
arcsinh = asinh = _float_unary("arcsinh", prims.asinh_p, "Inverse hyperbolic sine.")
arccosh = acosh = _float_unary("arccosh", prims.acosh_p, "Inverse hyperbolic cosine.")
arctanh = atanh = _float_unary("arctanh", prims.atanh_p, "Inverse hyperbolic tangent.")
exp = _float_unary("exp", prims.exp_p, "e to the power of each element.\n\n>>> exp(0)\n"
                   "Array(1., dtype=float32, weak_type=True)")
exp2 = _float_unary("exp2", prims.exp2_p, "2 to the power of each element.")
expm1 = _float_unary("expm1", prims.expm1_p, "`exp(x) - 1`, accurate near zero.")
log = _float_unary("log", prims.log_p, "Natural logarithm.")
log1p = _float_unary("log1p", prims.log1p_p, "`log(1 + x)`, accurate near zero.")
sqrt = _float_unary("sqrt", prims.sqrt_p, "Square root.\n\n>>> sqrt(4)\nArray(2., dtype=float32, weak_type=True)")
cbrt = _float_unary("cbrt", prims.cbrt_p, "Cube root.")
floor = _rounding("floor", prims.floor_p, "Largest whole number that is not above each element.")
ceil = _rounding("ceil", prims.ceil_p, "Smallest whole number that is not below each element.")


@public()
def rint(x: Any, /) -> Any:
    """Nearest whole number, in float; halves go to even."""
    a = aval("rint", x)
    if not dtypes.is_inexact(a.dtype):
        return convert(x, inexact_dtype(a.dtype, config.enable_x64.value), False)
    return bind(prims.round_p, x, rounding_method=1)


negative = _unary("negative", prims.neg_p, "Minus `x`.\n\n>>> negative(3)\nArray(-3, dtype=int32, weak_type=True)")

add = _arith("add", prims.add_p, prims.or_p, "Sum, with promotion and broadcasting; `or` on booleans.\n\n"
             ">>> add(1, 2.5)\nArray(3.5, dtype=float32, weak_type=True)")
multiply = _arith("multiply", prims.mul_p, prims.and_p, "Product; `and` on booleans.")
subtract = _arith("subtract", prims.sub_p, None, "Difference.")
maximum = _binary("maximum", prims.max_p, "Larger of two elements; NaN when either is.")
minimum = _binary("minimum", prims.min_p, "Smaller of two elements; NaN when either is.")
true_divide = divide = _float_binary("true_divide", prims.div_p, "Quotient, in float.\n\n>>> divide(1, 2)\n"
                                     "Array(0.5, dtype=float32, weak_type=True)")


@public()
def arctan2(x1: Any, x2: Any, /) -> Any:
    """Angle in radians of the point (y, x) = (first, second)."""
    return lax.atan2(*inexact_pair("arctan2", x1, x2))


atan2 = arctan2
nextafter = _float_binary("nextafter", prims.nextafter_p, "Next float after the first element towards the second.")


@public()
def positive(x: Any, /) -> Any:
    """`+x`: the same numbers, as an array."""
    a = aval("positive", x)
    if type(x) in (bool, int, float, complex):
        return bind(prims.convert_element_type_p, x, new_dtype=a.dtype, weak_type=a.weak_type)
    return x


@public()
def abs(x: Any, /) -> Any:
    """Distance from zero; complex numbers give real ones.

    >>> abs(-2)
    Array(2, dtype=int32, weak_type=True)
    """
    d = aval("abs", x).dtype
    if d == dtypes.BOOL or dtypes.issubdtype(d, np.unsignedinteger):
        return positive(x)
    return bind(_abs, x)


absolute = abs


@public()
def fabs(x: Any, /) -> Any:
    """Distance from zero, in float; complex numbers are refused."""
    x = to_inexact("fabs", x)
    if dtypes.is_complex(typeof(x).dtype):
        raise DTypeError(f"fabs: expected real numbers; got {typeof(x).long()}. Use abs")
    return bind(_abs, x)


@public()
def sign(x: Any, /) -> Any:
    """-1, 0 or 1; for complex numbers `x / abs(x)`."""
    aval("sign", x)
    return bind(_sign, x)


@public()
def square(x: Any, /) -> Any:
    """`x * x`; a truth value counts as the int32 0 or 1."""
    if aval("square", x).dtype == dtypes.BOOL:
        x = convert(x, _I32)
    return bind(prims.integer_pow_p, x, y=2)


@public()
def reciprocal(x: Any, /) -> Any:
    """`1 / x`, in float."""
    x = to_inexact("reciprocal", x)
    return bind(prims.integer_pow_p, x, y=-1)


@public()
def log2(x: Any, /) -> Any:
    """Logarithm to base 2."""
    y = bind(_log, to_inexact("log2", x))
    return bind(_div, y, fixed(_LN2, typeof(y).dtype))


@public()
def log10(x: Any, /) -> Any:
    """Logarithm to base 10."""
    y = bind(_log, to_inexact("log10", x))
    return bind(_div, y, fixed(_LN10, typeof(y).dtype))


@public()
def power(x: Any, y: Any, /) -> Any:
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
                x = convert(x, np.dtype("int32"), True)
        return bind(prims.integer_pow_p, x, y=y)
    if type(x) is int and not dtypes.is_inexact(aval("power", y, 1).dtype):
        x = literal(x, dtypes.promote((a.dtype, True), (typeof(y).dtype, typeof(y).weak_type))[0])
    x, y = pair("power", x, y)
    d = typeof(x).dtype
    if dtypes.is_inexact(d):
        return bind(prims.pow_p, x, y)
    if d == dtypes.BOOL:
        x, y, d = convert(x, _I32), convert(y, _I32), _I32
    return _int_power(x, y, d)


@public("y")
def _power_of_int(x: Any, y: int) -> Any:
    return power(x, y)


_power_of_int.__name__ = "power"


def eager_power(x: Any, y: Any, /) -> Any:
    """`x ** y`; a Python int exponent becomes part of the program.

    >>> eager_power(2.0, 3)
    Array(8., dtype=float32, weak_type=True)
    """
    if is_staging():
        return power(x, y)
    return compiled(_power_of_int)(x, y) if type(y) is int else compiled(power)(x, y)


publish_as(power, eager_power)
pow = power


def _int_power(x: Any, y: Any, d: np.dtype) -> Any:
    """Repeated squaring over the six low bits of the exponent: 2**64 overflows every integer anyhow."""
    zero, one = literal(0, d), literal(1, d)
    shape = typeof(bind(_mul, x, y)).shape if typeof(x).shape != typeof(y).shape else typeof(x).shape
    out = bind(prims.broadcast_in_dim_p, one, shape=shape, broadcast_dimensions=())
    for bit in range(6):
        odd = bind(_ne, bind(_and, y, one), zero)
        out = bind(prims.select_p, odd, bind(_mul, out, x), out)
        if bit < 5:
            y = bind(prims.shift_right_logical_p, y, one)
            x = bind(_mul, x, x)
    negative_power = bind(_lt, y, zero)
    return bind(prims.select_p, negative_power, bind(prims.broadcast_in_dim_p, zero, shape=shape,
                                                     broadcast_dimensions=()), out)


@public()
def float_power(x: Any, y: Any, /) -> Any:
    """`x ** y`, in float."""
    x, y = inexact_pair("float_power", x, y)
    return bind(prims.pow_p, x, y)


def _nonzero(x: Any, d: np.dtype) -> Any:
    return bind(_ne, x, literal(0, d))


@public()
def floor_divide(x: Any, y: Any, /) -> Any:
    """Quotient rounded down.

    >>> floor_divide(-7, 2)
    Array(-4, dtype=int32, weak_type=True)
    """
    x, y = pair("floor_divide", x, y)
    d = typeof(x).dtype
    if d == dtypes.BOOL:
        x, y = convert(x, np.dtype("int32")), convert(y, np.dtype("int32"))
        d = np.dtype("int32")
    if dtypes.is_complex(d):
        raise DTypeError(f"floor_divide: complex numbers have no order; got {typeof(x).long()}")
    if dtypes.issubdtype(d, np.unsignedinteger):
        return bind(_div, x, y)
    if dtypes.is_integer(d):
        q = bind(_div, x, y)
        off = bind(_and, bind(_ne, bind(_sign, x), bind(_sign, y)), _nonzero(bind(_rem, x, y), d))
        return bind(prims.select_p, off, bind(_sub, q, literal(1, d)), q)
    return _float_divmod(x, y, d)[0]


def _float_divmod(x: Any, y: Any, d: np.dtype) -> tuple[Any, Any]:
    r = _python_rem(x, y, d)
    q = bind(_div, bind(_sub, x, r), y)
    return bind(prims.round_p, q, rounding_method=1), r


def _python_rem(x: Any, y: Any, d: np.dtype) -> Any:
    r = bind(_rem, x, y)
    zero = literal(0, d)
    differ = bind(_ne, bind(_lt, r, zero), bind(_lt, y, zero))
    return bind(prims.select_p, bind(_and, differ, bind(_ne, r, zero)), bind(_add, r, y), r)


def _zero_by_zero(r: Any, y: Any, d: np.dtype) -> Any:
    """The remainder `r`, and 0 where the divisor `y` is the integer 0, as NumPy has it."""
    if dtypes.is_inexact(d) or type(y) is int and y:
        return r
    return where_(_nonzero(y, d), r, literal(0, d))


@public()
def remainder(x: Any, y: Any, /) -> Any:
    """Remainder with the sign of the divisor, as Python's `%`.

    >>> remainder(-7, 3)
    Array(2, dtype=int32, weak_type=True)
    """
    x, y = pair("remainder", x, y)
    d = typeof(x).dtype
    if d == dtypes.BOOL:
        x, y = convert(x, np.dtype("int32")), convert(y, np.dtype("int32"))
        d = np.dtype("int32")
    if dtypes.is_complex(d):
        raise DTypeError(f"remainder: complex numbers have no order; got {typeof(x).long()}")
    if dtypes.issubdtype(d, np.unsignedinteger):
        return _zero_by_zero(bind(_rem, x, y), y, d)
    return _zero_by_zero(_python_rem(x, y, d), y, d)


mod = remainder


@public()
def fmod(x: Any, y: Any, /) -> Any:
    """Remainder with the sign of the dividend, as C's `fmod`."""
    x, y = pair("fmod", x, y)
    d = typeof(x).dtype
    if d == dtypes.BOOL:
        x, y, d = convert(x, _I32), convert(y, _I32), _I32
    return _zero_by_zero(bind(_rem, x, y), y, d)


@public()
def divmod(x: Any, y: Any, /) -> tuple[Any, Any]:
    """`(floor_divide(x, y), remainder(x, y))`."""
    return floor_divide(x, y), remainder(x, y)


@public("decimals", "out")
def round(a: Any, decimals: int = 0, out: None = None) -> Any:
    """Nearest number with `decimals` digits after the point; halves go to even.

    >>> round(2.5)
    Array(2., dtype=float32, weak_type=True)
    """
    no_out("round", out)
    d = aval("round", a).dtype
    if not dtypes.is_inexact(d):
        if decimals < 0:
            raise NotImplementedError(f"round: integers cannot be rounded to {decimals} decimals; convert to float "
                                      "first")
        return positive(a)
    if dtypes.is_complex(d):
        return bind(prims.complex_p, round(bind(prims.real_p, a), decimals), round(bind(prims.imag_p, a), decimals))
    if not decimals:
        return bind(prims.round_p, a, rounding_method=1)
    scale = literal(10.0 ** decimals, d)
    return bind(_div, bind(prims.round_p, bind(_mul, a, scale), rounding_method=1), scale)


around = round


def no_out(call: str, out: Any) -> None:
    """`out=` has no meaning for arrays that do not change."""
    if out is not None:
        raise NotImplementedError(f"{call}: out= is not supported, since arrays are immutable; use the result")


@public()
def trunc(x: Any, /) -> Any:
    """Whole part of each element."""
    d = aval("trunc", x).dtype
    if not dtypes.is_inexact(d):
        return positive(x)
    return bind(prims.select_p, bind(_lt, x, literal(0, d)), bind(_ceil, x), bind(_floor, x))


@public("out")
def fix(x: Any, out: None = None) -> Any:
    """Whole part of each element (towards zero)."""
    no_out("fix", out)
    return trunc(x)


@public()
def modf(x: Any, /) -> tuple[Any, Any]:
    """(fractional part, whole part), both with the sign of `x`."""
    x = to_inexact("modf", x)
    whole = trunc(x)
    return bind(_sub, x, whole), whole


@public()
def conjugate(x: Any, /) -> Any:
    """Complex conjugate; real numbers as they are."""
    return bind(prims.conj_p, x) if dtypes.is_complex(aval("conjugate", x).dtype) else positive(x)


conj = conjugate


@public()
def real(val: Any, /) -> Any:
    """Real part."""
    return bind(prims.real_p, val) if dtypes.is_complex(aval("real", val).dtype) else positive(val)


@public()
def imag(val: Any, /) -> Any:
    """Imaginary part; zeros for real numbers."""
    a = aval("imag", val)
    if dtypes.is_complex(a.dtype):
        return bind(prims.imag_p, val)
    return bind(prims.broadcast_in_dim_p, fixed(0, a.dtype), shape=a.shape, broadcast_dimensions=())


@public("deg")
def angle(z: Any, deg: bool = False) -> Any:
    """Argument of complex numbers in radians, or degrees when `deg`."""
    z = to_inexact("angle", z)
    y, x = imag(z), real(z)
    out = bind(prims.atan2_p, y, x)
    return rad2deg(out) if deg else out


@public()
def deg2rad(x: Any, /) -> Any:
    """Degrees to radians."""
    x = to_inexact("deg2rad", x)
    return bind(_mul, x, literal(np.pi / 180, typeof(x).dtype))


@public()
def rad2deg(x: Any, /) -> Any:
    """Radians to degrees."""
    x = to_inexact("rad2deg", x)
    return bind(_mul, x, literal(180 / np.pi, typeof(x).dtype))


radians, degrees = deg2rad, rad2deg


@public()
def clip(arr: Any = None, /, min: Any = None, max: Any = None) -> Any:
    """Elements below `min` become `min`, those above `max` become `max`.

    >>> clip(5, 0, 3)
    Array(3, dtype=int32, weak_type=True)
    """
    for position, v in enumerate((arr, min, max)):
        if v is not None and dtypes.is_complex(aval("clip", v, position).dtype):
            raise ValueError("clip: complex numbers have no order; take real or abs first")
    if min is not None:
        arr = maximum(min, arr)
    if max is not None:
        arr = minimum(max, arr)
    return positive(arr)
