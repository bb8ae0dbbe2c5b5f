"""Counts: the Poisson and the binomial distribution, by gaps where few are expected and by rejection else."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import config, dtypes
from lamina_tracing import Array, ArrayLike, DTypeLike, jit, lax, ShapeLike
from lamina_tracing.extend import scalar

from ._arguments import as_float, as_int, common_shape
from ._draws import accepted, full, open_unit
from ._keys import halves
from ._normal import unit_core

__all__ = ["binomial", "poisson"]

_part = config.threefry_partitionable


# --- Poisson ------------------------------------------------------------------------------------------------------
def _few(key: Any, rate: Any, active: Any, shape: tuple[int, ...], dtype: np.dtype, part: bool) -> Any:
    """How many exponential gaps fit into one unit of time [Knuth, TAOCP 2, 3.4.1]."""
    def body(state: Any) -> Any:
        key, count, left = state
        key, sub = halves(key, 2, part)
        left = lax.add(left, lax.log(open_unit("poisson", sub, shape, dtype, part)))
        return key, lax.select(lax.gt(left, 0.0), lax.add(count, 1.0), count), left

    def going(state: Any) -> Any:
        return lax.reduce_or(lax.gt(state[2], 0.0), tuple(range(len(shape))))

    start = lax.select(active, rate, lax.full_like(rate, 0))
    return lax.while_loop(going, body, (key, lax.full_like(rate, 0), start))[1]


def _many(key: Any, rate: Any, done: Any, shape: tuple[int, ...], dtype: np.dtype, part: bool) -> Any:
    """Transformed rejection with a squeeze, for rates of 10 and more [Hoermann 1993, PTRS]."""
    # a, b and the constants are the paper's; `inverse` is its 1 / alpha, `ready` its v_r.
    b = lax.add(lax.mul(lax.sqrt(rate), 2.53), 0.931)
    a = lax.add(lax.mul(b, 0.02483), -0.059)
    inverse = lax.add(lax.div(1.1328, lax.sub(b, 3.4)), 1.1239)
    ready = lax.sub(0.9277, lax.div(3.6224, lax.sub(b, 2.0)))
    log_rate = lax.log(rate)

    def propose(key: Any) -> tuple[Any, Any]:
        ku, kv = halves(key, 2, part)
        u = lax.sub(unit_core("poisson", ku, shape, dtype, part), 0.5)
        v = open_unit("poisson", kv, shape, dtype, part)
        us = lax.sub(0.5, lax.abs(u))
        k = lax.floor(lax.add(lax.mul(lax.add(lax.div(lax.mul(2.0, a), us), b), u), lax.add(rate, 0.43)))
        # Most are accepted by the squeeze; else log(v / alpha / (a / us^2 + b)) <= k log(rate) - rate - log k!.
        quick = lax.bitwise_and(lax.ge(us, 0.07), lax.le(v, ready))
        bad = lax.bitwise_or(lax.lt(k, 0.0), lax.bitwise_and(lax.lt(us, 0.013), lax.gt(v, us)))
        left = lax.log(lax.div(lax.mul(v, inverse), lax.add(lax.div(a, lax.square(us)), b)))
        right = lax.sub(lax.sub(lax.mul(k, log_rate), rate), lax.lgamma(lax.add(k, 1.0)))
        good = lax.bitwise_or(quick, lax.bitwise_and(lax.bitwise_not(bad), lax.le(left, right)))
        return k, good

    return accepted(key, lax.full_like(rate, 0), propose, done, part)


def _poisson(key: Any, lam: Any, shape: tuple[int, ...], dtype: np.dtype, kind: np.dtype, part: bool) -> Any:
    rate = full(lax.stop_gradient(lam), shape, kind)
    small = lax.lt(rate, 10.0)
    k1, k2 = halves(key, 2, part)
    few = _few(k1, rate, small, shape, kind, part)
    # Both methods run for all elements: where the other one counts, with a harmless rate and nothing to wait for.
    large = lax.select(small, lax.full_like(rate, 1e5), rate)
    many = _many(k2, large, lax.bitwise_or(small, lax.ne(rate, rate)), shape, kind, part)
    count = lax.select(small, few, many)
    known = lax.ge(rate, 0.0)
    return lax.select(known, lax.convert_element_type(count, dtype), lax.full(shape, -1, dtype))


_draw_poisson = jit(_poisson, static_argnums=(2, 3, 4, 5), inline=True)


def poisson(key: ArrayLike, lam: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike | None = None) -> Array:
    """How many events happen in a unit of time when `lam` are expected; -1 where `lam` is negative or NaN.

    Args:
      key: uint32[2], from `PRNGKey` or `split`.
      lam: the rate, broadcasts to `shape`.
      shape: of the result; default: that of `lam`.
      dtype: an integer dtype; default int32 (int64 in 64-bit mode).
    Returns:
      Integer array of `shape`.
    Raises:
      ShapeError: `key` is not uint32[2], or `lam` does not broadcast to `shape`.
      DTypeError: `dtype` is no integer dtype.

    Source: counting gaps below a rate of 10, else Hoermann, "The transformed rejection method for generating Poisson
    random variables" (1993).

    >>> from lamina_random import PRNGKey
    >>> poisson(PRNGKey(0), 3.0, (4,)).dtype
    dtype('int32')
    """
    return _draw_poisson(key, lam, common_shape("poisson", shape, lam), as_int("poisson", dtype),
                         dtypes.canonical_float(), _part.value)


# --- binomial -----------------------------------------------------------------------------------------------------
def _skips(key: Any, n: Any, p: Any, active: Any, shape: tuple[int, ...], dtype: np.dtype, part: bool) -> Any:
    """Successes counted by skipping from one to the next: geometric gaps that fit into n trials."""
    log_q = lax.log1p(lax.neg(p))

    def body(state: Any) -> Any:
        key, count, left = state
        key, sub = halves(key, 2, part)
        gap = lax.ceil(lax.div(lax.log(open_unit("binomial", sub, shape, dtype, part)), log_q))
        left = lax.sub(left, lax.max(gap, 1.0))
        return key, lax.select(lax.ge(left, 0.0), lax.add(count, 1.0), count), left

    def going(state: Any) -> Any:
        return lax.reduce_or(lax.gt(state[2], 0.0), tuple(range(len(shape))))

    start = lax.select(active, n, lax.full_like(n, 0))
    return lax.while_loop(going, body, (key, lax.full_like(n, 0), start))[1]


def _transformed(key: Any, n: Any, p: Any, done: Any, shape: tuple[int, ...], dtype: np.dtype, part: bool) -> Any:
    """Transformed rejection, for n p of 10 and more and p up to a half [Hoermann 1993, BTRS]."""
    # a, b, c, alpha and the constants are the paper's; `ready` is its v_r. The hat is that of k = floor((2a / us + b) u + c).
    q = lax.sub(1.0, p)
    spread = lax.sqrt(lax.mul(lax.mul(n, p), q))
    b = lax.add(lax.mul(spread, 2.53), 1.15)
    a = lax.add(lax.add(lax.mul(b, 0.0248), -0.0873), lax.mul(p, 0.01))
    c = lax.add(lax.mul(n, p), 0.5)
    ready = lax.sub(0.92, lax.div(4.2, b))
    alpha = lax.mul(lax.add(lax.div(5.1, b), 2.83), spread)
    mode = lax.floor(lax.mul(lax.add(n, 1.0), p))
    odds = lax.log(lax.div(p, q))

    def ways(k: Any) -> Any:
        return lax.add(lax.lgamma(lax.add(k, 1.0)), lax.lgamma(lax.add(lax.sub(n, k), 1.0)))
    at_mode = ways(mode)

    def propose(key: Any) -> tuple[Any, Any]:
        ku, kv = halves(key, 2, part)
        u = lax.sub(unit_core("binomial", ku, shape, dtype, part), 0.5)
        v = open_unit("binomial", kv, shape, dtype, part)
        us = lax.sub(0.5, lax.abs(u))
        k = lax.floor(lax.add(lax.mul(lax.add(lax.div(lax.mul(2.0, a), us), b), u), c))
        inside = lax.bitwise_and(lax.ge(k, 0.0), lax.le(k, n))
        # Most are accepted by the squeeze; else log(v alpha / (a / us^2 + b)) <= log of P(k) / P(mode).
        quick = lax.bitwise_and(lax.bitwise_and(lax.ge(us, 0.07), lax.le(v, ready)), inside)
        safe = lax.clamp(scalar(0, dtype), k, n)  # lgamma has poles outside, and all elements compute
        left = lax.log(lax.div(lax.mul(v, alpha), lax.add(lax.div(a, lax.square(us)), b)))
        right = lax.add(lax.sub(at_mode, ways(safe)), lax.mul(lax.sub(safe, mode), odds))
        return k, lax.bitwise_or(quick, lax.bitwise_and(inside, lax.le(left, right)))

    return accepted(key, lax.full_like(n, 0), propose, done, part)


def _binomial(key: Any, n: Any, p: Any, shape: tuple[int, ...], dtype: np.dtype, part: bool) -> Any:
    n = lax.floor(full(lax.stop_gradient(n), shape, dtype))
    p = full(lax.stop_gradient(p), shape, dtype)
    known = lax.bitwise_and(lax.bitwise_and(lax.ge(p, 0.0), lax.le(p, 1.0)), lax.ge(n, 0.0))
    turned = lax.gt(p, 0.5)  # then failures are counted, so that p is at most a half
    rate = lax.select(known, lax.select(turned, lax.sub(1.0, p), p), lax.full_like(p, 0.25))
    trials = lax.select(known, n, lax.full_like(n, 1))
    small = lax.lt(lax.mul(trials, rate), 10.0)
    k1, k2 = halves(key, 2, part)
    few = _skips(k1, trials, lax.select(small, rate, lax.full_like(rate, 0.5)),
                 lax.bitwise_and(small, lax.gt(rate, 0.0)), shape, dtype, part)
    many = _transformed(k2, lax.select(small, lax.full_like(n, 1e4), trials),
                        lax.select(small, lax.full_like(rate, 0.5), rate), small, shape, dtype, part)
    count = lax.select(small, few, many)
    count = lax.select(turned, lax.sub(trials, count), count)
    return lax.select(known, count, lax.full_like(count, float("nan")))


_draw_binomial = jit(_binomial, static_argnums=(3, 4, 5), inline=True)


def binomial(key: ArrayLike, n: ArrayLike, p: ArrayLike, shape: ShapeLike | None = None,
             dtype: DTypeLike | None = None) -> Array:
    """How many of `n` trials succeed, each with probability `p`; NaN where these make no sense.

    Args:
      key: uint32[2], from `PRNGKey` or `split`.
      n: how many trials, rounded down; broadcasts to `shape`.
      p: probability of success in each; broadcasts to `shape`.
      shape: of the result; default: that of `n` and `p`.
      dtype: a float dtype; default float32 (float64 in 64-bit mode).
    Returns:
      Float array of `shape`.
    Raises:
      ShapeError: `key` is not uint32[2], or `n` and `p` do not broadcast to `shape`.
      DTypeError: `dtype` is no float dtype.

    Source: geometric gaps for a mean below 10, else Hoermann, "The generation of binomial random variates" (1993).

    >>> from lamina_random import PRNGKey
    >>> binomial(PRNGKey(0), 5, 0.0, (2,))
    Array([0., 0.], dtype=float32)
    """
    return _draw_binomial(key, n, p, common_shape("binomial", shape, n, p), as_float("binomial", dtype), _part.value)
