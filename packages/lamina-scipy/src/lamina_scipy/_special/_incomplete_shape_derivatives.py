"""Derivatives of the incomplete gamma and beta functions in their shapes, second ones of them and of their logarithms too.

On one side of a turning point the share below, on the other the share above is a power, a density, times a series or a
continued fraction. These are summed until their derivatives settle too; second derivatives are those of the sum.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_autodiff import jvp
from lamina_ir import dtypes
from lamina_tracing import lax
from lamina_tracing.extend import typeof

from .._util import define_by_forward, derivatives, guard
from ._log_densities import compute_log_beta_density, compute_log_gamma_density
from ._binomial_deviance import compute_log1p
from ._gammas import compute_digamma, digamma_step, gamma_above_small

__all__ = ["beta_log_curve", "betainc_derivative_a", "betainc_derivative_b", "gamma_log_curve", "gammainc_derivative_a"]

_MOST_STEPS = 50000


def _eps(x: Any) -> float:
    return float(dtypes.finfo(typeof(x).dtype).eps)


def _iterate(step: Callable[..., Any], is_unsettled: Callable[[Any], Any], start: Any, further: bool) -> Any:
    """The state after `step(k, state)` for k from 1 until every element has been settled once, and which never was.
    Derivatives of
    the outcome settle a little later, `further` on."""
    def is_unfinished(state: Any) -> Any:
        return (state[0] < _MOST_STEPS) & (state[0] < state[1])

    def step_once(state: Any) -> Any:
        k, until, waiting, parts = state
        k, parts = k + 1.0, step(k + 1.0, parts)
        waiting = waiting & is_unsettled(parts)
        return k, lnp.where(lnp.any(waiting), 1.125 * k + 8.0 if further else k + 1.0, until), waiting, parts

    zero = lnp.zeros((), typeof(start[0]).dtype)
    _, _, waiting, parts = lax.while_loop(is_unfinished, step_once,
                                          (zero, zero + 1.0, lnp.full_like(start[0], True, dtype=bool), start))
    return parts, waiting


def _jvp_in(i: int, f: Callable[..., Any], args: Any) -> Any:
    """A function and its derivative in one argument."""
    return jvp(lambda s: f(*args[:i], s, *args[i + 1:]), (args[i],), (lnp.ones_like(args[i]),))


# --- gamma


def _gamma_series(k: Any, a: Any, x: Any, rest: Any, term: Any, total: Any) -> Any:
    """DLMF 8.7.1: 1 + x / (a + 1) + ..."""
    term = term * (x / (a + k))
    return rest, term, total + term


def _gamma_fraction(k: Any, a: Any, x: Any, c: Any, d: Any, value: Any) -> Any:
    """The even part of DLMF 8.9.2, by Lentz's method."""
    top, b = k * (a - k), x + 1.0 - a + 2.0 * k
    c, d = b + top / c, 1.0 / (b + top * d)
    return c, d, value * (c * d)


def _sum_form(form: Callable[..., Any], a: Any, x: Any, *start: Any) -> Any:
    """What a form settles to together with its derivative in a."""
    eps = _eps(x)

    def step(k: Any, state: Any) -> Any:
        new, by_a = jvp(lambda a, *parts: form(k, a, x, *parts), (a, *state[:3]), (lnp.ones_like(a), *state[3:6]))
        return *new, *by_a, state[2], state[5]

    def is_unsettled(state: Any) -> Any:
        by_value, by_derivative = (lnp.abs(state[i] - state[j]) > eps * lnp.abs(state[i]) for i, j in ((2, 6), (5, 7)))
        return by_value | by_derivative

    zero = lnp.zeros_like(x)
    derivatives_ = [jvp(part, (a,), (lnp.ones_like(a),)) for part in start]
    state, never = _iterate(step, is_unsettled,
                            (*(v for v, _ in derivatives_), *(t for _, t in derivatives_), zero, zero), True)
    return lnp.where(never, np.nan, state[2])


