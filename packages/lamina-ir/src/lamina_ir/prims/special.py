"""Incomplete gamma and beta functions: series and continued fractions, summed until they converge.

The formulas are written once, generic over an arithmetic `m`: NumPy's here, emitted operations in lowering. `m` has
`log`, `log1p`, `exp`, `abs`, `lgamma`, `digamma`, `where`, `lt`, `le`, `either`, `eps` and `loop`; its numbers have `+
- * /`. `m.loop(step, fixed, state)` repeats `state, going = step(fixed, state)`, each element for as long as its
  `going` is true.
"""
from __future__ import annotations


import numpy as np

from .._core.primitive import Primitive
from ._numpy import special as _special_values
from ._numpy.ufunc_plans import in_double_precision
from .elementwise import FLOAT, _same_2, one_type
from ..typing import Function, Value

__all__ = ["igamma_grad_a_p", "igamma_p", "igammac_p", "incomplete_beta", "incomplete_gamma", "random_gamma_grad_p",
           "regularized_incomplete_beta_p"]

_TERMS = 10000.0  # enough up to a = 1e6; if x is near a, both forms need a multiple of sqrt(a) terms


# --- gamma -------------------------------------------------------------------------------------------------------


def _excess(m: Value, u: Value, ratio: Value) -> Value:
    """Return log(1 + u) - u, with ratio = 1 + u. Near 0 the two terms cancel; there use powers of r = u / (2 + u),
    since log(1 + u) = 2 artanh r [DLMF 4.6.2] and 2 r - u = -r u."""
    near = m.both(m.lt(-0.3, u), m.lt(u, 0.4))
    v = m.where(near, u, u * 0.0)
    r = v / (v + 2.0)
    r2 = r * r
    total = r2 * 0.0
    for k in range(11 if m.eps < 1e-10 else 5, 0, -1):
        total = total * r2 + 1.0 / (2 * k + 1)
    return m.where(near, r * (2.0 * r2 * total - v), m.log(ratio) - u)


def _log_density(m: Value, a: Value, x: Value) -> Value:
    """Return a log x - x - log gamma(a). For large a the terms cancel, so for a >= 20 use Stirling's series around x =
    a [DLMF 5.11.1]."""
    plain = a * m.log(x) - x - m.lgamma(a)
    big = m.where(m.lt(a, 20.0), a * 0.0 + 20.0, a)
    near = big * _excess(m, (x - big) / big, x / big) + 0.5 * m.log(big / (2 * np.pi)) - _tail(big)
    return m.where(m.lt(a, 20.0), plain, near)


def _tail(x: Value) -> Value:
    """Return the correction to Stirling's formula for log gamma, for x >= 20."""
    r = 1.0 / (x * x)
    return (1 / 12 - r * (1 / 360 - r * (1 / 1260 - r * (1 / 1680 - r * (1 / 1188))))) / x


def _series(m: Value, a: Value, x: Value, with_derivative: bool) -> tuple[Value, Value]:
    """Return S = sum of x^n / ((a+1) ... (a+n)) from n = 0, and dS/da, which has converged only if `with_derivative`
    [DLMF 8.7.1]."""
    def step(fixed: Value, state: Value) -> tuple[Value, Value]:
        (a, x), (n, term, derivative, total, dtotal) = fixed, state
        n = n + 1.0
        ratio = x / (a + n)
        derivative = (derivative - term / (a + n)) * ratio
        term = term * ratio
        total, dtotal = total + term, dtotal + derivative
        more = m.lt(m.eps * total, term)
        if with_derivative:
            more = m.either(more, m.lt(m.eps * m.abs(dtotal), m.abs(derivative)))
        return (n, term, derivative, total, dtotal), m.both(more, m.lt(n, _TERMS))

    zero = a * 0.0 + x * 0.0
    _, _, _, total, dtotal = m.loop(step, (a, x), (zero, zero + 1.0, zero, zero + 1.0, zero))
    return total, dtotal


def _fraction(m: Value, a: Value, x: Value, with_derivative: bool) -> tuple[Value, Value]:
    """Return H with Q = x^a e^-x / gamma(a) H, and dH/da: the even part of the continued fraction [DLMF 8.9.2], by
    Lentz's recurrence and its derivative. `with_derivative` iterates until dH/da has converged too."""
    def step(fixed: Value, state: Value) -> tuple[Value, Value]:
        # c = b + top / c, d = 1 / (b + top d), h = h c d, with d top / da = n and db / da = -1; dc, dd, dh are their
        # derivatives.
        (a, x), (n, c, dc, d, dd, h, dh) = fixed, state
        n = n + 1.0
        top = n * (a - n)
        b = x + 1.0 - a + 2.0 * n
        dc = (n - (top / c) * dc) / c - 1.0
        c = b + top / c
        new = 1.0 / (top * d + b)
        dd = -(new * new) * (n * d + top * dd - 1.0)
        d = new
        change = c * d
        dchange = dc * d + c * dd
        dh, last = dh * change + h * dchange, dh
        h = h * change
        more = m.lt(m.eps, m.abs(change - 1.0))
        if with_derivative:
            more = m.either(more, m.lt(m.eps * m.abs(dh), m.abs(dh - last)))
        return (n, c, dc, d, dd, h, dh), m.both(more, m.lt(n, _TERMS))

    zero = a * 0.0 + x * 0.0
    d = 1.0 / (x + 1.0 - a)
    *_, h, dh = m.loop(step, (a, x), (zero, zero + 1e30, zero, d, d * d, d, d * d))
    return h, dh


