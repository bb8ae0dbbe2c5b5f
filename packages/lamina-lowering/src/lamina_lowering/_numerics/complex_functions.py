"""Lowering of complex elementwise functions to real operations on the parts.

XLA's own complex operations lose signs of zero, so that results are on the wrong side of branch cuts. They also give
NaN for infinite operands and cancel digits near zeros. The formulas here follow C99 Annex G at signed zeros, infinities
and NaNs. References:

* Kahan, "Branch cuts for complex elementary functions, or much ado about nothing's sign bit" (1987): `sqrt`, `tanh`,
  `atanh`, and the reduction of the inverse functions to a quadrant.
* Hull, Fairgrieve and Tang, "Implementing complex elementary functions using exception handling" (1994), and
  "Implementing the complex arcsine and arccosine functions using exception handling" (1997): `log`, and the regions
  that CHLO's `asin`, `acos`, `asinh` and `acosh` distinguish.
* Smith, "Algorithm 116: complex division" (1962): `reciprocal`.

Below, z = x + iy. Each formula takes the arithmetic `m` and real parts, and returns the parts of the result.
"""
from __future__ import annotations

import math
from collections.abc import Callable

from lamina_ir import dtypes, shaped
from lamina_ir.typing import Function, ParamValue
from typing_extensions import override

from .emitted_numbers import Number, Numbers
from .nan_guards import may_fold_nan
from .._typing import IrValue
from .._emit.rule_context import Context

__all__ = ["by_dtype", "complex_abs", "complex_power", "complex_reciprocal", "complex_sign", "complex_square",
           "unary_rules"]

Parts = tuple[Number, Number]
Formula = Callable[["Parted", Number, Number], Parts]
Rule = Function


class Parted(Numbers):
    """Arithmetic on the parts of complex values of type `whole`.

    Args:
      ctx: the lowering context.
      operands: the complex operands; on CPUs `exp` is guarded if the compiler may see a constant NaN in them.
    """

    def __init__(self, ctx: Context, *operands: IrValue) -> None:
        self.whole = ctx.avals_in[0]
        super().__init__(ctx, shaped(self.whole.shape, dtypes.real_dtype(self.whole.dtype)))
        self.guarded = ctx.platform == "cpu" and any(may_fold_nan(x) for x in operands)
        self.exp_limit = math.floor(math.log(self.top))  # exp does not overflow up to here

    def parts(self, z: IrValue) -> Parts:
        real, imag = (Number(self, self.ctx.op(f"stablehlo.{part}", (z,), self.aval)) for part in ("real", "imag"))
        return real, imag

    def join(self, parts: Parts) -> IrValue:
        return self.ctx.op("stablehlo.complex", [self.value(part) for part in parts], self.whole)

    @override
    def exp(self, x: IrValue) -> Number:
        value = super().exp(x)
        return self.where(self.isnan(x), x, value) if self.guarded else value

    def sqrt(self, x: IrValue) -> Number:
        return self.op("stablehlo.sqrt", x)

    def max(self, x: IrValue, y: IrValue) -> Number:
        return self.op("stablehlo.maximum", x, y)

    def min(self, x: IrValue, y: IrValue) -> Number:
        return self.op("stablehlo.minimum", x, y)

    def cos_sin(self, x: IrValue) -> Parts:
        return self.op("stablehlo.cosine", x), self.op("stablehlo.sine", x)

    def atan2(self, y: IrValue, x: IrValue) -> Number:
        return self.op("stablehlo.atan2", y, x)

    def is_finite(self, x: Number) -> IrValue:
        return self.ctx.op("stablehlo.is_finite", (x.v,), self.flags)

    def is_inf(self, x: Number) -> IrValue:
        return self.eq(self.abs(x), math.inf)

    def is_negative(self, x: Number) -> IrValue:
        """Emit whether the sign bit is set. Only the total order distinguishes -0 from 0."""
        return self.ctx.compare(x.v, self.value(0.0), "LT", self.aval, total=True)

    def with_sign(self, size: IrValue, x: Number) -> Number:
        """Emit `size` >= 0 with the sign of x."""
        return self.where(self.is_negative(x), -self.full(size) if isinstance(size, float) else -size, size)


# --- exponential and trigonometric functions ------------------------------------------------------------------------


def _scaled_exp(m: Parted, x: Number) -> tuple[Number, Number]:
    """Return e and s with e^x = e s. Products with e, then s, overflow only if the result does."""
    big = m.lt(float(m.exp_limit), x)
    shift = float(m.exp_limit)
    return m.exp(m.where(big, x - shift, x)), m.where(big, math.exp(shift), 1.0)


