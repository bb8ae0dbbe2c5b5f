"""The gamma distribution, and the distributions that are functions of it."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
from lamina_autodiff import custom_jvp
from lamina_ir import ShapeError, config
from lamina_tracing import Array, ArrayLike, DTypeLike, jit, lax, ShapeLike
from lamina_tracing.extend import scalar, typeof

from ._args import as_float, as_shape, as_size, common_shape, fits, refuse_complex
from ._continuous import exponential_core
from ._discrete import rademacher_core
from ._sampling_utils import any_left, full, inverse, max_along_last, sum_along_last, with_parameters
from ._prng_impl import is_typed
from ._keys import halves, split_core
from ._per_key_draws import begin, following
from ._named_axes import takes_names
from ._normal import normal_core, normal_of

__all__ = ["ball", "beta", "chisquare", "dirichlet", "f", "gamma", "generalized_normal", "loggamma", "t"]

_part = config.threefry_partitionable

_NEXT, _AGAIN, _DONE = map(np.uint8, range(3))  # what a lane draws next: two numbers, the first one again, or none


def _draw(key: Any, a: Any, logs: bool, kept: bool, shape: tuple[int, ...], dtype: np.dtype, part: bool) -> Any:
    """Gamma numbers or their logarithms: Marsaglia and Tsang's cubed normals; for a < 1, a draw for a + 1 times u^(1/a).
    Logarithms are taken behind the loop, as JAX does: in it, those at hand would round what is accepted otherwise.

    Each element has a key of its own. What is no parameter gives NaN and is not waited for.
    """
    lanes, u = begin(key, shape, dtype, part)
    boost, zero = lax.lt(a, 1.0), lax.eq(a, 0.0)
    power = lax.mul(lax.log1p(lax.neg(u)), lax.div(1.0, a)) if logs else lax.pow(lax.sub(1.0, u), lax.div(1.0, a))
    power = lax.select(boost, power, lax.full_like(a, 0 if logs else 1))
    power = lax.select(zero, lax.full_like(a, -np.inf if logs else 0), power)  # also where u is 0
    known = lax.ge(a, 0.0)  # asked of a: just below 0 a + 1 would do
    a = lax.select(boost, lax.add(a, 1.0), a)
    value = lax.select(known, a, lax.full_like(a, np.nan))  # that of all rounds: where it is NaN, so is the result
    a = lax.select(known, a, lax.full_like(a, 1)) if logs and kept else value
    # d = a - 1/3, c = 1 / (3 sqrt d): d (1 + c x)^3 for a normal x, accepted if log u < x^2 / 2 + d (1 - v + log v),
    # v the cube, for which u < 1 - 0.0331 x^4 suffices. A normal for which 1 + c x is not positive is drawn again.
    d = lax.sub(a, 1 / 3)
    c = lax.div(1 / 3, lax.sqrt(d))

    def body(state: Any) -> Any:
        lanes, ahead, value = state
        again, done = lax.eq(ahead, _AGAIN), lax.eq(ahead, _DONE)
        lanes, x, u = following(lanes, again, done, dtype, part)
        x = normal_of(x, dtype)
        root = lax.add(lax.mul(x, c), 1.0)
        up = lax.gt(root, 0.0)
        v, square = lax.mul(lax.mul(root, root), root), lax.mul(x, x)
        quick = lax.lt(u, lax.sub(1.0, lax.mul(0.0331, lax.mul(square, square))))
        limit = lax.add(lax.mul(square, 0.5), lax.mul(d, lax.add(lax.sub(1.0, v), lax.log(v))))
        good = lax.bitwise_and(up, lax.bitwise_or(quick, lax.lt(lax.log(u), limit)))
        new = v if logs else lax.mul(lax.mul(d, v), power)
        next_pair, next_x, none = (lax.full_like(a, code, np.uint8) for code in (_NEXT, _AGAIN, _DONE))
        ahead = lax.select(lax.bitwise_or(done, good), none, lax.select(up, next_pair, next_x))
        # Lanes that are done give the same number again, but those of typed keys. To keep the old one spares time where it
        # takes more than `v`, and takes memory for another copy of the codes.
        return lanes, ahead, lax.select(done, value, new) if kept or is_typed(key) else new

    ahead = lax.select(known, *(lax.full_like(a, code, np.uint8) for code in (_NEXT, _DONE)))
    value = lax.while_loop(lambda state: any_left(lax.eq(state[1], _DONE)), body, (lanes, ahead, value))[-1]
    return lax.add(lax.add(lax.log(d), lax.log(value)), power) if logs else value


def _log_gamma(key: Any, a: Any, shape: tuple[int, ...], dtype: np.dtype, part: bool, kept: bool) -> Any:
    return _draw(key, a, True, kept, shape, dtype, part)


def _plain_gamma(key: Any, a: Any, shape: tuple[int, ...], dtype: np.dtype, part: bool) -> Any:
    return _draw(key, a, False, True, shape, dtype, part)


# Compiled, where a derivative is taken of known numbers too: no step of theirs is seen by checks for NaN and transfers.
_log_core = custom_jvp(jit(_log_gamma, static_argnums=(2, 3, 4, 5), inline=True), nondiff_argnums=(2, 3, 4, 5))
_gamma_core = custom_jvp(jit(_plain_gamma, static_argnums=(2, 3, 4), inline=True), nondiff_argnums=(2, 3, 4))


def _log_jvp(shape: Any, dtype: Any, part: Any, kept: Any, primals: Any, tangents: Any) -> Any:
    """d log x / da = dx / da / x; for tiny x, where P = x^a / gamma(a + 1), it is (digamma(a + 1) - log x) / a."""
    key, a = primals
    logs = _log_core(key, a, shape, dtype, part, kept)
    x = lax.exp(logs)
    tiny = lax.lt(x, scalar(1e-20, dtype))
    inside = lax.select(tiny, lax.full_like(x, 1), x)
    derivative = lax.select(tiny, lax.div(lax.sub(lax.digamma(lax.add(a, 1.0)), logs), a),
                       lax.div(lax.random_gamma_grad(a, inside), inside))
    return logs, lax.mul(derivative, tangents[1])


def _gamma_jvp(shape: Any, dtype: Any, part: Any, primals: Any, tangents: Any) -> Any:
    key, a = primals
    x = _gamma_core(key, a, shape, dtype, part)
    return x, lax.mul(lax.random_gamma_grad(a, x), tangents[1])


_log_core.defjvp(_log_jvp)
_gamma_core.defjvp(_gamma_jvp)


def _beta(key: Any, a: Any, b: Any, shape: Any, dtype: Any, part: bool) -> Any:
    if is_typed(key):
        x, y = (_log_core(k, p, shape, dtype, part, False) for k, p in zip(halves(key, 2, part), (a, b)))
    else:  # in one loop, which compiles in half the time of two
        given = lax.concatenate([lax.expand_dims(p, (0,)) for p in (a, b)], 0)
        logs = _log_core(split_core(key, (2,), part), given, (2, *shape), dtype, part, False)
        x, y = (lax.index_in_dim(logs, i, 0, keepdims=False) for i in (0, 1))
    top = lax.max(x, y)
    x, y = lax.exp(lax.sub(x, top)), lax.exp(lax.sub(y, top))
    return lax.div(x, lax.add(x, y))


def _chisquare(key: Any, df: Any, shape: Any, dtype: Any, part: bool) -> Any:
    return lax.mul(2.0, lax.exp(_log_core(key, lax.mul(0.5, df), shape, dtype, part, False)))


def _t(key: Any, df: Any, shape: Any, dtype: Any, part: bool) -> Any:
    kn, kg = halves(key, 2, part)
    half = lax.mul(0.5, df)
    return lax.mul(normal_core("t", kn, shape, dtype, part),
                   lax.sqrt(lax.div(half, _gamma_core(kg, half, shape, dtype, part))))


def _f(key: Any, dfnum: Any, dfden: Any, shape: Any, dtype: Any, part: bool) -> Any:
    kd, kn = halves(key, 2, part)
    return lax.div(lax.div(_chisquare(kn, dfnum, shape, dtype, part), dfnum),
                   lax.div(_chisquare(kd, dfden, shape, dtype, part), dfden))


_draw_gamma = with_parameters("gamma", lambda key, a, *rest: _gamma_core(key, a, *rest), 1)
_draw_log = with_parameters("loggamma", lambda key, a, shape, dtype, part: _log_core(key, a, shape, dtype, part, False), 1)
_draw_beta, _draw_chi = with_parameters("beta", _beta, 2), with_parameters("chisquare", _chisquare, 1, True)
_draw_t, _draw_f = with_parameters("t", _t, 1, True), with_parameters("f", _f, 2)


@takes_names
def gamma(key: ArrayLike, a: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike | None = None) -> Array:
    """Numbers of the gamma distribution with scale 1; NaN where `a` is negative.

    Args:
      {key}
      a: shape parameter, which is the mean as well; broadcasts to `shape`.
      {shape, dtype}
    Returns: {result}
    Raises: {ShapeError, DTypeError}

    Derivative: by `a`, at constant quantile (`lax.random_gamma_grad`).
    Source: Marsaglia and Tsang, "A simple method for generating gamma variables" (2000).

    >>> from lamina_random import PRNGKey
    >>> bool(gamma(PRNGKey(0), 2.0) > 0)
    True
    """
    return _draw_gamma(key, (a,), shape, dtype)


@takes_names
def loggamma(key: ArrayLike, a: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike | None = None) -> Array:
    """Logarithms of numbers of the gamma distribution, accurate where these are too small for the dtype.

    Args:
      {key}
      a: shape parameter; broadcasts to `shape`.
      {shape, dtype}
    Returns: {result}
    Raises: {ShapeError, DTypeError}

    Derivative: by `a`, at constant quantile.
    Source: as `gamma`, without the last exponential.

    >>> from lamina_random import PRNGKey
    >>> loggamma(PRNGKey(0), 1e-4, (2,)).shape
    (2,)
    """
    return _draw_log(key, (a,), shape, dtype)


@takes_names
def beta(key: ArrayLike, a: ArrayLike, b: ArrayLike, shape: ShapeLike | None = None,
         dtype: DTypeLike | None = None) -> Array:
    """Numbers in [0, 1] of the beta distribution.

    Args: {key, a, b, shape, dtype}
    Returns: {result}
    Raises: {ShapeError, DTypeError}

    Source: `x / (x + y)` of gamma variables, through logarithms.

    >>> from lamina_random import PRNGKey
    >>> bool(0 <= beta(PRNGKey(0), 2.0, 3.0) <= 1)
    True
    """
    return _draw_beta(key, (a, b), shape, dtype)


@takes_names
def chisquare(key: ArrayLike, df: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike | None = None) -> Array:
    """Numbers of the chi-square distribution.

    Args: {key, df, shape, dtype}
    Returns: {result}
    Raises: {ShapeError, DTypeError}

    Source: twice gamma variables of shape `df / 2`.

    >>> from lamina_random import PRNGKey
    >>> chisquare(PRNGKey(0), np.ones((2, 3), np.float32)).shape
    (2, 3)
    """
    return _draw_chi(key, (df,), shape, dtype)


@takes_names
def t(key: ArrayLike, df: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike | None = None) -> Array:
    """Numbers of Student's t distribution.

    Args: {key, df, shape, dtype}
    Returns: {result}
    Raises: {ShapeError, DTypeError}

    Source: normal ones divided by `sqrt(g / (df / 2))`, g gamma of shape `df / 2`.

    >>> from lamina_random import PRNGKey
    >>> t(PRNGKey(0), 5.0, (2,)).shape
    (2,)
    """
    return _draw_t(key, (df,), shape, dtype)


@takes_names
def f(key: ArrayLike, dfnum: ArrayLike, dfden: ArrayLike, shape: ShapeLike | None = None,
      dtype: DTypeLike | None = None) -> Array:
    """Numbers of the F distribution.

    Args:
      {key}
      dfnum, dfden: degrees of freedom of numerator and denominator, positive; broadcast to `shape`.
      {shape, dtype}
    Returns: {result}
    Raises: {ShapeError, DTypeError}

    Source: a ratio of chi-square variables, each divided by its degrees of freedom.

    >>> from lamina_random import PRNGKey
    >>> bool(f(PRNGKey(0), 3.0, 4.0) > 0)
    True
    """
    return _draw_f(key, (dfnum, dfden), shape, dtype)


def _dirichlet(key: Any, alpha: Any, shape: tuple[int, ...], dtype: np.dtype, part: bool) -> Any:
    """As JAX: in one row up to the logarithms, so that XLA, of many numbers, leaves the same part of it to its library."""
    flat = (math.prod(shape),)
    logs = lax.reshape(_log_core(key, lax.reshape(full(alpha, shape, dtype), flat), flat, dtype, part, True), shape)
    kept = tuple(range(len(shape) - 1))
    top = lax.broadcast_in_dim(max_along_last(logs), shape, kept)
    parts = lax.exp(lax.sub(logs, top))
    return lax.div(parts, lax.broadcast_in_dim(sum_along_last(parts), shape, kept))


_draw_dirichlet = jit(_dirichlet, static_argnums=(2, 3, 4), inline=True)


@takes_names
def dirichlet(key: ArrayLike, alpha: ArrayLike, shape: ShapeLike | None = None,
              dtype: DTypeLike | None = None) -> Array:
    """Vectors of positive numbers that sum to 1, of the Dirichlet distribution.

    Args:
      {key}
      alpha: concentrations `[..., n]`, positive.
      shape: of the result without its last axis; default: `alpha.shape[:-1]`.
      dtype: a float dtype; default float32 (float64 in 64-bit mode).
    Returns:
      Array `[*shape, n]`.
    Raises:
      ShapeError: `alpha` has rank 0 or does not broadcast to `[*shape, n]`; `key` is not uint32[2].
      DTypeError: `dtype` is no float dtype.

    Source: gamma variables divided by their sum, through logarithms.

    >>> from lamina_random import PRNGKey
    >>> dirichlet(PRNGKey(0), np.ones(3, np.float32), (2,)).shape
    (2, 3)
    """
    refuse_complex("dirichlet", typeof(alpha))
    own = typeof(alpha).shape
    if not own:
        raise ShapeError(f"dirichlet: alpha needs at least one axis; got {typeof(alpha).str_long()}")
    lead = own[:-1] if shape is None else as_shape("dirichlet", shape)
    if not fits(own[:-1], lead):
        raise ShapeError(f"dirichlet: alpha of shape {own} does not broadcast to {lead} and its last axis")
    return _draw_dirichlet(key, alpha, (*lead, own[-1]), as_float("dirichlet", dtype), _part.value)


# One program, with the power as a parameter: in it the compiler takes 1 / (1 / p), which gamma draws raise to, for p.
def _general(key: Any, p: Any, shape: tuple[int, ...], dtype: np.dtype, part: bool) -> Any:
    kg, ks = halves(key, 2, part)
    root = inverse(p)
    size = _gamma_core(kg, full(root, shape, dtype), shape, dtype, part)
    return lax.mul(lax.pow(size, full(_of_rank(root, len(shape)), shape, dtype)), rademacher_core(ks, shape, dtype, part))


def _of_rank(x: Any, rank: int) -> Any:
    """An array with leading axes of length 1, as JAX makes it: so what was rounded stays so, where the compiler converts it."""
    own = typeof(x).shape
    return lax.broadcast_in_dim(x, (*(1,) * (rank - len(own)), *own), tuple(range(rank - len(own), rank))) if own else x


def _ball(key: Any, p: Any, d: int, shape: tuple[int, ...], dtype: np.dtype, part: bool) -> Any:
    kx, ke = halves(key, 2, part)
    whole = (*shape, d)
    # of one number in a row, as JAX's bits of the classic stream come: so XLA takes a product with a power for the quotient
    line = (math.prod(whole),) if d == 1 and not part and not typeof(p).shape else whole
    x = lax.reshape(_general(kx, p, line, dtype, part), whole)
    total = sum_along_last(lax.pow(lax.abs(x), full(p, whole, dtype)))
    total = lax.add(total, exponential_core(ke, shape, dtype, part))
    lead = lax.broadcast_shapes(shape, typeof(p).shape)
    norm = lax.pow(full(total, lead, dtype), full(_of_rank(inverse(p), len(lead)), lead, dtype))
    whole = lax.broadcast_shapes((*lead, 1), whole)
    return lax.div(full(x, whole, dtype), full(lax.expand_dims(norm, (len(lead),)), whole, dtype))


_draw_general = jit(_general, static_argnums=(2, 3, 4), inline=True)
_draw_ball = jit(_ball, static_argnums=(2, 3, 4, 5), inline=True)


@takes_names
def generalized_normal(key: ArrayLike, p: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike | None = None) -> Array:
    """Numbers with density proportional to `exp(-|x|**p)`.

    Args:
      {key}
      p: positive; 2 gives a normal distribution of variance 1/2, 1 the Laplace distribution. Broadcasts to `shape`.
      shape: of the result.
      dtype: a float dtype; default float32 (float64 in 64-bit mode).
    Returns: {result}
    Raises:
      ValueError: `p` is not positive.
      ShapeError: `key` is not uint32[2], or `shape` holds a negative size.
      DTypeError: `dtype` is no float dtype.

    Source: gamma variables of shape `1 / p` to the power `1 / p`, with either sign.

    >>> from lamina_random import PRNGKey
    >>> generalized_normal(PRNGKey(0), 1.5, (2,)).shape
    (2,)
    """
    _check_power("generalized_normal", p)
    shape, dtype = as_shape("generalized_normal", shape), as_float("generalized_normal", dtype)
    common_shape("generalized_normal", shape, p)
    return _draw_general(key, p, shape, dtype, _part.value)


@takes_names
def ball(key: ArrayLike, d: int, p: ArrayLike = 2, shape: ShapeLike = (), dtype: DTypeLike | None = None) -> Array:
    """Vectors spread evenly over the unit ball of a norm.

    Args:
      {key}
      d: how many numbers a vector has.
      p: of the norm `sum(|x|**p)**(1 / p)`, positive. An array broadcasts to `[*shape, d]` where numbers are drawn, and
        against `shape` where they are divided by their norm, as in JAX.
      shape: of the result without its last axis.
      dtype: a float dtype; default float32 (float64 in 64-bit mode).
    Returns:
      Array `[*shape, d]`, with the axes that an array `p` adds.
    Raises:
      ValueError: `p` is not positive.
      ShapeError: `key` is not uint32[2], or `shape` holds a negative size.
      DTypeError: `dtype` is no float dtype.

    Source: Barthe, Guedon, Mendelson and Naor, "A probabilistic approach to the geometry of the l_p^n ball" (2005).

    >>> from lamina_random import PRNGKey
    >>> bool(np.linalg.norm(ball(PRNGKey(0), 3)) <= 1)
    True
    """
    _check_power("ball", p)
    shape, dtype = as_shape("ball", shape), as_float("ball", dtype)
    d = as_size("ball", d, "d")
    common_shape("ball", (*shape, d), p)
    return _draw_ball(key, p, d, shape, dtype, _part.value)


def _check_power(call: str, p: Any) -> None:
    refuse_complex(call, typeof(p))  # and what is no number
    if isinstance(p, (int, float)) and not p > 0:
        raise ValueError(f"{call}: p must be positive; got {p!r}")
