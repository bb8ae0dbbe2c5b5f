"""Uniform and normal numbers: the two draws that the others are made of."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
from lamina_autodiff import custom_jvp
from lamina_ir import config, dtypes
from lamina_tracing import Array, ArrayLike, DTypeLike, jit, lax, ShapeLike
from lamina_tracing.extend import scalar, typeof

from ._args import as_float, as_shape, common_shape, to_shape
from ._bits import draw_bits
from ._keys import split_keys
from ._named_axes import NamedShape, fold_in_position, takes_names
from ._typed_keys import unwrap_key

__all__ = ["bits_to_unit", "count_unit_bits", "draw_unit", "normal", "normal_core", "truncated_normal", "uniform",
           "uniform_core", "unit_to_normal"]

_part = config.threefry_partitionable


def uniform(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike | None = None, minval: ArrayLike = 0.0,
            maxval: ArrayLike = 1.0) -> Array:
    """Numbers spread evenly over `[minval, maxval)`.

    Args:
      key: a key, from `random.key` or `split`.
      shape: of the result.
      dtype: a float dtype; default float32 (float64 in 64-bit mode).
      minval: lower end, included; broadcasts to `shape`.
      maxval: upper end, not included but for rounding; broadcasts to `shape`.
    Returns:
      Array of `shape`. Each value is one of `2**m` evenly spaced ones, m the bits of the dtype's mantissa.
    Raises:
      ShapeError: `key` is not uint32[2], or the ends do not broadcast to `shape`.
      DTypeError: `dtype` is no float dtype.

    Source: the bits fill the mantissa of a number in [1, 2), from which 1 is taken.

    >>> from lamina_random import PRNGKey
    >>> uniform(PRNGKey(0), (2,))
    Array([0.21629536, 0.8041241 ], dtype=float32)
    """
    if shape.__class__ is NamedShape:  # the commonest draws go without the frame of `takes_names`
        return uniform(fold_in_position("uniform", key, shape), shape.sizes, dtype, minval, maxval)
    dtype = as_float("uniform", dtype)
    if type(minval) is float and type(maxval) is float and minval == 0.0 and maxval == 1.0:
        return _unit(unwrap_key("uniform", key), as_shape("uniform", shape), dtype, _part.value)
    return _uniform(unwrap_key("uniform", key), minval, maxval, common_shape("uniform", shape, minval, maxval), dtype,
                    _part.value)


def draw_unit(call: str, key: Any, shape: tuple[int, ...], dtype: np.dtype, partitionable: bool) -> Any:
    """Numbers in [0, 1)."""
    return bits_to_unit(draw_bits(call, key, count_unit_bits(dtype), shape, partitionable), dtype)


def count_unit_bits(dtype: np.dtype) -> int:
    """How many random bits a number in [0, 1) takes."""
    info = dtypes.finfo(dtype)
    return 8 if info.nmant < 8 else info.bits


def bits_to_unit(random: Any, dtype: np.dtype) -> Any:
    """Numbers in [0, 1) from `count_unit_bits(dtype)` random bits each."""
    info, drawn = dtypes.finfo(dtype), count_unit_bits(dtype)
    width, mantissa = info.bits, info.nmant
    kind = np.dtype(f"uint{width}")
    if drawn != width:
        random = lax.convert_element_type(random, kind)
    one = np.ones((), dtype).view(kind)[()]
    filled = lax.bitwise_or(lax.shift_right_logical(random, scalar(drawn - mantissa, kind)), one)
    return lax.sub(lax.bitcast_convert_type(filled, dtype), scalar(1, dtype))


def uniform_core(call: str, key: Any, minval: Any, maxval: Any, shape: tuple[int, ...], dtype: np.dtype,
                 partitionable: bool) -> Any:
    """`max(minval, unit (maxval - minval) + minval)`: rounding must not go below the lower end."""
    low, high = to_shape(minval, shape, dtype), to_shape(maxval, shape, dtype)
    return _scale_unit(draw_unit(call, key, shape, dtype, partitionable), low, high)


def _scale_unit(unit: Any, low: Any, high: Any) -> Any:
    return lax.max(low, lax.add(lax.mul(unit, lax.sub(high, low)), low))


def normal(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike | None = None) -> Array:
    """Numbers of the normal distribution with mean 0 and standard deviation 1.

    Args:
      key: a key, from `random.key` or `split`.
      shape: of the result.
      dtype: a float dtype, or a complex one: then both parts have variance 1/2. Default float32 (float64 in 64-bit mode).
    Returns:
      Array of `shape`.
    Raises:
      ShapeError: `key` is not uint32[2], or `shape` holds a negative size.
      DTypeError: `dtype` is neither a float nor a complex dtype.

    Source: the inverse of the distribution function, `sqrt(2) erf_inv(u)` with u uniform on (-1, 1).

    >>> from lamina_random import PRNGKey
    >>> [round(float(x), 4) for x in normal(PRNGKey(0), (2,))]
    [-0.7848, 0.8564]
    """
    if shape.__class__ is NamedShape:
        return normal(fold_in_position("normal", key, shape), shape.sizes, dtype)
    return _normal(unwrap_key("normal", key), as_shape("normal", shape), as_float("normal", dtype, complex_too=True),
                   _part.value)


def normal_core(call: str, key: Any, shape: tuple[int, ...], dtype: np.dtype, partitionable: bool) -> Any:
    if dtypes.is_complex(dtype):
        real = dtypes.real_dtype(dtype)
        parts = [normal_core(call, half, shape, real, partitionable) for half in split_keys(key, 2, partitionable)]
        return lax.div(lax.complex(*parts), scalar(math.sqrt(2), dtype))
    return unit_to_normal(draw_unit(call, key, shape, dtype, partitionable), dtype)


def unit_to_normal(unit: Any, dtype: np.dtype) -> Any:
    """Normal numbers from numbers in [0, 1)."""
    low = np.nextafter(np.asarray(-1, dtype), np.asarray(0, dtype), dtype=dtype)[()]
    return lax.mul(scalar(math.sqrt(2), dtype), lax.erf_inv(_scale_unit(unit, low, scalar(1, dtype))))


@takes_names
def truncated_normal(key: ArrayLike, lower: ArrayLike, upper: ArrayLike, shape: ShapeLike | None = None,
                     dtype: DTypeLike | None = None) -> Array:
    """Numbers of the normal distribution that fell between `lower` and `upper`.

    Args:
      key: a key, from `random.key` or `split`.
      lower, upper: bounds, in standard deviations from 0; broadcast to `shape`.
      shape: of the result; default: the shape the bounds broadcast to.
      dtype: a float dtype; default float32 (float64 in 64-bit mode).
    Returns:
      Array of `shape`, each number strictly between its bounds.
    Raises:
      ShapeError: `key` is not uint32[2], or the bounds do not broadcast to `shape`.
      DTypeError: `dtype` is no float dtype.

    Derivative: by the bounds, at constant quantile between them.
    Source: the inverse of the distribution function on a uniform number between its values at the bounds.

    >>> from lamina_random import PRNGKey
    >>> bool(abs(truncated_normal(PRNGKey(0), -1.0, 1.0)) < 1)
    True
    """
    return _truncated(key, lower, upper, common_shape("truncated_normal", shape, lower, upper),
                      as_float("truncated_normal", dtype), _part.value)


def _draw_between(key: Any, lower: Any, upper: Any, shape: tuple[int, ...], dtype: np.dtype,
                  partitionable: bool) -> Any:
    root2 = scalar(math.sqrt(2), dtype)
    first, last = lax.erf(lax.div(lower, root2)), lax.erf(lax.div(upper, root2))
    u = uniform_core("truncated_normal", key, first, last, shape, dtype, partitionable)
    low, high = _find_inner_bounds(lower, upper, shape, dtype)
    return lax.clamp(low, lax.mul(root2, lax.erf_inv(u)), high)


def _find_inner_bounds(lower: Any, upper: Any, shape: tuple[int, ...], dtype: np.dtype) -> tuple[Any, Any]:
    """The least and the largest number between the bounds."""
    return (to_shape(lax.nextafter(lower, scalar(math.inf, dtype)), shape, dtype),
            to_shape(lax.nextafter(upper, scalar(-math.inf, dtype)), shape, dtype))


def _draw_between_jvp(shape: tuple[int, ...], dtype: np.dtype, partitionable: bool, primals: Any,
                      tangents: Any) -> tuple[Any, Any]:
    """Of `cdf(x) = (1 - u) cdf(lower) + u cdf(upper)`; a number that was brought between its bounds moves with its bound."""
    key, lower, upper = primals
    x = _truncated_core(key, lower, upper, shape, dtype, partitionable)
    u = draw_unit("truncated_normal", key, shape, dtype, partitionable)
    low, high = _find_inner_bounds(lax.stop_gradient(lower), lax.stop_gradient(upper), shape, dtype)
    at_low, at_high = lax.le(x, low), lax.ge(x, high)
    zero, one, half = (lax.full_like(x, v) for v in (0, 1, 0.5))

    def part(bound: Any, weight: Any, here: Any, there: Any, tangent: Any) -> Any:
        if not dtypes.is_float(typeof(tangent).dtype):  # of a bound that does not move
            return zero
        far = to_shape(lax.eq(lax.abs(bound), scalar(math.inf, dtype)), shape, dtypes.BOOL)
        bound = lax.select(far, zero, lax.add(zero, to_shape(bound, shape, dtype)))
        ratio = lax.exp(lax.mul(half, lax.mul(lax.sub(x, bound), lax.add(x, bound))))  # of the densities at bound and x
        derivative = lax.select(here, one, lax.select(lax.bitwise_or(there, far), zero, lax.mul(weight, ratio)))
        return lax.mul(derivative, to_shape(tangent, shape, dtype))
    return x, lax.add(part(lower, lax.sub(one, u), at_low, at_high, tangents[1]), part(upper, u, at_high, at_low, tangents[2]))


_truncated_core = custom_jvp(_draw_between, nondiff_argnums=(3, 4, 5))
_truncated_core.defjvp(_draw_between_jvp)


def _draw_truncated(key: Any, lower: Any, upper: Any, shape: tuple[int, ...], dtype: np.dtype,
                    partitionable: bool) -> Any:
    lower, upper = (lax.convert_element_type(x, dtype) for x in (lower, upper))
    return _truncated_core(key, lower, upper, shape, dtype, partitionable)


_unit = jit(lambda key, shape, dtype, part: draw_unit("uniform", key, shape, dtype, part), static_argnums=(1, 2, 3),
            inline=True)
_uniform = jit(lambda key, low, high, shape, dtype, part: uniform_core("uniform", key, low, high, shape, dtype, part),
               static_argnums=(3, 4, 5), inline=True)
_normal = jit(lambda key, shape, dtype, part: normal_core("normal", key, shape, dtype, part),
              static_argnums=(1, 2, 3), inline=True)
_truncated = jit(_draw_truncated, static_argnums=(3, 4, 5), inline=True)