def _exp(m: Parted, x: Number, y: Number) -> Parts:
    return _exp_with(m, x, y, *m.cos_sin(y))


def _exp_with(m: Parted, x: Number, y: Number, cos: Number, sin: Number) -> Parts:
    """e^x (cos y + i sin y). If x is infinite and y is not finite, it is 0, or inf + i NaN [C99 G.6.3.1]."""
    e, scale = _scaled_exp(m, x)
    at_end = m.both(m.is_inf(x), m.inverse(m.is_finite(y)))
    cos = m.where(at_end, 1.0, cos)
    sin = m.where(m.both(at_end, m.lt(x, 0.0)), m.with_sign(0.0, y), sin)
    return e * cos * scale, m.where(m.eq(y, 0.0), y, e * sin * scale)


def _exp2(m: Parted, x: Number, y: Number) -> Parts:
    return _exp(m, x * math.log(2.0), y * math.log(2.0))


def _expm1(m: Parted, x: Number, y: Number) -> Parts:
    """expm1(x) cos y - 2 sin(y/2)^2 + i e^x sin y; beyond the overflow of e^x, the exponential."""
    cos, sin = m.cos_sin(y * 0.5)
    versine = 2.0 * (sin * sin)  # 1 - cos y
    grown = m.op("stablehlo.exponential_minus_one", x)
    real, imag = _exp_with(m, x, y, 1.0 - versine, 2.0 * (sin * cos))
    real = m.where(m.le(float(m.exp_limit), x), real, grown * (1.0 - versine) - versine)
    return m.where(m.eq(x, -math.inf), -1.0, m.where(m.eq(y, 0.0), grown, real)), imag


def _hyperbolic(m: Parted, x: Number, e: Number, inverse: Number) -> Parts:
    """Return sinh x and cosh x from e = e^|x| and its inverse; sinh by its power series for |x| < 1, where they
    cancel."""
    a = m.abs(x)
    square = x * x
    series, terms = m.full(1.0), 9 if m.aval.dtype.itemsize == 8 else 5
    for k in range(terms, 0, -1):
        series = series * square * (1.0 / (2 * k * (2 * k + 1))) + 1.0
    far = 0.5 * e - 0.5 * inverse
    sinh = m.where(m.lt(a, 1.0), x * series, m.where(m.lt(x, 0.0), -far, far))
    return sinh, 0.5 * e + 0.5 * inverse


def _scaled_hyperbolic(m: Parted, x: Number) -> tuple[Number, Number, Number]:
    """Return s, c and scale with sinh x = s scale and cosh x = c scale."""
    a = m.abs(x)
    e, scale = _scaled_exp(m, a)
    inverse = m.where(m.le(a, float(m.exp_limit)), 1.0 / e, m.where(m.isnan(a), a, 0.0))
    return (*_hyperbolic(m, x, e, inverse), scale)


def _sinh(m: Parted, x: Number, y: Number) -> Parts:
    """sinh x cos y + i cosh x sin y. If y is not finite, the real part is that of x = 0 or infinity [C99 G.6.2.5]."""
    sinh, cosh, scale = _scaled_hyperbolic(m, x)
    cos, sin = m.cos_sin(y)
    at_end = m.both(m.inverse(m.is_finite(y)), m.either(m.eq(x, 0.0), m.is_inf(x)))
    return m.where(at_end, x, sinh * cos * scale), m.where(m.eq(y, 0.0), y, cosh * sin * scale)


def _cosh(m: Parted, x: Number, y: Number) -> Parts:
    """cosh x cos y + i sinh x sin y. The imaginary part is zero if x or y is [C99 G.6.2.4]."""
    sinh, cosh, scale = _scaled_hyperbolic(m, x)
    cos, sin = m.cos_sin(y)
    at_end = m.both(m.inverse(m.is_finite(y)), m.is_inf(x))
    real = m.where(at_end, math.inf, cosh * cos * scale)
    imag = sinh * sin * scale
    undefined = m.both(m.isnan(imag), m.either(m.eq(x, 0.0), m.eq(y, 0.0)))
    return real, m.where(undefined, m.with_sign(0.0, x) * m.with_sign(1.0, y), imag)