def incomplete_gamma(m: Value, a: Value, x: Value, mode: str) -> Value:
    """Return P(a, x), Q(a, x), dP/da, or dx/da at constant P, for `mode` "lower", "upper", "derivative", "sample".

    The series is used for x <= max(1, a), the continued fraction elsewhere. Both are evaluated everywhere (elements
    cannot branch); where one is not used, it gets operands for which it converges fast.
    """
    # Special elements (`odd`) are computed at a = x = 1 and replaced at the end.
    at_zero, no_shape = m.le(x, 0.0), m.le(a, 0.0)
    bad = m.either(m.either(m.lt(a, 0.0), m.lt(x, 0.0)), m.either(m.isnan(a), m.isnan(x)))
    bad = m.either(bad, m.both(at_zero, no_shape))
    at_inf = m.either(m.lt(m.top, x), no_shape)
    odd = m.either(bad, m.either(at_zero, at_inf))
    one = a * 0.0 + 1.0
    a, x = m.where(odd, one, a), m.where(odd, one, x)
    low = m.either(m.le(x, 1.0), m.le(x, a))
    with_derivative = mode in ("derivative", "sample")
    s, ds = _series(m, m.where(low, a, one), m.where(low, x, one), with_derivative)
    h, dh = _fraction(m, m.where(low, one, a), m.where(low, one * 2.0, x), with_derivative)
    density = m.exp(_log_density(m, a, x))
    if mode in ("lower", "upper"):
        # density = x^a e^-x / gamma(a): P = density / a s, Q = density h.
        below, above = density / a * s, density * h
        lower = m.where(low, below, 1.0 - above) if mode == "lower" else m.where(low, 1.0 - below, above)
        zero, inf = (0.0, 1.0) if mode == "lower" else (1.0, 0.0)
    else:
        # lower becomes (dP / da) / density. As density is x dP / dx, dx / da at constant P is -x times that.
        up = (s * (m.log(x) - m.digamma(a + 1.0)) + ds) / a
        down = h * (m.log(x) - m.digamma(a)) + dh
        lower = m.where(low, up, -down)
        lower = lower * density if mode == "derivative" else -(x * lower)
        zero, inf = 0.0, 0.0 if mode == "derivative" else np.inf
    out = m.where(at_zero, one * zero, m.where(at_inf, m.full(inf), lower))
    return m.where(bad, m.full(np.nan), out)


# --- beta --------------------------------------------------------------------------------------------------------


def _beta_fraction(m: Value, a: Value, b: Value, x: Value, y: Value, excess: Value) -> Value:
    """Evaluate the even part of the continued fraction of the incomplete beta function [DLMF 8.17.22] by Lentz's
    method, as in DiDonato and Morris, "Algorithm 708" (1992), section 3. y = 1 - x and over = a y - b x are operands,
    so that no precision is lost near x = 1."""
    tiny = (a + b + x) * 0.0 + 1e-30

    def nonzero(v: Value) -> Value:
        return m.where(m.lt(m.abs(v), 1e-30), tiny, v)  # avoids a division by zero

    def step(fixed: Value, state: Value) -> tuple[Value, Value]:
        (a, b, x, y, excess), (n, c, d, h) = fixed, state
        n = n + 1.0
        at = a + 2.0 * n
        w = n * (b - n) / (at - 1.0) * x
        top = w * x * ((a + n - 1.0) / (at - 1.0)) * (a + b + n - 1.0)
        bottom = n + w + (a + n) / (at + 1.0) * (excess + 1.0 + n * (y + 1.0))
        c, d = nonzero(bottom + top / c), 1.0 / nonzero(bottom + top * d)
        change = c * d
        return (n, c, d, h * change), m.both(m.lt(m.eps, m.abs(change - 1.0)), m.lt(n, _TERMS))

    first = nonzero(a / (a + 1.0) * (excess + 1.0))
    return a / m.loop(step, (a, b, x, y, excess), (tiny * 0.0, first, tiny * 0.0, first))[3]


