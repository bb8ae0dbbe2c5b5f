"""Elementwise functions: operands of one dtype and one shape, any of which may be a number or rank 0.

They bind and do nothing else; type rules and their errors are in `lamina_ir.prims.elementwise`. A Python number
takes the dtype of the other operand. Meanings: the StableHLO section or NumPy function named by each primitive.
"""
from __future__ import annotations

import builtins
import enum
from collections.abc import Callable

from lamina_ir import DTypeError, dtypes, Primitive, ShapeError, trees
from lamina_ir.prims import (
    abs_p, acos_p, acosh_p, add_p, and_p, asin_p, asinh_p, atan2_p, atan_p, atanh_p, bessel_i0e_p, bessel_i1e_p,
    broadcast_in_dim_p, cbrt_p, ceil_p, clamp_p, clz_p, complex_p, conj_p, copy_p, cos_p, cosh_p, digamma_p, div_p,
    eq_p, erf_inv_p, erf_p, erfc_p, exp2_p, exp_p, expm1_p, floor_p, ge_p, gt_p, imag_p, integer_pow_p, is_finite_p,
    le_p, lgamma_p, log1p_p, log_p, logistic_p, lt_p, max_p, min_p, mul_p, ne_p, neg_p, nextafter_p, not_p, or_p,
    polygamma_p, population_count_p, pow_p, real_p, rem_p, round_p, rsqrt_p, select_p, shift_left_p,
    shift_right_arithmetic_p, shift_right_logical_p, sign_p, sin_p, sinh_p, sqrt_p, square_p, stop_gradient_p, sub_p,
    tan_p, tanh_p, xor_p, zeta_p,
)
from lamina_ir.typing import Tree, Value

from .._core.array import Array, ArrayLike
from .._diagnostics.argument_errors import rename_errors
from ._util.operands import as_int, bind, copy_host_result, match_scalars, set_public_name, typeof

__all__ = [
    "RoundingMethod", "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bessel_i0e",
    "bessel_i1e", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "cbrt", "ceil", "clamp", "clz", "complex",
    "conj", "copy", "cos", "cosh", "digamma", "div", "eq", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "floor",
    "ge", "gt", "imag", "integer_pow", "is_finite", "le", "lgamma", "log", "log1p", "logistic", "lt", "max", "min",
    "mul", "ne", "neg", "nextafter", "polygamma", "population_count", "pow", "real", "reciprocal", "rem", "round",
    "rsqrt", "select", "select_n", "shift_left", "shift_right_arithmetic", "shift_right_logical", "sign", "sin",
    "sinh", "sqrt", "square", "stop_gradient", "sub", "tan", "tanh", "zeta"]

_SCALARS = frozenset((bool, int, float, builtins.complex))


# --- one operand -------------------------------------------------------------------------------------------------


def neg(x: ArrayLike) -> Array:
    """Return -x, elementwise."""
    return bind(neg_p, x)


def sign(x: ArrayLike) -> Array:
    """Return -1, 0 or 1 by the sign of x; x / |x| for complex x."""
    return bind(sign_p, x)


def floor(x: ArrayLike) -> Array:
    """Return the largest integer not above x, as a float."""
    return bind(floor_p, x)


def ceil(x: ArrayLike) -> Array:
    """Return the smallest integer not below x, as a float."""
    return bind(ceil_p, x)


def is_finite(x: ArrayLike) -> Array:
    """Return whether x is neither infinite nor NaN; bool."""
    return bind(is_finite_p, x)


def exp(x: ArrayLike) -> Array:
    """Return e to the power x."""
    return bind(exp_p, x)


def exp2(x: ArrayLike) -> Array:
    """Return 2 to the power x."""
    return bind(exp2_p, x)


def expm1(x: ArrayLike) -> Array:
    """Return exp(x) - 1, accurate near 0."""
    return bind(expm1_p, x)


def log(x: ArrayLike) -> Array:
    """Return the natural logarithm of x."""
    return bind(log_p, x)


def log1p(x: ArrayLike) -> Array:
    """Return log(1 + x), accurate near 0."""
    return bind(log1p_p, x)


def sin(x: ArrayLike) -> Array:
    """Return the sine of x radians."""
    return bind(sin_p, x)


def cos(x: ArrayLike) -> Array:
    """Return the cosine of x radians."""
    return bind(cos_p, x)


def tan(x: ArrayLike) -> Array:
    """Return the tangent of x radians."""
    return bind(tan_p, x)