def _tanh(m: Parted, x: Number, y: Number) -> Parts:
    """(sinh x cosh x + i sin y cos y) / (sinh^2 x + cos^2 y), from tanh x and tan y by Kahan (1987).

    The divisor does not cancel. For large |x| the result is sign(x) + 4i sin y cos y e^(-2|x|).
    """
    a = m.abs(x)
    inverse = m.exp(-a)
    sinh, cosh = _hyperbolic(m, x, 1.0 / inverse, inverse)
    cos, sin = m.cos_sin(y)
    divisor = sinh * sinh + cos * cos
    far = m.lt(float(-math.log(m.eps) * 0.75), a)
    product = m.where(m.both(m.is_inf(x), m.inverse(m.is_finite(y))), m.with_sign(0.0, y), sin * cos)
    real = m.where(far, m.with_sign(1.0, x), m.where(m.eq(x, 0.0), x, sinh * cosh / divisor))
    real = m.where(m.both(far, m.both(m.inverse(m.is_finite(y)), m.is_finite(x))), math.nan, real)
    imag = m.where(far, 4.0 * product * inverse * inverse, product / divisor)
    return real, m.where(m.eq(y, 0.0), y, imag)


def _swapped(hyperbolic: Formula) -> Formula:
    """Return the trigonometric function f of an odd hyperbolic one: f(x + iy) = -i g(-y + ix), that is, g(y + ix) with
    swapped parts."""
    def formula(m: Parted, x: Number, y: Number) -> Parts:
        real, imag = hyperbolic(m, y, x)
        return imag, real
    return formula


def _cos(m: Parted, x: Number, y: Number) -> Parts:
    """cosh(iz)."""
    return _cosh(m, -y, x)


# --- logarithms and roots ---------------------------------------------------------------------------------------------


def _ordered(m: Parted, x: Number, y: Number) -> tuple[Number, Number, Number]:
    """Return max(|x|, |y|), min(|x|, |y|) and their ratio min / max, which is 0 for zeros."""
    a, b = m.abs(x), m.abs(y)
    large, small = m.max(a, b), m.min(a, b)
    return large, small, small / m.where(m.eq(large, 0.0), 1.0, large)


def _log_of_size(m: Parted, large: Number, ratio: Number, excess: Number) -> Number:
    """Return log |z| for large = max(|x|, |y|), without overflow.

    It is log1p(excess) / 2 with `excess` = |z|^2 - 1 if that is small, else log(large) + log1p(ratio^2) / 2 (Hull et
    al. 1994). XLA's log1p is off by up to 128 units of the last place below -0.36.
    """
    near = m.lt(m.abs(excess), 1 / 3)
    small = 0.5 * m.log1p(m.where(near, excess, ratio * ratio))
    return m.where(near, small, m.log(large) + small)


def _log(m: Parted, x: Number, y: Number) -> Parts:
    """log |z| + i atan2(y, x); the real part is infinite if either part of z is."""
    large, small, ratio = _ordered(m, x, y)
    size = _log_of_size(m, large, ratio, (large - 1.0) * (large + 1.0) + small * small)
    return m.where(m.either(m.is_inf(x), m.is_inf(y)), math.inf, size), m.atan2(y, x)


def _log1p(m: Parted, x: Number, y: Number) -> Parts:
    """log(1 + z), with |1 + z|^2 - 1 = x (2 + x) + y^2 where |1 + z| is near 1."""
    shifted = x + 1.0
    large, _, ratio = _ordered(m, shifted, y)
    size = _log_of_size(m, large, ratio, x * (x + 2.0) + y * y)
    return m.where(m.either(m.is_inf(x), m.is_inf(y)), math.inf, size), m.atan2(y, shifted)


def _sqrt(m: Parted, x: Number, y: Number) -> Parts:
    """With w = sqrt((|x| + |z|) / 2): w + iy / (2w) for x >= 0, else |y| / (2w) + i sign(y) w (Kahan 1987).

    w is sqrt(large) sqrt((|x| + |z|) / (2 large)), so that nothing overflows.
    """
    large, _, ratio = _ordered(m, x, y)
    a, b = m.abs(x), m.abs(y)
    root = m.sqrt(1.0 + ratio * ratio)
    w = m.sqrt(large) * m.sqrt(0.5 * (m.where(m.le(b, a), 1.0, ratio) + root))
    other = b / m.where(m.eq(w, 0.0), 1.0, w + w)
    right = m.le(0.0, x)
    infinite = m.is_inf(y)
    real = m.where(m.either(infinite, m.eq(x, math.inf)), math.inf, m.where(right, w, other))
    imag = m.where(m.either(infinite, m.eq(x, -math.inf)), math.inf, m.where(right, other, w))
    return real, m.with_sign(imag, y)


