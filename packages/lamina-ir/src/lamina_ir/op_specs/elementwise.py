"""Specs of the elementwise primitives."""
from ._spec import op

__all__ = ["INTRO", "SPECS"]

INTRO = """
Operands have one dtype, unless stated otherwise, and one shape, or rank 0: an operand of rank 0 is broadcast to that shape.
The result has that shape; "like x" means that it also has the operands' dtype. For each element:

- Floats are computed as exactly as possible and rounded once. Undefined results are NaN. A NaN operand gives NaN.
- Integers are computed modulo 2 to the number of their bits.
- Functions of complex numbers have NumPy's branch cuts: `log` and `sqrt` along the negative real axis, continuous from above
  for +0.
- *floats*: all float dtypes; *inexact*: floats and complex dtypes; *numbers*: inexact and integers; *ordered*: floats,
  integers, bool.
"""

SPECS = [
    op("abs", "x", "the dtype of x; of complex x that of its parts",
       "Of numbers: |x|. The lowest signed integer is its own."),
    op("acos", "x", "like x", "Of inexact: the arc cosine, in [0, pi]."),
    op("acosh", "x", "like x", "Of inexact: the inverse of cosh, with a real part of at least 0."),
    op("add", "x y", "like x", "Of numbers: x + y. Of bool: x or y."),
    op("and", "x y", "like x", "Of integers and bool: bit by bit and."),
    op("asin", "x", "like x", "Of inexact: the arc sine, in [-pi/2, pi/2]."),
    op("asinh", "x", "like x", "Of inexact: the inverse of sinh."),
    op("atan2", "y x", "like y", "Of floats: the angle of the point (x, y), in [-pi, pi]; signs of zeros matter."),
    op("atan", "x", "like x", "Of inexact: the arc tangent, in [-pi/2, pi/2]."),
    op("atanh", "x", "like x", "Of inexact: the inverse of tanh."),
    op("bessel_i0e", "x", "like x", "Of floats: exp(-|x|) I0(x), I0 the modified Bessel function of the first kind."),
    op("bessel_i1e", "x", "like x", "Of floats: exp(-|x|) I1(x), I1 the modified Bessel function of the first kind."),
    op("bitcast_convert_type", "x",
       """dtype `new_dtype`; the shape of x if both dtypes have the same size. If the new one is n times smaller, a last axis
       of length n is added; if it is n times larger, the last axis of x must have length n, and is removed""",
       """Of numbers that are not complex: the same bytes, little-endian, as elements of the other dtype. Operands of rank 0
       are not broadcast.""", new_dtype="the dtype of the result"),
    op("cbrt", "x", "like x", "Of floats: the real cube root."),
    op("ceil", "x", "like x", "Of floats: the least integer that is not below x."),
    op("clamp", "lo x hi", "like x", "Of ordered: min(max(x, lo), hi). lo and hi may have rank 0."),
    op("clz", "x", "like x", "Of integers: the number of zero bits above the highest one bit; for 0 all bits."),
    op("complex", "x y", "c64 of f32, c128 of f64", "x + i y, without arithmetic on the parts."),
    op("conj", "x", "like x", "Of complex numbers: the conjugate."),
    op("convert_element_type", "x", "dtype `new_dtype`; the shape of x",
       """The number x in the other dtype. To bool: whether x is not 0. From bool: 0 or 1. From complex to real: the real
       part. From floats to integers: rounded towards 0, then clipped to the range of the dtype; 0 for NaN.
       Among integers: modulo 2 to the number of bits. To floats: rounded, halves to even.""",
       new_dtype="the dtype of the result", weak_type="whether the result's type is weak; no part of its values"),
    op("copy", "x", "like x", "Of any dtype, including keys: x."),
    op("cos", "x", "like x", "Of inexact: the cosine."),
    op("cosh", "x", "like x", "Of inexact: the hyperbolic cosine."),
    op("digamma", "x", "like x", "Of floats: the derivative of log gamma. At 0, -1, -2, ... NaN."),
    op("div", "x y", "like x",
       "Of numbers: x / y. Of integers rounded towards 0; x / 0 has all bits 1 (-1, or the highest unsigned number)."),
    op("eq", "x y", "bool, of that shape", "Of any dtype, including keys: whether x equals y."),
    op("erf_inv", "x", "like x", "Of floats: y with erf(y) = x. Infinite for 1 and -1, NaN beyond."),
    op("erf", "x", "like x", "Of floats: 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x."),
    op("erfc", "x", "like x", "Of floats: 1 - erf(x), accurate if that is small."),
    op("exp2", "x", "like x", "Of inexact: 2 to the x."),
    op("exp", "x", "like x", "Of inexact: e to the x."),
    op("expm1", "x", "like x", "Of inexact: e to the x, minus 1, accurate if x is small."),
    op("floor", "x", "like x", "Of floats: the largest integer that is not above x."),
    op("ge", "x y", "bool, of that shape", "Of ordered: whether x >= y."),
    op("gt", "x y", "bool, of that shape", "Of ordered: whether x > y."),
    op("imag", "x", "the dtype of the parts of x", "Of complex numbers: the imaginary part."),
    op("integer_pow", "x", "like x", "Of numbers: x to the `y`. Of integers as `pow`.",
       y="the exponent, an integer of either sign"),
    op("is_finite", "x", "bool, of that shape", "Of floats: whether x is neither infinite nor NaN."),
    op("le", "x y", "bool, of that shape", "Of ordered: whether x <= y."),
    op("lgamma", "x", "like x", "Of floats: log |gamma(x)|. At 0, -1, -2, ... and at both infinities: infinity."),
    op("log1p", "x", "like x", "Of inexact: log(1 + x), accurate if x is small."),
    op("log", "x", "like x", "Of inexact: the natural logarithm."),
    op("logistic", "x", "like x", "Of inexact: 1 / (1 + exp(-x))."),
    op("lt", "x y", "bool, of that shape", "Of ordered: whether x < y."),
    op("max", "x y", "like x",
       "Of numbers and bool: the larger one; NaN if one is. Complex numbers by real, then imaginary part."),
    op("min", "x y", "like x",
       "Of numbers and bool: the smaller one; NaN if one is. Complex numbers by real, then imaginary part."),
    op("mul", "x y", "like x", "Of numbers: x y. Of bool: x and y."),
    op("ne", "x y", "bool, of that shape", "Of any dtype, including keys: whether x differs from y."),
    op("neg", "x", "like x", "Of numbers: -x."),
    op("nextafter", "x y", "like x",
       "Of floats: the number of the dtype that is next to x in the direction of y; y if they are equal."),
    op("not", "x", "like x", "Of integers: every bit inverted. Of bool: not x."),
    op("or", "x y", "like x", "Of integers and bool: bit by bit or."),
    op("polygamma", "n x", "like x", "Of floats: the derivative of order n of digamma at x, for integers n >= 0; else NaN."),
    op("population_count", "x", "like x", "Of integers: the number of one bits."),
    op("pow", "x y", "like x",
       """Of numbers: x to the y. y may have an integer dtype if x is inexact. Of integers: with a negative exponent the
       result is 0, except 1 for x = 1, and 1 or -1 for x = -1. Of complex numbers: x to the 0 is 1; 0 to a positive real is
       0, and to any other exponent NaN."""),
    op("real", "x", "the dtype of the parts of x", "Of complex numbers: the real part."),
    op("reduce_precision", "x", "like x",
       """Of floats: x rounded, halves to even, to a format with these numbers of bits. With E = exponent_bits, top =
       2^(E-1) - 1 is the highest exponent and 1 - top the lowest; larger numbers become infinite, smaller ones 0, with the
       sign of x. A field as wide as that of the dtype changes nothing.""", exponent_bits="bits of the exponent, 1 or more",
       mantissa_bits="bits after the leading 1, 0 or more"),
    op("rem", "x y", "like x",
       "Of floats and integers: x - y trunc(x / y), which has the sign of x. Of integers x if y is 0."),
    op("round", "x", "like x", "Of floats: the nearest integer.",
       rounding_method="of two equally near ones: 0: the one away from 0, 1: the even one"),
    op("rsqrt", "x", "like x", "Of inexact: 1 / sqrt(x)."),
    op("select", "pred on_true on_false", "like on_true",
       "pred is bool, the others have one dtype (any, including keys): on_true where pred is true, on_false elsewhere."),
    op("shift_left", "x y", "like x",
       "Of integers: the bits of x shifted up by y, with zeros below. 0 if y is negative or at least the number of bits."),
    op("shift_right_arithmetic", "x y", "like x",
       """Of integers, read as signed ones: the bits of x shifted down by y, with copies of the sign bit above. If y is
       negative or at least the number of bits, all bits are the sign bit."""),
    op("shift_right_logical", "x y", "like x",
       "Of integers: the bits of x shifted down by y, with zeros above. 0 if y is negative or at least the number of bits."),
    op("sign", "x", "like x", "Of numbers: -1, 0 or 1; zeros keep their sign. Of complex numbers x / |x|, and 0 for 0."),
    op("sin", "x", "like x", "Of inexact: the sine."),
    op("sinh", "x", "like x", "Of inexact: the hyperbolic sine."),
    op("sqrt", "x", "like x", "Of inexact: the square root with a real part of at least 0."),
    op("square", "x", "like x", "Of numbers: x x."),
    op("stop_gradient", "x", "like x", "Of any dtype, including keys: x."),
    op("sub", "x y", "like x", "Of numbers: x - y."),
    op("tan", "x", "like x", "Of inexact: the tangent."),
    op("tanh", "x", "like x", "Of inexact: the hyperbolic tangent."),
    op("xor", "x y", "like x", "Of integers and bool: bit by bit exclusive or."),
    op("zeta", "s q", "like s",
       """Of floats: the sum of (q + k)^-s over k = 0, 1, 2, ... For s = 1 infinite, for s < 1 NaN. If q is 0, a negative
       integer or -infinity: infinite for even s, else NaN. For other negative q and non-integer s NaN."""),
]
