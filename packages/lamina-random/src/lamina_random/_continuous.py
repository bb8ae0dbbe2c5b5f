"""Other continuous distributions: functions of uniform and normal draws, most by the inverse distribution function."""
from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from lamina_ir import config, dtypes
from lamina_tracing import Array, ArrayLike, DTypeLike, ShapeLike, jit, lax
from lamina_tracing.extend import scalar

from ._args import as_float, as_shape, common_shape, is_high
from ._sampling_utils import full, inverse, make_parametric, sum_along_last
from ._keys import split_keys
from ._named_axes import takes_names
from ._normal import draw_unit, normal_core, uniform_core

__all__ = ["cauchy", "double_sided_maxwell", "exponential", "exponential_core", "gumbel", "gumbel_core", "laplace", "logistic",
           "lognormal", "maxwell", "pareto", "rayleigh", "triangular", "wald", "weibull_min"]

_part, _high = config.threefry_partitionable, config.high_dynamic_range_gumbel


def _draw_uniform_from(call: str, key: Any, low: float, shape: Any, dtype: Any, part: bool) -> Any:
    return uniform_core(call, key, scalar(low, dtype), scalar(1, dtype), shape, dtype, part)


def _tiny(dtype: np.dtype) -> float:
    return float(dtypes.finfo(dtype).tiny)


def _eps(dtype: np.dtype) -> float:
    return float(dtypes.finfo(dtype).eps)


# --- without parameters: (key, shape, dtype, partitionable) -> numbers ---------------------------------------------


def exponential_core(key: Any, shape: Any, dtype: Any, part: bool) -> Any:
    return lax.neg(lax.log1p(lax.neg(draw_unit("exponential", key, shape, dtype, part))))


def gumbel_core(key: Any, shape: Any, dtype: Any, part: bool, high: bool = False) -> Any:
    if not high:
        return lax.neg(lax.log(lax.neg(lax.log(_draw_uniform_from("gumbel", key, _tiny(dtype), shape, dtype, part)))))
    # A second number in [0, 1) fills the bits below those of the first, where the large results come from: near 0.
    pair = draw_unit("gumbel", key, (2, *shape), dtype, part)
    first, second = (lax.index_in_dim(pair, i, 0, keepdims=False) for i in (0, 1))
    finer = lax.add(first, lax.mul(second, scalar(_eps(dtype), dtype)))
    u = lax.select(lax.ge(first, scalar(0.5, dtype)), first, lax.add(finer, scalar(_tiny(dtype), dtype)))
    return lax.neg(lax.log(lax.neg(lax.log1p(lax.neg(u)))))


def _laplace(key: Any, shape: Any, dtype: Any, part: bool) -> Any:
    u = _draw_uniform_from("laplace", key, _eps(dtype) / 2 - 1, shape, dtype, part)
    return lax.mul(lax.sign(u), lax.log1p(lax.neg(lax.abs(u))))


def _logistic(key: Any, shape: Any, dtype: Any, part: bool) -> Any:
    u = _draw_uniform_from("logistic", key, _tiny(dtype), shape, dtype, part)
    return lax.sub(lax.log(u), lax.log1p(lax.neg(u)))


def _cauchy(key: Any, shape: Any, dtype: Any, part: bool) -> Any:
    u = _draw_uniform_from("cauchy", key, _eps(dtype), shape, dtype, part)
    return lax.tan(lax.mul(scalar(math.pi, dtype), lax.sub(u, scalar(0.5, dtype))))


# In calls of their own: fused with draws of 32 bits, the compiler would take the sum in another order than alone, and round it
# otherwise. Those of 16 and of 64 bits are one program, in which the compiler leaves out roundings to 16 bits.
_normals = jit(lambda key, shape, dtype, part: normal_core("maxwell", key, (*shape, 3), dtype, part),
               static_argnums=(1, 2, 3), inline=True)
@partial(jit, inline=True)
def _compute_lengths(x: Any) -> Any:
    return lax.sqrt(sum_along_last(lax.mul(x, x)))


def _maxwell(key: Any, shape: Any, dtype: Any, part: bool) -> Any:
    return (_draw_lengths if dtype.itemsize == 4 else _draw_lengths_jitted)(key, shape, dtype, part)


