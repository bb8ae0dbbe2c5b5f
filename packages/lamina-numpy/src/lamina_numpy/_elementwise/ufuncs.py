"""Elementwise mathematics: each function is a few equations after promotion.

Tables make the functions that are one equation; the rest are written out. `_powers.py`, `_division.py` and
`rounding.py` hold theirs. Names and meanings follow NumPy; angles are in radians unless a name says degrees.
"""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import DTypeError, dtypes, prims
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import typeof

from .._core.promotion import (aval, convert, equation, inexact_pair, literal, make_constant, promote_pair, retype,
                               to_inexact)
from .._core.public_api import public_api
from .._core.ufunc_types import Binary, Unary, make_binary, make_unary
from ._docstrings import PAIR, PAIR_RAISES, docstring, ELEMENTWISE, PAIRWISE

__all__ = ["abs", "absolute", "acos", "acosh", "add", "angle", "arccos", "arccosh", "arcsin", "arcsinh", "arctan",
           "arctan2", "arctanh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "clip", "conj", "conjugate", "cos",
           "cosh", "deg2rad", "degrees", "divide", "exp", "exp2", "expm1", "fabs", "imag", "log", "log10", "log1p",
           "log2", "maximum", "minimum", "multiply", "negative", "nextafter", "positive", "rad2deg", "radians", "real",
           "reciprocal", "sign", "sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh", "true_divide"]

_I32 = np.dtype("int32")
_LN2 = float(np.log(2.0))
_LN10 = float(np.log(10.0))


_SAME = "Array of the shape and dtype of `x`."
_FLOAT = "Array of the shape and dtype of `x`; float32 for booleans and integers (float64 for those of 64 bits)."
_MET = "Array of the shape `x` and `y` broadcast to, in the dtype they meet in."
_FLOAT_MET = ("Array of the shape `x` and `y` broadcast to, in the dtype they meet in; float32 for booleans and integers\n"
              "  (float64 for those of 64 bits).")
_NO_NUMBER = {"TypeError": "`x` is neither an array nor a number."}


def _make_unary(name: str, prim: Any, says: str, derivative: str, example: str) -> Unary:
    """One equation on any number dtype."""
    def op(x: ArrayLike, /) -> Array:
        aval(name, x)
        return equation(prim, x)
    doc = docstring(says, {"x": "number array."}, _SAME, {**_NO_NUMBER, "DTypeError": "`x` holds booleans."},
                    f"meaning of `numpy.{name}`.", example, derivative)
    return make_unary(name, doc, op)


def _make_float_unary(name: str, prim: Any, says: str, derivative: str, example: str, *, x: str = "number array",
                      more: str = "",
                      refuses: str = "") -> Unary:
    """One equation in float."""
    raises = {**_NO_NUMBER, "DTypeError": f"`x` holds {refuses}."} if refuses else _NO_NUMBER
    doc = docstring(says, {"x": f"{x}; booleans and integers become float."}, _FLOAT + more.replace(" ", "\n  ", 1), raises,
                    f"meaning of `numpy.{name}`.", example, derivative)

    def op(x: ArrayLike, /) -> Array:
        return equation(prim, to_inexact(name, x))
    return make_unary(name, doc, op)


def _make_binary(name: str, prim: Any, says: str, example: str) -> Binary:
    def op(x: ArrayLike, y: ArrayLike, /) -> Array:
        x, y, _ = promote_pair(name, x, y)
        return equation(prim, x, y)
    doc = docstring(says, PAIR, _MET + " Complex numbers are ordered by real,\n  then by imaginary part.", PAIR_RAISES,
                    f"meaning of `numpy.{name}`.", example,
                    "goes to the element that was taken; half to each where both are equal.")
    return make_binary(name, doc, op)