def _gamma_quotient(a: Any, x: Any) -> Any:
    """Return gammainc (if x is at most 1 or a) or gammaincc / a (else), divided by x^a exp(-x) / gamma(a + 1)."""
    low = _is_below_turn(a, x)
    one = lnp.ones_like
    series = _sum_form(_gamma_series, guard(low, a, 1.0), guard(low, x, 1.0), one, one, one)
    p, z = guard(lnp.logical_not(low), a, 1.0), guard(lnp.logical_not(low), x, 2.0)
    first = lambda a: 1.0 / (z + 1.0 - a)
    return lnp.where(low, series, _sum_form(_gamma_fraction, p, z, lambda a: lnp.full_like(a, 1e30), first, first))


def _is_below_turn(a: Any, x: Any) -> Any:
    return (x <= 1.0) | (x <= a)


def _gamma_replace_outside(a: Any, x: Any) -> Any:
    good = (a > 0) & (a < np.inf) & (x > 0) & (x < np.inf)
    return good, guard(good, a, 1.0), guard(good, x, 1.0)


def _gamma_level(a: Any, x: Any) -> Any:
    """Return the logarithm of the density that `_gamma_quotient` divides by, plus that of `_gamma_quotient`."""
    return compute_log_gamma_density(a + 1.0, x) + lnp.log(_gamma_quotient(a, x))


def _gamma_second_derivative(out: Any, a: Any, x: Any) -> Any:
    """The second derivative of gammainc in a."""
    good, p, y = _gamma_replace_outside(a, x)
    below = _is_below_turn(p, y)
    (level, derivative), (_, bend) = _jvp_in(0, lambda p: _jvp_in(0, _gamma_level, (p, y)), (p,))
    curve = bend + derivative * derivative
    value = lnp.exp(level) * lnp.where(below, curve, -2.0 * derivative - p * curve)
    return lnp.where(good, value, lnp.where(a > 0, 0.0 * out, np.nan))


def _gamma_mixed_derivative(out: Any, a: Any, x: Any) -> Any:
    density = lnp.exp(compute_log_gamma_density(a, x))
    return lnp.where(density == 0, 0.0, density * (lnp.log(x) - compute_digamma(a)))


gammainc_derivative_a = derivatives(define_by_forward(_gamma_second_derivative, 3),
                                    _gamma_mixed_derivative)(lax.igamma_grad_a)


def gamma_log_curve(i: int, j: int, above: bool) -> Callable[..., Any]:
    """The second derivative of the logarithm of a share of the gamma integral, in its arguments i and j, where it may be small;
    elsewhere infinite."""
    def second_derivative(f: Callable[..., Any], a: Any, x: Any) -> Any:
        return _jvp_in(j, lambda *args: _jvp_in(i, f, args)[1], (a, x))[1]

    def log_small(a: Any, x: Any) -> Any:
        rest = gamma_above_small(a, x)
        return lnp.log(rest) if above else lnp.log1p(-a * rest)

    def curve(a: Any, x: Any) -> Any:
        good, p, y = _gamma_replace_outside(a, x)
        value, some = second_derivative(_gamma_level, p, y), good & (_is_below_turn(p, y) != above)
        if above or i == j == 1:  # where the share above is of the size of a
            small = good & (p < 0.5) & (y <= 1.0)
            q, z = guard(small, p, 0.25), guard(small, y, 0.5)
            if not above:
                small = small & (q * gamma_above_small(q, z) < 0.5)
                q, z = guard(small, q, 0.25), guard(small, z, 0.5)
            value, some = lnp.where(small, second_derivative(log_small, q, z), value), some | small
        value = value - 1.0 / p / p if above and i == j == 0 else value
        return lnp.where(some, value, np.inf)
    return define_by_forward(curve, 2)


# --- beta


