"""Lowering of elementwise primitives. Rules get operands of the result's shape: rank-0 operands are broadcast before.
"""
from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from lamina_ir import ShapedArray, dtypes, prims, shaped
from lamina_ir.typing import Function

from .._emit.rule_tables import lowering_rules
from .._numerics.complex_functions import (
    by_dtype, complex_abs, complex_power, complex_reciprocal, complex_sign, complex_square, unary_rules)
from .._numerics.nan_guards import propagate_nan
from .._emit.rule_context import Context, lower_to_op
from .._typing import IrValue

__all__: list[str] = []

_define = lowering_rules.define


for _prim, _name in (
        (prims.neg_p, "stablehlo.negate"), (prims.floor_p, "stablehlo.floor"), (prims.ceil_p, "stablehlo.ceil"),
        (prims.is_finite_p, "stablehlo.is_finite"),
        (prims.expm1_p, "stablehlo.exponential_minus_one"), (prims.log_p, "stablehlo.log"),
        (prims.log1p_p, "stablehlo.log_plus_one"), (prims.sin_p, "stablehlo.sine"),
        (prims.cos_p, "stablehlo.cosine"), (prims.tan_p, "stablehlo.tan"), (prims.asin_p, "chlo.asin"),
        (prims.acos_p, "chlo.acos"), (prims.atan_p, "chlo.atan"),
        (prims.tanh_p, "stablehlo.tanh"), (prims.asinh_p, "chlo.asinh"),
        (prims.acosh_p, "chlo.acosh"), (prims.atanh_p, "chlo.atanh"), (prims.sqrt_p, "stablehlo.sqrt"),
        (prims.rsqrt_p, "stablehlo.rsqrt"), (prims.cbrt_p, "stablehlo.cbrt"),
        (prims.real_p, "stablehlo.real"),
        (prims.imag_p, "stablehlo.imag"), (prims.erf_p, "chlo.erf"), (prims.erfc_p, "chlo.erfc"),
        (prims.erf_inv_p, "chlo.erf_inv"), (prims.lgamma_p, "chlo.lgamma"),
        (prims.bessel_i1e_p, "chlo.bessel_i1e"), (prims.not_p, "stablehlo.not"),
        (prims.population_count_p, "stablehlo.popcnt"), (prims.clz_p, "stablehlo.count_leading_zeros"),
        (prims.add_p, "stablehlo.add"), (prims.sub_p, "stablehlo.subtract"),
        (prims.mul_p, "stablehlo.multiply"), (prims.div_p, "stablehlo.divide"),
        (prims.rem_p, "stablehlo.remainder"), (prims.max_p, "stablehlo.maximum"),
        (prims.min_p, "stablehlo.minimum"), (prims.atan2_p, "stablehlo.atan2"),
        (prims.complex_p, "stablehlo.complex"), (prims.nextafter_p, "chlo.next_after"),
        (prims.and_p, "stablehlo.and"),
        (prims.or_p, "stablehlo.or"), (prims.xor_p, "stablehlo.xor"),
        (prims.shift_left_p, "stablehlo.shift_left"),
        (prims.shift_right_logical_p, "stablehlo.shift_right_logical"),
        (prims.shift_right_arithmetic_p, "stablehlo.shift_right_arithmetic"),
        (prims.select_p, "stablehlo.select")):
    _define(_prim, lower_to_op(_name))


def _clamp(ctx: Context, low: IrValue, x: IrValue, high: IrValue) -> IrValue:
    if ctx.aval_out.dtype != dtypes.BOOL:
        return ctx.op("stablehlo.clamp", (low, x, high), ctx.aval_out)
    return ctx.op("stablehlo.and", (ctx.op("stablehlo.or", (x, low), ctx.aval_out), high), ctx.aval_out)


_define(prims.clamp_p, _clamp)


