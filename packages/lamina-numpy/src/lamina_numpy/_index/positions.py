"""Positions: of true elements, of rows and columns, in a grid as one number and as one per axis."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir import ConcretizationError, dtypes
from lamina_tracing import Array, ArrayLike, lax, ShapeLike
from lamina_tracing.extend import known_value, typeof

from .._ground.promotion import aval, broadcast, cast, literal
from .._ground.publishing import core, public
from .._ground.axes import as_shape
from .._ground.choosing import choose_by, truth
from .._ground.conversion import asarray, put
from .._elementwise.ufuncs import clip
from .._elementwise.division import floor_divide, remainder
from .._shape.layout import atleast_1d, ravel
from .._shape.joining import stack
from .._reduce.reductions import sum as total
from .._reduce.running import cumsum
from .searching import searchsorted

__all__ = ["argwhere", "flatnonzero", "ix_", "nonzero", "ravel_multi_index", "unravel_index"]

_I32 = np.dtype("int32")


def nonzero(a: ArrayLike, *, size: int | None = None,
            fill_value: ArrayLike | Sequence[ArrayLike] | None = None) -> tuple[Array, ...]:
    """Indices of the elements that are not zero, one array per axis.

    Args:
      a: array of at least one axis. Its values decide the length of the result, so a traced one needs `size`.
      size: length of the result; what does not fit is left out.
      fill_value: what fills up; zeros unless given. One number, or one per axis.

    >>> nonzero(asarray([5, 0, 7]))
    (Array([0, 2], dtype=int32),)
    """
    if isinstance(a, (list, tuple)):
        a = asarray(a)
    shape = aval("nonzero", a).shape
    if not shape:
        raise ValueError("nonzero: expected at least one axis; use atleast_1d first")
    if size is None:
        known = known_value(a)
        if known is None:
            raise ConcretizationError(f"nonzero: the number of true elements of a traced {a.aval.long()} is not known; "
                                      "give size=, or use the three-argument where")
        d = dtypes.canonical_int()
        return tuple(put(i, d) for i in np.nonzero(np.asarray(known)))
    if size < 0:
        raise ValueError(f"nonzero: size must not be negative; got {size}")
    fills = fill_value if isinstance(fill_value, (tuple, list)) else (fill_value,) * len(shape)
    if len(fills) != len(shape):
        raise ValueError(f"nonzero: fill_value is one number, or one for each of {len(shape)} axes; got {fill_value}")
    fills = tuple(0 if f is None else f for f in fills)
    return _nonzero(a, tuple(fills), size=size)


@core("size", name="nonzero")
def _nonzero(a: Any, fills: tuple[Any, ...], size: int) -> tuple[Any, ...]:
    shape = typeof(a).shape
    d = dtypes.canonical_int()
    mask = cast(ravel(truth("nonzero", a)), d)
    n = typeof(mask).shape[0]
    if n == 0 or size == 0:
        return tuple(broadcast(cast(f, d), (), (size,)) for f in fills)
    # the k-th true element stands where the running count first exceeds k
    count = cumsum(mask)
    order = lax.broadcasted_iota(d, (size,), 0)
    at = searchsorted(count, order, side="right")
    good = lax.lt(order, total(mask))
    return tuple(choose_by(good, i, cast(f, d)) for i, f in zip(unravel_index(at, shape), fills))


def flatnonzero(a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None) -> Array:
    """Flat positions of the elements that are not zero."""
    return nonzero(ravel(asarray(a)), size=size, fill_value=fill_value)[0]


def argwhere(a: ArrayLike, *, size: int | None = None,
             fill_value: ArrayLike | Sequence[ArrayLike] | None = None) -> Array:
    """Indices of the elements that are not zero, as rows."""
    a = asarray(a)
    rank = len(typeof(a).shape)
    found = nonzero(atleast_1d(a), size=size, fill_value=fill_value)
    if rank == 0:
        n = typeof(found[0]).shape[0]
        return put(np.zeros((n, 0), np.int32))
    return stack(found, axis=1)


def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """Index arrays whose product picks the grid of the given rows, columns, ..."""
    out = []
    for i, a in enumerate(args):
        a = asarray(a, dtype=_I32) if isinstance(a, (list, tuple)) and not len(a) else asarray(a)
        if len(typeof(a).shape) != 1:
            raise ValueError(f"ix_: arguments must have one axis; got {typeof(a).long()}")
        if typeof(a).dtype == dtypes.BOOL:
            (a,) = nonzero(a)
        n = typeof(a).shape[0]
        shape = tuple(n if j == i else 1 for j in range(len(args)))
        out.append(lax.reshape(a, shape) if len(args) > 1 else a)
    return tuple(out)


def within(x: Any, n: int, mode: str) -> Any:
    """Positions as integers of the default dtype, brought into `[0, n)` by "wrap" or "clip", or (any other mode) as they
    are. Narrower dtypes may not hold `n`; unsigned ones as wide may hold what the default dtype does not."""
    d, seen = dtypes.canonical_int(), typeof(x).dtype
    if seen.kind != "u" or seen.itemsize < d.itemsize:
        x = cast(x, d)
    if mode == "wrap":
        x = remainder(x, n)
    elif mode == "clip":
        x = clip(x, 0, n - 1)
    return cast(x, d)


@public("shape", lists=True)
def unravel_index(indices: ArrayLike, shape: ShapeLike) -> tuple[Array, ...]:
    """Index per axis of flat positions; positions outside are clipped, negative ones count from the end."""
    sizes = as_shape("unravel_index", shape)
    total = int(np.prod(sizes, dtype=np.int64))
    if not dtypes.is_integer(aval("unravel_index", indices).dtype):
        raise TypeError(f"unravel_index: positions must be integers; got {typeof(indices).long()}")
    if typeof(indices).dtype.kind == "u":
        at = within(indices, max(total, 1), "clip")
    else:
        at = clip(within(indices, total, ""), -total, max(total - 1, 0))
        at = choose_by(lax.lt(at, literal(0, typeof(at).dtype)), at + total, at)
    out = []
    for size in reversed(sizes):
        out.append(remainder(at, size))
        at = floor_divide(at, size)
    return tuple(reversed(out))


def ravel_multi_index(multi_index: Sequence[ArrayLike], dims: Sequence[int], mode: str = "raise",
                      order: str = "C") -> Array:
    """Flat positions of indices per axis; `mode` says what happens outside: "raise" (concrete only), "wrap", "clip"."""
    sizes = as_shape("ravel_multi_index", dims)
    parts = [asarray(i) for i in multi_index]
    if len(parts) != len(sizes):
        raise ValueError(f"ravel_multi_index: {len(sizes)} axes need as many indices; got {len(parts)}")
    fixed = []
    for i, (part, size) in enumerate(zip(parts, sizes)):
        if not dtypes.is_integer(typeof(part).dtype):
            raise TypeError(f"ravel_multi_index: indices must be integers; got {typeof(part).long()} for axis {i}")
        if mode == "raise":
            known = np.asarray(part)
            if ((known < 0) | (known >= size)).any():
                raise ValueError(f"ravel_multi_index: an index of axis {i} is outside [0, {size}); use mode 'wrap' or "
                                 "'clip'")
        elif mode not in ("wrap", "clip"):
            raise ValueError(f"ravel_multi_index: mode must be 'raise', 'wrap' or 'clip'; got {mode!r}")
        fixed.append(within(part, size, mode))
    pairs = list(zip(fixed, sizes))
    if order == "F":
        pairs.reverse()
    elif order != "C":
        raise ValueError(f"ravel_multi_index: order must be 'C' or 'F'; got {order!r}")
    out: Any = np.zeros((), dtypes.canonical_int())
    for part, size in pairs:
        out = part + out * size
    return asarray(out)
