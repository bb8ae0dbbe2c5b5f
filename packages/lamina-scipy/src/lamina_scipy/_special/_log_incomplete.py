"""Logarithms of the shares of the gamma and beta integrals, below and above a place, also where the shares underflow.

A small one is log density - log rate. The rate is density / share. So far out it needs only a few steps of its
continued fraction, and derivatives keep their digits. 5 steps lack at most 1.4e-8 of it where a share is 1e-13, 8 steps 1e-16
where it is 1e-60.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_autodiff import jvp

from .._util import derivatives, guard, pick
from ._log_densities import compute_log_beta_density, compute_log_gamma_density
from ._incomplete import compute_betainc, compute_gammainc, compute_gammaincc
from ._incomplete_shape_derivatives import (beta_log_curve, betainc_derivative_a, betainc_derivative_b, gamma_log_curve,
                                            gammainc_derivative_a)

__all__ = ["beta_log_above", "beta_log_below", "beta_shares", "gamma_log_above", "gamma_log_below"]


def _steps(x: Any) -> int:
    return pick(x, 5, 8)


def _gamma_rate_below(a, x):
    """By ratios of the integrals over t in [0, 1] of (1 - t)^k t^(a - 1) exp(x (1 - t)), which integration by parts gives."""
    n = _steps(x)
    t = a - x + float(n)
    for k in range(n, 0, -1):
        t = a - x + (k - 1.0) + k * x / t
    return t / x


def _gamma_rate_above(a, x):
    """By the even part of DLMF 8.9.2; far beyond a as what 1 is more than the rate, of which the derivatives are made."""
    n = _steps(x)
    t = x - a + (2.0 * n + 1.0)
    for k in range(n, 1, -1):
        t = x - a + (2.0 * k - 1.0) + k * (a - k) / t
    return lnp.where(x > 2.0 * a, 1.0 - (a - 1.0) * (1.0 - 1.0 / t) / x, (x - a + 1.0 + (a - 1.0) / t) / x)


def _beta_fraction(a, b, x, y, over):
    """The even part of DLMF 8.17.22 with y = 1 - x and over = a y - b x, as in DiDonato and Morris, "Algorithm 708" (1992)."""
    t: Any = np.inf
    top: Any = 0.0
    for k in range(_steps(x), -1, -1):
        q = x / (a + (2.0 * k - 1.0))
        w = k * (b - k) * q
        t = k + w + (a + k) / (a + (2.0 * k + 1.0)) * (over + 1.0 + k * (y + 1.0)) + top / t
        top = w * q * (a + (k - 1.0)) * (a + b + (k - 1.0))
    return t


def _beta_rate_below(a, b, x):
    y = 1.0 - x
    return _beta_fraction(a, b, x, y, a * y - b * x) / x / y


def _beta_rate_above(a, b, x):
    y = 1.0 - x
    return _beta_fraction(b, a, y, x, b * x - a * y) / x / y


def _log_share(share: Any, rest: Any) -> Any:
    """Return the logarithm of a share, from its complement if that is small.

    XLA's log1p of float64 is off by 120 units between -0.42 and -0.29."""
    more = share > 0.75
    return lnp.where(more, lnp.log1p(-guard(more, lnp.minimum(rest, 0.5), 0.25)), lnp.log(lnp.where(more, 1.0, share)))


