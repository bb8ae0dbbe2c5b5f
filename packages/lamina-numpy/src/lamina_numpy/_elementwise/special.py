"""Elementwise functions of several steps: overflow-free sums, signs, float layout, divisors."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
from lamina_autodiff import custom_jvp
from lamina_ir import DTypeError, dtypes
from lamina_ir.extend import docstring_entries
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import max_and_gap, complex_logaddexp, typeof

from .._core.promotion import aval, cast, inexact_pair, literal, need_real, pair, to_inexact
from .._core.public_api import public_api
from .._core.ufunc_types import Binary, make_binary
from .._core.select import choose_by
from ._docstrings import docstring, ELEMENTWISE, PAIRWISE
from .ufuncs import abs, clip, positive

__all__ = ["copysign", "fmax", "fmin", "frexp", "gcd", "heaviside", "hypot", "i0", "lcm", "ldexp", "logaddexp",
           "logaddexp2", "nan_to_num", "signbit", "sinc", "spacing"]

_F32, _I32 = np.dtype("float32"), np.dtype("int32")
_LN2 = float(np.log(2.0))


@public_api(entries=PAIRWISE)
def logaddexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`log(exp(x1) + exp(x2))`, without overflow on the way.

    Args: {x1, x2}
    Returns: {floats}
      Complex values have their imaginary part in (-pi, pi].
    Raises: {ShapeError, TypeError}

    Derivative: `exp(x - logaddexp(x1, x2))` for each x of the two, of all orders; where both are the same infinity `x1`
      has all of it.
    Source: meaning of `numpy.logaddexp`.

    >>> logaddexp(1000.0, -np.inf)
    Array(1000., dtype=float32, weak_type=True)
    """
    x, y = inexact_pair("logaddexp", x1, x2)
    if dtypes.is_complex(typeof(x).dtype):
        return complex_logaddexp(x, y)
    top, gap = max_and_gap(x, y)
    return lax.add(top, lax.log1p(lax.exp(gap)))


@public_api(entries=PAIRWISE)
def logaddexp2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`log2(2**x1 + 2**x2)`, without overflow on the way.

    Args: {x1, x2}
    Returns: {floats}
    Raises: {ShapeError, TypeError}

    Derivative: `2**(x - logaddexp2(x1, x2))` for each x of the two, of all orders; where both are the same infinity `x1`
      has all of it.
    Source: meaning of `numpy.logaddexp2`.

    >>> logaddexp2(1000.0, 1000.0)
    Array(1001., dtype=float32, weak_type=True)
    """
    x, y = inexact_pair("logaddexp2", x1, x2)
    d = typeof(x).dtype
    if dtypes.is_complex(d):
        ln2 = literal(_LN2, d)
        return lax.div(complex_logaddexp(lax.mul(x, ln2), lax.mul(y, ln2)), ln2)
    top, gap = max_and_gap(x, y)
    return lax.add(top, lax.div(lax.log1p(lax.exp2(gap)), literal(_LN2, d)))


@public_api(entries=PAIRWISE)
def hypot(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`sqrt(x1**2 + x2**2)`, without overflow on the way.

    Args:
      x1, x2: real arrays that broadcast to each other; booleans and integers become float.
    Returns: {floats}
      Infinite if either is infinite, even if the other is NaN.
    Raises: {ShapeError, TypeError, DTypeError}

    Derivative: `x / hypot(x1, x2)` for each x of the two; zero where both are 0.
    Source: meaning of `numpy.hypot`.

    >>> hypot(3, np.array([4., np.inf]))
    Array([ 5., inf], dtype=float32)
    """
    x, y = inexact_pair("hypot", x1, x2)
    d = typeof(x).dtype
    if dtypes.is_complex(d):
        raise DTypeError(f"hypot: expected real numbers; got {aval('hypot', x1).str_long()} and "
                         f"{aval('hypot', x2).str_long()}; take their absolute values first")
    x, y = lax.abs(x), lax.abs(y)
    low, high = lax.min(x, y), lax.max(x, y)
    zero = lax.eq(high, literal(0, d))
    ratio = lax.div(low, choose_by(zero, literal(1, d), high))
    out = lax.mul(high, lax.sqrt(lax.add(lax.integer_pow(ratio, 2), literal(1, d))))
    inf = literal(np.inf, d)
    either = lax.bitwise_or(lax.eq(x, inf), lax.eq(y, inf))  # even if the other is NaN
    return choose_by(either, inf, choose_by(zero, high, out))