def asin(x: ArrayLike) -> Array:
    """Return the arc sine of x, in radians."""
    return bind(asin_p, x)


def acos(x: ArrayLike) -> Array:
    """Return the arc cosine of x, in radians."""
    return bind(acos_p, x)


def atan(x: ArrayLike) -> Array:
    """Return the arc tangent of x, in radians."""
    return bind(atan_p, x)


def sinh(x: ArrayLike) -> Array:
    """Return the hyperbolic sine of x."""
    return bind(sinh_p, x)


def cosh(x: ArrayLike) -> Array:
    """Return the hyperbolic cosine of x."""
    return bind(cosh_p, x)


def tanh(x: ArrayLike) -> Array:
    """Return the hyperbolic tangent of x."""
    return bind(tanh_p, x)


def asinh(x: ArrayLike) -> Array:
    """Return the inverse hyperbolic sine of x."""
    return bind(asinh_p, x)


def acosh(x: ArrayLike) -> Array:
    """Return the inverse hyperbolic cosine of x."""
    return bind(acosh_p, x)


def atanh(x: ArrayLike) -> Array:
    """Return the inverse hyperbolic tangent of x."""
    return bind(atanh_p, x)


def sqrt(x: ArrayLike) -> Array:
    """Return the square root of x."""
    return bind(sqrt_p, x)


def rsqrt(x: ArrayLike) -> Array:
    """Return 1 / sqrt(x)."""
    return bind(rsqrt_p, x)


def cbrt(x: ArrayLike) -> Array:
    """Return the real cube root of x."""
    return bind(cbrt_p, x)


def logistic(x: ArrayLike) -> Array:
    """Return 1 / (1 + exp(-x))."""
    return bind(logistic_p, x)


def abs(x: ArrayLike) -> Array:
    """Return the absolute value of x; real for complex x. The derivative at 0 is 0."""
    return bind(abs_p, x)


def real(x: ArrayLike) -> Array:
    """Return the real part of a complex array."""
    return bind(real_p, x)


def imag(x: ArrayLike) -> Array:
    """Return the imaginary part of a complex array."""
    return bind(imag_p, x)


def square(x: ArrayLike) -> Array:
    """Return x * x."""
    return bind(square_p, x)


def erf(x: ArrayLike) -> Array:
    """Return the error function of x."""
    return bind(erf_p, x)


def erfc(x: ArrayLike) -> Array:
    """Return 1 - erf(x), accurate for large x."""
    return bind(erfc_p, x)


def erf_inv(x: ArrayLike) -> Array:
    """Return the inverse of erf on (-1, 1)."""
    return bind(erf_inv_p, x)


def lgamma(x: ArrayLike) -> Array:
    """Return log |gamma(x)|."""
    return bind(lgamma_p, x)


def digamma(x: ArrayLike) -> Array:
    """Return the derivative of log gamma at x."""
    return bind(digamma_p, x)


def bessel_i0e(x: ArrayLike) -> Array:
    """Return exp(-|x|) I0(x), the scaled modified Bessel function of order 0."""
    return bind(bessel_i0e_p, x)


def bessel_i1e(x: ArrayLike) -> Array:
    """Return exp(-|x|) I1(x), the scaled modified Bessel function of order 1."""
    return bind(bessel_i1e_p, x)


def bitwise_not(x: ArrayLike) -> Array:
    """Flip every bit of x; logical not for bool."""
    return bind(not_p, x)


def population_count(x: ArrayLike) -> Array:
    """Count the bits that are one."""
    return bind(population_count_p, x)


def clz(x: ArrayLike) -> Array:
    """Count the leading zero bits."""
    return bind(clz_p, x)


