"""Elementwise functions of several steps: overflow-free sums, signs, float layout, divisors."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
from lamina_ir import DTypeError, dtypes
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import complex_logaddexp, typeof

from .._ground.promotion import aval, cast, convert, inexact_pair, literal, pair, to_inexact
from .._ground.publishing import public
from .._ground.choosing import choose_by
from .ufuncs import abs, positive

__all__ = ["copysign", "fmax", "fmin", "frexp", "gcd", "heaviside", "hypot", "i0", "lcm", "ldexp", "logaddexp",
           "logaddexp2", "nan_to_num", "signbit", "sinc", "spacing"]

_LN2 = float(np.log(2.0))


@public()
def logaddexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`log(exp(x1) + exp(x2))` without overflow; for complex numbers the value with the angle in (-pi, pi]."""
    x, y = inexact_pair("logaddexp", x1, x2)
    if dtypes.is_complex(typeof(x).dtype):
        return complex_logaddexp(x, y)
    top = lax.max(x, y)
    gap = lax.sub(x, y)
    soft = lax.add(top, lax.log1p(lax.exp(lax.neg(lax.abs(gap)))))
    return lax.select(lax.ne(gap, gap), lax.add(x, y), soft)  # NaN, or equal infinities


@public()
def logaddexp2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`log2(2**x1 + 2**x2)` without overflow."""
    x, y = inexact_pair("logaddexp2", x1, x2)
    d = typeof(x).dtype
    if dtypes.is_complex(d):
        ln2 = literal(_LN2, d)
        return lax.div(complex_logaddexp(lax.mul(x, ln2), lax.mul(y, ln2)), ln2)
    top = lax.max(x, y)
    gap = lax.sub(x, y)
    less = lax.exp2(lax.neg(lax.abs(gap)))
    rest = lax.div(lax.log1p(less), literal(_LN2, d))
    return lax.select(lax.ne(gap, gap), lax.add(x, y), lax.add(top, rest))


@public()
def hypot(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Length of the hypotenuse, without overflow on the way."""
    x, y = inexact_pair("hypot", x1, x2)
    d = typeof(x).dtype
    if dtypes.is_complex(d):
        raise DTypeError(f"hypot: expected real numbers; got {aval('hypot', x1).long()} and {aval('hypot', x2).long()}; "
                         "take their absolute values first")
    x, y = lax.abs(x), lax.abs(y)
    low, high = lax.min(x, y), lax.max(x, y)
    zero = lax.eq(high, literal(0, d))
    ratio = lax.div(low, choose_by(zero, literal(1, d), high))
    out = lax.mul(high, lax.sqrt(lax.add(lax.integer_pow(ratio, 2), literal(1, d))))
    inf = literal(np.inf, d)
    either = lax.bitwise_or(lax.eq(x, inf), lax.eq(y, inf))  # even beside NaN
    return choose_by(either, inf, choose_by(zero, high, out))