def _make_arithmetic(name: str, prim: Any, on_bool: Any, says: str, derivative: str, example: str) -> Binary:
    """Return a function as `_make_binary` does, with a logical meaning on booleans."""
    bool_ = dtypes.BOOL

    def op(x: ArrayLike, y: ArrayLike, /) -> Array:
        x, y, d = promote_pair(name, x, y)
        if d is bool_:
            if on_bool is None:
                raise DTypeError(f"{name}: not defined on booleans; use logical_xor or convert with astype(int)")
            return equation(on_bool, x, y)
        return equation(prim, x, y)
    raises = PAIR_RAISES if on_bool is not None else {**PAIR_RAISES, "DTypeError": "both hold booleans."}
    doc = docstring(says, PAIR, _MET + " Integers wrap around.", raises, f"meaning of `numpy.{name}`.", example, derivative)
    return make_binary(name, doc, op)


def _make_float_binary(name: str, prim: Any, says: str, derivative: str, example: str, *, x: str = PAIR["x, y"],
                       more: str = "",
                       refuses: str = "") -> Binary:
    raises = {**PAIR_RAISES, "DTypeError": f"one of them holds {refuses}."} if refuses else PAIR_RAISES
    doc = docstring(says, {"x, y": x}, _FLOAT_MET + more, raises, f"meaning of `numpy.{name}`.", example, derivative)

    def op(x: ArrayLike, y: ArrayLike, /) -> Array:
        x, y = inexact_pair(name, x, y)
        return equation(prim, x, y)
    return make_binary(name, doc, op)


sin = _make_float_unary("sin", prims.sin_p, "Sine.", "`cos(x)`.",
                        ">>> sin(np.array([0., np.pi / 2]))\nArray([0., 1.], dtype=float32)",
                        x="number array, in radians")
cos = _make_float_unary("cos", prims.cos_p, "Cosine.", "`-sin(x)`.",
                        ">>> cos(np.array([0., np.pi]))\nArray([ 1., -1.], dtype=float32)",
                        x="number array, in radians")
tan = _make_float_unary("tan", prims.tan_p, "Tangent.", "`1 + tan(x)**2`.",
                        ">>> tan(0.0)\nArray(0., dtype=float32, weak_type=True)", x="number array, in radians")
arcsin = asin = _make_float_unary("arcsin", prims.asin_p, "Angle in [-pi/2, pi/2] whose sine is `x`.",
                                  "`1 / sqrt(1 - x**2)`, infinite at -1 and 1.",
                                  ">>> arcsin(np.array([0., 1., 2.]))\nArray([0.       , 1.5707964,       nan], dtype=float32)",
                                  more=" In radians; NaN for real `x` outside of [-1, 1].")
arccos = acos = _make_float_unary("arccos", prims.acos_p, "Angle in [0, pi] whose cosine is `x`.",
                                  "`-1 / sqrt(1 - x**2)`, infinite at -1 and 1.",
                                  ">>> arccos(np.array([1., 0., 2.]))\nArray([0.       , 1.5707964,       nan], dtype=float32)",
                                  more=" In radians; NaN for real `x` outside of [-1, 1].")
arctan = atan = _make_float_unary("arctan", prims.atan_p, "Angle in [-pi/2, pi/2] whose tangent is `x`.",
                                  "`1 / (1 + x**2)`.",
                                  ">>> arctan(np.array([1., np.inf]))\nArray([0.7853982, 1.5707964], dtype=float32)",
                                  more=" In radians.")
sinh = _make_float_unary("sinh", prims.sinh_p, "Hyperbolic sine: `(exp(x) - exp(-x)) / 2`.", "`cosh(x)`.",
                         ">>> sinh(1.0)\nArray(1.1752012, dtype=float32, weak_type=True)")
cosh = _make_float_unary("cosh", prims.cosh_p, "Hyperbolic cosine: `(exp(x) + exp(-x)) / 2`.", "`sinh(x)`.",
                         ">>> cosh(0.0)\nArray(1., dtype=float32, weak_type=True)")
tanh = _make_float_unary("tanh", prims.tanh_p, "Hyperbolic tangent: `sinh(x) / cosh(x)`.", "`1 - tanh(x)**2`.",
                         ">>> tanh(np.array([0., np.inf]))\nArray([0., 1.], dtype=float32)")
arcsinh = asinh = _make_float_unary("arcsinh", prims.asinh_p, "Inverse of `sinh`.", "`1 / sqrt(x**2 + 1)`.",
                                    ">>> arcsinh(np.array([0., np.inf]))\nArray([ 0., inf], dtype=float32)")
