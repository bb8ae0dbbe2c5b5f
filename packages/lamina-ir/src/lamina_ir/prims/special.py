"""Incomplete gamma and beta functions: series and continued fractions, summed until they converge.

The formulas stand once, over an arithmetic `m`: NumPy's here, that of emitted operations in lowering. `m` has `log`,
`log1p`, `exp`, `abs`, `lgamma`, `digamma`, `where`, `lt`, `le`, `either`, `eps` and `loop`; its numbers have `+ - * /`.
`m.loop(step, fixed, state)` repeats `state, going = step(fixed, state)` in each element for as long as it is `going`.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from ..primitive import Primitive
from . import _special_meanings
from ._special_meanings import wide
from .elementwise import FLOAT, _same_2, one_type

__all__ = ["igamma_grad_a_p", "igamma_p", "igammac_p", "incomplete_beta", "incomplete_gamma", "random_gamma_grad_p",
           "regularized_incomplete_beta_p"]

_TERMS = 10000.0  # enough up to a = 1e6; both forms need some multiple of sqrt(a) terms where x is near a


# --- gamma -------------------------------------------------------------------------------------------------------


def _excess(m: Any, u: Any, ratio: Any) -> Any:
    """log(1 + u) - u, with ratio = 1 + u. Near 0 its two parts cancel: there by powers of r = u / (2 + u), as
    log(1 + u) = 2 artanh r [DLMF 4.6.2] and 2 r - u = -r u."""
    near = m.both(m.lt(-0.3, u), m.lt(u, 0.4))
    v = m.where(near, u, u * 0.0)
    r = v / (v + 2.0)
    r2 = r * r
    total = r2 * 0.0
    for k in range(11 if m.eps < 1e-10 else 5, 0, -1):
        total = total * r2 + 1.0 / (2 * k + 1)
    return m.where(near, r * (2.0 * r2 * total - v), m.log(ratio) - u)


def _log_density(m: Any, a: Any, x: Any) -> Any:
    """a log x - x - log gamma(a). Large terms cancel: for a >= 20 Stirling's series around x = a [DLMF 5.11.1]."""
    plain = a * m.log(x) - x - m.lgamma(a)
    big = m.where(m.lt(a, 20.0), a * 0.0 + 20.0, a)
    near = big * _excess(m, (x - big) / big, x / big) + 0.5 * m.log(big / (2 * np.pi)) - _tail(big)
    return m.where(m.lt(a, 20.0), plain, near)


def _tail(x: Any) -> Any:
    """What Stirling's formula for log gamma lacks, for x of 20 and more."""
    r = 1.0 / (x * x)
    return (1 / 12 - r * (1 / 360 - r * (1 / 1260 - r * (1 / 1680 - r * (1 / 1188))))) / x


def _series(m: Any, a: Any, x: Any, moving: bool) -> tuple[Any, Any]:
    """S = sum of x^n / ((a+1) ... (a+n)) from n = 0, and its derivative by a, exact only if `moving` [DLMF 8.7.1]."""
    def step(fixed: Any, state: Any) -> tuple[Any, Any]:
        (a, x), (n, term, slope, total, moved) = fixed, state
        n = n + 1.0
        ratio = x / (a + n)
        slope = (slope - term / (a + n)) * ratio
        term = term * ratio
        total, moved = total + term, moved + slope
        more = m.lt(m.eps * total, term)
        if moving:
            more = m.either(more, m.lt(m.eps * m.abs(moved), m.abs(slope)))
        return (n, term, slope, total, moved), m.both(more, m.lt(n, _TERMS))

    zero = a * 0.0 + x * 0.0
    _, _, _, total, moved = m.loop(step, (a, x), (zero, zero + 1.0, zero, zero + 1.0, zero))
    return total, moved


