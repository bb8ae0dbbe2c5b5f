"""Sums, products and extremes over segments: elements that bear one number go together. `lamina.ops` shows them."""
from __future__ import annotations

from typing import Any, Protocol

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


class SegmentReduction(Protocol):
    """The type of `segment_sum` and its siblings."""

    def __call__(self, data: ArrayLike, segment_ids: ArrayLike, num_segments: int | None = None,
                 indices_are_sorted: bool = False, unique_indices: bool = False, bucket_size: int | None = None,
                 mode: Any = None) -> Array: ...


def _reduction(name: str, verb: str, says: str, of: str, empty: str, derivative: str, source: str,
               example: str) -> SegmentReduction:
    def reduce(data: ArrayLike, segment_ids: ArrayLike, num_segments: int | None = None,
               indices_are_sorted: bool = False, unique_indices: bool = False, bucket_size: int | None = None,
               mode: Any = None) -> Array:
        promises = indices_are_sorted, unique_indices
        return _segments(name, verb, data, segment_ids, num_segments, promises, bucket_size, mode)
    reduce.__name__ = reduce.__qualname__ = name
    reduce.__doc__ = f"""{says}

    Args:
      data: array `[n, ...]` of {of}.
      segment_ids: integers `[n]`, or of the leading axes of `data`: the segment of each element, in any order. Elements
        whose number is negative or not below `num_segments` are ignored, unless `mode` differs.
      num_segments: number of segments, required if `segment_ids` is traced. None for the largest number plus one.
      indices_are_sorted, unique_indices: promises that the numbers never decrease, or that none occurs twice; it may be
        faster.
      bucket_size: number of elements that are reduced together before the results of all buckets are combined, which
        reduces rounding errors. None for one bucket.
      mode: as of `x.at[i]`: 'drop' (the default), 'clip' or 'promise_in_bounds'.
    Returns:
      Array `[num_segments, ...]` of the dtype and units of `data`; for a segment without elements {empty}.
    Raises:
      TypeError: `segment_ids` are not integers.
      ValueError: the numbers of `segment_ids` and of elements differ, or `num_segments` or `bucket_size` is too small.
      ConcretizationError: `segment_ids` are traced and `num_segments` is None.

    Derivative: {derivative}.
    Source: meaning of {source}, segment by segment.

    >>> {name}(np.array([2., 3., 4.]), np.array([0, 2, 2]))
    {example}
    """
    return reduce


segment_sum = _reduction("segment_sum", "add", "Return the sum of each segment.", "numbers", "0", "linear in `data`",
                         "`numpy.add.at` on zeros", "Array([2., 0., 7.], dtype=float32)")
segment_prod = _reduction("segment_prod", "multiply", "Return the product of each segment.", "numbers", "1",
                          "as of a product, if no segment has two zeros", "`numpy.multiply.at` on ones",
                          "Array([ 2.,  1., 12.], dtype=float32)")
segment_max = _reduction("segment_max", "max", "Return the largest element of each segment.", "numbers or booleans",
                         "minus infinity, the least integer or False", "goes to the largest; equal ones share it",
                         "`numpy.maximum.at` on the least numbers", "Array([  2., -inf,   4.], dtype=float32)")
segment_min = _reduction("segment_min", "min", "Return the smallest element of each segment.", "numbers or booleans",
                         "infinity, the greatest integer or True", "goes to the smallest; equal ones share it",
                         "`numpy.minimum.at` on the greatest numbers", "Array([ 2., inf,  3.], dtype=float32)")


publish(globals())
