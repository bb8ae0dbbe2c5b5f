"""NumPy implementations of elementwise functions that NumPy lacks.

Floats are computed in double precision and rounded once, at the end.
"""
from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..._types import dtypes
from .ufunc_plans import in_double_precision
from ...typing import Value

__all__: list[str] = []

# Bernoulli numbers B_2, B_4, ... B_24.
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330,
              854513 / 138, -236364091 / 2730)


def _pointwise(f: Callable[[float], float]) -> Callable[[Value], Value]:
    return lambda x: np.asarray(np.frompyfunc(f, 1, 1)(x), np.float64)


def _lgamma(x: float) -> float:
    if not math.isfinite(x):
        return abs(x)
    if x <= 0 and x == math.floor(x):
        return math.inf
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


erf = _pointwise(math.erf)
erfc = _pointwise(math.erfc)
lgamma = _pointwise(_lgamma)


def _erf_inv(y: float) -> float:
    """Inverse error function: Winitzki's closed approximation, then Newton steps on erf, or on log erfc in the tail,
    where 1 - erf cancels."""
    if not -1 < y < 1:
        return math.copysign(math.inf, y) if abs(y) == 1 else math.nan
    a, log = 0.147, math.log1p(-y * y)
    b = 2 / (math.pi * a) + log / 2
    x = math.sqrt(max(math.sqrt(b * b - log / a) - b, 0.0))
    t = abs(y)
    # Winitzki's formula is good to about 2e-3, and each Newton step doubles the number of correct digits.
    for _ in range(4):
        derivative = 2 / math.sqrt(math.pi) * math.exp(-x * x)
        if t < 0.9:
            x -= (math.erf(x) - t) / derivative
        else:
            # Newton's method for log erfc(x) = log(1 - t), whose derivative is -derivative / erfc(x).
            tail = math.erfc(x)
            x += math.log(tail / (1 - t)) * tail / derivative
    return math.copysign(x, y)


erf_inv = _pointwise(_erf_inv)


def digamma(x: Value) -> Value:
    """Digamma function: reflection to x > 0, recurrence up to x >= 12, then the asymptotic series [DLMF 5.5.2, 5.5.4,
    5.11.2]."""
    x = np.asarray(x)
    # Reflection: psi(x) = psi(1 - x) - pi / tan(pi x).
    z = np.where(x < 0.5, 1 - x, x)
    shift = np.zeros_like(z)
    for _ in range(12):
        low = z < 12
        # Recurrence: psi(z) = psi(z + 1) - 1 / z.
        shift -= np.where(low, 1 / z, 0.0)
        z = np.where(low, z + 1, z)
    series = sum(b / (2 * k * z ** (2 * k)) for k, b in enumerate(_BERNOULLI, 1))
    positive = shift + np.log(z) - 0.5 / z - series
    fraction = x - np.round(x)  # tan has period pi; reduce first to keep precision
    at_pole = (x <= 0) & (x == np.floor(x))
    return np.where(at_pole, np.nan, np.where(x < 0.5, positive - np.pi / np.tan(np.pi * fraction), positive))


def zeta(s: Value, q: Value) -> Value:
    """Hurwitz zeta, sum over k >= 0 of (q + k)^-s, by Euler-Maclaurin summation from q + n [DLMF 25.11.43]."""
    s, q = np.broadcast_arrays(np.asarray(s, np.float64), np.asarray(q, np.float64))
    total, a, converged = np.zeros(s.shape), q.copy(), np.zeros(s.shape, bool)
    # Add terms until a = q + n is at least 12 and at least s. From there the Euler-Maclaurin tail (integral, half of
    # the first term, Bernoulli numbers times derivatives `factor`) has converged to double precision. Stop earlier if
    # the terms no longer change the sum.
    for k in range(4096):
        more = ((a < 12) | (a < s)) & ~converged if k else np.ones(s.shape, bool)
        if not more.any():
            break
        term = np.where(more, np.power(a, -s), 0.0)
        total, a = total + term, np.where(more, a + 1, a)
        converged |= more & (a > 1) & (term <= 1e-20 * total)
    tail = np.power(a, 1 - s) / (s - 1) + 0.5 * np.power(a, -s)
    factor = s * np.power(a, -s - 1)
    for k, b in enumerate(_BERNOULLI, 1):
        tail = tail + b / math.factorial(2 * k) * factor
        factor = factor * (s + 2 * k - 1) * (s + 2 * k) / (a * a)
    value = np.where(np.isinf(q) & (q > 0), 0.0, total + np.where(converged, 0.0, tail))
    # At q = 0, -1, ... one term is infinite: its sign is that of an even power, else it depends on the side.
    pole = np.where(np.mod(s, 2) == 0, np.inf, np.nan)
    value = np.where((q <= 0) & (s != np.floor(s)), np.nan, value)
    value = np.where(s < 1, np.nan, value)
    value = np.where((q <= 0) & (q == np.floor(q)), pole, value)
    return np.where(s == 1, np.inf, value)