def _draw_lengths(key: Any, shape: Any, dtype: Any, part: bool) -> Any:
    return _compute_lengths(_normals(key, shape, dtype, part))


_draw_lengths_jitted = jit(_draw_lengths, static_argnums=(1, 2, 3), inline=True)


def _define(name: str, core: Callable[..., Any], words: str, formula: str) -> Callable[..., Any]:
    compiled = core if core is _maxwell else jit(core, static_argnums=(1, 2, 3), inline=True)

    def draw(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike | None = None) -> Array:
        return compiled(key, as_shape(name, shape), as_float(name, dtype), _part.value)
    draw.__name__ = draw.__qualname__ = name
    draw.__doc__ = f"""Numbers of {words}.

    Args:
      {{key}}
      shape: shape of the result.
      {{dtype}}
    Returns: {{result}}
    Raises:
      ShapeError: `key` is not uint32[2], or `shape` holds a negative size.
      DTypeError: `dtype` is no float dtype.

    Source: {formula}.

    >>> from lamina_random import PRNGKey, {name}
    >>> {name}(PRNGKey(0), (2, 3)).shape
    (2, 3)
    """
    return takes_names(draw)


exponential = _define("exponential", exponential_core, "the exponential distribution with mean 1",
                      "-log1p(-u), u uniform on [0, 1)")
laplace = _define("laplace", _laplace, "the Laplace distribution with mean 0 and scale 1",
                  "sign(u) log1p(-|u|), u uniform on (-1, 1)")
logistic = _define("logistic", _logistic, "the standard logistic distribution", "log(u / (1 - u)), u uniform on (0, 1)")
cauchy = _define("cauchy", _cauchy, "the standard Cauchy distribution", "tan(pi (u - 1/2)), u uniform on (0, 1)")
maxwell = _define("maxwell", _maxwell, "the Maxwell distribution with scale 1",
                  "the length of a vector of three normals")

_gumbel = jit(gumbel_core, static_argnums=(1, 2, 3, 4), inline=True)


@takes_names
def gumbel(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike | None = None, mode: str | None = None) -> Array:
    """Numbers of the standard Gumbel distribution.

    Args:
      {key}
      shape: shape of the result.
      {dtype}
      mode: "low" draws each from one uniform number, so that none is above what the smallest of these gives (16.6 in
        float32, 6.9 in float16). "high" draws each from two, for a tail that is right further out. None is "low", or
        "high" where `config.high_dynamic_range_gumbel` is set.
    Returns: {result}
    Raises:
      ValueError: another `mode`.
      ShapeError: `key` is not uint32[2], or `shape` holds a negative size.
      DTypeError: `dtype` is no float dtype.

    Source: -log(-log(u)), u uniform on (0, 1); in mode "high" -log(-log1p(-u)), u with twice the bits where it is below
    1/2.

    >>> from lamina_random import PRNGKey
    >>> gumbel(PRNGKey(0), (2, 3), mode="high").shape
    (2, 3)
    """
    return _gumbel(key, as_shape("gumbel", shape), as_float("gumbel", dtype), _part.value, is_high("gumbel", mode, _high.value))


# --- with parameters: (key, *parameters, shape, dtype, partitionable) -> numbers -----------------------------------


def _rayleigh(key: Any, scale: Any, shape: Any, dtype: Any, part: bool) -> Any:
    u = _draw_uniform_from("rayleigh", key, _tiny(dtype), shape, dtype, part)
    return lax.mul(lax.sqrt(lax.mul(lax.log(u), scalar(-2, dtype))), scale)


def _weibull_min(key: Any, scale: Any, concentration: Any, shape: Any, dtype: Any, part: bool) -> Any:
    root = lax.pow(exponential_core(key, shape, dtype, part), full(inverse(concentration), shape, dtype))
    return lax.mul(root, full(scale, shape, dtype))


def _pareto(key: Any, b: Any, shape: Any, dtype: Any, part: bool) -> Any:
    return lax.exp(lax.div(exponential_core(key, shape, dtype, part), b))


def _lognormal(key: Any, sigma: Any, shape: Any, dtype: Any, part: bool) -> Any:
    return lax.exp(lax.mul(normal_core("lognormal", key, shape, dtype, part), sigma))