@public_api(entries=PAIRWISE)
def copysign(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The size of `x1` with the sign of `x2`, also that of -0.0.

    Args:
      x1, x2: real arrays that broadcast to each other; booleans and integers become float.
    Returns: {floats}
    Raises: {ShapeError, TypeError, DTypeError}

    Derivative: 1 or -1 for `x1`, zero for `x2`.
    Source: meaning of `numpy.copysign`.

    >>> copysign(np.array([1., -2.]), -0.0)
    Array([-1., -2.], dtype=float32)
    """
    x, y = inexact_pair("copysign", x1, x2)
    need_real("copysign", x)
    t = typeof(x)
    size = lax.abs(cast(x, t.dtype, t.weak_type and typeof(y).weak_type))
    return choose_by(signbit(y), lax.neg(size), size)


@public_api(entries=ELEMENTWISE)
def signbit(x: ArrayLike, /) -> Array:
    """Whether the sign bit is set: True for negative numbers, -0.0 among them.

    Args:
      x: real or boolean array.
    Returns:
      Boolean array of the shape of `x`.
    Raises: {TypeError, DTypeError}

    Source: meaning of `numpy.signbit`.

    >>> signbit(np.array([1., 0., -0.]))
    Array([False, False,  True], dtype=bool)
    """
    a = aval("signbit", x)
    need_real("signbit", x)
    d = a.dtype
    if not dtypes.is_float(d):
        return lax.lt(x, literal(0, d))
    whole = np.dtype(f"int{8 * d.itemsize}")
    return lax.lt(lax.bitcast_convert_type(x, whole), literal(0, whole))


@public_api(entries=PAIRWISE)
def heaviside(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """0 where `x1` is below zero, 1 where it is above, `x2` where it is zero.

    Args:
      x1, x2: real arrays that broadcast to each other; booleans and integers become float.
    Returns: {floats}
      NaN where `x1` is.
    Raises: {ShapeError, TypeError, DTypeError}

    Derivative: zero for `x1`; for `x2` 1 where `x1` is zero.
    Source: meaning of `numpy.heaviside`.

    >>> heaviside(np.array([-2., 0., 3.]), 0.5)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    x, y = inexact_pair("heaviside", x1, x2)
    need_real("heaviside", x)
    d = typeof(x).dtype
    zero = literal(0, d)
    out = choose_by(lax.lt(x, zero), zero, choose_by(lax.gt(x, zero), literal(1, d), y))
    return choose_by(lax.ne(x, x), x, out)


@public_api(entries=ELEMENTWISE)
def sinc(x: ArrayLike, /) -> Array:
    """`sin(pi x) / (pi x)`, and 1 at zero.

    Args:
      x: number array; booleans and integers become float.
    Returns: {floats}
    Raises: {TypeError}

    Derivative: of every order, also at zero.
    Source: meaning of `numpy.sinc`.

    >>> sinc(np.array([0., 0.5]))
    Array([1.        , 0.63661975], dtype=float32)
    """
    x = to_inexact("sinc", x)
    d = typeof(x).dtype
    if d.itemsize < 4:  # the angle would lose what the sine is made of
        return cast(sinc(cast(x, _F32)), d)
    angle = lax.mul(x, literal(np.pi, d))
    near = lax.lt(lax.abs(angle), literal(1, dtypes.real_dtype(d)))
    # Near zero the series of sin(z) / z in z**2, which has all its derivatives there; elsewhere the quotient, kept off zero.
    t = lax.integer_pow(choose_by(near, angle, literal(0, d)), 2)
    series = _horner(t, tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(12, -1, -1)), d)
    far = choose_by(near, literal(1, d), angle)
    return choose_by(near, series, lax.div(lax.sin(far), far))