def _make_log_share(shares: Callable[..., Any], log_density: Callable[..., Any], in_shapes: Any,
                    rate: Callable[..., Any],
                    curve: Callable[..., Any], above: bool, ends: tuple[float, ...],
                    inner: tuple[float, ...]) -> Callable[..., Any]:
    """Return the log share of shapes and a place.

    It is computed from the share and its complement, `shares`, and the derivatives of the lower share, `in_shapes`. In
    the tails it is computed from density and rate; elsewhere these get `inner` arguments. Arguments are between 0 and
    `ends`."""
    def far_value(*args: Any) -> Any:
        return log_density(*args) - lnp.log(rate(*args))

    def split_far(log: Any, args: Any) -> Any:
        """Where a share is far and where it is not (at an end it is neither), and the arguments of both."""
        far = log < pick(log, math.log(1e-13), math.log(1e-60))
        usual = lnp.logical_not(far)
        for x, end in zip(args, ends, strict=True):
            far = far & (x > 0) & (x < end)
        return (far, usual, [guard(far, x, safe) for x, safe in zip(args, inner, strict=True)],
                [guard(usual, x, 1.0) for x in args[:-1]] + [guard(usual, args[-1], 0.5)])

    def value(*args: Any) -> Any:
        log = _log_share(*shares(*args))
        far, _, out, _ = split_far(log, args)
        return lnp.where(far, log_density(*args) - lnp.log(rate(*out)), log)  # of all: a density that callers have anyway

    def derivative(i: int) -> Callable[..., Any]:
        def first(log: Any, *args: Any) -> Any:
            far, usual, out, near = split_far(log, args)
            log = guard(usual, log, 0.0)
            if i == len(inner) - 1:
                return lnp.where(far, sign * rate(*out), lnp.where(usual, sign * lnp.exp(log_density(*args) - log), 0.0))
            far_derivative = jvp(lambda s: far_value(*out[:i], s, *out[i + 1:]), (out[i],), (lnp.ones_like(log),))[1]
            return lnp.where(far, far_derivative, lnp.where(usual, sign * in_shapes[i](*near) * lnp.exp(-log), 0.0))
        return first

    def second(i: int, j: int) -> Callable[..., Any]:
        bend = curve(i, j, above)

        def rule(plain: Any, _: Any, *args: Any) -> Any:
            value = bend(*args)
            return lnp.where(value == np.inf, plain, value)
        return rule

    sign = -1.0 if above else 1.0
    count = len(inner)
    return derivatives(*map(derivative, range(count)), seconds={(i, j): second(i, j) for j in range(count)
                                                                for i in range(j + 1)})(value)


def beta_shares(a, b, x):
    """The shares of the beta integral below and above a place."""
    # What 1 - x rounds away is much where the density is high.
    near = (x < 0.5) & (compute_log_beta_density(a, b, x) > 0)
    rest = compute_betainc(lnp.where(near, a, b), lnp.where(near, b, a), lnp.where(near, x, 1.0 - x))
    return compute_betainc(a, b, x), lnp.where(near, 1.0 - rest, rest)


_GAMMA, _BETA = (np.inf, np.inf), (np.inf, np.inf, 1.0)
_gamma_shape_derivatives = (gammainc_derivative_a,)
_beta_shape_derivatives = (betainc_derivative_a, betainc_derivative_b)
gamma_log_below = _make_log_share(lambda a, x: (compute_gammainc(a, x), compute_gammaincc(a, x)),
                                  compute_log_gamma_density, _gamma_shape_derivatives,
                                  _gamma_rate_below, gamma_log_curve, False, _GAMMA, (1000.0, 1.0))
gamma_log_above = _make_log_share(lambda a, x: (compute_gammaincc(a, x), compute_gammainc(a, x)),
                                  compute_log_gamma_density, _gamma_shape_derivatives,
                                  _gamma_rate_above, gamma_log_curve, True, _GAMMA, (1.0, 1000.0))
beta_log_below = _make_log_share(beta_shares, compute_log_beta_density, _beta_shape_derivatives, _beta_rate_below,
                                 beta_log_curve, False, _BETA,
                                 (1000.0, 1.0, 0.25))
beta_log_above = _make_log_share(lambda a, b, x: beta_shares(a, b, x)[::-1], compute_log_beta_density,
                                 _beta_shape_derivatives, _beta_rate_above,
                                 beta_log_curve, True, _BETA, (1.0, 1000.0, 0.75))