def _convert(ctx: Context, x: IrValue, *, new_dtype: np.dtype, weak_type: bool) -> IrValue:
    """Convert the dtype; booleans become floats by a select.

    XLA turns `convert(bool) * y` into `select(bool, y, 0)`, which drops NaN and infinity of y.
    """
    if ctx.aval_in.dtype == dtypes.BOOL and dtypes.is_inexact(ctx.aval_out.dtype):
        return ctx.select(x, ctx.const(1, ctx.aval_out), ctx.const(0, ctx.aval_out), ctx.aval_out)
    return ctx.convert(x, ctx.aval_in, ctx.aval_out)


_define(prims.convert_element_type_p, _convert)
for _prim, _name in ((prims.exp_p, "stablehlo.exponential"), (prims.logistic_p, "stablehlo.logistic"),
                     (prims.sinh_p, "chlo.sinh"), (prims.cosh_p, "chlo.cosh")):
    _define(_prim, propagate_nan(lower_to_op(_name)))


def _comparison(direction: str) -> Function:
    return lambda ctx, x, y: ctx.compare(x, y, direction, ctx.avals_in[0])


for _prim, _direction in ((prims.eq_p, "EQ"), (prims.ne_p, "NE"), (prims.lt_p, "LT"), (prims.le_p, "LE"),
                          (prims.gt_p, "GT"), (prims.ge_p, "GE")):
    _define(_prim, _comparison(_direction))


# --- one-line rules ------------------------------------------------------------------------------------------------

_define(prims.copy_p, lambda ctx, x: x)  # every result of a program has a buffer of its own
_define(prims.stop_gradient_p, lambda ctx, x: x)
_define(prims.square_p, by_dtype(lambda ctx, x: ctx.op("stablehlo.multiply", (x, x), ctx.aval_out), complex_square))
_define(prims.reduce_precision_p, lambda ctx, x, *, exponent_bits, mantissa_bits: ctx.op(
    "stablehlo.reduce_precision", (x,), ctx.aval_out, exponent_bits=ctx.i32(exponent_bits),
    mantissa_bits=ctx.i32(mantissa_bits)))
_define(prims.round_p, lambda ctx, x, *, rounding_method: ctx.op(
    "stablehlo.round_nearest_even" if rounding_method else "stablehlo.round_nearest_afz", (x,), ctx.aval_out))
_define(prims.bitcast_convert_type_p, lambda ctx, x, *, new_dtype: x if ctx.aval_in.dtype == new_dtype else ctx.op(
    "stablehlo.bitcast_convert", (x,), ctx.aval_out))


# --- longer rules --------------------------------------------------------------------------------------------------


def _is_unsigned(aval: ShapedArray) -> bool:
    return aval.dtype.kind == "u" or aval.dtype.name.startswith("uint")


def abs_lowering(ctx: Context, x: IrValue) -> IrValue:
    return x if _is_unsigned(ctx.aval_in) else ctx.op("stablehlo.abs", (x,), ctx.aval_out)


def sign_lowering(ctx: Context, x: IrValue) -> IrValue:
    """Emit the sign. StableHLO's `sign` does not take unsigned integers, whose sign is `min(x, 1)`."""
    aval = ctx.aval_out
    if _is_unsigned(aval):
        return ctx.op("stablehlo.minimum", (x, ctx.const(1, aval)), aval)
    return ctx.op("stablehlo.sign", (x,), aval)


def exp2_lowering(ctx: Context, x: IrValue) -> IrValue:
    """Emit exp(x log 2), computed in float32 for narrower floats."""
    aval = ctx.aval_out
    wide = shaped(aval.shape, np.dtype("float32")) if dtypes.is_float(aval.dtype) and aval.dtype.itemsize < 4 else aval
    scaled = ctx.op("stablehlo.multiply", (ctx.convert(x, aval, wide), ctx.const(math.log(2.0), wide)), wide)
    return ctx.convert(ctx.op("stablehlo.exponential", (scaled,), wide), wide, aval)