@public_api(entries=ELEMENTWISE)
def i0(x: ArrayLike) -> Array:
    """Modified Bessel function of the first kind, of order 0.

    Args:
      x: real array; booleans and integers become float.
    Returns: {floats}
    Raises: {TypeError, DTypeError}

    Derivative: the modified Bessel function of order 1.
    Source: meaning of `numpy.i0`.

    >>> i0(np.array([0., 1.]))
    Array([1.       , 1.2660658], dtype=float32)
    """
    x = to_inexact("i0", x)
    need_real("i0", x)
    d = typeof(x).dtype
    if d.itemsize < 4:
        return cast(i0(cast(x, _F32)), d)
    return _i0(x)


def _times_exp(x: Any, scaled: Any) -> Any:
    """exp(|x|) `scaled`: exp(|x|/2) twice, so that it does not overflow before the result."""
    half = lax.exp(lax.mul(lax.abs(x), literal(0.5, typeof(x).dtype)))
    return lax.mul(lax.mul(half, scaled), half)


@custom_jvp
def _i0(x: Any) -> Any:
    return _times_exp(x, lax.bessel_i0e(x))


@_i0.defjvp
def _i0_jvp(primals: Any, tangents: Any) -> Any:
    """I0' = I1 [DLMF 10.29.3]. The derivative of exp(|x|) i0e(x) cancels: it is 0 for tiny x, where I1 is x / 2."""
    (x,), (t,) = primals, tangents
    return _i0(x), lax.mul(t, _times_exp(x, lax.bessel_i1e(x)))


def _horner(x: Any, coefficients: tuple[float, ...], d: np.dtype) -> Any:
    out = lax.mul(x, literal(coefficients[0], d))
    for c in coefficients[1:-1]:
        out = lax.mul(lax.add(out, literal(c, d)), x)
    return lax.add(out, literal(coefficients[-1], d))


_LAYOUT = {np.dtype("float16"): (10, 5, 15), dtypes.bfloat16: (7, 8, 127), np.dtype("float32"): (23, 8, 127),
           np.dtype("float64"): (52, 11, 1023)}


def _get_layout(call: str, x: Any) -> tuple[int, int, int, np.dtype]:
    """(bits of the fraction, bits of the exponent, its bias, integers as wide) of a float array."""
    d = typeof(x).dtype
    if d not in _LAYOUT:
        raise DTypeError(f"{call}: expected {', '.join(k.name for k in _LAYOUT)} or integers; got {typeof(x).str_long()}")
    return *_LAYOUT[d], np.dtype(f"int{8 * d.itemsize}")