def _triangular(key: Any, left: Any, mode: Any, right: Any, shape: Any, dtype: Any, part: bool) -> Any:
    u, width = draw_unit("triangular", key, shape, dtype, part), lax.sub(right, left)
    rising, falling = lax.sub(mode, left), lax.sub(right, mode)
    low = lax.add(left, lax.sqrt(lax.mul(lax.mul(u, width), rising)))
    high = lax.sub(right, lax.sqrt(lax.mul(lax.mul(lax.sub(scalar(1, dtype), u), width), falling)))
    return lax.select(lax.lt(u, lax.div(rising, width)), low, high)


@partial(jit, static_argnums=(1, 2, 3), inline=True)
def _draw_signs(key: Any, shape: Any, dtype: Any, part: bool) -> Any:
    up = lax.lt(draw_unit("double_sided_maxwell", key, shape, dtypes.canonical_float(), part), 0.5)
    return lax.select(up, full(1, shape, dtype), full(-1, shape, dtype))


@partial(jit, static_argnums=(4, 5), inline=True)
def _place_on_sides(vectors: Any, sides: Any, loc: Any, scale: Any, shape: Any, dtype: Any) -> Any:
    """The lengths of the vectors, scaled, on either side of `loc`."""
    loc, scale = (full(x, shape, dtype) for x in (loc, scale))
    return lax.add(lax.mul(lax.mul(sides, _compute_lengths(vectors)), scale), loc)


def _draw_two_sided(key: Any, loc: Any, scale: Any, shape: Any, dtype: Any, part: bool) -> Any:
    size, side = _two_keys(key, part)
    vectors, signs = _normals(size, shape, dtype, part), _draw_signs(side, shape, dtype, part)
    return _place_on_sides(vectors, signs, loc, scale, shape, dtype)


_two_keys = jit(lambda key, part: tuple(split_keys(key, 2, part)), static_argnums=1, inline=True)
_two_sided = jit(_draw_two_sided, static_argnums=(3, 4, 5), inline=True)


def _wald(key: Any, mean: Any, shape: Any, dtype: Any, part: bool) -> Any:
    k1, k2 = split_keys(key, 2, part)
    y = lax.square(normal_core("wald", k1, shape, dtype, part))
    u = draw_unit("wald", k2, shape, dtype, part)
    half, square = scalar(0.5, dtype), lax.square(mean)
    root = lax.sqrt(lax.add(lax.mul(lax.mul(scalar(4, dtype), mean), y), lax.mul(square, lax.square(y))))
    x = lax.sub(lax.add(mean, lax.mul(half, lax.mul(square, y))), lax.mul(lax.mul(half, mean), root))
    return lax.select(lax.le(u, lax.div(mean, lax.add(mean, x))), x, lax.div(lax.square(mean), x))


_draw_rayleigh = make_parametric("rayleigh", _rayleigh, 1)
_draw_weibull = jit(_weibull_min, static_argnums=(3, 4, 5), inline=True)
_draw_pareto = make_parametric("pareto", _pareto, 1, True)
_draw_lognormal = make_parametric("lognormal", _lognormal, 1)
_draw_triangular = make_parametric("triangular", _triangular, 3, True)
_draw_wald = make_parametric("wald", _wald, 1, True)


@takes_names
def rayleigh(key: ArrayLike, scale: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike | None = None) -> Array:
    """Numbers of the Rayleigh distribution: lengths of plane vectors of two independent normal parts.

    Args:
      {key}
      scale: standard deviation of each part, positive; broadcasts to `shape`.
      {shape, dtype}
    Returns: {result}
    Raises: {ShapeError, DTypeError}

    Source: `scale sqrt(-2 log u)`, u uniform on (0, 1).

    >>> from lamina_random import PRNGKey
    >>> rayleigh(PRNGKey(0), np.ones((2, 3), np.float32)).shape
    (2, 3)
    """
    return _draw_rayleigh(key, (scale,), shape, dtype)