def conj_lowering(ctx: Context, x: IrValue) -> IrValue:
    part = shaped(ctx.aval_out.shape, dtypes.real_dtype(ctx.aval_out.dtype))
    imag = ctx.op("stablehlo.negate", (ctx.op("stablehlo.imag", (x,), part),), part)
    return ctx.op("stablehlo.complex", (ctx.op("stablehlo.real", (x,), part), imag), ctx.aval_out)


def _integer_power(ctx: Context, x: IrValue, y: IrValue, aval: ShapedArray) -> IrValue:
    """Emit an integer power from powers by six bits of the exponent each.

    XLA's integer power uses only the low six bits of the exponent (3**64 would be 1).
    """
    def op(name: str, *operands: IrValue) -> IrValue:
        return ctx.op("stablehlo." + name, operands, aval)

    base, out = x, None
    # y = sum_k d_k 64**k with six-bit digits d_k, so x**y = prod_k (x**(64**k))**d_k. A signed exponent has no sign
    # bit here.
    bits = 8 * aval.dtype.itemsize - (not _is_unsigned(aval))
    for low in range(0, bits, 6):
        digit = op("shift_right_logical", y, ctx.const(low, aval)) if low else y
        power = op("power", base, op("and", digit, ctx.const(63, aval)))
        out = power if out is None else op("multiply", out, power)
        # base**64 by six squarings; after the last digit it is not needed.
        for _ in range(6 if low + 6 < bits else 0):
            base = op("multiply", base, base)
    if _is_unsigned(aval):
        return out
    return op("select", ctx.compare(y, ctx.const(0, aval), "LT", aval), op("power", x, y), out)


def pow_lowering(ctx: Context, x: IrValue, y: IrValue) -> IrValue:
    """Emit a power. An integer exponent of a float or complex base is converted to the base's dtype."""
    base, exponent = ctx.avals_in
    y, aval = ctx.convert(y, exponent, base), ctx.aval_out
    if dtypes.is_integer(base.dtype):
        return _integer_power(ctx, x, y, aval)
    if dtypes.is_complex(base.dtype):
        return complex_power(ctx, x, y)
    return ctx.op("stablehlo.power", (x, y), aval)


def integer_pow_lowering(ctx: Context, x: IrValue, *, y: int) -> IrValue:
    """Emit an integer power by repeated squaring: one product per bit of the exponent, and one more per set bit."""
    aval = ctx.aval_out
    is_complex = dtypes.is_complex(aval.dtype)
    if y == 0:
        return ctx.const(1, aval)
    # y = sum_k b_k 2**k, so x**y = prod over the set bits of x**(2**k).
    power, result, left = x, None, abs(y)
    while left:
        if left & 1:
            result = power if result is None else ctx.op("stablehlo.multiply", (result, power), aval)
        left >>= 1
        if left:
            power = complex_square(ctx, power) if is_complex else ctx.op("stablehlo.multiply", (power, power), aval)
    if y < 0 and is_complex:
        return complex_reciprocal(ctx, result)
    return result if y > 0 else ctx.op("stablehlo.divide", (ctx.const(1, aval), result), aval)


def _zero_at_infinity(name: str, least: float, whole: bool) -> Function:
    """Wrap a CHLO operation of (order, x) that wrongly gives NaN at x = inf.

    The value there is 0 for every order above `least`, if `whole` only for integer orders.
    """
    def rule(ctx: Context, order: int, x: IrValue) -> IrValue:
        aval, truth = ctx.aval_out, shaped(ctx.aval_out.shape, dtypes.BOOL)
        is_inf = ctx.compare(x, ctx.const(np.inf, aval), "EQ", aval)
        above_least = ctx.compare(order, ctx.const(least, aval), "GT", aval)
        is_zero = ctx.op("stablehlo.and", (is_inf, above_least), truth)
        if whole:
            rest = ctx.op("stablehlo.subtract", (order, ctx.op("stablehlo.floor", (order,), aval)), aval)
            is_zero = ctx.op("stablehlo.and", (is_zero, ctx.compare(rest, ctx.const(0, aval), "EQ", aval)), truth)
        return ctx.op("stablehlo.select", (is_zero, ctx.const(0, aval), ctx.op(name, (order, x), aval)), aval)
    return rule