@public_api()
def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1 * 2**x2`, exact where the result is a normal number.

    Args:
      x1: number array; booleans and integers become float.
      x2: integer array that broadcasts to it.
    Returns:
      Array of the shape `x1` and `x2` broadcast to and the dtype of `x1`; float32 for booleans and integers (float64 for
      those of 64 bits).
    Raises:
      TypeError: `x2` does not hold integers, or one of them is neither an array nor a number.
      ShapeError: `x1` and `x2` do not broadcast to each other.

    Derivative: `2**x2` for `x1`.
    Source: meaning of `numpy.ldexp`.

    >>> ldexp(1.5, np.array([2, -1]))
    Array([6.  , 0.75], dtype=float32)
    """
    if aval("ldexp", x2, 1).dtype == dtypes.BOOL:
        x2 = cast(x2, _I32)
    elif not dtypes.is_integer(typeof(x2).dtype):
        raise TypeError(f"ldexp: the exponent must be integer; got {typeof(x2).str_long()}")
    x = to_inexact("ldexp", x1)
    d = typeof(x).dtype
    part = dtypes.real_dtype(d)
    work = part if part in _LAYOUT else np.dtype("float32")
    bits, _, bias = _LAYOUT[work]
    whole = np.dtype(f"int{8 * work.itemsize}")
    # Three factors that are neither 0 nor infinite reach from the largest number to below the smallest, and back. They are
    # made of their bits, since `exp2` may be off by some.
    most = -int(dtypes.finfo(part).minexp)
    limits = dtypes.iinfo(typeof(x2).dtype)
    left = cast(clip(x2, max(-3 * most, int(limits.min)), min(3 * most, int(limits.max))), _I32)
    for count in (3, 2, 1):
        step = lax.div(left, literal(count, _I32))
        left = lax.sub(left, step)
        power = lax.shift_left(cast(lax.add(step, literal(bias, _I32)), whole), literal(bits, whole))
        x = lax.mul(*pair("ldexp", x, cast(lax.bitcast_convert_type(power, work), d)))
    return x


@public_api()
def frexp(x: ArrayLike, /) -> tuple[Array, Array]:
    """Mantissa and exponent: `x == mantissa * 2**exponent` with `0.5 <= |mantissa| < 1`.

    Args:
      x: real array; booleans and integers become float.
    Returns:
      (mantissa, exponent), of the shape of `x`: the mantissa has the dtype of `x`, float32 for booleans and integers
      (float64 for those of 64 bits), the exponent is int32. Zeros, infinities and NaN have themselves and 0.
    Raises:
      TypeError: `x` is neither an array nor a number.
      DTypeError: `x` holds complex numbers or floats of fewer than 16 bits.

    Derivative: zero: it is found on the bits.
    Source: meaning of `numpy.frexp`.

    >>> frexp(np.array([8., -3., 0.]))
    (Array([ 0.5 , -0.75,  0.  ], dtype=float32), Array([4, 2, 0], dtype=int32))
    """
    x = to_inexact("frexp", x)
    d = typeof(x).dtype
    bits, width, bias, whole = _get_layout("frexp", x)
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


@public_api(entries=ELEMENTWISE)
def spacing(x: ArrayLike, /) -> Array:
    """Distance from `x` to the next float away from zero, with the sign of `x`.

    Args:
      x: real array; booleans and integers become float.
    Returns: {floats}
      Infinite for the largest number, NaN for infinities and NaN.
    Raises:
      TypeError: `x` is neither an array nor a number.
      DTypeError: `x` holds complex numbers or floats of fewer than 16 bits.

    Derivative: zero.
    Source: meaning of `numpy.spacing`; that of -0.0 is negative here.

    >>> spacing(np.array([1., -2.]))
    Array([ 1.1920929e-07, -2.3841858e-07], dtype=float32)
    """
    x = to_inexact("spacing", x)
    d = typeof(x).dtype
    bits, width, _, whole = _get_layout("spacing", x)
    # On the bits alone: arithmetic may take subnormal numbers for zero. The last bit of a number with exponent field f has
    # field f - bits, or, where that is none of a normal number, is the subnormal with bit f - 1.
    raw = lax.bitcast_convert_type(x, whole)
    sign = literal(-1 << (bits + width), whole)
    size = lax.bitwise_and(raw, lax.bitwise_not(sign))
    field = lax.shift_right_logical(size, literal(bits, whole))
    one = literal(1, whole)
    normal = lax.shift_left(lax.sub(field, literal(bits, whole)), literal(bits, whole))
    tiny = lax.shift_left(one, lax.max(lax.sub(field, one), literal(0, whole)))
    last = choose_by(lax.gt(field, literal(bits, whole)), normal, tiny)
    infinite = ((1 << width) - 1) << bits
    last = choose_by(lax.eq(size, literal(infinite - 1, whole)), literal(infinite, whole), last)
    out = lax.bitcast_convert_type(lax.bitwise_or(last, lax.bitwise_and(raw, sign)), d)
    return choose_by(lax.ge(size, literal(infinite, whole)), literal(np.nan, d), out)


def _make_ignore_nan(name: str, on: Any, says: str, example: str) -> Binary:
    def op(x1: ArrayLike, x2: ArrayLike) -> Array:
        x, y = pair(name, x1, x2)
        out = on(x, y)
        if not dtypes.is_inexact(typeof(x).dtype):
            return out
        return choose_by(lax.ne(x, x), y, choose_by(lax.ne(y, y), x, out))
    doc = docstring(says, {"x1, x2": "number arrays that broadcast to each other."},
                    "Array of the shape `x1` and `x2` broadcast to, in the dtype they meet in; NaN where both are.",
                    {"ShapeError": "`x1` and `x2` do not broadcast to each other.",
                     "TypeError": "one of them is neither an array nor a number."}, f"meaning of `numpy.{name}`.", example,
                    "goes to the element that was taken; half to each where both are equal.")
    return make_binary(name, doc, op)


fmax = _make_ignore_nan("fmax", lax.max, "Larger of two elements, ignoring NaN.",
                        ">>> fmax(np.array([1., np.nan]), 2.0)\nArray([2., 2.], dtype=float32)")
fmin = _make_ignore_nan("fmin", lax.min, "Smaller of two elements, ignoring NaN.",
                        ">>> fmin(np.array([1., np.nan]), 2.0)\nArray([1., 2.], dtype=float32)")


@public_api("copy", entries=ELEMENTWISE)
def nan_to_num(x: ArrayLike, copy: bool = True, nan: ArrayLike = 0.0, posinf: ArrayLike | None = None,
               neginf: ArrayLike | None = None) -> Array:
    """Numbers in place of NaN and infinities.

    Args:
      x: number or boolean array; of complex numbers each part is treated by itself.
      copy: accepted for NumPy's sake: arrays never change.
      nan: what NaN becomes.
      posinf, neginf: what plus and minus infinity become; None for the largest and the lowest finite number.
    Returns:
      Array of the shape and dtype of `x`. Booleans and integers come back as they are.
    Raises: {TypeError}

    Derivative: zero where an element was replaced, for `x`.
    Source: meaning of `numpy.nan_to_num`.

    >>> nan_to_num(np.array([np.nan, np.inf, 1.]), posinf=9)
    Array([0., 9., 1.], dtype=float32)
    """
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


_INTEGERS = {**PAIRWISE, **docstring_entries("""
    x1, x2: integer arrays that broadcast to each other.
    ValueError: an argument does not hold integers.
    """)}


def _promote_integers(call: str, x: Any, y: Any) -> tuple[Any, Any, np.dtype]:
    x, y = pair(call, x, y)
    d = typeof(x).dtype
    if not dtypes.is_integer(d):
        raise ValueError(f"{call}: expected integers; got {typeof(x).str_long()}")
    shape = typeof(lax.add(x, y)).shape
    x, y = (lax.broadcast_in_dim(v, shape, ()) if typeof(v).shape != shape else v
            for v in (x, y))
    return x, y, d


@public_api(entries=_INTEGERS)
def gcd(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Greatest common divisor, not negative.

    Args: {x1, x2}
    Returns: {common}
      0 if both are 0.
    Raises: {ValueError, ShapeError, TypeError}

    Source: meaning of `numpy.gcd`, by Euclid's algorithm, in as many steps as the slowest pair takes.

    >>> gcd(np.array([12, -18]), 8)
    Array([4, 2], dtype=int32)
    """
    x, y, d = _promote_integers("gcd", x1, x2)
    x, y = abs(x), abs(y)
    zero = literal(0, d)

    def is_any_left(state: tuple[Any, Any]) -> Any:
        left = lax.ne(state[1], zero)
        return lax.reduce_or(left, tuple(range(len(typeof(left).shape))))

    def step(state: tuple[Any, Any]) -> tuple[Any, Any]:
        a, b = state
        done = lax.eq(b, zero)
        return choose_by(done, a, b), choose_by(done, zero, lax.rem(a, choose_by(done, literal(1, d), b)))
    return abs(lax.while_loop(is_any_left, step, (x, y))[0])  # the lowest integer is its own negative


@public_api(entries=_INTEGERS)
def lcm(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Least common multiple, not negative.

    Args: {x1, x2}
    Returns: {common}
      0 if either is 0. Wraps around if the result is out of range of the dtype.
    Raises: {ValueError, ShapeError, TypeError}

    Source: meaning of `numpy.lcm`.

    >>> lcm(np.array([4, -6]), 10)
    Array([20, 30], dtype=int32)
    """
    x, y, d = _promote_integers("lcm", x1, x2)
    g = gcd(x, y)
    zero = literal(0, d)
    none = lax.eq(g, zero)
    return choose_by(none, zero, lax.mul(abs(x), lax.div(abs(y), choose_by(none, literal(1, d), g))))
