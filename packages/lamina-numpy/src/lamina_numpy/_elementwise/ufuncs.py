"""Elementwise mathematics: each function is a few equations after promotion.

Tables make the functions that are one equation; the rest are written out. `_powers.py`, `_division.py` and
`_rounding.py` hold theirs. Names and meanings follow NumPy; angles are in radians unless a name says degrees.
"""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import DTypeError, dtypes, prims
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import typeof

from .._ground.promotion import aval, convert, equation, fixed, inexact_pair, literal, meet, retyped, to_inexact
from .._ground.publishing import public

__all__ = ["abs", "absolute", "acos", "acosh", "add", "angle", "arccos", "arccosh", "arcsin", "arcsinh", "arctan",
           "arctan2", "arctanh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "clip", "conj", "conjugate", "cos",
           "cosh", "deg2rad", "degrees", "divide", "exp", "exp2", "expm1", "fabs", "imag", "log", "log10", "log1p",
           "log2", "maximum", "minimum", "multiply", "negative", "nextafter", "positive", "rad2deg", "radians", "real",
           "reciprocal", "sign", "sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh", "true_divide"]

_I32 = np.dtype("int32")
_LN2 = float(np.log(2.0))
_LN10 = float(np.log(10.0))


def _unary(name: str, prim: Any, doc: str) -> Any:
    """One equation on any number dtype."""
    def op(x: ArrayLike, /) -> Array:
        aval(name, x)
        return equation(prim, x)
    return public(name=name, doc=doc)(op)


def _float_unary(name: str, prim: Any, doc: str) -> Any:
    """One equation in float."""
    def op(x: ArrayLike, /) -> Array:
        return equation(prim, to_inexact(name, x))
    return public(name=name, doc=doc)(op)


def _binary(name: str, prim: Any, doc: str) -> Any:
    def op(x: ArrayLike, y: ArrayLike, /) -> Array:
        x, y, _ = meet(name, x, y)
        return equation(prim, x, y)
    return public(name=name, doc=doc)(op)


def _arith(name: str, prim: Any, on_bool: Any, doc: str) -> Any:
    """`_binary` whose meaning on booleans is logical."""
    bool_ = dtypes.BOOL

    def op(x: ArrayLike, y: ArrayLike, /) -> Array:
        x, y, d = meet(name, x, y)
        if d is bool_:
            if on_bool is None:
                raise DTypeError(f"{name}: not defined on booleans; use logical_xor or convert with astype(int)")
            return equation(on_bool, x, y)
        return equation(prim, x, y)
    return public(name=name, doc=doc)(op)


def _float_binary(name: str, prim: Any, doc: str) -> Any:
    def op(x: ArrayLike, y: ArrayLike, /) -> Array:
        x, y = inexact_pair(name, x, y)
        return equation(prim, x, y)
    return public(name=name, doc=doc)(op)


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
def arctan2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Angle in radians of the point (y, x) = (first, second)."""
    return lax.atan2(*inexact_pair("arctan2", x1, x2))


atan2 = arctan2
nextafter = _float_binary("nextafter", prims.nextafter_p, "Next float after the first element towards the second.")


@public()
def positive(x: ArrayLike, /) -> Array:
    """`+x`: the same numbers, as an array."""
    a = aval("positive", x)
    if type(x) in (bool, int, float, complex):
        return retyped(x, a.dtype, a.weak_type)
    return x


@public()
def abs(x: ArrayLike, /) -> Array:
    """Distance from zero; complex numbers give real ones.

    >>> abs(-2)
    Array(2, dtype=int32, weak_type=True)
    """
    d = aval("abs", x).dtype
    if d == dtypes.BOOL or dtypes.issubdtype(d, np.unsignedinteger):
        return positive(x)
    return lax.abs(x)


absolute = abs


@public()
def fabs(x: ArrayLike, /) -> Array:
    """Distance from zero, in float; complex numbers are refused."""
    x = to_inexact("fabs", x)
    if dtypes.is_complex(typeof(x).dtype):
        raise DTypeError(f"fabs: expected real numbers; got {typeof(x).long()}. Use abs")
    return lax.abs(x)


@public()
def sign(x: ArrayLike, /) -> Array:
    """-1, 0 or 1; for complex numbers `x / abs(x)`."""
    aval("sign", x)
    return lax.sign(x)


@public()
def square(x: ArrayLike, /) -> Array:
    """`x * x`; a truth value counts as the int32 0 or 1."""
    if aval("square", x).dtype == dtypes.BOOL:
        x = convert(x, _I32)
    return lax.integer_pow(x, 2)


@public()
def reciprocal(x: ArrayLike, /) -> Array:
    """`1 / x`, in float."""
    x = to_inexact("reciprocal", x)
    return lax.integer_pow(x, -1)


@public()
def log2(x: ArrayLike, /) -> Array:
    """Logarithm to base 2."""
    y = lax.log(to_inexact("log2", x))
    return lax.div(y, fixed(_LN2, typeof(y).dtype))


@public()
def log10(x: ArrayLike, /) -> Array:
    """Logarithm to base 10."""
    y = lax.log(to_inexact("log10", x))
    return lax.div(y, fixed(_LN10, typeof(y).dtype))


@public()
def conjugate(x: ArrayLike, /) -> Array:
    """Complex conjugate; real numbers as they are."""
    return lax.conj(x) if dtypes.is_complex(aval("conjugate", x).dtype) else positive(x)


conj = conjugate


@public()
def real(val: ArrayLike, /) -> Array:
    """Real part."""
    return lax.real(val) if dtypes.is_complex(aval("real", val).dtype) else positive(val)


@public()
def imag(val: ArrayLike, /) -> Array:
    """Imaginary part; zeros for real numbers."""
    a = aval("imag", val)
    if dtypes.is_complex(a.dtype):
        return lax.imag(val)
    return lax.broadcast_in_dim(fixed(0, a.dtype), a.shape, ())


@public("deg")
def angle(z: ArrayLike, deg: bool = False) -> Array:
    """Argument of complex numbers in radians, or degrees when `deg`."""
    z = to_inexact("angle", z)
    y, x = imag(z), real(z)
    out = lax.atan2(y, x)
    return rad2deg(out) if deg else out


@public()
def deg2rad(x: ArrayLike, /) -> Array:
    """Degrees to radians."""
    x = to_inexact("deg2rad", x)
    return lax.mul(x, literal(np.pi / 180, typeof(x).dtype))


@public()
def rad2deg(x: ArrayLike, /) -> Array:
    """Radians to degrees."""
    x = to_inexact("rad2deg", x)
    return lax.mul(x, literal(180 / np.pi, typeof(x).dtype))


radians, degrees = deg2rad, rad2deg


@public()
def clip(arr: ArrayLike | None = None, /, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Array:
    """Elements below `min` become `min`, those above `max` become `max`.

    >>> clip(5, 0, 3)
    Array(3, dtype=int32, weak_type=True)
    """
    if arr is None:
        raise TypeError("clip: expected an array or a number first; got None")
    for position, v in enumerate((arr, min, max)):
        if v is not None and dtypes.is_complex(aval("clip", v, position).dtype):
            raise ValueError("clip: complex numbers have no order; take real or abs first")
    if min is not None:
        arr = maximum(min, arr)
    if max is not None:
        arr = minimum(max, arr)
    return positive(arr)