# --- inverse functions ---------------------------------------------------------------------------------------------


def _by_quadrant(name: str, *, even: bool) -> Formula:
    """Return a formula of a CHLO operation on |x| + i|y|, whose signs are restored from those of x and y.

    If not `even`, the function is odd in both parts. Else it is acos or acosh, which are evaluated at x + i|y|.
    CHLO's operations are right there, but they lose signs of zero, and NaN of one part.
    """
    def formula(m: Parted, x: Number, y: Number) -> Parts:
        inside = m.join((x if even else m.abs(x), m.abs(y)))
        real, imag = m.parts(m.ctx.op(name, (inside,), m.whole))
        known = m.either(m.both(m.eq(x, x), m.eq(y, y)), m.either(m.is_inf(x), m.is_inf(y)))
        real, imag = m.where(known, real, math.nan), m.where(known, imag, math.nan)
        if even:
            return real, m.abs(imag)
        return m.with_sign(m.abs(real), x), m.with_sign(m.abs(imag), y)
    return formula


_asin_quadrant, _asinh_quadrant = _by_quadrant("chlo.asin", even=False), _by_quadrant("chlo.asinh", even=False)
_acos_half, _acosh_half = _by_quadrant("chlo.acos", even=True), _by_quadrant("chlo.acosh", even=True)


def _asin(m: Parted, x: Number, y: Number) -> Parts:
    real, imag = _asin_quadrant(m, x, y)
    return m.where(m.eq(x, 0.0), x, real), imag


def _asinh(m: Parted, x: Number, y: Number) -> Parts:
    real, imag = _asinh_quadrant(m, x, y)
    return real, m.where(m.eq(y, 0.0), y, imag)


def _acos(m: Parted, x: Number, y: Number) -> Parts:
    real, size = _acos_half(m, x, y)
    return m.where(m.both(m.eq(x, 0.0), m.isnan(y)), math.pi / 2, real), -m.with_sign(size, y)


def _acosh(m: Parted, x: Number, y: Number) -> Parts:
    real, size = _acosh_half(m, x, y)
    return real, m.with_sign(m.where(m.both(m.eq(x, 0.0), m.isnan(y)), math.pi / 2, size), y)


def _atanh(m: Parted, x: Number, y: Number) -> Parts:
    """log1p(4x / ((1 - x)^2 + y^2)) / 4 + i atan2(2y, (1 - x)(1 + x) - y^2) / 2 for x, y >= 0 (Kahan 1987).

    Near the pole at 1 the first is log1p(2 / y) / 2. For large z the result is Re(1 / z) + i pi/2.
    """
    a, b = m.abs(x), m.abs(y)
    large, _, ratio = _ordered(m, a, b)
    far = m.lt(1.0 / m.eps, large)
    # far: Re(1 / z) = x / |z|^2
    inverse = m.where(m.le(b, a), 1.0, ratio) / (large + large * (ratio * ratio))
    real = m.where(m.either(m.is_inf(x), m.is_inf(y)), 0.0, inverse)
    gap = 1.0 - a
    pole = m.both(m.eq(a, 1.0), m.lt(b, m.eps))
    quotient = m.where(pole, 2.0, 4.0 * a) / m.where(pole, b, gap * gap + b * b)
    real = m.where(far, real, m.where(pole, 0.5, 0.25) * m.log1p(quotient))
    real = m.where(m.isnan(large), m.where(m.either(m.is_inf(x), m.is_inf(y)), 0.0, math.nan), real)
    imag = m.where(far, math.pi / 2, 0.5 * m.atan2(b + b, gap * (a + 1.0) - b * b))
    imag = m.where(m.isnan(large), m.where(m.is_inf(y), math.pi / 2, math.nan), imag)
    return m.where(m.eq(x, 0.0), x, m.with_sign(real, x)), m.with_sign(imag, y)


# --- the rules ------------------------------------------------------------------------------------------------------


def _unary(formula: Formula) -> Rule:
    def rule(ctx: Context, z: IrValue) -> IrValue:
        m = Parted(ctx, z)
        return m.join(formula(m, *m.parts(z)))
    return rule


def complex_abs(ctx: Context, z: IrValue) -> IrValue:
    """Emit |z|, infinite if either part is, even if the other is NaN."""
    m = Parted(ctx, z)
    x, y = m.parts(z)
    size = Number(m, ctx.op("stablehlo.abs", (z,), m.aval))
    return m.where(m.either(m.is_inf(x), m.is_inf(y)), math.inf, size).v