@takes_names
def weibull_min(key: ArrayLike, scale: ArrayLike, concentration: ArrayLike,
                shape: ShapeLike | None = None, dtype: DTypeLike | None = None) -> Array:
    """Numbers of the Weibull distribution: times to failure where the rate is a power of the time.

    Args:
      {key}
      scale: positive, in the units of the result; broadcasts to `shape`.
      concentration: positive; 1 gives the exponential distribution. Broadcasts to `shape`.
      {shape, dtype}
    Returns: {result}
    Raises: {ShapeError, DTypeError}

    Source: `scale e^(1 / concentration)`, e exponential.

    >>> from lamina_random import PRNGKey
    >>> weibull_min(PRNGKey(0), 1.0, np.float32([1, 2])).shape
    (2,)
    """
    shape, dtype = common_shape("weibull_min", shape, scale, concentration), as_float("weibull_min", dtype)
    return _draw_weibull(key, scale, concentration, shape, dtype, _part.value)


@takes_names
def pareto(key: ArrayLike, b: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike | None = None) -> Array:
    """Numbers of the Pareto distribution, at least 1, that exceed x with probability `x**-b`.

    Args:
      {key}
      b: shape parameter, positive; broadcasts to `shape`.
      {shape, dtype}
    Returns: {result}
    Raises: {ShapeError, DTypeError}

    Source: `exp(e / b)`, e exponential.

    >>> from lamina_random import PRNGKey
    >>> bool(pareto(PRNGKey(0), 3.0) >= 1)
    True
    """
    return _draw_pareto(key, (b,), shape, dtype)


@takes_names
def lognormal(key: ArrayLike, sigma: ArrayLike = 1.0, shape: ShapeLike | None = None,
              dtype: DTypeLike | None = None) -> Array:
    """Numbers whose logarithm is normal with mean 0.

    Args:
      {key}
      sigma: standard deviation of the logarithm; broadcasts to `shape`.
      {shape, dtype}
    Returns: {result}
    Raises: {ShapeError, DTypeError}

    Source: `exp(sigma z)`, z normal.

    >>> from lamina_random import PRNGKey
    >>> lognormal(PRNGKey(0), 0.0)
    Array(1., dtype=float32)
    """
    return _draw_lognormal(key, (sigma,), shape, dtype)


@takes_names
def triangular(key: ArrayLike, left: ArrayLike, mode: Any, right: ArrayLike, shape: ShapeLike | None = None,
               dtype: DTypeLike | None = None) -> Array:
    """Numbers whose density rises linearly from `left` to `mode` and falls to `right`.

    Args:
      {key}
      left, mode, right: in rising order; broadcast to `shape`.
      {shape, dtype}
    Returns: {result}
    Raises: {ShapeError, DTypeError}

    Source: the inverse of the distribution function.

    >>> from lamina_random import PRNGKey
    >>> bool(0 <= triangular(PRNGKey(0), 0.0, 0.5, 2.0) <= 2)
    True
    """
    return _draw_triangular(key, (left, mode, right), shape, dtype)


@takes_names
def double_sided_maxwell(key: ArrayLike, loc: ArrayLike, scale: ArrayLike, shape: ShapeLike | None = None,
                         dtype: DTypeLike | None = None) -> Array:
    """Draw numbers above or below `loc`, with equal chance, by a Maxwell distributed distance.

    Args:
      {key, loc}
      scale: scale of the distance, positive; broadcasts to `shape`.
      {shape, dtype}
    Returns: {result}
    Raises: {ShapeError, DTypeError}

    Source: `loc` plus or minus `scale` times the length of a vector of three normals.

    >>> from lamina_random import PRNGKey
    >>> double_sided_maxwell(PRNGKey(0), 1.0, 0.0)
    Array(1., dtype=float32)
    """
    shape, dtype = common_shape("double_sided_maxwell", shape, loc, scale), as_float("double_sided_maxwell", dtype)
    draw = _draw_two_sided if dtype.itemsize == 4 else _two_sided
    return draw(key, loc, scale, shape, dtype, _part.value)


@takes_names
def wald(key: ArrayLike, mean: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike | None = None) -> Array:
    """Numbers of the inverse Gaussian distribution of scale 1.

    Args:
      {key}
      mean: positive; broadcasts to `shape`.
      {shape, dtype}
    Returns: {result}
    Raises: {ShapeError, DTypeError}

    Source: Michael, Schucany and Haas, "Generating random variates using transformations with multiple
    roots" (1976).

    >>> from lamina_random import PRNGKey
    >>> bool(wald(PRNGKey(0), 2.0) > 0)
    True
    """
    return _draw_wald(key, (mean,), shape, dtype)