def _zeta_of_large_orders(inner: Function) -> Function:
    """Wrap the rule of zeta(s, q) to give q^-s, its first term, for s above `least` and q > 0.

    The other terms are negligible there, or all underflow. CHLO's factors overflow, so that it gives NaN.
    """
    def rule(ctx: Context, s: IrValue, q: IrValue) -> IrValue:
        aval, truth = ctx.aval_out, shaped(ctx.aval_out.shape, dtypes.BOOL)
        least = 2048.0 if aval.dtype.itemsize == 8 else 256.0
        is_large = ctx.op("stablehlo.and", (ctx.compare(s, ctx.const(least, aval), "GT", aval),
                                            ctx.compare(q, ctx.const(0, aval), "GT", aval)), truth)
        first = ctx.op("stablehlo.power", (q, ctx.op("stablehlo.negate", (s,), aval)), aval)
        return ctx.select(is_large, first, inner(ctx, s, q), aval)
    return rule


# Chebyshev coefficients of i0e on [0, 8], and of sqrt(x) i0e(x) on [8, inf) in the variable 8 / x. They were
# computed with mpmath: interpolation in float64 would lose two digits.
_I0E_NEAR = (
    0.33839763720473803, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764, 0.04930528423967071,
    -0.02373741480589947, 0.010546460394594998, -0.004324309995050576, 0.0016394756169413357, -0.0005763755745385824,
    0.00018850288509584165, -5.754195010082104e-05, 1.6448448070728896e-05, -4.4167383584587505e-06,
    1.1173875391201037e-06, -2.670793853940612e-07, 6.046995022541919e-08, -1.300025009986248e-08,
    2.6598237246823866e-09, -5.189795601635263e-10, 9.675809035373237e-11, -1.726826291441556e-11,
    2.95505266312964e-12, -4.856446783111929e-13, 7.676185498604936e-14, -1.1685332877993451e-14,
    1.715391285555133e-15, -2.431279846547955e-16, 3.3307945188222384e-17, -4.4153416464793395e-18)
_I0E_FAR = (
    0.4022452055070544, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06, 2.0489185894690638e-07,
    2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10, 1.1889147107846439e-11,
    -3.1499165279632416e-11, -1.3215811840447713e-11, -1.7941785315068062e-12, 7.180124451383666e-13,
    3.8527783827421426e-13, 1.54008621752141e-14, -4.150569347287222e-14, -9.554846698828307e-15,
    3.8116806693526224e-15, 1.7725601330565263e-15, -3.425485619677219e-16, -2.8276239805165836e-16,
    3.461222867697461e-17, 4.46562142029676e-17, -4.830504485944182e-18, -7.233180487874754e-18, 9.921475412173699e-19)