def complex_sign(ctx: Context, z: IrValue) -> IrValue:
    """Emit z / |z|: 0 for 0, the direction of the axis for one infinite part, NaN for two.

    |z| is not formed, since it may overflow.
    """
    m = Parted(ctx, z)
    x, y = m.parts(z)
    infinite = m.either(m.is_inf(x), m.is_inf(y))
    u, v = (m.where(infinite, m.where(m.is_inf(part), m.with_sign(1.0, part), 0.0), part) for part in (x, y))
    large, _, ratio = _ordered(m, u, v)
    scale = 1.0 / m.sqrt(1.0 + ratio * ratio)  # large / |z|
    large = m.where(m.eq(large, 0.0), 1.0, m.where(m.both(m.is_inf(x), m.is_inf(y)), math.nan, large))
    zero = m.both(m.eq(x, 0.0), m.eq(y, 0.0))
    return m.join((m.where(zero, 0.0, u / large * scale), m.where(zero, 0.0, v / large * scale)))


def complex_square(ctx: Context, z: IrValue) -> IrValue:
    """Emit z^2. The real part as a product overflows only if the result does, and is +0 for |x| = |y|."""
    m = Parted(ctx, z)
    x, y = m.parts(z)
    a, b, half = m.abs(x), m.abs(y), x * y
    return m.join(((a - b) * (a + b), half + half))


def complex_reciprocal(ctx: Context, z: IrValue) -> IrValue:
    """Emit 1 / z by Smith (1962); 0 for infinite z, and inf + i NaN for 0, as complex division of C99."""
    m = Parted(ctx, z)
    x, y = m.parts(z)
    wide = m.le(m.abs(y), m.abs(x))
    large, small = m.where(wide, x, y), m.where(wide, y, x)
    ratio = small / large
    one = 1.0 / (large + small * ratio)
    other = ratio * one  # XLA would turn ratio / (large + ...) into a quotient whose divisor may underflow
    infinite, zero = m.either(m.is_inf(x), m.is_inf(y)), m.both(m.eq(x, 0.0), m.eq(y, 0.0))
    real = m.where(infinite, m.with_sign(0.0, x), m.where(zero, m.with_sign(math.inf, x), m.where(wide, one, other)))
    return m.join((real, m.where(infinite, -m.with_sign(0.0, y), -m.where(wide, other, one))))


def complex_power(ctx: Context, z: IrValue, w: IrValue) -> IrValue:
    """Emit e^(w log z). 0^w is 0 for w with a positive real part, z^0 is 1; a real w scales the parts of log z."""
    m = Parted(ctx, z, w)
    (x, y), (a, b) = m.parts(z), m.parts(w)
    size, angle = _log(m, x, y)
    is_real = m.eq(b, 0.0)
    real = m.where(is_real, a * size, a * size - b * angle)
    imag = m.where(is_real, a * angle, b * size + a * angle)
    real, imag = _exp(m, real, imag)
    at_zero = m.both(m.both(m.eq(x, 0.0), m.eq(y, 0.0)), m.lt(0.0, a))
    at_one = m.both(m.eq(a, 0.0), is_real)
    return m.join((m.where(at_one, 1.0, m.where(at_zero, 0.0, real)), m.where(m.either(at_one, at_zero), 0.0, imag)))


def by_dtype(real: Rule, complex_: Rule) -> Rule:
    """Make a rule that uses `complex_` for complex operands, and `real` for others."""
    def rule(ctx: Context, /, *xs: IrValue, **params: ParamValue) -> IrValue:
        is_complex = dtypes.is_complex(ctx.eqn.invars[0].aval.dtype)
        return (complex_ if is_complex else real)(ctx, *xs, **params)
    return rule


unary_rules = {name: _unary(formula) for name, formula in (
    ("exp", _exp), ("exp2", _exp2), ("expm1", _expm1), ("sinh", _sinh), ("cosh", _cosh), ("tanh", _tanh),
    ("sin", _swapped(_sinh)), ("cos", _cos), ("tan", _swapped(_tanh)), ("log", _log), ("log1p", _log1p),
    ("sqrt", _sqrt), ("asin", _asin), ("acos", _acos), ("asinh", _asinh), ("acosh", _acosh), ("atan", _swapped(_atanh)),
    ("atanh", _atanh))}