def _fraction(m: Any, a: Any, x: Any, moving: bool) -> tuple[Any, Any]:
    """H with Q = x^a e^-x / gamma(a) H, and its derivative by a: the even part of the continued fraction [DLMF 8.9.2],
    by Lentz's recurrence and that recurrence differentiated; `moving` waits for the derivative too."""
    def step(fixed: Any, state: Any) -> tuple[Any, Any]:
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
        moved = dc * d + c * dd
        dh, last = dh * change + h * moved, dh
        h = h * change
        more = m.lt(m.eps, m.abs(change - 1.0))
        if moving:
            more = m.either(more, m.lt(m.eps * m.abs(dh), m.abs(dh - last)))
        return (n, c, dc, d, dd, h, dh), m.both(more, m.lt(n, _TERMS))

    zero = a * 0.0 + x * 0.0
    d = 1.0 / (x + 1.0 - a)
    *_, h, dh = m.loop(step, (a, x), (zero, zero + 1e30, zero, d, d * d, d, d * d))
    return h, dh


def incomplete_gamma(m: Any, a: Any, x: Any, mode: str) -> Any:
    """P(a, x), Q(a, x), dP/da, or dx/da at constant P, for `mode` "lower", "upper", "slope", "sample".

    The series serves x <= max(1, a), the fraction the rest; each gets harmless numbers where the other serves.
    """
    # `odd` ones are computed at a = x = 1 and replaced at the end.
    at_zero, no_shape = m.le(x, 0.0), m.le(a, 0.0)
    bad = m.either(m.either(m.lt(a, 0.0), m.lt(x, 0.0)), m.either(m.isnan(a), m.isnan(x)))
    bad = m.either(bad, m.both(at_zero, no_shape))
    at_inf = m.either(m.lt(m.top, x), no_shape)
    odd = m.either(bad, m.either(at_zero, at_inf))
    one = a * 0.0 + 1.0
    a, x = m.where(odd, one, a), m.where(odd, one, x)
    low = m.either(m.le(x, 1.0), m.le(x, a))
    moving = mode in ("slope", "sample")
    s, ds = _series(m, m.where(low, a, one), m.where(low, x, one), moving)
    h, dh = _fraction(m, m.where(low, one, a), m.where(low, one * 2.0, x), moving)
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
        lower = lower * density if mode == "slope" else -(x * lower)
        zero, inf = 0.0, 0.0 if mode == "slope" else np.inf
    out = m.where(at_zero, one * zero, m.where(at_inf, m.full(inf), lower))
    return m.where(bad, m.full(np.nan), out)


# --- beta --------------------------------------------------------------------------------------------------------


def _beta_fraction(m: Any, a: Any, b: Any, x: Any, y: Any, over: Any) -> Any:
    """The even part of the continued fraction of the incomplete beta function [DLMF 8.17.22], by Lentz, as in DiDonato and
    Morris, "Algorithm 708" (1992), section 3: with y = 1 - x and over = a y - b x, so that nothing is lost near x = 1."""
    tiny = (a + b + x) * 0.0 + 1e-30

    def sound(v: Any) -> Any:
        return m.where(m.lt(m.abs(v), 1e-30), tiny, v)  # instead of a division by zero

    def step(fixed: Any, state: Any) -> tuple[Any, Any]:
        (a, b, x, y, over), (n, c, d, h) = fixed, state
        n = n + 1.0
        at = a + 2.0 * n
        w = n * (b - n) / (at - 1.0) * x
        top = w * x * ((a + n - 1.0) / (at - 1.0)) * (a + b + n - 1.0)
        bottom = n + w + (a + n) / (at + 1.0) * (over + 1.0 + n * (y + 1.0))
        c, d = sound(bottom + top / c), 1.0 / sound(bottom + top * d)
        change = c * d
        return (n, c, d, h * change), m.both(m.lt(m.eps, m.abs(change - 1.0)), m.lt(n, _TERMS))

    first = sound(a / (a + 1.0) * (over + 1.0))
    return a / m.loop(step, (a, b, x, y, over), (tiny * 0.0, first, tiny * 0.0, first))[3]


