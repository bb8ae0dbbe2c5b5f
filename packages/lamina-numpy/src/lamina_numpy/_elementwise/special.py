"""Elementwise functions of several steps: overflow-free sums, signs, float layout, divisors."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import dtypes, prims
from lamina_ir.errors import DTypeError
from lamina_tracing import lax
from lamina_tracing.extend import bind, complex_logaddexp, typeof

from .._ground.promotion import aval, cast, convert, inexact_pair, literal, pair, to_inexact
from .._ground.publishing import public
from .._ground.choosing import choose_by
from .ufuncs import abs, positive

__all__ = ["copysign", "fmax", "fmin", "frexp", "gcd", "heaviside", "hypot", "i0", "lcm", "ldexp", "logaddexp",
           "logaddexp2", "nan_to_num", "signbit", "sinc", "spacing"]

_LN2 = float(np.log(2.0))


@public()
def logaddexp(x1: Any, x2: Any, /) -> Any:
    """`log(exp(x1) + exp(x2))` without overflow; for complex numbers the value with the angle in (-pi, pi]."""
    x, y = inexact_pair("logaddexp", x1, x2)
    if dtypes.is_complex(typeof(x).dtype):
        return complex_logaddexp(x, y)
    top = bind(prims.max_p, x, y)
    gap = bind(prims.sub_p, x, y)
    soft = bind(prims.add_p, top, bind(prims.log1p_p, bind(prims.exp_p, bind(prims.neg_p, bind(prims.abs_p, gap)))))
    return bind(prims.select_p, bind(prims.ne_p, gap, gap), bind(prims.add_p, x, y), soft)  # NaN, or equal infinities


@public()
def logaddexp2(x1: Any, x2: Any, /) -> Any:
    """`log2(2**x1 + 2**x2)` without overflow."""
    x, y = inexact_pair("logaddexp2", x1, x2)
    d = typeof(x).dtype
    if dtypes.is_complex(d):
        ln2 = literal(_LN2, d)
        return bind(prims.div_p, complex_logaddexp(bind(prims.mul_p, x, ln2), bind(prims.mul_p, y, ln2)), ln2)
    top = bind(prims.max_p, x, y)
    gap = bind(prims.sub_p, x, y)
    less = bind(prims.exp2_p, bind(prims.neg_p, bind(prims.abs_p, gap)))
    rest = bind(prims.div_p, bind(prims.log1p_p, less), literal(_LN2, d))
    return bind(prims.select_p, bind(prims.ne_p, gap, gap), bind(prims.add_p, x, y), bind(prims.add_p, top, rest))


@public()
def hypot(x1: Any, x2: Any, /) -> Any:
    """Length of the hypotenuse, without overflow on the way."""
    x, y = inexact_pair("hypot", x1, x2)
    d = typeof(x).dtype
    if dtypes.is_complex(d):
        raise DTypeError(f"hypot: expected real numbers; got {aval('hypot', x1).long()} and {aval('hypot', x2).long()}; "
                         "take their absolute values first")
    x, y = bind(prims.abs_p, x), bind(prims.abs_p, y)
    low, high = bind(prims.min_p, x, y), bind(prims.max_p, x, y)
    zero = bind(prims.eq_p, high, literal(0, d))
    ratio = bind(prims.div_p, low, choose_by(zero, literal(1, d), high))
    out = bind(prims.mul_p, high, bind(prims.sqrt_p, bind(prims.add_p, bind(prims.integer_pow_p, ratio, y=2), literal(1, d))))
    inf = literal(np.inf, d)
    either = bind(prims.or_p, bind(prims.eq_p, x, inf), bind(prims.eq_p, y, inf))  # even beside NaN
    return choose_by(either, inf, choose_by(zero, high, out))


@public()
def copysign(x1: Any, x2: Any, /) -> Any:
    """The size of `x1` with the sign of `x2`."""
    x, y = inexact_pair("copysign", x1, x2)
    size = bind(prims.abs_p, x)
    return choose_by(signbit(y), bind(prims.neg_p, size), size)


@public()
def signbit(x: Any, /) -> Any:
    """Whether the sign bit is set: True for negative numbers and -0.0."""
    a = aval("signbit", x)
    d = a.dtype
    if not dtypes.is_float(d):
        return bind(prims.lt_p, x, literal(0, d))
    whole = np.dtype(f"int{8 * d.itemsize}")
    return bind(prims.lt_p, bind(prims.bitcast_convert_type_p, x, new_dtype=whole), literal(0, whole))


@public()
def heaviside(x1: Any, x2: Any, /) -> Any:
    """0 below zero, 1 above, `x2` at zero."""
    x, y = inexact_pair("heaviside", x1, x2)
    d = typeof(x).dtype
    zero = literal(0, d)
    out = choose_by(bind(prims.lt_p, x, zero), zero, choose_by(bind(prims.gt_p, x, zero), literal(1, d), y))
    return choose_by(bind(prims.ne_p, x, x), x, out)


@public()
def sinc(x: Any, /) -> Any:
    """`sin(pi x) / (pi x)`, 1 at zero."""
    x = to_inexact("sinc", x)
    d = typeof(x).dtype
    at_zero = bind(prims.eq_p, x, literal(0, d))
    safe = bind(prims.mul_p, choose_by(at_zero, literal(1, d), x), literal(np.pi, d))
    # the second-order term keeps both derivatives right at zero
    curve = bind(prims.sub_p, literal(1, d), bind(prims.mul_p, bind(prims.integer_pow_p, x, y=2), literal(np.pi ** 2 / 6, d)))
    return choose_by(at_zero, curve, bind(prims.div_p, bind(prims.sin_p, safe), safe))


@public()
def i0(x: Any, /) -> Any:
    """Modified Bessel function of the first kind, order 0.

    Source: polynomials 9.8.1 and 9.8.2 of Abramowitz and Stegun, Handbook of Mathematical Functions.
    """
    x = bind(prims.abs_p, to_inexact("i0", x))
    d = typeof(x).dtype
    t = bind(prims.integer_pow_p, bind(prims.div_p, x, literal(3.75, d)), y=2)
    small = _horner(t, (0.0045813, 0.0360768, 0.2659732, 1.2067492, 3.0899424, 3.5156229, 1.0), d)
    big_x = bind(prims.max_p, x, literal(3.75, d))
    u = bind(prims.div_p, literal(3.75, d), big_x)
    tail = _horner(u, (0.00392377, -0.01647633, 0.02635537, -0.02057706, 0.00916281, -0.00157565, 0.00225319,
                       0.01328592, 0.39894228), d)
    big = bind(prims.mul_p, bind(prims.mul_p, bind(prims.exp_p, big_x), bind(prims.rsqrt_p, big_x)), tail)
    return choose_by(bind(prims.lt_p, x, literal(3.75, d)), small, big)


def _horner(x: Any, coefficients: tuple[float, ...], d: np.dtype) -> Any:
    out = bind(prims.mul_p, x, literal(coefficients[0], d))
    for c in coefficients[1:-1]:
        out = bind(prims.mul_p, bind(prims.add_p, out, literal(c, d)), x)
    return bind(prims.add_p, out, literal(coefficients[-1], d))


@public()
def ldexp(x1: Any, x2: Any, /) -> Any:
    """`x1 * 2**x2`."""
    if not dtypes.is_integer(aval("ldexp", x2, 1).dtype):
        raise TypeError(f"ldexp: the exponent must be integer; got {typeof(x2).long()}")
    x = to_inexact("ldexp", x1)
    d = typeof(x).dtype
    half = bind(prims.shift_right_arithmetic_p, x2, literal(1, typeof(x2).dtype))
    rest = bind(prims.sub_p, x2, half)  # in two steps, so that neither factor overflows before the product does
    x, a = pair("ldexp", x, bind(prims.exp2_p, convert(half, d)))
    x = bind(prims.mul_p, x, a)
    x, b = pair("ldexp", x, bind(prims.exp2_p, convert(rest, d)))
    return bind(prims.mul_p, x, b)


_LAYOUT = {np.dtype("float16"): (10, 5, 15), dtypes.bfloat16: (7, 8, 127), np.dtype("float32"): (23, 8, 127),
           np.dtype("float64"): (52, 11, 1023)}


@public()
def frexp(x: Any, /) -> tuple[Any, Any]:
    """(mantissa, exponent) with `x == mantissa * 2**exponent` and 0.5 <= |mantissa| < 1."""
    x = to_inexact("frexp", x)
    d = typeof(x).dtype
    if dtypes.is_complex(d):
        raise DTypeError(f"frexp: complex numbers have no exponent; got {typeof(x).long()}. Take real and imag first")
    bits, width, bias = _LAYOUT[d]
    whole = np.dtype(f"int{8 * d.itemsize}")
    field = literal(((1 << width) - 1) << bits, whole)
    tiny = bind(prims.lt_p, bind(prims.abs_p, x), literal(np.ldexp(1.0, 1 - bias), d))  # subnormal: scale up first
    scaled = choose_by(tiny, bind(prims.mul_p, x, literal(2.0 ** (bits + 1), d)), x)
    raw = bind(prims.bitcast_convert_type_p, scaled, new_dtype=whole)
    e = bind(prims.shift_right_logical_p, bind(prims.and_p, raw, field), literal(bits, whole))
    mantissa = bind(prims.bitcast_convert_type_p, bind(prims.or_p, bind(prims.and_p, raw, bind(prims.not_p, field)),
                                                       literal((bias - 1) << bits, whole)), new_dtype=d)
    e = bind(prims.sub_p, e, choose_by(tiny, literal(bias - 1 + bits + 1, whole), literal(bias - 1, whole)))
    plain = bind(prims.or_p, bind(prims.eq_p, x, literal(0, d)), bind(prims.not_p, bind(prims.is_finite_p, x)))
    e = choose_by(plain, literal(0, whole), e)
    return choose_by(plain, x, mantissa), cast(e, np.dtype("int32"))


@public()
def spacing(x: Any, /) -> Any:
    """Distance from `x` to the next float away from zero, with the sign of `x`."""
    x = to_inexact("spacing", x)
    d = typeof(x).dtype
    far = copysign(literal(np.inf, d), x)
    return bind(prims.sub_p, bind(prims.nextafter_p, x, far), x)


def _ignore_nan(name: str, prim: Any, doc: str) -> Any:
    def op(x1: Any, x2: Any, /) -> Any:
        x, y = pair(name, x1, x2)
        out = bind(prim, x, y)
        if not dtypes.is_inexact(typeof(x).dtype):
            return out
        return choose_by(bind(prims.ne_p, x, x), y, choose_by(bind(prims.ne_p, y, y), x, out))
    return public(name=name, doc=doc)(op)


fmax = _ignore_nan("fmax", prims.max_p, "Larger of two elements, ignoring NaN.")
fmin = _ignore_nan("fmin", prims.min_p, "Smaller of two elements, ignoring NaN.")


@public("copy")
def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """NaN and infinities replaced; infinities by the largest finite numbers unless given."""
    d = aval("nan_to_num", x).dtype
    if not dtypes.is_inexact(d):
        return positive(x)
    if dtypes.is_complex(d):
        return bind(prims.complex_p, nan_to_num(bind(prims.real_p, x), copy, nan, posinf, neginf),
                    nan_to_num(bind(prims.imag_p, x), copy, nan, posinf, neginf))
    limits = dtypes.finfo(d)
    high = literal(float(limits.max), d) if posinf is None else cast(posinf, d)
    low = literal(float(limits.min), d) if neginf is None else cast(neginf, d)
    out = choose_by(bind(prims.ne_p, x, x), cast(nan, d), x)
    out = choose_by(bind(prims.eq_p, out, literal(np.inf, d)), high, out)
    return choose_by(bind(prims.eq_p, out, literal(-np.inf, d)), low, out)


def _whole_pair(call: str, x: Any, y: Any) -> tuple[Any, Any, np.dtype]:
    x, y = pair(call, x, y)
    d = typeof(x).dtype
    if not dtypes.is_integer(d):
        raise ValueError(f"{call}: expected integers; got {typeof(x).long()}")
    shape = typeof(bind(prims.add_p, x, y)).shape
    x, y = (bind(prims.broadcast_in_dim_p, v, shape=shape, broadcast_dimensions=()) if typeof(v).shape != shape else v
            for v in (x, y))
    return x, y, d


@public()
def gcd(x1: Any, x2: Any, /) -> Any:
    """Greatest common divisor.

    Euclid's algorithm, unrolled: two numbers of b bits need at most 1.44 b steps.
    """
    x, y, d = _whole_pair("gcd", x1, x2)
    x, y = abs(x), abs(y)
    zero = literal(0, d)

    def step(state: tuple[Any, Any]) -> tuple[Any, Any]:
        a, b = state
        done = bind(prims.eq_p, b, zero)
        return choose_by(done, a, b), choose_by(done, zero, bind(prims.rem_p, a, choose_by(done, literal(1, d), b)))
    loop = getattr(lax, "fori_loop", None)
    steps = int(1.45 * 8 * d.itemsize) + 2
    if loop is not None:
        return loop(0, steps, lambda _, state: step(state), (x, y))[0]
    for _ in range(steps):
        x, y = step((x, y))
    return x


@public()
def lcm(x1: Any, x2: Any, /) -> Any:
    """Least common multiple."""
    x, y, d = _whole_pair("lcm", x1, x2)
    g = gcd(x, y)
    zero = literal(0, d)
    none = bind(prims.eq_p, g, zero)
    return choose_by(none, zero, bind(prims.mul_p, abs(x), bind(prims.div_p, abs(y), choose_by(none, literal(1, d), g))))
