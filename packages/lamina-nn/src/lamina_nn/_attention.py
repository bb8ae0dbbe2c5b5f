"""Attention of each row of queries to the rows of keys."""
from __future__ import annotations

import math
import operator
from typing import Any, Literal

import lamina_numpy as lnp
from lamina_ir import DTypeError, ShapeError, dtypes
from lamina_numpy.extend import public_api, to_inexact, work_dtype
from lamina_numpy.special import logsumexp
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import typeof

from ._softmax import softmax

__all__ = ["dot_product_attention"]

_CALL = "dot_product_attention"


@public_api("is_causal", "local_window_size", "implementation", "return_residual")
def dot_product_attention(query: ArrayLike, key: ArrayLike, value: ArrayLike, bias: ArrayLike | None = None,
                          mask: ArrayLike | None = None, *, scale: float | None = None, is_causal: bool = False,
                          query_seq_lengths: ArrayLike | None = None, key_value_seq_lengths: ArrayLike | None = None,
                          local_window_size: int | tuple[int, int] | None = None,
                          implementation: Literal["xla", "cudnn"] | None = None,
                          return_residual: bool = False) -> Array | tuple[Array, Array]:
    """Scaled dot-product attention: means of `value`, weighted by `softmax(scale * query @ key.T + bias)`.

    Sums and the softmax are in float32 at least. Where nothing may be attended to, all keys weigh the same.

    Args:
      query: number array `[batch, t, heads, depth]`, or `[t, heads, depth]`; integers and booleans become float.
      key: array `[batch, s, groups, depth]` of the dtype of `query`; `heads` is a multiple of `groups`, and heads in
        succession share a group.
      value: array of the shape and dtype of `key`.
      bias: number array that broadcasts to `[batch, heads, t, s]`, added before the softmax; None for none.
      mask: boolean array that broadcasts to `[batch, heads, t, s]`: which keys a query may attend to; None for all.
      scale: what products are multiplied with; None for `1 / sqrt(depth)`.
      is_causal: whether query i attends to keys 0 to i alone.
      query_seq_lengths: integers `[batch]`: how many queries are there; those behind give 0. None for all.
      key_value_seq_lengths: integers `[batch]`: how many keys are there; None for all.
      local_window_size: (l, r): query i attends to keys i - l to i + r alone; an int means (int, int), None no limit.
      implementation: "xla" or None; there is one, which the compiler makes kernels of.
      return_residual: whether to return the logarithm of the softmax's sums too.
    Returns:
      Array of the shape and dtype of `query`; with `return_residual` also one `[batch, t, heads]`, or `[t, heads]`.
    Raises:
      TypeError: an argument is neither an array nor a number.
      DTypeError: `key` or `value` has another dtype than `query`, `mask` is not boolean, or lengths are not integers.
      ShapeError: shapes do not go together as above.
      ValueError: `implementation` is another one, "cudnn" included.

    Source: Vaswani et al., "Attention is all you need" (2017), section 3.2; for groups Ainslie et al., "GQA" (2023).

    >>> x = np.eye(2, dtype=np.float32)[:, None]  # two places, one head
    >>> dot_product_attention(0 * x, x, x, is_causal=True)[:, 0]
    Array([[1. , 0. ],
           [0.5, 0.5]], dtype=float32)
    """
    if implementation not in (None, "xla"):
        raise ValueError(f"{_CALL}: implementation must be 'xla' or None; got {implementation!r}")
    query, key, value = (to_inexact(_CALL, x) for x in (query, key, value))
    alone = _check_inputs(query, key, value)
    if alone:
        query, key, value = (lnp.expand_dims(x, 0) for x in (query, key, value))
    b, t, heads, depth = typeof(query).shape
    s, groups = typeof(key).shape[1:3]
    wide = work_dtype(typeof(query).dtype)
    scores = lnp.einsum("btgnd,bsgd->bgnts", lnp.reshape(query, (b, t, groups, heads // groups, depth)), key,
                        preferred_element_type=wide)
    scores = lnp.multiply(lnp.reshape(scores, (b, heads, t, s)), 1 / math.sqrt(depth) if scale is None else scale)
    if bias is not None:
        scores = lnp.add(scores, _check_broadcastable("bias", lnp.astype(bias, wide), (b, heads, t, s)))
    for some in _make_masks(mask, is_causal, key_value_seq_lengths, local_window_size, (b, heads, t, s)):
        scores = lnp.where(some, scores, float(dtypes.finfo(wide).min) / 2)  # infinite ones alone would be NaN
    weights = lnp.reshape(lnp.astype(softmax(scores), typeof(value).dtype), (b, groups, heads // groups, t, s))
    out = lnp.reshape(lnp.einsum("bgnts,bsgd->btgnd", weights, value), (b, t, heads, depth))
    if query_seq_lengths is not None:
        out = lnp.where(_make_length_mask("query_seq_lengths", query_seq_lengths, (b, t))[:, :, None, None], out, 0)
    out = out[0] if alone else out
    if not return_residual:
        return out
    sums: Any = logsumexp(scores, -1)
    sums = lnp.astype(lnp.moveaxis(sums, 1, 2), typeof(query).dtype)
    return out, sums[0] if alone else sums


def _check_inputs(query: Any, key: Any, value: Any) -> bool:
    """Whether there is no batch; refuses shapes and dtypes that do not go together."""
    q, k, v = typeof(query), typeof(key), typeof(value)
    if k.dtype != q.dtype or v.dtype != q.dtype:
        raise DTypeError(f"{_CALL}: query, key and value must have one dtype; got {q.dtype}, {k.dtype} and {v.dtype}")
    fit = len(q.shape) == len(k.shape) and q.shape[:-3] == k.shape[:-3] and q.shape[-1:] == k.shape[-1:]
    if len(q.shape) not in (3, 4) or k.shape != v.shape or not fit:
        raise ShapeError(f"{_CALL}: expected query [batch, t, heads, depth], key and value [batch, s, groups, depth], all "
                         f"with a batch or all without; got {q.str_long()}, {k.str_long()} and {v.str_long()}")
    if not k.shape[-2] or q.shape[-2] % k.shape[-2]:
        raise ShapeError(f"{_CALL}: the heads of query must be a multiple of those of key and value; got {q.shape[-2]} "
                         f"and {k.shape[-2]}")
    return len(q.shape) == 3


def _check_broadcastable(name: str, x: Any, shape: tuple[int, ...]) -> Any:
    """`x`, which is to broadcast to `shape`."""
    own = typeof(x).shape
    if len(own) > len(shape) or any(n not in (1, d) for n, d in zip(reversed(own), reversed(shape))):
        raise ShapeError(f"{_CALL}: {name} must broadcast to [batch, heads, t, s], here {shape}; got "
                         f"{typeof(x).str_long()}")
    return x


def _make_length_mask(name: str, lengths: Any, shape: tuple[int, int]) -> Any:
    """Booleans `[batch, n]`: which places come before the lengths `[batch]`."""
    lengths = lnp.asarray(lengths)
    found = typeof(lengths)
    if not dtypes.is_integer(found.dtype):
        raise DTypeError(f"{_CALL}: {name} must be integers; got {found.str_long()}")
    if found.shape != shape[:1]:
        raise ShapeError(f"{_CALL}: {name} must have one length for each of the {shape[0]} members of the batch; got "
                         f"{found.str_long()}")
    return lnp.less(lax.broadcasted_iota(found.dtype, shape, 1), lnp.reshape(lengths, (shape[0], 1)))


def _parse_window(size: Any) -> tuple[int, int]:
    """How many keys before and after its own a query may attend to."""
    try:
        pair = (size, size) if not isinstance(size, (tuple, list)) else size
        left, right = map(operator.index, pair)
    except (TypeError, ValueError):
        raise TypeError(f"{_CALL}: local_window_size must be an int, a pair of ints or None; got "
                        f"{size!r:.100}") from None
    return left, right


def _make_masks(mask: Any, is_causal: bool, lengths: Any, window: Any, shape: tuple[int, int, int, int]) -> list[Any]:
    """Boolean arrays that broadcast to `shape`, `[batch, heads, t, s]`: a query may attend to a key where all hold."""
    b, _, t, s = shape
    found = []
    if mask is not None:
        mask = lnp.asarray(mask)
        if not dtypes.is_bool(typeof(mask).dtype):
            raise DTypeError(f"{_CALL}: mask must be boolean; got {typeof(mask).str_long()}. Compare it first, as mask > 0")
        found.append(_check_broadcastable("mask", mask, shape))
    if is_causal or window is not None:
        behind = lax.sub(lax.broadcasted_iota("int32", (t, s), 0), lax.broadcasted_iota("int32", (t, s), 1))
        if is_causal:
            found.append(lnp.greater_equal(behind, 0))
        if window is not None:
            left, right = _parse_window(window)
            found.append(lax.bitwise_and(lnp.less_equal(behind, left), lnp.greater_equal(behind, -right)))
    if lengths is not None:
        found.append(_make_length_mask("key_value_seq_lengths", lengths, (b, s))[:, None, None, :])
    return found