def _log_beta_density(m: Any, a: Any, b: Any, x: Any) -> Any:
    """a log x + b log(1 - x) - log beta(a, b). Large terms cancel: from 20 up Stirling's series stands for log gamma, around
    the mean x = a / (a + b) where both are large."""
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
    over, y = p * (1.0 - x) - q * x, 1.0 - x
    near = (p * _excess(m, -(over / p), (1.0 + q / p) * x) + q * _excess(m, over / q, (1.0 + p / q) * y)
            + 0.5 * m.log(p / (2 * np.pi) / (1.0 + p / q)) + (_tail(p + q) - _tail(p) - _tail(q)))
    return m.where(both, m.where(m.lt(high, 20.0), plain, mixed), near)


def incomplete_beta(m: Any, a: Any, b: Any, x: Any) -> Any:
    """I_x(a, b): the fraction where it converges fast, x < (a + 1) / (a + b + 2), and 1 - I_{1-x}(b, a) elsewhere.
    For small b, which leave little of that difference, the fraction is taken further to the right."""
    outside = m.either(m.lt(x, 0.0), m.lt(1.0, x))
    bad = m.either(m.either(m.le(a, 0.0), m.le(b, 0.0)), outside)
    bad = m.either(bad, m.either(m.isnan(a), m.either(m.isnan(b), m.isnan(x))))
    at_end = m.either(m.le(x, 0.0), m.le(1.0, x))
    odd = m.either(bad, at_end)
    one, end = (a + b + x) * 0.0 + 1.0, x
    a, b, x = m.where(odd, one, a), m.where(odd, one, b), m.where(odd, one * 0.25, x)
    direct = m.either(m.lt(x, (a + 1.0) / (a + b + 2.0)), m.both(m.lt(b, 0.1), m.lt(x, 0.995)))
    p, q, rest, over = m.where(direct, a, b), m.where(direct, b, a), 1.0 - x, a * (1.0 - x) - b * x
    fraction = _beta_fraction(m, p, q, m.where(direct, x, rest), m.where(direct, rest, x), m.where(direct, over, -over))
    part = m.exp(_log_beta_density(m, a, b, x)) / p * fraction
    part = m.where(m.lt(1.0, part), one, part)
    out = m.where(direct, part, 1.0 - part)
    return m.where(bad, m.full(np.nan), m.where(at_end, end, out))


# --- NumPy's arithmetic ------------------------------------------------------------------------------------------


class _Numbers:
    """NumPy in double precision."""

    eps, top = float(np.finfo(np.float64).eps), float(np.finfo(np.float64).max)
    log, log1p, exp, abs = np.log, np.log1p, np.exp, np.abs
    where, lt, le, either, both, isnan = np.where, np.less, np.less_equal, np.logical_or, np.logical_and, np.isnan
    lgamma, digamma = staticmethod(_special_meanings.lgamma), staticmethod(_special_meanings.digamma)
    full = staticmethod(np.float64)

    @staticmethod
    def loop(step: Any, fixed: Any, state: Any) -> Any:
        going = np.ones(np.shape(state[0]), bool)
        while going.any():
            new, more = step(fixed, state)
            state = tuple(np.where(going, n, s) for n, s in zip(new, state, strict=True))
            going = going & more
        return state


def _gamma_op(name: str, mode: str) -> Primitive:
    def both(a: Any, x: Any) -> Any:
        a, x = np.broadcast_arrays(a, x)
        return incomplete_gamma(_Numbers, a, x, mode)

    meaning = wide(both)
    return Primitive(name, infer=_same_2(name, FLOAT), numpy=meaning, family="special", elementwise=True,
                     spec="DLMF 8.2")


igamma_p = _gamma_op("igamma", "lower")
igammac_p = _gamma_op("igammac", "upper")
igamma_grad_a_p = _gamma_op("igamma_grad_a", "slope")
random_gamma_grad_p = _gamma_op("random_gamma_grad", "sample")
regularized_incomplete_beta_p = Primitive(
    "regularized_incomplete_beta", infer=lambda a, b, x: one_type("regularized_incomplete_beta", FLOAT, a, b, x),
    numpy=wide(lambda a, b, x: incomplete_beta(_Numbers, *np.broadcast_arrays(a, b, x))), family="special",
    elementwise=True, spec="DLMF 8.17")