def polygamma(n: Value, x: Value) -> Value:
    """Polygamma function: (-1)^(n+1) n! zeta(n + 1, x) for integers n > 0, digamma for n = 0, NaN for other n [DLMF
    25.11.12]."""
    n, x = np.broadcast_arrays(np.asarray(n, np.float64), np.asarray(x, np.float64))
    sign = np.where(np.mod(n, 2) == 0, -1.0, 1.0)
    general = sign * np.exp(lgamma(n + 1)) * zeta(n + 1, x)
    return np.where((n < 0) | (n != np.floor(n)) | np.isinf(n), np.nan, np.where(n == 0, digamma(x), general))


def _bessel(order: int, a: Value) -> Value:
    """exp(-a) I(a) for a >= 0: the power series up to a = 30, the asymptotic series beyond [DLMF 10.25.2, 10.40.1]."""
    small, large = np.minimum(a, 30.0), np.maximum(a, 30.0)
    term, near = (small / 2) ** order, np.zeros_like(small)
    # At a = 30 the term is largest near k = 15; 110 terms reach far below double precision.
    for k in range(1, 110):
        near = near + term
        term = term * (small / 2) ** 2 / (k * (k + order))
    term, far = np.ones_like(large), np.zeros_like(large)
    for k in range(1, 25):
        far = far + term
        term = -term * (4 * order**2 - (2 * k - 1) ** 2) / (8 * k * large)
    return np.where(a <= 30, near * np.exp(-small), far / np.sqrt(2 * np.pi * large))


def bessel_i0e(x: Value) -> Value:
    """exp(-|x|) I0(x)."""
    return _bessel(0, np.abs(x))


def bessel_i1e(x: Value) -> Value:
    """exp(-|x|) I1(x)."""
    return np.sign(x) * _bessel(1, np.abs(x))


# --- rounding, integers, complex numbers -------------------------------------------------------------------------


def round_away(x: Value) -> Value:
    """Round to the nearest integer, halves away from zero."""
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.sign(x), np.copysign(whole, x))