def _log_beta_density(m: Value, a: Value, b: Value, x: Value) -> Value:
    """Return a log x + b log(1 - x) - log beta(a, b). For large a or b the terms cancel: from 20 on, log gamma is
    replaced by Stirling's series, and if both are large, expanded around the mean x = a / (a + b)."""
    swap = m.lt(b, a)
    low, high = m.where(swap, b, a), m.where(swap, a, b)
    log_x, log_y = m.log(x), m.log1p(-x)
    at_low, at_high = m.where(swap, log_y, log_x), m.where(swap, log_x, log_y)
    plain = a * log_x + b * log_y + m.lgamma(a + b) - m.lgamma(a) - m.lgamma(b)
    large = m.where(m.lt(high, 20.0), high * 0.0 + 20.0, high)
    mixed = (low * (at_low + m.log(large) - 1.0) + large * at_high + (large + low - 0.5) * m.log1p(low / large)
             + (_tail(large + low) - _tail(large)) - m.lgamma(low))
    both = m.lt(low, 20.0)
    p, q = m.where(both, a * 0.0 + 20.0, a), m.where(both, b * 0.0 + 20.0, b)
    excess, y = p * (1.0 - x) - q * x, 1.0 - x
    near = (p * _excess(m, -(excess / p), (1.0 + q / p) * x) + q * _excess(m, excess / q, (1.0 + p / q) * y)
            + 0.5 * m.log(p / (2 * np.pi) / (1.0 + p / q)) + (_tail(p + q) - _tail(p) - _tail(q)))
    return m.where(both, m.where(m.lt(high, 20.0), plain, mixed), near)


def incomplete_beta(m: Value, a: Value, b: Value, x: Value) -> Value:
    """Return I_x(a, b): by the fraction where it converges fast, x < (a + 1) / (a + b + 2), else as 1 - I_{1-x}(b, a).
    For small b that difference cancels, so there the fraction is used for larger x too."""
    outside = m.either(m.lt(x, 0.0), m.lt(1.0, x))
    bad = m.either(m.either(m.le(a, 0.0), m.le(b, 0.0)), outside)
    bad = m.either(bad, m.either(m.isnan(a), m.either(m.isnan(b), m.isnan(x))))
    at_end = m.either(m.le(x, 0.0), m.le(1.0, x))
    odd = m.either(bad, at_end)
    one, end = (a + b + x) * 0.0 + 1.0, x
    a, b, x = m.where(odd, one, a), m.where(odd, one, b), m.where(odd, one * 0.25, x)
    direct = m.either(m.lt(x, (a + 1.0) / (a + b + 2.0)), m.both(m.lt(b, 0.1), m.lt(x, 0.995)))
    p, q, rest, excess = m.where(direct, a, b), m.where(direct, b, a), 1.0 - x, a * (1.0 - x) - b * x
    fraction = _beta_fraction(m, p, q, m.where(direct, x, rest), m.where(direct, rest, x), m.where(direct, excess, -excess))
    part = m.exp(_log_beta_density(m, a, b, x)) / p * fraction
    part = m.where(m.lt(1.0, part), one, part)
    out = m.where(direct, part, 1.0 - part)
    return m.where(bad, m.full(np.nan), m.where(at_end, end, out))


# --- NumPy's arithmetic ------------------------------------------------------------------------------------------


class _NumPyArithmetic:
    """The arithmetic of NumPy in double precision."""

    eps, top = float(np.finfo(np.float64).eps), float(np.finfo(np.float64).max)
    log, log1p, exp, abs = np.log, np.log1p, np.exp, np.abs
    where, lt, le, either, both, isnan = np.where, np.less, np.less_equal, np.logical_or, np.logical_and, np.isnan
    lgamma, digamma = staticmethod(_special_values.lgamma), staticmethod(_special_values.digamma)
    full = staticmethod(np.float64)

    @staticmethod
    def loop(step: Function, fixed: Value, state: Value) -> Value:
        going = np.ones(np.shape(state[0]), bool)
        while going.any():
            new, more = step(fixed, state)
            state = tuple(np.where(going, n, s) for n, s in zip(new, state, strict=True))
            going = going & more
        return state


def _gamma_op(name: str, mode: str) -> Primitive:
    def both(a: Value, x: Value) -> Value:
        a, x = np.broadcast_arrays(a, x)
        return incomplete_gamma(_NumPyArithmetic, a, x, mode)

    implementation = in_double_precision(both)
    return Primitive(name, infer=_same_2(name, FLOAT), numpy=implementation, family="special", elementwise=True,
                     spec="DLMF 8.2")


igamma_p = _gamma_op("igamma", "lower")
igammac_p = _gamma_op("igammac", "upper")
igamma_grad_a_p = _gamma_op("igamma_grad_a", "derivative")
random_gamma_grad_p = _gamma_op("random_gamma_grad", "sample")
regularized_incomplete_beta_p = Primitive(
    "regularized_incomplete_beta", infer=lambda a, b, x: one_type("regularized_incomplete_beta", FLOAT, a, b, x),
    numpy=in_double_precision(lambda a, b, x: incomplete_beta(_NumPyArithmetic, *np.broadcast_arrays(a, b, x))),
    family="special", elementwise=True, spec="DLMF 8.17")