@public()
def copysign(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The size of `x1` with the sign of `x2`."""
    x, y = inexact_pair("copysign", x1, x2)
    size = lax.abs(x)
    return choose_by(signbit(y), lax.neg(size), size)


@public()
def signbit(x: ArrayLike, /) -> Array:
    """Whether the sign bit is set: True for negative numbers and -0.0."""
    a = aval("signbit", x)
    d = a.dtype
    if not dtypes.is_float(d):
        return lax.lt(x, literal(0, d))
    whole = np.dtype(f"int{8 * d.itemsize}")
    return lax.lt(lax.bitcast_convert_type(x, whole), literal(0, whole))


@public()
def heaviside(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """0 below zero, 1 above, `x2` at zero."""
    x, y = inexact_pair("heaviside", x1, x2)
    d = typeof(x).dtype
    zero = literal(0, d)
    out = choose_by(lax.lt(x, zero), zero, choose_by(lax.gt(x, zero), literal(1, d), y))
    return choose_by(lax.ne(x, x), x, out)


@public()
def sinc(x: ArrayLike, /) -> Array:
    """`sin(pi x) / (pi x)`, 1 at zero."""
    x = to_inexact("sinc", x)
    d = typeof(x).dtype
    angle = lax.mul(x, literal(np.pi, d))
    near = lax.lt(lax.abs(angle), literal(1, dtypes.real_of(d)))
    # Near zero the series of sin(z) / z in z**2, which has all its derivatives there; elsewhere the quotient, kept off zero.
    t = lax.integer_pow(choose_by(near, angle, literal(0, d)), 2)
    series = _horner(t, tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(12, -1, -1)), d)
    far = choose_by(near, literal(1, d), angle)
    return choose_by(near, series, lax.div(lax.sin(far), far))


@public()
def i0(x: ArrayLike, /) -> Array:
    """Modified Bessel function of the first kind, order 0."""
    x = to_inexact("i0", x)
    return lax.mul(lax.exp(lax.abs(x)), lax.bessel_i0e(x))


def _horner(x: Any, coefficients: tuple[float, ...], d: np.dtype) -> Any:
    out = lax.mul(x, literal(coefficients[0], d))
    for c in coefficients[1:-1]:
        out = lax.mul(lax.add(out, literal(c, d)), x)
    return lax.add(out, literal(coefficients[-1], d))


@public()
def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1 * 2**x2`."""
    if not dtypes.is_integer(aval("ldexp", x2, 1).dtype):
        raise TypeError(f"ldexp: the exponent must be integer; got {typeof(x2).long()}")
    x = to_inexact("ldexp", x1)
    d = typeof(x).dtype
    half = lax.shift_right_arithmetic(x2, literal(1, typeof(x2).dtype))
    rest = lax.sub(x2, half)  # in two steps, so that neither factor overflows before the product does
    x, a = pair("ldexp", x, lax.exp2(convert(half, d)))
    x = lax.mul(x, a)
    x, b = pair("ldexp", x, lax.exp2(convert(rest, d)))
    return lax.mul(x, b)


_LAYOUT = {np.dtype("float16"): (10, 5, 15), dtypes.bfloat16: (7, 8, 127), np.dtype("float32"): (23, 8, 127),
           np.dtype("float64"): (52, 11, 1023)}


@public()
def frexp(x: ArrayLike, /) -> tuple[Any, Any]:
    """(mantissa, exponent) with `x == mantissa * 2**exponent` and 0.5 <= |mantissa| < 1."""
    x = to_inexact("frexp", x)
    d = typeof(x).dtype
    if dtypes.is_complex(d):
        raise DTypeError(f"frexp: complex numbers have no exponent; got {typeof(x).long()}. Take real and imag first")
    bits, width, bias = _LAYOUT[d]
    whole = np.dtype(f"int{8 * d.itemsize}")
    # On the bits alone: arithmetic may take subnormal numbers for zero.
    raw = lax.bitcast_convert_type(x, whole)
    low = literal((1 << bits) - 1, whole)
    sign = literal(-1 << (bits + width), whole)
    size = lax.bitwise_and(raw, lax.bitwise_not(sign))
    field, fraction = lax.shift_right_logical(size, literal(bits, whole)), lax.bitwise_and(size, low)
    tiny = lax.eq(field, literal(0, whole))
    up = lax.sub(lax.clz(fraction), literal(width, whole))  # places that bring a subnormal's first one before the point
    fraction = choose_by(tiny, lax.bitwise_and(lax.shift_left(fraction, up), low), fraction)
    e = lax.sub(choose_by(tiny, lax.sub(literal(1, whole), up), field), literal(bias - 1, whole))
    half = literal((bias - 1) << bits, whole)  # the exponent field of numbers in [0.5, 1)
    mantissa = lax.bitcast_convert_type(lax.bitwise_or(lax.bitwise_or(lax.bitwise_and(raw, sign), half), fraction), d)
    plain = lax.bitwise_or(lax.eq(size, literal(0, whole)), lax.eq(field, literal((1 << width) - 1, whole)))
    return choose_by(plain, x, mantissa), cast(choose_by(plain, literal(0, whole), e), np.dtype("int32"))


@public()
def spacing(x: ArrayLike, /) -> Array:
    """Distance from `x` to the next float away from zero, with the sign of `x`."""
    x = to_inexact("spacing", x)
    d = typeof(x).dtype
    far = copysign(literal(np.inf, d), x)
    return lax.sub(lax.nextafter(x, far), x)


def _ignore_nan(name: str, on: Any, doc: str) -> Any:
    def op(x1: ArrayLike, x2: ArrayLike, /) -> Array:
        x, y = pair(name, x1, x2)
        out = on(x, y)
        if not dtypes.is_inexact(typeof(x).dtype):
            return out
        return choose_by(lax.ne(x, x), y, choose_by(lax.ne(y, y), x, out))
    return public(name=name, doc=doc)(op)


fmax = _ignore_nan("fmax", lax.max, "Larger of two elements, ignoring NaN.")
fmin = _ignore_nan("fmin", lax.min, "Smaller of two elements, ignoring NaN.")


@public("copy")
def nan_to_num(x: ArrayLike, copy: bool = True, nan: ArrayLike = 0.0, posinf: ArrayLike | None = None,
               neginf: ArrayLike | None = None) -> Array:
    """NaN and infinities replaced; infinities by the largest finite numbers unless given."""
    d = aval("nan_to_num", x).dtype
    if not dtypes.is_inexact(d):
        return positive(x)
    if dtypes.is_complex(d):
        return lax.complex(*(nan_to_num(part, copy, nan, posinf, neginf) for part in (lax.real(x), lax.imag(x))))
    limits = dtypes.finfo(d)
    high = literal(float(limits.max), d) if posinf is None else cast(posinf, d)
    low = literal(float(limits.min), d) if neginf is None else cast(neginf, d)
    out = choose_by(lax.ne(x, x), cast(nan, d), x)
    out = choose_by(lax.eq(out, literal(np.inf, d)), high, out)
    return choose_by(lax.eq(out, literal(-np.inf, d)), low, out)


def _whole_pair(call: str, x: Any, y: Any) -> tuple[Any, Any, np.dtype]:
    x, y = pair(call, x, y)
    d = typeof(x).dtype
    if not dtypes.is_integer(d):
        raise ValueError(f"{call}: expected integers; got {typeof(x).long()}")
    shape = typeof(lax.add(x, y)).shape
    x, y = (lax.broadcast_in_dim(v, shape, ()) if typeof(v).shape != shape else v
            for v in (x, y))
    return x, y, d


@public()
def gcd(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Greatest common divisor.

    Euclid's algorithm, unrolled: two numbers of b bits need at most 1.44 b steps.
    """
    x, y, d = _whole_pair("gcd", x1, x2)
    x, y = abs(x), abs(y)
    zero = literal(0, d)

    def step(state: tuple[Any, Any]) -> tuple[Any, Any]:
        a, b = state
        done = lax.eq(b, zero)
        return choose_by(done, a, b), choose_by(done, zero, lax.rem(a, choose_by(done, literal(1, d), b)))
    loop = getattr(lax, "fori_loop", None)
    steps = int(1.45 * 8 * d.itemsize) + 2
    if loop is not None:
        return loop(0, steps, lambda _, state: step(state), (x, y))[0]
    for _ in range(steps):
        x, y = step((x, y))
    return x


@public()
def lcm(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Least common multiple."""
    x, y, d = _whole_pair("lcm", x1, x2)
    g = gcd(x, y)
    zero = literal(0, d)
    none = lax.eq(g, zero)
    return choose_by(none, zero, lax.mul(abs(x), lax.div(abs(y), choose_by(none, literal(1, d), g))))