def div(x: Value, y: Value) -> Value:
    """Return the quotient; integers round towards zero, and x / 0 has all bits set (StableHLO divide)."""
    if not dtypes.is_integer(x.dtype):
        return np.divide(x, y)
    wide_x, wide_y = x.astype(object), np.where(y == 0, 1, y).astype(object)
    # Python integers: // floors, and the smallest integer divided by -1 overflows its dtype.
    sign = np.where((wide_x < 0) != (wide_y < 0), -1, 1)
    quotient = np.where(y == 0, -1, sign * (abs(wide_x) // abs(wide_y)))
    return wrap(quotient, x.dtype)


def rem(x: Value, y: Value) -> Value:
    """Return the remainder with the sign of x; for integers x rem 0 is x (StableHLO remainder)."""
    if not dtypes.is_integer(x.dtype):
        return np.fmod(x, y)
    return np.where(y == 0, x, np.fmod(x, np.where(y == 0, 1, y).astype(x.dtype))).astype(x.dtype)


def wrap(x: Value, dtype: np.dtype) -> np.ndarray:
    """Reduce Python integers modulo 2**width of `dtype`."""
    bits = 8 * dtype.itemsize
    low = np.asarray(np.asarray(x, object) & ((1 << bits) - 1), np.uint64)
    return low.astype(f"uint{bits}").view(dtype)


def power(x: Value, y: Value) -> np.ndarray:
    """Return x to the power y; integers wrap around, and with a negative exponent only 1 and -1 have nonzero powers
    (StableHLO power)."""
    if not dtypes.is_integer(x.dtype):
        return in_double_precision(np.power)(x, y)
    bits = 8 * x.dtype.itemsize

    def one(b: int, e: int) -> int:
        return pow(b, e, 1 << bits) if e >= 0 else b if b == -1 and e % 2 else 1 if abs(b) == 1 else 0
    return wrap(np.frompyfunc(one, 2, 1)(x.astype(object), y.astype(object)), x.dtype)


def exp2(x: Value) -> Value:
    """Return 2 to the power x."""
    return np.exp2(x) if dtypes.is_complex(x.dtype) else np.power(2.0, x)


def log1p(x: Value) -> Value:
    """Return the logarithm of 1 + x.

    For small complex x, log |1 + x| is log1p(|1 + x|^2 - 1) / 2. NumPy adds 1, which loses digits.
    """
    whole = np.log1p(x)
    if not dtypes.is_complex(x.dtype):
        return whole
    small = np.abs(x) < 0.5
    real, imag = np.where(small, x.real, 0), np.where(small, x.imag, 0)
    near = from_parts(np.log1p(real * (2 + real) + imag * imag) / 2, whole.imag)
    return np.where(small, near, whole)


def integer_pow(x: Value, *, y: int) -> np.ndarray:
    """Return x to the integer power y."""
    if dtypes.is_integer(x.dtype):
        return power(x, np.asarray(y))
    if dtypes.is_complex(x.dtype):
        return in_double_precision(lambda w: np.power(w, y) if y >= 0 else _complex_reciprocal(np.power(w, -y)))(x)
    return in_double_precision(lambda w: np.power(w, float(y)))(x)


def _complex_reciprocal(x: Value) -> Value:
    """Return 1 / x: 0 for infinite x, and inf + i NaN for 0, as complex division of C99; NumPy gives NaN."""
    infinite = np.isinf(x.real) | np.isinf(x.imag)
    at_zero = from_parts(np.copysign(np.inf, x.real), np.full_like(x.real, np.nan))
    at_infinity = from_parts(np.copysign(0.0, x.real), -np.copysign(0.0, x.imag))
    return np.where(infinite, at_infinity, np.where(x == 0, at_zero, np.reciprocal(x)))


def sign(x: Value) -> Value:
    """Return -1, 0 or 1 (zeros keep their sign, NaN stays NaN); x / |x| for complex numbers."""
    if dtypes.is_complex(x.dtype):
        return _complex_sign(x)
    signs: Value = np.where(x == 0, x, np.sign(x))
    return signs.astype(x.dtype)


def _complex_sign(x: Value) -> Value:
    """Return x / |x|: 0 for 0, the direction of the axis for one infinite part, NaN for two.

    |x| is not formed, since it may overflow.
    """
    at_end = np.isinf(x.real) != np.isinf(x.imag)
    real, imag = (np.where(at_end, np.where(np.isinf(part), np.sign(part), 0), part) for part in (x.real, x.imag))
    largest = np.maximum(np.abs(real), np.abs(imag))
    largest = np.where(largest == 0, 1, largest)
    real, imag = real / largest, imag / largest
    size = np.hypot(real, imag)
    size = np.where(size == 0, 1, size)
    return np.where(x == 0, np.zeros((), x.dtype), from_parts(real / size, imag / size))


def bit_counts(x: Value) -> Value:
    """Count the bits that are one."""
    bits = 8 * x.dtype.itemsize
    u = np.asarray(x).astype(x.dtype).view(f"uint{bits}")
    return sum(((u >> u.dtype.type(k)) & u.dtype.type(1)) for k in range(bits)).astype(x.dtype)


def leading_zeros(x: Value) -> Value:
    """Count the zero bits above the highest one bit."""
    bits = 8 * x.dtype.itemsize
    u = np.asarray(x).view(f"uint{bits}")
    return sum((u >> u.dtype.type(k)) == 0 for k in range(bits)).astype(x.dtype)


def shift(move: np.ufunc, unsigned: bool, x: Value, y: Value) -> Value:
    """Return `move(x, y)`; shifting by the width or more, or by a negative count, shifts every bit out."""
    bits = 8 * x.dtype.itemsize
    out = (y < 0) | (y >= bits)
    kind = f"uint{bits}" if unsigned else f"int{bits}"
    # Shift by valid counts only. The results of the others are replaced below.
    moved = move(x.astype(kind), np.where(out, bits - 1, y).astype(kind))
    if not unsigned:  # an arithmetic right shift by width - 1 leaves copies of the sign bit
        return moved.astype(x.dtype)
    return np.where(out, np.zeros((), kind), moved).astype(kind).astype(x.dtype)


def convert(x: Value, *, new_dtype: np.dtype, weak_type: bool = False) -> np.ndarray:
    """Change the dtype: complex to real drops the imaginary part, float to integer truncates and saturates."""
    if new_dtype == x.dtype:
        return x
    if new_dtype == dtypes.BOOL:
        return x != 0
    if dtypes.is_complex(x.dtype) and not dtypes.is_complex(new_dtype):
        x = x.real
    if dtypes.is_float(x.dtype) and dtypes.is_integer(new_dtype):
        limits = dtypes.iinfo(new_dtype)
        w = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
        # Strictly below float(max): for 64 bits that rounds up to max + 1, whose conversion would be undefined. `max`
        # itself is what saturation gives.
        inside = (w >= float(limits.min)) & (w < float(limits.max))
        whole = np.where(inside, w, 0.0).astype(np.int64 if limits.min < 0 else np.uint64)
        saturated = np.where(w < 0, np.asarray(limits.min, whole.dtype), np.asarray(limits.max, whole.dtype))
        return np.where(inside, whole, saturated).astype(new_dtype)
    return x.astype(new_dtype)


def from_parts(x: Value, y: Value) -> np.ndarray:
    """Return x + iy without arithmetic, since multiplying an infinite part by i gives NaN."""
    out = np.empty(np.broadcast_shapes(x.shape, y.shape), dtypes.complex_dtype(x.dtype))
    out.real, out.imag = x, y
    return out


def bitcast(x: Value, *, new_dtype: np.dtype) -> np.ndarray:
    """Reinterpret the bits as another dtype; a last axis is added or removed if the widths differ."""
    if new_dtype.itemsize == x.dtype.itemsize:
        return x.view(new_dtype)
    if new_dtype.itemsize < x.dtype.itemsize:
        return np.ascontiguousarray(x)[..., None].reshape(*x.shape, 1).view(new_dtype)
    return np.ascontiguousarray(x).view(new_dtype)[..., 0]


def reduce_precision(x: Value, *, exponent_bits: int, mantissa_bits: int) -> np.ndarray:
    """Round the mantissa half to even; values that overflow become infinite, subnormal results become zero."""
    info = dtypes.finfo(x.dtype)
    out = x.astype(np.float64)
    # frexp gives 0.5 <= |mantissa| < 1: the leading bit, then `mantissa_bits` more are kept.
    mantissa, exponent = np.frexp(out)
    if mantissa_bits < info.nmant:
        step = 2.0 ** (mantissa_bits + 1)
        out = np.where(np.isfinite(out), np.ldexp(np.rint(mantissa * step) / step, exponent), out)
    if exponent_bits < info.bits - 1 - info.nmant:
        # IEEE 754 bias of the small format: normal exponents are 1 - top to top. Rounding may have raised the
        # exponent.
        top = 2 ** (exponent_bits - 1) - 1
        exponent = np.frexp(out)[1] - 1
        out = np.where(np.isfinite(out) & (exponent > top), np.copysign(np.inf, out), out)
        out = np.where(np.isfinite(out) & (exponent < 1 - top), np.copysign(0.0, out), out)
    return out.astype(x.dtype)