arccosh = acosh = _make_float_unary("arccosh", prims.acosh_p, "Inverse of `cosh`, not negative.",
                                    "`1 / sqrt(x**2 - 1)`, infinite at 1.",
                                    ">>> arccosh(np.array([1., 0.5]))\nArray([ 0., nan], dtype=float32)",
                                    more=" NaN for real `x` below 1.")
arctanh = atanh = _make_float_unary("arctanh", prims.atanh_p, "Inverse of `tanh`.", "`1 / (1 - x**2)`.",
                                    ">>> arctanh(np.array([0., 1., 2.]))\nArray([ 0., inf, nan], dtype=float32)",
                                    more=" Infinite at -1 and 1, NaN for real `x` outside of them.")
exp = _make_float_unary("exp", prims.exp_p, "Return e to the power of each element.", "`exp(x)`.",
                        ">>> exp(np.array([0., -np.inf]))\nArray([1., 0.], dtype=float32)")
exp2 = _make_float_unary("exp2", prims.exp2_p, "Return 2 to the power of each element.", "`log(2) * exp2(x)`.",
                         ">>> exp2(np.array([3, -1]))\nArray([8. , 0.5], dtype=float32)")
expm1 = _make_float_unary("expm1", prims.expm1_p, "`exp(x) - 1`, accurate near zero.", "`exp(x)`.",
                          ">>> expm1(1e-10)\nArray(1.e-10, dtype=float32, weak_type=True)")
log = _make_float_unary("log", prims.log_p, "Natural logarithm.", "`1 / x`.",
                        ">>> log(np.array([1., 0., -1.]))\nArray([  0., -inf,  nan], dtype=float32)",
                        more=" Minus infinity at 0, NaN for negative real numbers.")
log1p = _make_float_unary("log1p", prims.log1p_p, "`log(1 + x)`, accurate near zero.", "`1 / (1 + x)`.",
                          ">>> log1p(np.array([1e-7, -1.]))\nArray([9.9999994e-08,          -inf], dtype=float32)",
                          more=" Minus infinity at -1, NaN for real numbers below.")
sqrt = _make_float_unary("sqrt", prims.sqrt_p, "Square root.", "`1 / (2 sqrt(x))`, infinite at 0.",
                         ">>> sqrt(np.array([4, -1]))\nArray([ 2., nan], dtype=float32)",
                         more=" NaN for negative real numbers.")
cbrt = _make_float_unary("cbrt", prims.cbrt_p, "Cube root, with the sign of `x`.",
                         "`1 / (3 cbrt(x)**2)`, infinite at 0.",
                         ">>> cbrt(-8.0)\nArray(-2., dtype=float32, weak_type=True)", x="real array",
                         refuses="complex numbers")

negative = _make_unary("negative", prims.neg_p, "Minus `x`.", "linear.",
                       ">>> negative(np.array([3, -1]))\nArray([-3,  1], dtype=int32)")

add = _make_arithmetic("add", prims.add_p, prims.or_p, "Sum; `or` of booleans.", "1 for both.",
                       ">>> add(np.array([1, 2]), 2.5)\nArray([3.5, 4.5], dtype=float32, weak_type=True)")
multiply = _make_arithmetic("multiply", prims.mul_p, prims.and_p, "Product; `and` of booleans.",
                            "`y` for `x`, `x` for `y`.",
                            ">>> multiply(np.array([[1.], [2.]]), np.array([3., 4.]))\n"
                            "Array([[3., 4.],\n       [6., 8.]], dtype=float32)")
subtract = _make_arithmetic("subtract", prims.sub_p, None, "Difference.", "1 for `x`, -1 for `y`.",
                            ">>> subtract(np.array([1, 2]), 3)\nArray([-2, -1], dtype=int32)")
maximum = _make_binary("maximum", prims.max_p, "Larger of two elements; NaN where either is.",
                       ">>> maximum(np.array([1., np.nan]), 2.0)\nArray([ 2., nan], dtype=float32)")
minimum = _make_binary("minimum", prims.min_p, "Smaller of two elements; NaN where either is.",
                       ">>> minimum(np.array([1., np.nan]), 2.0)\nArray([ 1., nan], dtype=float32)")
