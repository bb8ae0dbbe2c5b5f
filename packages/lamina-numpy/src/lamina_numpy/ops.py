"""Sums, products and extremes over segments: elements that bear one number go together. `lamina.ops` shows them."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import ConcretizationError, dtypes
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import Tracer, typeof

from ._core.conversion import asarray
from ._core.promotion import cast, work_dtype
from ._core.public_api import jitted_core, publish

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]

_WITHIN: dict[str, Any] = {"add": lax.reduce_sum, "multiply": lax.reduce_prod, "min": lax.reduce_min, "max": lax.reduce_max}


def _identity(verb: str, dtype: np.dtype) -> Any:
    if verb in ("add", "multiply"):
        return np.asarray(verb == "multiply").astype(dtype)[()]
    if dtype == dtypes.BOOL:
        return np.bool_(verb == "min")
    if dtypes.is_inexact(dtype):
        return np.asarray(np.inf if verb == "min" else -np.inf).astype(dtype)[()]
    limits = dtypes.iinfo(dtype)
    return dtype.type(limits.max if verb == "min" else limits.min)


def _segments(call: str, verb: str, data: Any, ids: Any, num_segments: Any, promises: tuple[Any, Any], bucket_size: Any,
              mode: Any) -> Any:
    data, ids = asarray(data), asarray(ids)
    t, s = typeof(data), typeof(ids)
    if not dtypes.is_integer(s.dtype):
        raise TypeError(f"{call}: segment_ids must be integers; got {s.str_long()}")
    if s.shape != t.shape[:len(s.shape)] or not s.shape:
        raise ValueError(f"{call}: segment_ids must have one number for each element along the leading axes of data; got "
                         f"{s.str_long()} for {t.str_long()}")
    if num_segments is None:
        if isinstance(ids, Tracer):
            raise ConcretizationError(f"{call}: the number of segments depends on traced values; give num_segments=")
        known = np.asarray(ids)
        num_segments = int(known.max()) + 1 if known.size else 0
    num = int(num_segments)
    if num < 0:
        raise ValueError(f"{call}: num_segments must not be negative; got {num}")
    if bucket_size is not None and int(bucket_size) < 1:
        raise ValueError(f"{call}: bucket_size must be at least 1; got {bucket_size}")
    how = lax.GatherScatterMode.from_any(mode)
    return _total(data, ids, verb, num, bool(promises[0]), bool(promises[1]), None if bucket_size is None else int(bucket_size),
                  how)


@jitted_core("verb", "num", "in_order", "unique", "bucket", "mode", name="segments")
def _total(data: Any, ids: Any, verb: str, num: int, in_order: bool, unique: bool, bucket: int | None, mode: Any) -> Any:
    t = typeof(data)
    wide = work_dtype(t.dtype)
    if verb in ("add", "multiply") and wide != t.dtype:  # long sums in half precision stop growing
        data = cast(data, wide)
        return cast(_total(data, ids, verb=verb, num=num, in_order=in_order, unique=unique, bucket=bucket, mode=mode), t.dtype)
    lead = len(typeof(ids).shape)
    start = _identity(verb, t.dtype)
    how: dict[str, Any] = dict(mode=mode, wrap_negative_indices=False)
    if bucket is None:
        empty: Any = lax.full((num, *t.shape[lead:]), start, t.dtype)
        return getattr(empty.at[ids], verb)(data, indices_are_sorted=in_order, unique_indices=unique, **how)
    count = -(-t.shape[0] // bucket)
    empty = lax.full((count, num, *t.shape[lead:]), start, t.dtype)
    rows = lax.div(lax.broadcasted_iota("int32", typeof(ids).shape, 0), np.int32(bucket))
    parts = getattr(empty.at[rows, ids], verb)(data, indices_are_sorted=False, unique_indices=unique, **how)
    return _WITHIN[verb](parts, (0,))


def segment_sum(data: ArrayLike, segment_ids: ArrayLike, num_segments: int | None = None, indices_are_sorted: bool = False,
                unique_indices: bool = False, bucket_size: int | None = None, mode: Any = None) -> Array:
    """Sums of the elements of each segment.

    Args:
      data: array `[n, ...]` of numbers.
      segment_ids: integers `[n]`, or of the first axes of `data`: the segment of each element, in any order. What is
        negative or not below `num_segments` belongs to no segment, unless `mode` says otherwise.
      num_segments: how many segments there are, needed where `segment_ids` are traced. None for the largest number
        and one.
      indices_are_sorted, unique_indices: promises that the numbers never fall, or that none occurs twice; it may be
        faster.
      bucket_size: how many elements to take together before the results of all such buckets are: a way to lose less
        in rounding. None for all at once.
      mode: as of `x.at[i]`: 'drop' (the default), 'clip' or 'promise_in_bounds'.
    Returns:
      Array `[num_segments, ...]` of the dtype and units of `data`; 0 for a segment without elements.
    Raises:
      TypeError: `segment_ids` are not integers.
      ValueError: there are not as many of them as elements, or `num_segments` or `bucket_size` is too small.
      ConcretizationError: `segment_ids` are traced and `num_segments` is None.

    Derivative: linear in `data`.
    Source: meaning of `numpy.add.at` on zeros, segment by segment.

    >>> segment_sum(np.array([1., 2., 4.]), np.array([0, 2, 2]))
    Array([1., 0., 6.], dtype=float32)
    """
    return _segments("segment_sum", "add", data, segment_ids, num_segments, (indices_are_sorted, unique_indices),
                     bucket_size, mode)


def segment_prod(data: ArrayLike, segment_ids: ArrayLike, num_segments: int | None = None, indices_are_sorted: bool = False,
                unique_indices: bool = False, bucket_size: int | None = None, mode: Any = None) -> Array:
    """Products of the elements of each segment.

    Args:
      data: array `[n, ...]` of numbers.
      segment_ids: integers `[n]`, or of the first axes of `data`: the segment of each element, in any order. What is
        negative or not below `num_segments` belongs to no segment, unless `mode` says otherwise.
      num_segments: how many segments there are, needed where `segment_ids` are traced. None for the largest number
        and one.
      indices_are_sorted, unique_indices: promises that the numbers never fall, or that none occurs twice; it may be
        faster.
      bucket_size: how many elements to take together before the results of all such buckets are: a way to lose less
        in rounding. None for all at once.
      mode: as of `x.at[i]`: 'drop' (the default), 'clip' or 'promise_in_bounds'.
    Returns:
      Array `[num_segments, ...]` of the dtype and units of `data`; 1 for a segment without elements.
    Raises:
      TypeError: `segment_ids` are not integers.
      ValueError: there are not as many of them as elements, or `num_segments` or `bucket_size` is too small.
      ConcretizationError: `segment_ids` are traced and `num_segments` is None.

    Derivative: as of a product, where no segment has two zeros.
    Source: meaning of `numpy.multiply.at` on ones, segment by segment.

    >>> segment_prod(np.array([2., 3., 4.]), np.array([0, 2, 2]))
    Array([ 2.,  1., 12.], dtype=float32)
    """
    return _segments("segment_prod", "multiply", data, segment_ids, num_segments, (indices_are_sorted, unique_indices),
                     bucket_size, mode)


def segment_max(data: ArrayLike, segment_ids: ArrayLike, num_segments: int | None = None, indices_are_sorted: bool = False,
                unique_indices: bool = False, bucket_size: int | None = None, mode: Any = None) -> Array:
    """Largest elements of the elements of each segment.

    Args:
      data: array `[n, ...]` of numbers or booleans.
      segment_ids: integers `[n]`, or of the first axes of `data`: the segment of each element, in any order. What is
        negative or not below `num_segments` belongs to no segment, unless `mode` says otherwise.
      num_segments: how many segments there are, needed where `segment_ids` are traced. None for the largest number
        and one.
      indices_are_sorted, unique_indices: promises that the numbers never fall, or that none occurs twice; it may be
        faster.
      bucket_size: how many elements to take together before the results of all such buckets are: a way to lose less
        in rounding. None for all at once.
      mode: as of `x.at[i]`: 'drop' (the default), 'clip' or 'promise_in_bounds'.
    Returns:
      Array `[num_segments, ...]` of the dtype and units of `data`; minus infinity, the least integer or False for a
      segment without elements.
    Raises:
      TypeError: `segment_ids` are not integers.
      ValueError: there are not as many of them as elements, or `num_segments` or `bucket_size` is too small.
      ConcretizationError: `segment_ids` are traced and `num_segments` is None.

    Derivative: goes to the largest; equal ones share it.
    Source: meaning of `numpy.maximum.at` on the least numbers, segment by segment.

    >>> segment_max(np.array([2., 3., 4.]), np.array([0, 2, 2]))
    Array([  2., -inf,   4.], dtype=float32)
    """
    return _segments("segment_max", "max", data, segment_ids, num_segments, (indices_are_sorted, unique_indices),
                     bucket_size, mode)


def segment_min(data: ArrayLike, segment_ids: ArrayLike, num_segments: int | None = None, indices_are_sorted: bool = False,
                unique_indices: bool = False, bucket_size: int | None = None, mode: Any = None) -> Array:
    """Smallest elements of the elements of each segment.

    Args:
      data: array `[n, ...]` of numbers or booleans.
      segment_ids: integers `[n]`, or of the first axes of `data`: the segment of each element, in any order. What is
        negative or not below `num_segments` belongs to no segment, unless `mode` says otherwise.
      num_segments: how many segments there are, needed where `segment_ids` are traced. None for the largest number
        and one.
      indices_are_sorted, unique_indices: promises that the numbers never fall, or that none occurs twice; it may be
        faster.
      bucket_size: how many elements to take together before the results of all such buckets are: a way to lose less
        in rounding. None for all at once.
      mode: as of `x.at[i]`: 'drop' (the default), 'clip' or 'promise_in_bounds'.
    Returns:
      Array `[num_segments, ...]` of the dtype and units of `data`; infinity, the greatest integer or True for a
      segment without elements.
    Raises:
      TypeError: `segment_ids` are not integers.
      ValueError: there are not as many of them as elements, or `num_segments` or `bucket_size` is too small.
      ConcretizationError: `segment_ids` are traced and `num_segments` is None.

    Derivative: goes to the smallest; equal ones share it.
    Source: meaning of `numpy.minimum.at` on the greatest numbers, segment by segment.

    >>> segment_min(np.array([2., 3., 4.]), np.array([0, 2, 2]))
    Array([ 2., inf,  3.], dtype=float32)
    """
    return _segments("segment_min", "min", data, segment_ids, num_segments, (indices_are_sorted, unique_indices),
                     bucket_size, mode)


publish(globals())