class RoundingMethod(enum.IntEnum):
    """How `round` rounds halves."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def round(x: ArrayLike, rounding_method: int = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """Round to the nearest integer, as a float; halves according to `rounding_method`.

    >>> round(2.5), round(2.5, RoundingMethod.TO_NEAREST_EVEN)
    (Array(3., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    how = as_int("round", "rounding_method", rounding_method)
    if how not in (0, 1):
        raise ValueError(f"round: rounding_method must be one of {', '.join(map(str, RoundingMethod))}; got {how}")
    return bind(round_p, x, rounding_method=how)


def conj(x: ArrayLike) -> Array:
    """Return the complex conjugate of x; real numbers become complex ones."""
    return bind(conj_p, x) if dtypes.is_complex(typeof(x).dtype) else complex(x, 0.0)


def reciprocal(x: ArrayLike) -> Array:
    """Return 1 / x, for floats and complex numbers."""
    if not dtypes.is_inexact(typeof(x).dtype):
        raise DTypeError(f"reciprocal: expected floats or complex numbers; got {typeof(x).str_long()}; convert with "
                         "lax.convert_element_type")
    return bind(integer_pow_p, x, y=-1)


def integer_pow(x: ArrayLike, y: int) -> Array:
    """Raise x to the integer power `y`, known when the program is built; 1 for `y` 0.

    Raises:
      DTypeError: `y` is negative and `x` holds integers.

    >>> integer_pow(2.0, -2)
    Array(0.25, dtype=float32, weak_type=True)
    """
    y = as_int("integer_pow", "y", y)
    if y < 0 and not dtypes.is_inexact(typeof(x).dtype):
        raise DTypeError(f"integer_pow: a negative power needs floats or complex numbers; got {typeof(x).str_long()} to "
                         f"the power {y}")
    return bind(integer_pow_p, x, y=y)


def copy(x: ArrayLike) -> Array:
    """Copy values to separate memory."""
    return bind(copy_p, x)


@rename_errors
def stop_gradient(x: Tree) -> Tree:
    """Return `x` as a constant of differentiation: its derivative is zero. Works on every array of a pytree.

    >>> stop_gradient({"a": 1.0})
    {'a': Array(1., dtype=float32, weak_type=True)}
    """
    return trees.tree_map(_stop, x)


def _stop(x: Value) -> Value:
    return bind(stop_gradient_p, x) if dtypes.is_inexact(typeof(x).dtype) else copy_host_result(x)


# --- two operands ------------------------------------------------------------------------------------------------


def _repeat_unit_axes(x: Value, y: Value) -> list[Value] | None:
    """Repeat the operands along axes of length 1; None if that does not give equal shapes."""
    a, b = typeof(x).shape, typeof(y).shape
    if a == b or len(a) != len(b) or any(m != n and 1 not in (m, n) for m, n in zip(a, b, strict=True)):
        return None
    shape = tuple([n if m == 1 else m for m, n in zip(a, b, strict=True)])
    axes = tuple(range(len(shape)))
    return [bind(broadcast_in_dim_p, v, shape=shape, broadcast_dimensions=axes) for v in (x, y)]


def _make_binary_function(name: str, prim: Primitive, doc: str) -> Callable[[ArrayLike, ArrayLike], Array]:
    """Return the function of a primitive with two operands; axes of length 1 are repeated if both operands have equal
    rank."""
    def op(x: ArrayLike, y: ArrayLike) -> Array:  # inlined: a shared function would add a tenth
        if type(x) in _SCALARS or type(y) in _SCALARS:
            x, y = match_scalars(x, y)
        try:
            return bind(prim, x, y)
        except ShapeError:
            both = _repeat_unit_axes(x, y)
            if both is None:
                raise
        return bind(prim, *both)
    return set_public_name(op, name, doc)


add = _make_binary_function("add", add_p, "Return x + y; the logical or for bool.")
sub = _make_binary_function("sub", sub_p, "Return x - y.")
mul = _make_binary_function("mul", mul_p, "Return x * y; the logical and for bool.")
div = _make_binary_function("div", div_p, "Return x / y; integers round towards zero.")
rem = _make_binary_function("rem", rem_p, "Return the remainder of x / y, with the sign of x.")
max = _make_binary_function("max", max_p, "Return the larger of x and y; NaN if either is.")
min = _make_binary_function("min", min_p, "Return the smaller of x and y; NaN if either is.")
bitwise_and = _make_binary_function("bitwise_and", and_p, "Return the bitwise and of x and y.")
bitwise_or = _make_binary_function("bitwise_or", or_p, "Return the bitwise or of x and y.")
bitwise_xor = _make_binary_function("bitwise_xor", xor_p, "Return the bitwise exclusive or of x and y.")
shift_left = _make_binary_function("shift_left", shift_left_p, "Shift x left by y bits; 0 if y is at least the width.")
shift_right_logical = _make_binary_function("shift_right_logical", shift_right_logical_p,
                                            "Shift right by y bits, filling with zeros.")
shift_right_arithmetic = _make_binary_function("shift_right_arithmetic", shift_right_arithmetic_p,
                                               "Shift right by y bits, filling with the sign.")
eq = _make_binary_function("eq", eq_p, "Return x == y; bool.")
ne = _make_binary_function("ne", ne_p, "Return x != y; bool.")
lt = _make_binary_function("lt", lt_p, "Return x < y; bool.")
le = _make_binary_function("le", le_p, "Return x <= y; bool.")
gt = _make_binary_function("gt", gt_p, "Return x > y; bool.")
ge = _make_binary_function("ge", ge_p, "Return x >= y; bool.")
_atan2 = _make_binary_function("atan2", atan2_p, "On real operands.")
_nextafter = _make_binary_function("nextafter", nextafter_p, "")
_polygamma = _make_binary_function("polygamma", polygamma_p, "")
_zeta = _make_binary_function("zeta", zeta_p, "")
pow = _make_binary_function("pow", pow_p, "Return x to the power y. `y` has the dtype of `x`, or holds integers.")
complex = _make_binary_function("complex", complex_p, "Return x + i y, from float32 or float64 parts.")


def atan2(x: ArrayLike, y: ArrayLike) -> Array:
    """Angle of the point (y, x) in radians: the arc tangent of x / y in the right quadrant.

    Continued to complex numbers as `-i log((y + i x) / sqrt(x^2 + y^2))`.
    """
    if type(x) not in _SCALARS and dtypes.is_complex(typeof(x).dtype):
        x, y = match_scalars(x, y)
        angle = log(div(add(y, mul(1j, x)), sqrt(add(square(x), square(y)))))
        return mul(-1j, angle)
    return _atan2(x, y)


def nextafter(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Return the next float after x1 in the direction of x2."""
    return _nextafter(x1, x2)


def polygamma(m: ArrayLike, x: ArrayLike) -> Array:
    """Compute the m-th derivative of digamma at x; m is an integer, given as a float."""
    return _polygamma(m, x)


def zeta(x: ArrayLike, q: ArrayLike) -> Array:
    """Hurwitz zeta: the sum over k >= 0 of (q + k)^-x."""
    return _zeta(x, q)


# --- three operands, and arrays of one value ---------------------------------------------------------------------


def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """Select `on_true` where `pred` is true, else `on_false`.

    Args:
      pred: booleans, of rank 0 or of the shape of the others.
      on_true, on_false: arrays of one shape and dtype; a Python number takes the dtype of the other.

    >>> import numpy as np
    >>> select(np.array([True, False]), np.float32([1, 2]), 0)
    Array([1., 0.], dtype=float32)
    """
    if type(on_true) in _SCALARS or type(on_false) in _SCALARS:
        on_true, on_false = match_scalars(on_true, on_false)
    return bind(select_p, pred, on_true, on_false)


def select_n(which: ArrayLike, *cases: ArrayLike) -> Array:
    """Select from `cases[which]`, elementwise. `which` is bool (two cases: false, true) or holds integers.

    >>> import numpy as np
    >>> select_n(np.array([True, False]), np.float32([1, 2]), np.float32([3, 4]))
    Array([3., 2.], dtype=float32)
    """
    if not cases:
        raise ValueError("select_n: expected at least one case; got none")
    kind = typeof(which).dtype
    if kind != dtypes.BOOL and not dtypes.is_integer(kind):
        raise DTypeError(f"select_n: which must be bool or integers; got {typeof(which).str_long()}")
    if kind == dtypes.BOOL:
        if len(cases) > 2:
            raise ValueError(f"select_n: a bool `which` chooses between two cases; got {len(cases)}")
        return select(which, cases[-1], cases[0])
    chosen = cases[-1]
    for k in range(len(cases) - 2, -1, -1):
        chosen = select(lt(which, k + 1), cases[k], chosen)
    return copy_host_result(chosen)


def clamp(min: ArrayLike, x: ArrayLike, max: ArrayLike) -> Array:
    """Limit `x` to the range from `min` to `max`.

    Args:
      min, max: bounds of the dtype of `x`, or Python numbers; each of rank 0 or of the shape of `x`.
      x: ordered numbers. Where `min` is above `max` the result is `max`.

    >>> import numpy as np
    >>> clamp(0, np.int32([-1, 2, 9]), 5)
    Array([0, 2, 5], dtype=int32)
    """
    if type(min) in _SCALARS or type(max) in _SCALARS:
        min, max = match_scalars(min, x)[0], match_scalars(max, x)[0]
    return bind(clamp_p, min, x, max)
