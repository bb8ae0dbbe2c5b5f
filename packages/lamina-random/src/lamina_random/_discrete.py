"""Integers, truth values and categories."""
from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from lamina_ir import DTypeError, ShapeError, config, dtypes
from lamina_tracing import Array, ArrayLike, DTypeLike, jit, lax, ShapeLike
from lamina_tracing.extend import check_axis, is_axis_name, scalar, typeof

from ._args import as_dtype, as_flag, as_float, as_int, as_shape, common_shape, is_high, to_shape
from ._bits import draw_bits
from ._continuous import gumbel, gumbel_core
from ._keys import fold_in, split_keys
from ._named_axes import takes_names
from ._normal import draw_unit, uniform_core

__all__ = ["bernoulli", "categorical", "geometric", "rademacher", "rademacher_core", "randint", "randint_core"]

_part, _high = config.threefry_partitionable, config.high_dynamic_range_gumbel


@takes_names
def randint(key: ArrayLike, shape: ShapeLike, minval: ArrayLike, maxval: ArrayLike,
            dtype: DTypeLike | None = None) -> Array:
    """Integers spread evenly over `[minval, maxval)`.

    Args:
      key: a key, from `random.key` or `split`.
      shape: of the result.
      minval: lower end, included; broadcasts to `shape`. Ends outside the dtype's range are brought into it; of floats the
        whole part counts, so that 1e6 may be written.
      maxval: upper end, excluded; where it is not above `minval`, the result is `minval`. Broadcasts to `shape`.
      dtype: an integer dtype; default int32 (int64 in 64-bit mode).
    Returns:
      Integer array of `shape`.
    Raises:
      DTypeError: `dtype` is no integer dtype, or an end holds complex numbers.
      ShapeError: `key` is not uint32[2], or the ends do not broadcast to `shape`.

    Source: two draws of bits, taken modulo the span as one number of twice the width; the span need not divide it,
    which favours low values by less than one part in `2**32`.

    >>> from lamina_random import PRNGKey
    >>> randint(PRNGKey(0), (4,), 0, 10).shape
    (4,)
    """
    dtype = as_int("randint", dtype)
    shape = as_shape("randint", shape)
    low, high = _as_bound("minval", minval), _as_bound("maxval", maxval)
    if type(low) is int and type(high) is int:
        past_end = high > _limits(dtype)[1]
        low, high = _clip(low, dtype), _clip(high, dtype)
    else:
        past_end = type(high) is int and high > _limits(dtype)[1]
        low, high = (_clip(x, dtype) if type(x) is int else x for x in (low, high))
        shape = common_shape("randint", shape, low, high)
    return _randint(key, low, high, shape, dtype, past_end, _part.value)


@lru_cache(maxsize=32)
def _limits(dtype: np.dtype) -> tuple[int, int]:
    info = dtypes.iinfo(dtype)
    return int(info.min), int(info.max)


def _as_bound(name: str, x: Any) -> Any:
    if type(x) is int or isinstance(x, np.integer):
        return int(x)
    kind = typeof(x).dtype
    if dtypes.is_float(kind):
        whole = dtypes.canonical_int()
        least, most = _limits(whole)
        return int(min(max(x, least), most)) if type(x) is float and x == x else lax.convert_element_type(x, whole)
    if dtypes.is_bool(kind):
        return lax.convert_element_type(x, dtypes.canonical_int())
    if not dtypes.is_integer(kind):
        raise DTypeError(f"randint: {name} must hold integers or floats; got {typeof(x).str_long()}")
    return x


def _clip(x: int, dtype: np.dtype) -> Any:
    """`x` brought into the range of `dtype`: a Python number where that is safe, which compiled calls take fastest."""
    least, most = _limits(dtype)
    x = min(max(x, least), most)
    return x if -0x80000000 <= x < 0x80000000 else np.asarray(x, dtype)


