"""The multinomial distribution: category by category, each a binomial draw of what the ones before left."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import DTypeError, ShapeError, config, dtypes
from lamina_tracing import Array, ArrayLike, DTypeLike, jit, lax, ShapeLike
from lamina_tracing.extend import scalar, typeof

from ._args import as_dtype, as_shape, can_broadcast_to, refuse_complex
from ._sampling_utils import full
from ._keys import split_core
from ._named_axes import takes_names
from ._counts import binomial_core

__all__ = ["multinomial"]

_part = config.threefry_partitionable


def _multinomial(key: Any, n: Any, p: Any, shape: tuple[int, ...], dtype: np.dtype, kind: np.dtype, part: bool) -> Any:
    lead, count = shape[:-1], shape[-1]
    p = full(lax.stop_gradient(p), shape, kind)
    left = lax.cumsum(p, len(lead), reverse=True)
    zero = scalar(0, kind)
    share = lax.select(lax.eq(left, zero), lax.full_like(left, 0), lax.div(p, left))
    share = lax.clamp(zero, share, scalar(1, kind))  # of what is left; rounding is not to leave it
    keys = split_core(key, (count,), part)

    def step(rest: Any, now: Any) -> tuple[Any, Any]:
        own, chance = now
        drawn = binomial_core(own, rest, chance, lead, kind, kind, part)
        return lax.sub(rest, drawn), drawn

    first = (len(lead), *range(len(lead)))
    found = lax.scan(step, full(lax.stop_gradient(n), lead, kind), (keys, lax.transpose(share, first)))[1]
    return lax.convert_element_type(lax.transpose(found, (*range(1, len(shape)), 0)), dtype)


_draw = jit(_multinomial, static_argnums=(3, 4, 5, 6), inline=True)


@takes_names
def multinomial(key: ArrayLike, n: ArrayLike, p: ArrayLike, *, shape: ShapeLike | None = None, dtype: DTypeLike | None = None,
                unroll: int | bool = 1) -> Array:
    """How often each category comes in `n` trials; NaN where these make no sense.

    Args:
      key: a key, from `random.key` or `split`.
      n: how many trials; broadcasts to the leading axes of the result.
      p: probabilities of the categories along the last axis, or weights: they are divided by their sum. Broadcasts to
        `shape`.
      shape: of the result, categories along its last axis; default: what `p` and `n`, with an axis more, broadcast to.
      dtype: a float or integer dtype; default float32 (float64 in 64-bit mode).
      unroll: taken for programs that give it; the numbers are the same.
    Returns:
      Array of `shape`; its sums along the last axis are `n`.
    Raises:
      ShapeError: `key` is not uint32[2], `p` has no axis, or `n` and `p` do not broadcast to `shape`.
      DTypeError: `dtype` is neither a float nor an integer dtype.

    Source: Davis, "The computer generation of multinomial random variates" (1993): conditional binomial draws.

    >>> from lamina_random import PRNGKey
    >>> multinomial(PRNGKey(0), 10, np.array([0., 1., 0.], np.float32))
    Array([ 0., 10.,  0.], dtype=float32)
    """
    trials, chances = typeof(n), typeof(p)
    refuse_complex("multinomial", trials, chances)
    if not chances.shape:
        raise ShapeError(f"multinomial: p must have an axis of categories; got {chances.str_long()}")
    try:
        own = lax.broadcast_shapes((*trials.shape, 1), chances.shape)
    except TypeError:
        own = None
    if own is None or own[-1] != chances.shape[-1]:
        raise ShapeError(f"multinomial: n of shape {trials.shape} does not broadcast with the leading axes of p, of shape "
                         f"{chances.shape}")
    drawn = own if shape is None else as_shape("multinomial", shape)
    if not can_broadcast_to(own, drawn) or drawn[-1:] != chances.shape[-1:]:
        raise ShapeError(f"multinomial: n of shape {trials.shape} and p of shape {chances.shape} do not broadcast to {drawn}, "
                         "which ends with the categories")
    found = dtypes.canonical_float() if dtype is None else as_dtype("multinomial", dtype)
    if not (dtypes.is_float(found) or dtypes.is_integer(found)):
        raise DTypeError(f"multinomial: dtype must be a float or integer dtype; got {found.name}")
    kinds = [a.dtype for a in (trials, chances) if dtypes.is_float(a.dtype) and not a.weak_type]
    kind = max(kinds, key=lambda d: d.itemsize, default=dtypes.canonical_float())
    return _draw(key, n, p, drawn, found, kind, _part.value)
