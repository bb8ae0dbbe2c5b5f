"""Counts: the Poisson and the binomial distribution, by gaps where few are expected and by rejection else."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import config, dtypes
from lamina_tracing import Array, ArrayLike, DTypeLike, jit, lax, ShapeLike
from lamina_tracing.extend import typeof

from ._args import as_float, as_int, common_shape
from ._sampling_utils import draw_until_accepted, full, is_any_left
from ._keys import split_keys
from ._named_axes import takes_names
from ._normal import draw_unit

__all__ = ["binomial", "binomial_core", "poisson"]

_part = config.threefry_partitionable


def _has_none(flags: Any, shape: tuple[int, ...]) -> Any:
    """Everywhere, whether no element is flagged: then a loop for the flagged ones need not turn."""
    return full(lax.bitwise_not(lax.reduce_or(flags, tuple(range(len(shape))))), shape, np.dtype(bool))


# --- Poisson ------------------------------------------------------------------------------------------------------
def _count_gaps(key: Any, rate: Any, shape: tuple[int, ...], dtype: np.dtype, part: bool) -> Any:
    """How many exponential gaps fit into `rate` units of time [Knuth, TAOCP 2, 3.4.1]."""
    end = lax.neg(rate)

    def body(state: Any) -> Any:
        key, count, time = state
        key, sub = split_keys(key, 2, part)
        time = lax.add(time, lax.log(draw_unit("poisson", sub, shape, dtype, part)))  # runs down from 0
        return key, lax.select(lax.gt(time, end), lax.add(count, 1.0), count), time

    zero = lax.full_like(rate, 0)
    return lax.while_loop(lambda state: is_any_left(lax.le(state[2], end)), body, (key, zero, zero))[1]


def _draw_ptrs(key: Any, rate: Any, done: Any, shape: tuple[int, ...], dtype: np.dtype, part: bool) -> Any:
    """Transformed rejection with a squeeze, for rates of 10 and more [Hoermann 1993, PTRS]."""
    # a, b and the constants are the paper's; `inverse` is its 1 / alpha, `ready` its v_r.
    b = lax.add(lax.mul(lax.sqrt(rate), 2.53), 0.931)
    a = lax.add(lax.mul(b, 0.02483), -0.059)
    inverse = lax.add(lax.div(1.1328, lax.sub(b, 3.4)), 1.1239)
    ready = lax.sub(0.9277, lax.div(3.6224, lax.sub(b, 2.0)))
    log_rate = lax.log(rate)

    def propose(u: Any, v: Any) -> tuple[Any, Any]:
        us = lax.sub(0.5, lax.abs(u))
        k = lax.floor(lax.add(lax.add(lax.mul(lax.add(lax.div(lax.mul(2.0, a), us), b), u), rate), 0.43))
        # Most are accepted by the squeeze; else log(v / alpha / (a / us^2 + b)) <= k log(rate) - rate - log k!.
        quick = lax.bitwise_and(lax.ge(us, 0.07), lax.le(v, ready))
        bad = lax.bitwise_or(lax.lt(k, 0.0), lax.bitwise_and(lax.lt(us, 0.013), lax.gt(v, us)))
        left = lax.log(lax.div(lax.mul(v, inverse), lax.add(lax.div(a, lax.square(us)), b)))
        right = lax.sub(lax.sub(lax.mul(k, log_rate), rate), lax.lgamma(lax.add(k, 1.0)))
        good = lax.bitwise_or(quick, lax.bitwise_and(lax.bitwise_not(bad), lax.le(left, right)))
        return k, good

    return draw_until_accepted("poisson", key, lax.full_like(rate, -1), propose, done, shape, dtype, part)


def _poisson(key: Any, lam: Any, shape: tuple[int, ...], dtype: np.dtype, kind: np.dtype, part: bool) -> Any:
    rate = full(lax.stop_gradient(lam), shape, kind)
    small, unknown = lax.lt(rate, 10.0), lax.ne(rate, rate)
    # Both methods run for all elements, with the same key: where the other one counts, with a harmless rate.
    few = _count_gaps(key, lax.select(small, rate, lax.full_like(rate, 0)), shape, kind, part)
    done = lax.bitwise_or(unknown, _has_none(lax.bitwise_not(small), shape))
    many = _draw_ptrs(key, lax.select(small, lax.full_like(rate, 1e5), rate), done, shape, kind, part)
    count = lax.select(small, few, many)
    known = lax.ge(rate, 0.0)
    return lax.select(known, lax.convert_element_type(count, dtype), lax.full(shape, -1, dtype))


_draw_poisson = jit(_poisson, static_argnums=(2, 3, 4, 5), inline=True)


@takes_names
def poisson(key: ArrayLike, lam: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike | None = None) -> Array:
    """How many events happen in a unit of time when `lam` are expected; -1 where `lam` is negative or NaN.

    Args:
      {key}
      lam: the rate, broadcasts to `shape`.
      {shape}
      dtype: an integer dtype; default int32 (int64 in 64-bit mode).
    Returns: {integers}
    Raises: {ShapeError, DTypeError}

    Source: counting gaps below a rate of 10, else Hoermann, "The transformed rejection method for generating Poisson
    random variables" (1993).

    >>> from lamina_random import PRNGKey
    >>> poisson(PRNGKey(0), 3.0, (4,)).dtype
    dtype('int32')
    """
    return _draw_poisson(key, lam, common_shape("poisson", shape, lam), as_int("poisson", dtype),
                         np.dtype("float32"), _part.value)


# --- binomial -----------------------------------------------------------------------------------------------------
def _count_binomial_gaps(key: Any, n: Any, p: Any, shape: tuple[int, ...], dtype: np.dtype, part: bool) -> Any:
    """Successes counted by skipping from one to the next: geometric gaps that fit into n trials."""
    log_q = lax.log1p(lax.neg(p))

    def body(state: Any) -> Any:
        key, count, trials = state
        sub, key = split_keys(key, 2, part)
        gap = lax.ceil(lax.div(lax.log(draw_unit("binomial", sub, shape, dtype, part)), log_q))
        trials = lax.add(trials, gap)
        return key, lax.select(lax.le(trials, n), lax.add(count, 1.0), count), trials

    zero = lax.full_like(n, 0)
    return lax.while_loop(lambda state: is_any_left(lax.gt(state[2], n)), body, (key, zero, zero))[1]


# What Stirling's formula leaves of log k!, for k = 0 ... 9 [Hoermann 1993, f_c], and for every larger k as for 9.
_LEFT = [0.08106146679532726, 0.04134069595540929, 0.02767792568499834, 0.02079067210376509, 0.01664469118982119,
         0.01387612882307075, 0.01189670994589177, 0.01041126526197209, 0.009255462182712733, 0.008330563433362871]


def _compute_stirling_tail(k: Any) -> Any:
    out = lax.full_like(k, _LEFT[9])
    for n in range(9):
        out = lax.select(lax.eq(k, float(n)), lax.full_like(k, _LEFT[n]), out)
    return out


def _draw_btrs(key: Any, n: Any, p: Any, done: Any, shape: tuple[int, ...], dtype: np.dtype, part: bool) -> Any:
    """Transformed rejection, for n p above 10 and p up to a half [Hoermann 1993, BTRS]."""
    # a, b, c, alpha and the constants are the paper's; `ready` is its v_r. The hat is that of k = floor((2a / us + b) u + c).
    spread = lax.sqrt(lax.mul(lax.mul(n, p), lax.sub(1.0, p)))
    b = lax.add(lax.mul(spread, 2.53), 1.15)
    a = lax.add(lax.add(lax.mul(b, 0.0248), -0.0873), lax.mul(p, 0.01))
    c = lax.add(lax.mul(n, p), 0.5)
    ready = lax.sub(0.92, lax.div(4.2, b))
    r = lax.div(p, lax.sub(1.0, p))
    alpha = lax.mul(lax.add(lax.div(5.1, b), 2.83), spread)
    m = lax.floor(lax.mul(lax.add(n, 1.0), p))
    n_m = lax.add(lax.sub(n, m), 1.0)
    at_mode = lax.mul(lax.add(m, 0.5), lax.log(lax.div(lax.add(m, 1.0), lax.mul(r, n_m))))
    left_mode = lax.add(_compute_stirling_tail(m), _compute_stirling_tail(lax.sub(n, m)))

    def propose(u: Any, v: Any) -> tuple[Any, Any]:
        us = lax.sub(0.5, lax.abs(u))
        k = lax.floor(lax.add(lax.mul(lax.add(lax.div(lax.mul(2.0, a), us), b), u), c))
        inside = lax.bitwise_and(lax.ge(k, 0.0), lax.le(k, n))
        # Most are accepted by the squeeze; else log(v alpha / (a / us^2 + b)) <= log of P(k) / P(m), by Stirling's series.
        quick = lax.bitwise_and(lax.ge(us, 0.07), lax.le(v, ready))
        n_k = lax.add(lax.sub(n, k), 1.0)
        weight = lax.log(lax.div(lax.mul(v, alpha), lax.add(lax.div(a, lax.square(us)), b)))
        ratio = lax.add(at_mode, lax.mul(lax.add(n, 1.0), lax.log(lax.div(n_m, n_k))))
        ratio = lax.add(ratio, lax.mul(lax.add(k, 0.5), lax.log(lax.div(lax.mul(r, n_k), lax.add(k, 1.0)))))
        ratio = lax.sub(lax.add(ratio, left_mode), _compute_stirling_tail(k))
        ratio = lax.sub(ratio, _compute_stirling_tail(lax.sub(n, k)))
        return k, lax.bitwise_or(quick, lax.bitwise_and(inside, lax.le(weight, ratio)))

    return draw_until_accepted("binomial", key, lax.full_like(n, -1), propose, done, shape, dtype, part)


def binomial_core(key: Any, n: Any, p: Any, shape: tuple[int, ...], dtype: np.dtype, kind: np.dtype, part: bool) -> Any:
    n = lax.floor(full(lax.stop_gradient(n), shape, kind))
    p = full(lax.stop_gradient(p), shape, kind)
    endless = lax.eq(n, float("inf"))  # no trial is the last: what gaps fit into them would be counted for ever
    some = lax.bitwise_and(lax.bitwise_and(lax.ge(p, 0.0), lax.le(p, 1.0)), lax.ge(n, 0.0))
    known = lax.bitwise_and(some, lax.bitwise_not(endless))
    turned = lax.ge(p, 0.5)  # then failures are counted, so that p is at most a half
    # Not -0.0, of which log1p(-p) is 0.0: the gaps would run backwards, for ever.
    rate = lax.select(known, lax.select(turned, lax.sub(1.0, p), lax.abs(p)), lax.full_like(p, 0.25))
    trials = lax.select(known, n, lax.full_like(n, 1))
    small = lax.le(lax.mul(trials, rate), 10.0)
    # Both methods run for all elements, with the same key: where the other one counts, with harmless parameters.
    few = _count_binomial_gaps(key, lax.select(small, trials, lax.full_like(n, 0)),
                               lax.select(small, rate, lax.full_like(rate, 0.5)),
                               shape, kind, part)
    many = _draw_btrs(key, lax.select(small, lax.full_like(n, 1e4), trials),
                      lax.select(small, lax.full_like(rate, 0.5), rate), _has_none(lax.bitwise_not(small), shape),
                      shape, kind, part)
    count = lax.select(small, few, many)
    failed = lax.convert_element_type(lax.sub(trials, count), dtype)  # at once: what a wider dtype holds is not rounded
    count = lax.select(turned, failed, lax.convert_element_type(count, dtype))
    nan, inf = lax.full_like(count, float("nan")), lax.full_like(count, float("inf"))
    return lax.select(known, count, lax.select(lax.bitwise_and(some, lax.gt(p, 0.0)), inf, nan))


_draw_binomial = jit(binomial_core, static_argnums=(3, 4, 5, 6), inline=True)


@takes_names
def binomial(key: ArrayLike, n: ArrayLike, p: ArrayLike, shape: ShapeLike | None = None,
             dtype: DTypeLike | None = None) -> Array:
    """How many of `n` trials succeed, each with probability `p`; NaN where these make no sense, infinity of endlessly many.

    Args:
      key: a key, from `random.key` or `split`.
      n: how many trials, rounded down; broadcasts to `shape`.
      p: probability of success in each; broadcasts to `shape`.
      shape: of the result; default: that of `n` and `p`.
      dtype: a float dtype; default float32 (float64 in 64-bit mode).
    Returns:
      Float array of `shape`.
    Raises:
      ShapeError: `key` is not uint32[2], or `n` and `p` do not broadcast to `shape`.
      DTypeError: `dtype` is no float dtype.

    Source: geometric gaps for a mean up to 10, else Hoermann, "The generation of binomial random variates" (1993), in
    which what Stirling's formula leaves of log k! is taken for k > 9 as for 9: probabilities are off by up to 0.2%.

    >>> from lamina_random import PRNGKey
    >>> binomial(PRNGKey(0), 5, 0.0, (2,))
    Array([0., 0.], dtype=float32)
    """
    dtype = as_float("binomial", dtype)
    # Which numbers come depends on the parameters' own dtype: the one asked for is that of the counts.
    own = [a.dtype for a in (typeof(n), typeof(p)) if dtypes.is_float(a.dtype) and not a.weak_type]
    kind = max(own, key=lambda found: found.itemsize, default=dtypes.canonical_float())
    return _draw_binomial(key, n, p, common_shape("binomial", shape, n, p), dtype, kind, _part.value)