true_divide = divide = _make_float_binary("true_divide", prims.div_p, "Quotient, in float.",
                                          "`1 / y` for `x`, `-x / y**2` for `y`.",
                                          ">>> true_divide(np.array([1, -1, 0]), np.array([2, 0, 0]))\n"
                                          "Array([ 0.5, -inf,  nan], dtype=float32)",
                                          more=" Infinite where `y` alone is 0, NaN where both are.")
nextafter = _make_float_binary("nextafter", prims.nextafter_p, "Next float after `x` in the direction of `y`.",
                               "none; asking for it raises MissingRuleError.",
                               ">>> nextafter(1.0, 2.0)\nArray(1.0000001, dtype=float32, weak_type=True)",
                               x="real arrays that broadcast to each other.", more=" `y` where both are equal.",
                               refuses="complex numbers")


@public_api(entries=PAIRWISE)
def arctan2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Angle of the point whose coordinates are `x2` (across) and `x1` (up).

    Args: {x1, x2}
    Returns: {floats}
      In radians, in [-pi, pi] for real numbers; 0 or pi, with the sign of `x1`, if both are 0.
    Raises: {ShapeError, TypeError}

    Derivative: `x2 / (x1**2 + x2**2)` for `x1`, `-x1 / (x1**2 + x2**2)` for `x2`; NaN where both are 0.
    Source: meaning of `numpy.arctan2`; NumPy refuses complex numbers, which give
      `-i log((x2 + i x1) / sqrt(x1**2 + x2**2))` here.

    >>> arctan2(np.array([1., -1.]), np.array([0., -1.]))
    Array([ 1.5707964, -2.3561945], dtype=float32)
    """
    return lax.atan2(*inexact_pair("arctan2", x1, x2))


atan2 = arctan2


@public_api(entries=ELEMENTWISE)
def positive(x: ArrayLike, /) -> Array:
    """`+x`: the same numbers, as an array.

    Args: {x}
    Returns: {same}
    Raises: {TypeError}

    Derivative: linear.
    Source: meaning of `numpy.positive`, and booleans pass too.

    >>> positive(2)
    Array(2, dtype=int32, weak_type=True)
    """
    a = aval("positive", x)
    if type(x) in (bool, int, float, complex):
        return retype(x, a.dtype, a.weak_type)
    return x  # type: ignore[return-value]  # an array, as `public_api` gives it


@public_api(entries=ELEMENTWISE)
def abs(x: ArrayLike, /) -> Array:
    """Distance of each element from zero.

    Args: {x}
    Returns:
      Array of the shape of `x`, not negative; of the dtype of `x`, real for complex numbers. The lowest integer of a
      dtype stays as it is.
    Raises: {TypeError}

    Derivative: `sign(x)`, which is 0 at 0; for complex numbers 0 at 0 as well.
    Source: meaning of `numpy.abs`.

    >>> abs(np.array([-2, 3]))
    Array([2, 3], dtype=int32)
    >>> abs(3 + 4j)
    Array(5., dtype=float32, weak_type=True)
    """
    d = aval("abs", x).dtype
    if d == dtypes.BOOL or dtypes.issubdtype(d, np.unsignedinteger):
        return positive(x)
    return lax.abs(x)


absolute = abs


@public_api(entries=ELEMENTWISE)
def fabs(x: ArrayLike, /) -> Array:
    """Distance of each element from zero, in float.

    Args:
      x: real array; booleans and integers become float.
    Returns: {floats}
    Raises: {TypeError, DTypeError}

    Derivative: `sign(x)`, 0 at 0.
    Source: meaning of `numpy.fabs`.

    >>> fabs(np.array([-2, 3]))
    Array([2., 3.], dtype=float32)
    """
    x = to_inexact("fabs", x)
    if dtypes.is_complex(typeof(x).dtype):
        raise DTypeError(f"fabs: expected real numbers; got {typeof(x).str_long()}. Use abs")
    return lax.abs(x)


@public_api()
def sign(x: ArrayLike, /) -> Array:
    """Return -1, 0 or 1 for elements below, at and above zero.

    Args:
      x: number array.
    Returns:
      Array of the shape and dtype of `x`. For complex numbers `x / abs(x)`; NaN for NaN.
    Raises:
      TypeError: `x` is neither an array nor a number.
      DTypeError: `x` holds booleans.

    Derivative: zero for real numbers.
    Source: meaning of `numpy.sign`; -0.0 stays -0.0.

    >>> sign(np.array([-2, 0, 3]))
    Array([-1,  0,  1], dtype=int32)
    >>> sign(3 + 4j)
    Array(0.6+0.8j, dtype=complex64, weak_type=True)
    """
    aval("sign", x)
    return lax.sign(x)


@public_api(entries=ELEMENTWISE)
def square(x: ArrayLike, /) -> Array:
    """Each element times itself.

    Args: {x}
    Returns:
      Array of the shape and dtype of `x`, int32 for booleans; integers wrap around.
    Raises: {TypeError}

    Derivative: `2 x`.
    Source: meaning of `numpy.square`.

    >>> square(np.array([-2., 3.]))
    Array([4., 9.], dtype=float32)
    """
    if aval("square", x).dtype == dtypes.BOOL:
        x = convert(x, _I32)
    return lax.integer_pow(x, 2)


@public_api(entries=ELEMENTWISE)
def reciprocal(x: ArrayLike, /) -> Array:
    """`1 / x`, in float.

    Args:
      x: number array; booleans and integers become float.
    Returns: {floats}
      Infinite at 0.
    Raises: {TypeError}

    Derivative: `-1 / x**2`.
    Source: meaning of `numpy.reciprocal`; integers give floats here.

    >>> reciprocal(np.array([2, 0]))
    Array([0.5, inf], dtype=float32)
    """
    x = to_inexact("reciprocal", x)
    return lax.integer_pow(x, -1)


def _divide_log(scale: float, x: Array) -> Array:
    """Return log(x) / scale. The parts of complex numbers are divided: an infinite part would make the other NaN."""
    y = lax.log(x)
    d = typeof(y).dtype
    if not dtypes.is_complex(d):
        return lax.div(y, make_constant(scale, d))
    divisor = make_constant(scale, dtypes.real_dtype(d))
    return lax.complex(lax.div(lax.real(y), divisor), lax.div(lax.imag(y), divisor))


def _make_log(name: str, base: int, log_base: float) -> Unary:
    doc = docstring(f"Logarithm to base {base}.", {"x": "number array; booleans and integers become float."},
                    f"{_FLOAT}\n  Minus infinity at 0, NaN for negative real numbers.", _NO_NUMBER,
                    f"meaning of `numpy.{name}`.",
                    f">>> {name}(np.array([1., 0., -1.]))\nArray([  0., -inf,  nan], dtype=float32)",
                    f"`1 / (log({base}) x)`.")

    def op(x: ArrayLike, /) -> Array:
        return _divide_log(log_base, to_inexact(name, x))
    return make_unary(name, doc, op)


log2, log10 = _make_log("log2", 2, _LN2), _make_log("log10", 10, _LN10)


@public_api(entries=ELEMENTWISE)
def conjugate(x: ArrayLike, /) -> Array:
    """Complex conjugate: the imaginary part with the other sign.

    Args: {x}
    Returns:
      Array of the shape and dtype of `x`. What is not complex comes back as it is.
    Raises: {TypeError}

    Derivative: linear over the reals.
    Source: meaning of `numpy.conjugate`.

    >>> conjugate(1 + 2j)
    Array(1.-2.j, dtype=complex64, weak_type=True)
    """
    return lax.conj(x) if dtypes.is_complex(aval("conjugate", x).dtype) else positive(x)


conj = conjugate


@public_api()
def real(val: ArrayLike, /) -> Array:
    """Real part of each element.

    Args:
      val: number or boolean array.
    Returns:
      Array of the shape of `val`; of its dtype, or the real one of as many bits per part for complex numbers.
    Raises:
      TypeError: `val` is neither an array nor a number.

    Derivative: linear over the reals.
    Source: meaning of `numpy.real`.

    >>> real(np.array([1 + 2j, 3]))
    Array([1., 3.], dtype=float32)
    """
    return lax.real(val) if dtypes.is_complex(aval("real", val).dtype) else positive(val)


@public_api()
def imag(val: ArrayLike, /) -> Array:
    """Imaginary part of each element.

    Args:
      val: number or boolean array.
    Returns:
      Array of the shape of `val`, zeros where `val` is not complex; of its dtype, or the real one of as many bits per
      part for complex numbers.
    Raises:
      TypeError: `val` is neither an array nor a number.

    Derivative: linear over the reals.
    Source: meaning of `numpy.imag`.

    >>> imag(np.array([1 + 2j, 3]))
    Array([2., 0.], dtype=float32)
    """
    a = aval("imag", val)
    if dtypes.is_complex(a.dtype):
        return lax.imag(val)
    return lax.broadcast_in_dim(make_constant(0, a.dtype), a.shape, ())


@public_api("deg")
def angle(z: ArrayLike, deg: bool = False) -> Array:
    """Angle of each element in the complex plane, from the positive real axis.

    Args:
      z: number array; the angle of real numbers is 0 or pi.
      deg: whether the result is in degrees; known, not traced.
    Returns:
      Real array of the shape of `z`, in [-pi, pi] radians or [-180, 180] degrees; float32 for booleans and
      integers (float64 for those of 64 bits).
    Raises:
      TypeError: `z` is neither an array nor a number.

    Derivative: NaN at 0.
    Source: meaning of `numpy.angle`.

    >>> angle(np.array([1j, -1]))
    Array([1.5707964, 3.1415927], dtype=float32)
    >>> angle(1j, deg=True)
    Array(90., dtype=float32, weak_type=True)
    """
    z = to_inexact("angle", z)
    y, x = imag(z), real(z)
    out = lax.atan2(y, x)
    return rad2deg(out) if deg else out


def _make_angle_unit(name: str, of: str, to: str, formula: str, factor: float, example: str) -> Unary:
    doc = docstring(f"{of.capitalize()} as {to}: `{formula}`.",
                    {"x": f"number array, in {of}; booleans and integers become float."}, f"{_FLOAT}\n  In {to}.",
                    _NO_NUMBER, f"meaning of `numpy.{name}`.", example, "linear.")

    def op(x: ArrayLike, /) -> Array:
        x = to_inexact(name, x)
        return lax.mul(x, literal(factor, typeof(x).dtype))
    return make_unary(name, doc, op)


deg2rad = _make_angle_unit("deg2rad", "degrees", "radians", "x * pi / 180", np.pi / 180,
                           ">>> deg2rad(180)\nArray(3.1415927, dtype=float32, weak_type=True)")
rad2deg = _make_angle_unit("rad2deg", "radians", "degrees", "x * 180 / pi", 180 / np.pi,
                           ">>> rad2deg(np.pi)\nArray(180., dtype=float32, weak_type=True)")
radians, degrees = deg2rad, rad2deg


@public_api()
def clip(arr: ArrayLike | None = None, /, min: ArrayLike | None = None, max: ArrayLike | None = None, *,
         a: ArrayLike | None = None, a_min: ArrayLike | None = None, a_max: ArrayLike | None = None) -> Array:
    """Elements below `min` become `min`, those above `max` become `max`.

    Args:
      arr: real or boolean array.
      min: lower bound, which broadcasts to `arr`; None for none.
      max: upper bound, likewise; where it is below `min` it wins.
      a, a_min, a_max: older names of the three.
    Returns:
      Array of the shape that `arr` and the bounds broadcast to, in the dtype they meet in; NaN where any of them is.
    Raises:
      ValueError: one of them holds complex numbers.
      ShapeError: `arr` and a bound do not broadcast to each other.
      TypeError: `arr` is None, or one of them is neither an array nor a number.

    Derivative: goes to `arr` between the bounds, to the bound outside of them; half to each at a bound.
    Source: meaning of `numpy.clip`.

    >>> clip(np.array([-1, 2, 5]), 0, 3)
    Array([0, 2, 3], dtype=int32)
    """
    arr, min, max = (new if old is None else old for new, old in ((arr, a), (min, a_min), (max, a_max)))
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