def _fraction_derivatives(a, b, x, y, base_a, base_b, further=False):
    """Return the derivatives in a and b of log F, and F, which is betainc divided by x^a y^b / (a beta(a, b)).

    y is 1 - x, and x is left of its turning point. The logarithm of betainc also has the derivatives `base`. There the
    fraction of DLMF 8.17.22 converges in some multiple of sqrt(a) steps. Its even part is computed by Lentz's method
    as in DiDonato and Morris, "Algorithm 708" (1992), whose factors have derivatives too. NaN where it does not
    converge."""
    eps = _eps(x)

    def is_unsettled(state: Any) -> Any:
        value_change, a_change, b_change, in_a, in_b = state[-5:]
        return ((lnp.abs(value_change - 1.0) > 2 * eps) | (lnp.abs(a_change) > 2 * eps * (lnp.abs(in_a) + lnp.abs(base_a)))
                | (lnp.abs(b_change) > 2 * eps * (lnp.abs(in_b) + lnp.abs(base_b))))

    def step(k: Any, state: Any) -> Any:
        c, c_a, c_b, d, d_a, d_b, value, *_, in_a, in_b = state
        under, over, s, r = a + (2.0 * k - 1.0), a + (2.0 * k + 1.0), a + b + (k - 1.0), a + (k - 1.0)
        q, part = x / under, (a + k) / over
        w, p, level = k * (b - k) * q, q * r, a * y - b * x + 1.0 + k * (y + 1.0)
        top, low = w * p * s, k + w + part * level
        top_a, top_b = top * (1.0 / r - 2.0 / under + 1.0 / s), p * (k * q * s + w)
        low_a, low_b = part * y + (k + 1.0) / over / over * level - w / under, k * q - part * x
        ratio, inverse = top / c, 1.0 / (low + top * d)
        c_a, c_b = low_a + (top_a - ratio * c_a) / c, low_b + (top_b - ratio * c_b) / c
        d_a, d_b = -inverse * (low_a + top_a * d + top * d_a) * inverse, -inverse * (low_b + top_b * d + top * d_b) * inverse
        c, d = low + ratio, inverse
        change, a_change, b_change = c * d, c_a / c + d_a / d, c_b / c + d_b / d
        return c, c_a, c_b, d, d_a, d_b, value * change, change, a_change, b_change, in_a + a_change, in_b + b_change

    first = a * y - b * x + 1.0
    value, in_a, in_b = first / (a + 1.0), y / first - 1.0 / (a + 1.0), -x / first
    c, zero, none = a * value, lnp.zeros_like(x), lnp.full_like(x, np.inf)
    start = (c, value + a * value * in_a, c * in_b, zero, zero, zero, value, none, none, none, in_a, in_b)
    out, never = _iterate(step, is_unsettled, start, further)
    return -out[-2], -out[-1], 1.0 / lnp.where(never, np.nan, out[6])


def _find_side(a, b, x):
    """Return where the arguments are inside, where x is right of its turning point, and the arguments of one share.

    That share is the one left of the turning point, below or above: its shapes, its place and the rest, and their
    logarithms."""
    good = (a > 0) & (b > 0) & (x > 0) & (x < 1)
    p, q, y = guard(good, a, 1.0), guard(good, b, 1.0), guard(good, x, 0.5)
    # of two shapes one tiny leaves little of one share: this one is taken, further out
    left, right = (q < 0.1) & (q < p) & (y < 0.995), (p < 0.1) & (p < q) & (y > 0.005)
    turn = right | ((y > (p + 1.0) / (p + q + 2.0)) & lnp.logical_not(left))
    pairs = ((p, q), (y, 1.0 - y), (lnp.log(y), compute_log1p(-y)))
    return good, turn, *(lnp.where(turn, two[1 - i], two[i]) for two in pairs for i in range(2))


def _shape_derivatives(a, b, x):
    """The derivatives in a and b; at both ends of x they are zero."""
    good, turn, low, high, y, rest, log, log_rest = _find_side(a, b, x)
    base_low = log + (digamma_step(low + 1.0, high) - 1.0 / (low + high))
    base_high = log_rest + digamma_step(high, low)
    in_low, in_high, left = _fraction_derivatives(low, high, y, rest, base_low, base_high)
    in_low, in_high = base_low + in_low, base_high + in_high
    share = _density_inside(good, a, b, x) * y * rest / low * left
    ends = (a > 0) & (b > 0) & ((x == 0) | (x == 1))
    return [lnp.where(good, share * lnp.where(turn, -other, own), lnp.where(ends, 0.0, np.nan))
            for own, other in ((in_low, in_high), (in_high, in_low))]