def bessel_i0e_lowering(ctx: Context, x: IrValue) -> IrValue:
    """Emit two Chebyshev series, summed by Clenshaw's recurrence, in float32 for narrower floats."""
    narrow = ctx.aval_out
    aval = shaped(narrow.shape, np.dtype("float32")) if narrow.dtype.itemsize < 4 else narrow

    def op(name: str, *operands: IrValue) -> IrValue:
        return ctx.op("stablehlo." + name, [ctx.const(v, aval) if isinstance(v, float) else v for v in operands], aval)

    def series(coefficients: Sequence[float], t: IrValue) -> IrValue:
        # Clenshaw: b_k = c_k + 2 t b_(k+1) - b_(k+2), and the sum is c_0 + t b_1 - b_2. `last` is b_(k+1), `ahead`
        # b_(k+2).
        ahead, last, twice = None, None, op("add", t, t)
        for c in coefficients[:0:-1]:
            term = ctx.const(float(c), aval)
            if last is not None:
                term = op("add", op("multiply", twice, last), term)
            ahead, last = last, term if ahead is None else op("subtract", term, ahead)
        return op("subtract", op("add", op("multiply", t, last), float(coefficients[0])), ahead)

    a = op("abs", ctx.convert(x, narrow, aval))
    wide = aval.dtype.itemsize == 8
    # The terms left out in float32 are below its precision.
    near, far = (_I0E_NEAR, _I0E_FAR) if wide else (_I0E_NEAR[:18], _I0E_FAR[:8])
    # Chebyshev variables in [-1, 1]: t = a / 4 - 1 on [0, 8], t = 16 / a - 1 on [8, inf). Arguments are clamped,
    # since both series are computed for every element.
    low = series(near, op("subtract", op("multiply", op("minimum", a, 8.0), 0.25), 1.0))
    high = series(far, op("subtract", op("divide", 16.0, op("maximum", a, 8.0)), 1.0))
    small = ctx.compare(a, ctx.const(8.0, aval), "LE", aval)
    return ctx.convert(ctx.select(small, low, op("divide", high, op("sqrt", a)), aval), aval, narrow)


def _max_min(name: str, direction: str) -> Function:
    plain = lower_to_op(name)

    def rule(ctx: Context, x: IrValue, y: IrValue) -> IrValue:
        """Emit the max/min; complex numbers are ordered by their real parts, then by their imaginary parts."""
        aval = ctx.aval_out
        if not dtypes.is_complex(aval.dtype):
            return plain(ctx, x, y)
        part, truth = shaped(aval.shape, dtypes.real_dtype(aval.dtype)), shaped(aval.shape, dtypes.BOOL)
        (xr, xi), (yr, yi) = ([ctx.op(f"stablehlo.{p}", (v,), part) for p in ("real", "imag")] for v in (x, y))
        first = ctx.select(ctx.compare(xr, yr, "EQ", part), ctx.compare(xi, yi, direction, part),
                           ctx.compare(xr, yr, direction, part), truth)
        return ctx.select(first, x, y, aval)
    return rule


def _nan_at_zero(inner: Function) -> Function:
    """Wrap a rule to give NaN at the pole where all operands are 0, where XLA gives NaN before jaxlib 0.12 and -inf
    since."""
    def rule(ctx: Context, *xs: IrValue) -> IrValue:
        aval = ctx.aval_out
        truth, zero = shaped(aval.shape, dtypes.BOOL), ctx.const(0.0, aval)
        pole = ctx.compare(xs[0], zero, "EQ", aval)
        for x in xs[1:]:
            pole = ctx.op("stablehlo.and", (pole, ctx.compare(x, zero, "EQ", aval)), truth)
        return ctx.select(pole, ctx.const(float("nan"), aval), inner(ctx, *xs), aval)
    return rule


_define(prims.abs_p, by_dtype(abs_lowering, complex_abs))
_define(prims.digamma_p, _nan_at_zero(lower_to_op("chlo.digamma")))
_define(prims.sign_p, by_dtype(sign_lowering, complex_sign))
_define(prims.exp2_p, propagate_nan(exp2_lowering))
_define(prims.conj_p, conj_lowering)
_define(prims.polygamma_p, _nan_at_zero(_zero_at_infinity("chlo.polygamma", 0, True)))
_define(prims.zeta_p, _zeta_of_large_orders(_zero_at_infinity("chlo.zeta", 1, False)))
_define(prims.pow_p, pow_lowering)
_define(prims.integer_pow_p, integer_pow_lowering)
_define(prims.bessel_i0e_p, bessel_i0e_lowering)
_define(prims.max_p, _max_min("stablehlo.maximum", "GT"))
_define(prims.min_p, _max_min("stablehlo.minimum", "LT"))
for _name, _rule in unary_rules.items():
    _prim = getattr(prims, f"{_name}_p")
    _define(_prim, by_dtype(lowering_rules[_prim], _rule))
