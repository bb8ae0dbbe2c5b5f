"""JVP rules of the elementwise primitives. Most are given by the partial derivatives with respect to each operand.

Complex functions are differentiated as holomorphic functions; `abs`, `real`, `imag` and `conj` as maps of real pairs.
`neg`, `add`, `sub`, `mul`, `copy`, `real`, `imag`, `conj` and `complex` need no rule: they are declared linear or
bilinear.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NoReturn

import numpy as np
from lamina_ir import dtypes, MissingRuleError, Primitive, prims
from lamina_ir.typing import Function, Value
from lamina_tracing import jit, lax
from lamina_tracing.extend import bind, one_like, scalar, typeof

from .._custom.custom_jvp import custom_jvp
from .._engine.rule_tables import declare_missing, jvp_rules, def_elementwise_jvp, def_zero_jvp
from .._typing import RuleResult, Tangent

__all__: list[str] = []

_F64 = np.dtype("float64")

# --- no derivative, or zero everywhere -----------------------------------------------------------------------------

for _prim in (prims.floor_p, prims.ceil_p, prims.round_p, prims.is_finite_p, prims.stop_gradient_p,
              prims.not_p, prims.and_p, prims.or_p, prims.xor_p, prims.population_count_p, prims.clz_p,
              prims.shift_left_p, prims.shift_right_logical_p, prims.shift_right_arithmetic_p,
              prims.bitcast_convert_type_p, prims.eq_p, prims.ne_p, prims.lt_p, prims.le_p, prims.gt_p, prims.ge_p):
    def_zero_jvp(_prim)

declare_missing(prims.nextafter_p, "it steps from one float to the next, which is no smooth function")


def _scalar_of(x: Value, value: float) -> Value:
    """A rank-0 constant of the dtype of x."""
    return scalar(value, typeof(x).dtype)


# --- one operand: derivatives -------------------------------------------------------------------------------------------


def _integer_pow_derivative(x: Value, ans: Value, *, y: int) -> Value:
    if y == 0:
        return _scalar_of(x, 0)
    return one_like(x) if y == 1 else lax.add(x, x) if y == 2 else lax.mul(float(y), lax.integer_pow(x, y - 1))


@custom_jvp
@partial(jit, inline=True)
def _sech_squared(x: Value) -> Value:
    """4 e / (1 + e)^2 with e = exp(-2|x|)."""
    e = lax.exp(lax.mul(-2.0, lax.abs(x)))
    return lax.div(lax.mul(4.0, e), lax.square(lax.add(1.0, e)))


@_sech_squared.defjvp
def _sech_squared_jvp(primals: Sequence[Value], tangents: Sequence[Value]) -> Value:
    """-2 tanh(x) sech(x)^2: the derivative of the formula would cancel near 0."""
    (x,), (t,) = primals, tangents
    value = _sech_squared(x)
    return value, lax.mul(t, lax.mul(-2.0, lax.mul(lax.tanh(x), value)))


@custom_jvp
@partial(jit, inline=True)
def _logistic_density(x: Value, ans: Value) -> Value:
    """s (1 - s) for s = logistic(x); for x > 0, where 1 - s cancels, exp(-x) s^2.

    XLA's logistic has the same exponential, so that it is computed once.
    """
    rest = lax.select(lax.lt(x, 0.0), lax.sub(1.0, ans), lax.mul(lax.exp(lax.neg(x)), ans))
    return lax.mul(ans, rest)


@_logistic_density.defjvp
def _logistic_density_jvp(primals: Sequence[Value], tangents: Sequence[Value]) -> Value:
    """-tanh(x/2) times the density. The derivative of its formula would be NaN where exp(-x) overflows."""
    (x, ans), (t, _) = primals, tangents
    value = _logistic_density(x, ans)
    return value, lax.mul(t, lax.neg(lax.mul(lax.tanh(lax.mul(0.5, x)), value)))


def _tanh_derivative(x: Value, ans: Value) -> Value:
    """1 - tanh(x)^2, which cancels: it is 0 from x = 19. For float64 sech(x)^2 is computed from x.

    For other dtypes the exponential would be a large part of the gradient of tanh alone.
    """
    return _sech_squared(x) if typeof(x).dtype == _F64 else lax.sub(1.0, lax.square(ans))


def _logistic_derivative(x: Value, ans: Value) -> Value:
    """s (1 - s) for s = logistic(x), where 1 - s cancels; for float64 computed from x."""
    return _logistic_density(x, ans) if typeof(x).dtype == _F64 else lax.mul(ans, lax.sub(1.0, ans))


# x (1 - I1(x) / I0(x)) for x >= 8 as a polynomial in 16 / x - 1, highest power first. The Chebyshev series is truncated
# at errors of 2e-9 (float32) and 3e-17 (float64).
_BESSEL_32 = (4.22726412e-07, 2.04401165e-06, 5.36505984e-06, 1.73223245e-05, 8.87406005e-05, 0.000682747112, 0.00896349886,
              0.508355915)
_BESSEL_64 = (-2.19406429877265e-09, 9.161905341915251e-10, 1.7620850167321837e-08, -7.633121493102303e-09,
              -6.584041102443843e-08, 2.9779434408795346e-08, 1.542679680369303e-07, -7.280126890809366e-08,
              -2.6136633103846794e-07, 1.252520507594312e-07, 3.5836834747448434e-07, -1.5590091589359474e-07,
              -4.444916437042233e-07, 1.1303260976682618e-07, 5.325151498852809e-07, 9.260457831482999e-08,
              -5.313787653712806e-07, -5.361806340821025e-07, -3.3307724367145926e-09, 5.864258677373983e-07,
              1.0909423459536452e-06, 1.9487919073128087e-06, 4.788507557106034e-06, 1.72017288753421e-05,
              8.890591389966004e-05, 0.000682786717230606, 0.008963486348115163, 0.5083559131494412)


def _bessel_ratio_gap(x: Value, is_small: Value) -> tuple[Value, Value]:
    """Return |x| and 1 - I1(|x|) / I0(|x|), valid where `is_small` (|x| < 8) is false.

    I1 / I0 tends to 1 for large x, so computing the difference from the two functions would cancel its digits.
    """
    size = lax.select(is_small, lax.full_like(x, 8.0), lax.abs(x))
    t = lax.sub(lax.div(16.0, size), 1.0)
    first, *others = _BESSEL_64 if typeof(x).dtype.itemsize > 4 else _BESSEL_32
    total = lax.full_like(x, first)
    for c in others:
        total = lax.add(lax.mul(total, t), c)
    return size, lax.div(total, size)


def _bessel_i0e_derivative(x: Value, ans: Value) -> Value:
    """For i0e(x) = exp(-|x|) I0(x): i0e' = i1e(x) - sign(x) i0e(x), since I0' = I1 [DLMF 10.29.3].

    For |x| >= 8 the two terms cancel; there it is -sign(x) i0e(x) (1 - I1(|x|) / I0(|x|)).
    """
    is_small, signed = lax.lt(lax.abs(x), 8.0), lax.mul(lax.sign(x), ans)
    return lax.select(is_small, lax.sub(lax.bessel_i1e(x), signed),
                      lax.neg(lax.mul(signed, _bessel_ratio_gap(x, is_small)[1])))


def _bessel_i1e_derivative(x: Value, ans: Value) -> Value:
    """For i1e(x) = exp(-|x|) I1(x): i1e' = i0e(x) - sign(x) i1e(x) - i1e(x) / x.

    It follows from I1' = I0 - I1 / x [DLMF 10.29.2].
    For |x| < 1, I1(x) / x is computed by its power series, so that its derivative is accurate near 0 too. For |x| >= 8,
    with g = 1 - I1(|x|) / I0(|x|), the derivative is i0e(x) (g - (1 - g) / |x|), which avoids cancellation.
    """
    # Series of I1(x) / x = 1/2 sum over k of (x^2/4)^k / (k! (k+1)!) [DLMF 10.25.2], which is finite at 0.
    small = lax.lt(lax.abs(x), 1.0)
    quarter, total = lax.square(lax.mul(0.5, lax.select(small, x, lax.full_like(x, 0.0)))), lax.full_like(x, 1.0)
    for k in range(9, 0, -1):
        total = lax.add(1.0, lax.mul(lax.mul(1.0 / (k * (k + 1)), quarter), total))
    series = lax.mul(lax.mul(0.5, lax.exp(lax.neg(lax.abs(x)))), total)
    ratio = lax.select(small, series, lax.div(ans, lax.select(small, one_like(x), x)))
    i0e, is_small = lax.bessel_i0e(x), lax.lt(lax.abs(x), 8.0)
    direct = lax.sub(lax.sub(i0e, lax.mul(lax.sign(x), ans)), ratio)
    size, gap = _bessel_ratio_gap(x, is_small)
    return lax.select(is_small, direct, lax.mul(i0e, lax.sub(gap, lax.div(lax.sub(1.0, gap), size))))


def_elementwise_jvp(prims.sin_p, lambda x, ans: lax.cos(x))
def_elementwise_jvp(prims.cos_p, lambda x, ans: lax.neg(lax.sin(x)))
def_elementwise_jvp(prims.tan_p, lambda x, ans: lax.add(1.0, lax.square(ans)))
def_elementwise_jvp(prims.asin_p, lambda x, ans: lax.rsqrt(lax.sub(1.0, lax.square(x))))
def_elementwise_jvp(prims.acos_p, lambda x, ans: lax.neg(lax.rsqrt(lax.sub(1.0, lax.square(x)))))
def_elementwise_jvp(prims.sinh_p, lambda x, ans: lax.cosh(x))
def_elementwise_jvp(prims.cosh_p, lambda x, ans: lax.sinh(x))
def_elementwise_jvp(prims.tanh_p, _tanh_derivative)
def_elementwise_jvp(prims.asinh_p, lambda x, ans: lax.rsqrt(lax.add(lax.square(x), 1.0)))
def_elementwise_jvp(prims.acosh_p, lambda x, ans: lax.mul(lax.rsqrt(lax.sub(x, 1.0)), lax.rsqrt(lax.add(x, 1.0))))
def_elementwise_jvp(prims.exp_p, lambda x, ans: ans)
def_elementwise_jvp(prims.exp2_p, lambda x, ans: lax.mul(math.log(2.0), ans))
def_elementwise_jvp(prims.expm1_p, lambda x, ans: lax.exp(x))
def_elementwise_jvp(prims.rsqrt_p, lambda x, ans: lax.mul(-0.5, lax.div(ans, x)))
def_elementwise_jvp(prims.cbrt_p, lambda x, ans: lax.mul(1 / 3, lax.integer_pow(ans, -2)))
def_elementwise_jvp(prims.logistic_p, _logistic_derivative)
def_elementwise_jvp(prims.square_p, lambda x, ans: lax.add(x, x))
def_elementwise_jvp(prims.integer_pow_p, _integer_pow_derivative)
def_elementwise_jvp(prims.erf_p, lambda x, ans: lax.mul(2 / math.sqrt(math.pi), lax.exp(lax.neg(lax.square(x)))))
def_elementwise_jvp(prims.erfc_p, lambda x, ans: lax.mul(-2 / math.sqrt(math.pi), lax.exp(lax.neg(lax.square(x)))))
def_elementwise_jvp(prims.erf_inv_p, lambda x, ans: lax.mul(math.sqrt(math.pi) / 2, lax.exp(lax.square(ans))))
def_elementwise_jvp(prims.lgamma_p, lambda x, ans: lax.digamma(x))
# About fifty primitives each: jit makes them one program, on concrete values too.
def_elementwise_jvp(prims.bessel_i0e_p, jit(_bessel_i0e_derivative, inline=True))
def_elementwise_jvp(prims.bessel_i1e_p, jit(_bessel_i1e_derivative, inline=True))
def_elementwise_jvp(prims.digamma_p, lambda x, ans: lax.polygamma(1.0, x))

# --- one operand: tangent / divisor, one equation less than tangent * (1 / divisor) ---------------------------------


def _def_reciprocal_jvp(prim: Primitive, divisor: Callable[[Value, Value], Value]) -> None:
    """Define the JVP rule of a primitive whose derivative is `1 / divisor(x, ans)`."""
    def jvp(primals: Sequence[Value], tangents: Sequence[Tangent]) -> RuleResult:
        x, t = primals[0], tangents[0]
        ans = bind(prim, x)
        return ans, None if t is None else lax.div(t, divisor(x, ans))
    jvp_rules.define(prim, jvp)


_def_reciprocal_jvp(prims.log_p, lambda x, ans: x)
_def_reciprocal_jvp(prims.log1p_p, lambda x, ans: lax.add(1.0, x))
_def_reciprocal_jvp(prims.sqrt_p, lambda x, ans: lax.add(ans, ans))
_def_reciprocal_jvp(prims.atan_p, lambda x, ans: lax.add(1.0, lax.square(x)))
_def_reciprocal_jvp(prims.atanh_p, lambda x, ans: lax.sub(1.0, lax.square(x)))

# --- several operands: derivatives --------------------------------------------------------------------------------------


def _pow_by_base(x: Value, y: Value, ans: Value) -> Value:
    """y x^(y-1); 0 for y = 0, even at x = 0, where x^(y-1) is infinite."""
    if not dtypes.is_inexact(typeof(y).dtype):
        y = lax.convert_element_type(y, typeof(x).dtype)
    return lax.select(lax.eq(y, 0.0), _scalar_of(x, 0), lax.mul(y, lax.pow(x, lax.sub(y, 1.0))))


def _pow_by_exponent(x: Value, y: Value, ans: Value) -> Value:
    """log(x) x^y, with log(x) replaced by 0 at x = 0."""
    return lax.mul(lax.log(lax.select(lax.eq(x, 0.0), one_like(x), x)), ans)


def _minmax_derivative(x: Value, y: Value, ans: Value) -> Value:
    """d max / d x or d min / d x: 1 if x is the result, 0 if y is, and 1/2 if both are equal."""
    half, one, zero = (_scalar_of(x, c) for c in (0.5, 1, 0))
    return lax.select(lax.eq(x, ans), lax.select(lax.eq(y, ans), half, one), zero)


def _undefined(call: str, operand: str) -> Function:
    def refuse(*args: Value) -> NoReturn:
        raise MissingRuleError(f"jvp of `{call}` by its operand {operand} is not defined: no closed form is known; "
                               f"hold {operand} constant with lax.stop_gradient")
    return refuse


def _over_squares(a: Value, x: Value, y: Value) -> Value:
    return lax.div(a, lax.add(lax.square(x), lax.square(y)))


def_elementwise_jvp(prims.pow_p, _pow_by_base, _pow_by_exponent)
def_elementwise_jvp(prims.max_p, _minmax_derivative, lambda x, y, ans: _minmax_derivative(y, x, ans))
def_elementwise_jvp(prims.min_p, _minmax_derivative, lambda x, y, ans: _minmax_derivative(y, x, ans))
def_elementwise_jvp(prims.atan2_p, lambda x, y, ans: _over_squares(y, x, y), lambda x, y, ans: lax.neg(_over_squares(x, x, y)))
def_elementwise_jvp(prims.polygamma_p, _undefined("polygamma", "m"), lambda m, x, ans: lax.polygamma(lax.add(m, 1.0), x))
def_elementwise_jvp(prims.zeta_p, _undefined("zeta", "x"), lambda x, q, ans: lax.mul(lax.neg(x), lax.zeta(lax.add(x, 1.0), q)))

# --- function rules ------------------------------------------------------------------------------------------------


def abs_jvp(primals: Sequence[Value], tangents: Sequence[Tangent]) -> RuleResult:
    """d|x| = Re(t conj(x) / |x|), the component of the tangent t along x; 0 at x = 0."""
    x, t = primals[0], tangents[0]
    ans = lax.abs(x)
    if t is None:
        return ans, None
    if not dtypes.is_complex(typeof(x).dtype):
        return ans, lax.mul(t, lax.sign(x))
    return ans, lax.real(lax.mul(t, lax.conj(lax.sign(x))))


def sign_jvp(primals: Sequence[Value], tangents: Sequence[Tangent]) -> RuleResult:
    """0 for real x. For complex x, s = x / |x|: ds = t / |x| - s Re(conj(s) t / |x|), the component orthogonal to s."""
    x, t = primals[0], tangents[0]
    ans = lax.sign(x)
    if t is None or not dtypes.is_complex(typeof(x).dtype):
        return ans, None
    size = lax.abs(x)
    zero = _scalar_of(x, 0)
    t = lax.div(t, lax.complex(lax.select(lax.eq(size, 0.0), one_like(size), size), _scalar_of(size, 0)))
    along = lax.mul(ans, lax.complex(lax.real(lax.mul(t, lax.conj(ans))), _scalar_of(size, 0)))
    return ans, lax.select(lax.eq(x, zero), zero, lax.sub(t, along))


def div_jvp(primals: Sequence[Value], tangents: Sequence[Tangent]) -> RuleResult:
    """For q = x / y: dq = (dx - q dy) / y.

    With both tangents this is one division, in the transpose too: the cotangent of y is -q times that of x. If only y
    has a tangent, the derivative -q / y is computed first: one residual instead of the two residuals q and y.
    """
    (x, y), (tx, ty) = primals, tangents
    ans = lax.div(x, y)
    if ty is None:
        return ans, None if tx is None else lax.div(tx, y)
    if tx is None:
        return ans, lax.mul(ty, lax.neg(lax.div(ans, y)))
    return ans, lax.div(lax.sub(tx, lax.mul(ty, ans)), y)


def rem_jvp(primals: Sequence[Value], tangents: Sequence[Tangent]) -> RuleResult:
    """x rem y = x - trunc(x / y) y, and trunc(x / y) is locally constant: d = dx - trunc(x / y) dy."""
    (x, y), (tx, ty) = primals, tangents
    ans = lax.rem(x, y)
    if ty is not None:
        quotient = lax.div(x, y)
        truncated = lax.mul(lax.sign(quotient), lax.floor(lax.abs(quotient)))
        ty = lax.mul(ty, lax.neg(truncated))
    if tx is not None and typeof(tx).shape != typeof(ans).shape:
        tx = lax.broadcast_in_dim(tx, typeof(ans).shape, ())
    return ans, ty if tx is None else tx if ty is None else lax.add(tx, ty)


def select_jvp(primals: Sequence[Value], tangents: Sequence[Tangent]) -> RuleResult:
    """Select between the tangents of the operands."""
    (pred, on_true, on_false), (_, t, f) = primals, tangents
    ans = lax.select(pred, on_true, on_false)
    if t is None and f is None:
        return ans, None
    shape = typeof(ans).shape
    t = _scalar_of(on_true, 0) if t is None else t
    f = _scalar_of(on_false, 0) if f is None else f
    if shape and not typeof(pred).shape and not typeof(t).shape and not typeof(f).shape:
        t = lax.broadcast_in_dim(t, shape, ())
    return ans, lax.select(pred, t, f)


def clamp_jvp(primals: Sequence[Value], tangents: Sequence[Tangent]) -> RuleResult:
    """The tangent of x if lo < x < hi, of lo if x < lo, of hi if x > hi; 0 if x equals a bound."""
    (lo, x, hi), (t_lo, t, t_hi) = primals, tangents
    ans = lax.clamp(lo, x, hi)
    terms = []
    for tangent, where in ((t, lambda: lax.bitwise_and(lax.gt(x, lo), lax.lt(x, hi))), (t_lo, lambda: lax.lt(x, lo)),
                           (t_hi, lambda: lax.gt(x, hi))):
        if tangent is not None:
            term = lax.select(where(), tangent, _scalar_of(x, 0))
            terms.append(term if typeof(term).shape == typeof(ans).shape
                         else lax.broadcast_in_dim(term, typeof(ans).shape, ()))
    total: Tangent = terms[0] if terms else None
    for term in terms[1:]:
        total = lax.add(total, term)
    return ans, total


def convert_element_type_jvp(primals: Sequence[Value], tangents: Sequence[Tangent], *, new_dtype: np.dtype,
                             weak_type: bool) -> RuleResult:
    """Linear between inexact dtypes; integers have no tangent."""
    x, t = primals[0], tangents[0]
    ans = bind(prims.convert_element_type_p, x, new_dtype=new_dtype, weak_type=weak_type)
    if t is None or not dtypes.is_inexact(new_dtype):
        return ans, None
    return ans, bind(prims.convert_element_type_p, t, new_dtype=new_dtype, weak_type=weak_type)


jvp_rules.define(prims.abs_p, abs_jvp)
jvp_rules.define(prims.sign_p, sign_jvp)
jvp_rules.define(prims.div_p, div_jvp)
jvp_rules.define(prims.rem_p, rem_jvp)
jvp_rules.define(prims.select_p, select_jvp)
jvp_rules.define(prims.clamp_p, clamp_jvp)
jvp_rules.define(prims.convert_element_type_p, convert_element_type_jvp)