def randint_core(key: Any, low: Any, high: Any, shape: tuple[int, ...], dtype: np.dtype, past_end: bool,
                 part: bool) -> Any:
    """The span is counted in the unsigned dtype; `past_end` says that `high` stands for one more than it says."""
    width = max(8 * dtype.itemsize, 32)
    work = np.dtype(f"uint{width}")
    signed = np.dtype(f"int{width}")
    upper, lower = (draw_bits("randint", half, width, shape, part) for half in split_keys(key, 2, part))
    over = _find_overflow(high, shape, dtype)
    low, high = (_convert_clipped(x, shape, dtype) for x in (low, high))
    wide = [lax.convert_element_type(lax.convert_element_type(x, signed) if dtype.kind == "i" else x, work)
            for x in (low, high)]
    span = lax.sub(wide[1], wide[0])
    if past_end:
        span = lax.add(span, scalar(1, work))
    elif over is not None:
        span = lax.add(span, lax.convert_element_type(over, work))
    span = lax.select(lax.le(high, low), scalar(1, work), span)
    half = scalar(1 << (width // 2), work)
    factor = lax.rem(half, span)  # 2 ** width modulo the span; a span of 0 stands for all of 2 ** width
    factor = lax.rem(lax.mul(factor, factor), span)
    offset = lax.add(lax.mul(lax.rem(upper, span), factor), lax.rem(lower, span))
    offset = lax.rem(offset, span)
    return lax.add(low, lax.convert_element_type(offset, dtype))


def _find_overflow(x: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """Where `x` is above all numbers of `dtype`; None where its own dtype holds none of these."""
    own = typeof(x).dtype
    most = int(dtypes.iinfo(dtype).max)
    if int(dtypes.iinfo(own).max) <= most:
        return None
    return to_shape(lax.gt(lax.convert_element_type(x, own), scalar(most, own)), shape, dtypes.BOOL)


def _convert_clipped(x: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """`x` in `dtype`, clipped to its range where it comes from a wider one."""
    own = typeof(x).dtype
    mine, theirs = dtypes.iinfo(dtype), dtypes.iinfo(own)
    least, most = max(int(mine.min), int(theirs.min)), min(int(mine.max), int(theirs.max))
    if (least, most) != (int(theirs.min), int(theirs.max)):
        x = lax.clamp(scalar(least, own), lax.convert_element_type(x, own), scalar(most, own))
    return to_shape(x, shape, dtype)


_randint = jit(randint_core, static_argnums=(3, 4, 5, 6), inline=True)


@takes_names
def bernoulli(key: ArrayLike, p: ArrayLike = 0.5, shape: ShapeLike | None = None, mode: str = "low") -> Array:
    """Truth values that are True with a probability.

    Args:
      key: a key, from `random.key` or `split`.
      p: probability of True; broadcasts to `shape`.
      shape: of the result; default: that of `p`.
      mode: "low" draws one uniform number, whose steps are 1.2e-7 in float32: probabilities below that are treated
        as 0. "high" draws two, for probabilities down to 1e-14.
    Returns:
      Boolean array of `shape`.
    Raises:
      ValueError: another `mode`.
      ShapeError: `key` is not uint32[2], or `p` does not broadcast to `shape`.

    Source: a uniform number below `p`.

    >>> from lamina_random import PRNGKey
    >>> bernoulli(PRNGKey(0), 0.5, (3,)).dtype
    dtype('bool')
    """
    return _bernoulli(key, p, common_shape("bernoulli", shape, p), _part.value, is_high("bernoulli", mode))


def _bernoulli_core(key: Any, p: Any, shape: tuple[int, ...], part: bool, high: bool = False) -> Any:
    own = typeof(p).dtype
    dtype = own if dtypes.is_float(own) else dtypes.canonical_float()
    p = to_shape(p, shape, dtype)
    if not high:
        return lax.lt(draw_unit("bernoulli", key, shape, dtype, part), p)
    pair = draw_unit("bernoulli", key, (2, *shape), dtype, part)
    first, second = (lax.index_in_dim(pair, i, 0, keepdims=False) for i in (0, 1))
    return lax.lt(lax.mul(second, scalar(float(dtypes.finfo(dtype).eps), dtype)), lax.sub(p, first))


_bernoulli = jit(_bernoulli_core, static_argnums=(2, 3, 4), inline=True)


@takes_names
def rademacher(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike | None = None) -> Array:
    """Draw -1 or 1 with equal chance.

    Args:
      {key}
      shape: shape of the result.
      dtype: a number dtype; default int32 (int64 in 64-bit mode).
    Returns: {result}
    Raises:
      ShapeError: `key` is not uint32[2], or `shape` holds a negative size.

    Source: `2 bernoulli(1/2) - 1`.

    >>> from lamina_random import PRNGKey
    >>> abs(rademacher(PRNGKey(0), (3,)))
    Array([1, 1, 1], dtype=int32)
    """
    dtype = dtypes.canonical_int() if dtype is None else as_dtype("rademacher", dtype)
    return _rademacher(key, as_shape("rademacher", shape), dtype, _part.value)


def rademacher_core(key: Any, shape: tuple[int, ...], dtype: np.dtype, part: bool) -> Any:
    up = _bernoulli_core(key, 0.5, shape, part)
    return lax.select(up, lax.full(shape, 1, dtype), lax.full(shape, -1, dtype))


_rademacher = jit(rademacher_core, static_argnums=(1, 2, 3), inline=True)


@takes_names
def geometric(key: ArrayLike, p: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike | None = None) -> Array:
    """How many trials it takes to succeed, 1 or more.

    Args:
      {key}
      p: probability of success in each trial, in (0, 1]; broadcasts to `shape`.
      {shape}
      dtype: an integer dtype; default int32 (int64 in 64-bit mode).
    Returns: {integers}
    Raises: {ShapeError, DTypeError}

    Source: `floor(log u / log(1 - p)) + 1`, u uniform on (0, 1).

    >>> from lamina_random import PRNGKey
    >>> bool(geometric(PRNGKey(0), 0.5) >= 1)
    True
    """
    return _geometric(key, p, common_shape("geometric", shape, p), as_int("geometric", dtype), _part.value)


def _geometric_core(key: Any, p: Any, shape: tuple[int, ...], dtype: np.dtype, part: bool) -> Any:
    own = typeof(p).dtype
    kind = own if dtypes.is_float(own) else dtypes.canonical_float()
    u = uniform_core("geometric", key, scalar(float(dtypes.finfo(kind).tiny), kind), scalar(1, kind), shape, kind, part)
    failures = lax.floor(lax.div(lax.log(u), lax.log1p(lax.neg(to_shape(p, shape, kind)))))
    return lax.convert_element_type(lax.add(failures, scalar(1, kind)), dtype)


_geometric = jit(_geometric_core, static_argnums=(2, 3, 4), inline=True)


@takes_names
def categorical(key: ArrayLike, logits: ArrayLike, axis: int = -1, shape: ShapeLike | None = None, replace: bool = True,
                mode: str | None = None) -> Array:
    """Categories with probabilities proportional to `exp(logits)` along one axis.

    Args:
      key: a key, from `random.key` or `split`.
      logits: float array; natural logarithms of weights.
      axis: the axis of `logits` that lists the categories, or the name of a mapped one: `logits` is then the weight of the
        position's own category.
      shape: of the result; must end with the shape of `logits` without `axis`. Default: just that.
      replace: whether the categories along the leading axes of `shape` may be the same; if not, each is drawn of those
        left.
      mode: "low" or "high", as in `gumbel`.
    Returns:
      Integers in `[0, n)`, n the size of the axis: int32 (int64 in 64-bit mode, but int32 without `replace`).
    Raises:
      DTypeError: `logits` holds no floats.
      ShapeError: `key` is not uint32[2], or `shape` does not end as it must; without `replace` more is asked for than
        there are categories.
      ValueError: another `mode`.
      NotImplementedError: no `replace`, and `axis` is a name.

    Source: the category at which logit plus a Gumbel number is largest; without `replace` those of the largest ones: Kool,
    van Hoof and Welling, "Stochastic beams and where to find them" (2019).

    >>> from lamina_random import PRNGKey
    >>> categorical(PRNGKey(0), np.array([-100., 0., -100.]), shape=(2,))
    Array([1, 1], dtype=int32)
    """
    aval, replace, high = typeof(logits), as_flag("categorical", replace, "replace"), is_high("categorical", mode, _high.value)
    as_float("categorical", aval.dtype)
    if is_axis_name(axis) and not replace:
        raise NotImplementedError(f"categorical: replace=False needs categories along an axis of logits; got the name {axis!r}")
    if is_axis_name(axis):  # each position draws the noise of its own category
        drawn = common_shape("categorical", shape, make_shape_dummy(aval.shape))
        noise = gumbel(fold_in(key, lax.axis_index((axis,))), drawn, aval.dtype, mode)
        return lax.argmax(lax.add(noise, to_shape(logits, drawn, aval.dtype)), axis, dtypes.canonical_int())
    at = check_axis("categorical", axis, aval.ndim)
    rest = aval.shape[:at] + aval.shape[at + 1:]
    drawn = common_shape("categorical", shape, make_shape_dummy(rest))
    lead = drawn[:len(drawn) - len(rest)]
    if not replace and math.prod(lead) > aval.shape[at]:
        raise ShapeError(f"categorical: without replace at most {aval.shape[at]} categories can be drawn; shape {drawn} asks "
                         f"for {math.prod(lead)}")
    return _categorical(key, logits, at, drawn, replace, high, _part.value)


def make_shape_dummy(shape: tuple[int, ...]) -> Any:
    """Return a dummy array of this shape, for rules that only read shapes."""
    return np.broadcast_to(np.float32(0), shape)


def _categorical_core(key: Any, logits: Any, axis: int, shape: tuple[int, ...], replace: bool, high: bool, part: bool) -> Any:
    own = typeof(logits)
    if not replace:
        return _find_largest(lax.add(gumbel_core(key, own.shape, own.dtype, part, high), logits), axis, shape)
    lead = len(shape) - (own.ndim - 1)
    at = lead + axis
    full = (*shape[:at], own.shape[axis], *shape[at:])
    noise = gumbel_core(key, full, own.dtype, part, high)
    return lax.argmax(lax.add(noise, to_shape(logits, full, own.dtype)), at, dtypes.canonical_int())


def _find_largest(scores: Any, axis: int, shape: tuple[int, ...]) -> Any:
    """Where the largest scores along an axis are, the largest first: along the leading axes of `shape`."""
    aval = typeof(scores)
    count = math.prod(shape[:len(shape) - (aval.ndim - 1)])
    order = (*[i for i in range(aval.ndim) if i != axis], axis)
    where = lax.top_k(lax.transpose(scores, order), count)[1]
    where = lax.transpose(where, (aval.ndim - 1, *range(aval.ndim - 1)))
    return lax.reshape(where, shape)


_categorical = jit(_categorical_core, static_argnums=(2, 3, 4, 5, 6), inline=True)