def _density_inside(good, a, b, x):
    return lnp.exp(compute_log_beta_density(guard(good, a, 1.0), guard(good, b, 1.0), guard(good, x, 0.5)))


def _beta_level(low, high, y, rest, log, log_rest):
    """The derivatives in both shapes of the logarithm of the share left of the turning point over its higher shape,
    and that
    share divided by y^low rest^high / (low beta(low, high))."""
    both = low + high
    bases = (log + (digamma_step(low + 1.0, high) - 1.0 / both), log_rest + (digamma_step(high + 1.0, low) - 1.0 / both))
    in_low, in_high, left = _fraction_derivatives(low, high, y, rest, *bases, True)
    return bases[0] + in_low, bases[1] + in_high, left


def _level_derivatives(j, turn, *args):
    """`_beta_level` and its derivatives in the argument j of a, b, x, all in the order of a and b."""
    sign = lnp.where(turn, -1.0, 1.0)
    zero = lnp.zeros_like(sign)
    ways = (lnp.where(turn, 0.0, 1.0), lnp.where(turn, 1.0, 0.0))
    way = (zero, zero, sign, -sign, sign / args[2], -sign / args[3]) if j == 2 else (ways[j], ways[1 - j], *[zero] * 4)
    return [(lnp.where(turn, two[1], two[0]), lnp.where(turn, two[0], two[1]), two[2])
            for two in jvp(_beta_level, args, way)], ways


def _beta_second_derivative(i, j):
    """The second derivative of betainc in the shapes i and j."""
    def derivative(out, a, b, x):
        good, turn, *args = _find_side(a, b, x)
        (values, derivatives_), ways = _level_derivatives(j, turn, *args)
        low, high, y, rest = args[:4]
        share = _density_inside(good, a, b, x) * y * rest / low / high * values[2]  # over the higher shape
        # the share is that times `high`, whose own derivative is 1 in the shape that it is
        value = high * (derivatives_[i] + values[i] * values[j]) + ways[1 - i] * values[j] + ways[1 - j] * values[i]
        return lnp.where(good, lnp.where(turn, -share, share) * value, 0.0 * out)
    return define_by_forward(derivative, 4)


def beta_log_curve(i: int, j: int, above: bool) -> Callable[..., Any]:
    """The second derivative of the logarithm of a share of the beta integral, in its arguments i and j, where it may be small;
    elsewhere infinite."""
    def curve(a, b, x):
        good, turn, *args = _find_side(a, b, x)
        low, high, y, rest, *logs = args
        if i == j == 2:
            left = lambda y: lnp.log(_fraction_derivatives(low, high, y, 1.0 - y, lnp.ones_like(y), lnp.ones_like(y), True)[2])
            value = _jvp_in(0, lambda y: _jvp_in(0, left, (y,))[1], (y,))[1] - low / y / y - high / rest / rest
        else:
            value = _level_derivatives(max(i, j), turn, *args)[0][1][min(i, j)]
            value = value - 1.0 / high / high if i == j == (0 if above else 1) else value
        return lnp.where(good & (turn == above), value, np.inf)
    return define_by_forward(curve, 3)


def _mixed_derivative(own, a, b, x):
    """The derivative in x of the derivative in a shape."""
    log, other = (lnp.log(x), b) if own is a else (compute_log1p(-x), a)
    density = lnp.exp(compute_log_beta_density(a, b, x))
    return lnp.where(density == 0, 0.0, density * (log + digamma_step(own, other)))


betainc_derivative_a = derivatives(_beta_second_derivative(0, 0), _beta_second_derivative(0, 1), lambda out, a, b,
                                   x: _mixed_derivative(a, a, b, x))(
    lambda a, b, x: _shape_derivatives(a, b, x)[0])
betainc_derivative_b = derivatives(_beta_second_derivative(0, 1), _beta_second_derivative(1, 1), lambda out, a, b,
                                   x: _mixed_derivative(b, a, b, x))(
    lambda a, b, x: _shape_derivatives(a, b, x)[1])
