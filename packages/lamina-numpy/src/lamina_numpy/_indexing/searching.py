"""Places in sorted arrays, by bisection."""
from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np
from lamina_ir import dtypes
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import typeof

from .._core.promotion import aval, cast, literal, make_constant, promote_all
from .._core.public_api import public_api
from .._core.select import choose_by
from .._core.conversion import asarray
from .._elementwise.logic import less, less_equal
from .take import take

__all__ = ["digitize", "searchsorted"]

_FEW_PAIRS = 4096  # comparing every two of so many is one quick kernel, where bisecting is one for each round
_FEW_ROUNDS = 12  # bisecting so often for a few numbers is written without a loop: one kernel


@public_api("side", "method")
def searchsorted(a: ArrayLike, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None, *,
                 method: str = "scan") -> Array:
    """Where numbers belong in a sorted array.

    Args:
      a: number array `[n]`, ascending, NaN last; what comes of others has no meaning.
      v: numbers of any shape.
      side: whether a number goes before those equal to it ("left") or behind them ("right").
      sorter: integers `[n]` that sort `a`; None where it is sorted.
      method: "scan" (or "sort") bisects, in `ceil(log2(n + 1))` rounds of one gather each, "scan_unrolled" without a loop;
        "compare_all" compares every two, as "scan" does where these are few.
    Returns:
      Integer array of the shape of `v` and the default integer dtype, in `[0, n]`; NaN belongs behind all numbers.
    Raises:
      ValueError: `a` does not have one axis, or another `side` or `method`.
      TypeError: `a` or `v` is neither an array nor a number, or `sorter` is a list.
      DTypeError: `sorter` holds no integers.

    Derivative: zero.
    Source: meaning of `numpy.searchsorted`.

    >>> searchsorted(np.array([1, 2, 3]), np.array([2, 9]))
    Array([1, 3], dtype=int32)
    """
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side must be 'left' or 'right'; got {side!r}")
    if method not in ("scan", "scan_unrolled", "sort", "compare_all"):
        raise ValueError(f"searchsorted: unknown method {method!r}; use 'scan' or 'compare_all'")
    a, v = (asarray(x) if isinstance(x, (list, tuple)) else x for x in (a, v))
    if len(aval("searchsorted", a).shape) != 1:
        raise ValueError(f"searchsorted: the sorted array must have one axis; got {typeof(a).str_long()}")
    if sorter is not None:
        a = take(a, sorter)
    a, v = promote_all("searchsorted", [a, v])
    n, shape = typeof(a).shape[0], typeof(v).shape
    d = dtypes.canonical_int()
    if n == 0:
        return lax.broadcast_in_dim(make_constant(0, d), shape, ())
    few = n * math.prod(shape) <= _FEW_PAIRS and not dtypes.is_complex(typeof(a).dtype)
    if method == "compare_all" or (method == "scan" and few):
        blocks, at = _block_shape(n), len(shape)
        inner = tuple(builtins.range(at, at + len(blocks)))
        wide = lax.broadcast_in_dim(lax.reshape(a, blocks) if len(blocks) > 1 else a, (*shape, *blocks), inner)
        other = lax.broadcast_in_dim(v, (*shape, *blocks), tuple(builtins.range(at)))
        return lax.reduce_sum(cast(_is_before(wide, other, side), d), inner)
    # Invariant: a[:at] sorts before v. The loop carries one number per v; with two, each iteration would keep what it gathered.
    rounds = n.bit_length()

    def extend(step: Any, at: Any) -> Any:
        end = lax.add(at, step)
        go = _is_before(take(a, lax.sub(end, literal(1, d)), 0, mode="clip"), v, side)
        return choose_by(lax.bitwise_and(go, lax.le(at, lax.sub(literal(n, d), step))), end, at)
    start = lax.broadcast_in_dim(make_constant(0, d), shape, ())
    if method != "scan_unrolled" and (rounds > _FEW_ROUNDS or math.prod(shape) > _FEW_PAIRS):
        first = literal(1 << (rounds - 1), d)
        return lax.fori_loop(0, rounds, lambda i, at: extend(lax.shift_right_logical(first, cast(i, d)), at), start)
    for k in builtins.reversed(builtins.range(rounds)):
        start = extend(literal(1 << k, d), start)
    return start


def _block_shape(n: int) -> tuple[int, ...]:
    """`(n,)`, or the shape of as many in blocks of at most 32: a longer axis is summed in two steps, each a kernel."""
    block = builtins.max(b for b in builtins.range(1, 33) if n % b == 0)
    return (n // block, block) if n > 32 and block >= 8 else (n,)


def _is_before(x: Any, v: Any, side: str) -> Any:
    """Return whether x sorts before the position of v; NaN sorts last."""
    if dtypes.is_complex(typeof(x).dtype):
        return _is_complex_less(x, v) if side == "left" else lax.bitwise_not(_is_complex_less(v, x))
    if side == "left":
        out = less(x, v)
        if dtypes.is_float(typeof(x).dtype):
            out = lax.bitwise_or(out, lax.bitwise_and(lax.eq(x, x), lax.ne(v, v)))
    else:
        out = less_equal(x, v)
        if dtypes.is_float(typeof(x).dtype):
            out = lax.bitwise_or(out, lax.ne(v, v))
    return out


def _is_complex_less(x: Any, y: Any) -> Any:
    """By real part, then imaginary part; NumPy's order of NaN: r + r i, r + nan i, nan + r i, nan + nan i."""
    def is_less(a: Any, b: Any) -> Any:
        return lax.bitwise_or(lax.lt(a, b), lax.bitwise_and(lax.eq(a, a), lax.ne(b, b)))

    def is_same(a: Any, b: Any) -> Any:
        return lax.bitwise_or(lax.eq(a, b), lax.bitwise_and(lax.ne(a, a), lax.ne(b, b)))

    def count_nans(z: Any) -> Any:  # 0 to 3 in the order above
        d = np.dtype("int32")
        parts = [cast(lax.ne(part, part), d) for part in (lax.imag(z), lax.real(z))]
        return lax.add(parts[0], lax.mul(parts[1], literal(2, d)))
    m, n = count_nans(x), count_nans(y)
    by_real = is_less(lax.real(x), lax.real(y))
    by_imag = lax.bitwise_and(is_same(lax.real(x), lax.real(y)), is_less(lax.imag(x), lax.imag(y)))
    inside = lax.bitwise_and(lax.eq(m, n), lax.bitwise_or(by_real, by_imag))
    return lax.bitwise_or(lax.lt(m, n), inside)


@public_api("right", "method")
def digitize(x: ArrayLike, bins: Any, right: bool = False, *, method: str | None = None) -> Array:
    """The bins that numbers fall into.

    Args:
      x: real numbers of any shape.
      bins: real numbers `[n]`, the bounds of the bins, ascending or descending.
      right: whether a bin holds the larger of its two bounds instead of the smaller.
      method: as of `searchsorted`; None for "scan".
    Returns:
      Integer array of the shape of `x` and the default integer dtype, in `[0, n]`. It is `i` where `x` is between
      `bins[i-1]` and `bins[i]`, 0 or `n` where it is outside of all. NaN counts as larger than all numbers.
    Raises:
      ValueError: `bins` does not have one axis, or another `method`.
      TypeError: `x` or `bins` is neither an array nor a number.

    Derivative: zero.
    Source: meaning of `numpy.digitize`.

    >>> digitize(np.array([0.5, 1.0, 7.0]), np.array([0.0, 1.0, 2.0]))
    Array([1, 2, 3], dtype=int32)
    """
    bins = asarray(bins) if isinstance(bins, (list, tuple)) else bins
    shape = aval("digitize", bins, 1).shape
    if len(shape) != 1:
        raise ValueError(f"digitize: bins must have one axis; got {typeof(bins).str_long()}")
    n = shape[0]
    if n == 0:
        return lax.broadcast_in_dim(make_constant(0, dtypes.canonical_int()), aval("digitize", x).shape, ())
    side = "left" if right else "right"
    rising = less_equal(bins[0], bins[-1])
    at = searchsorted(choose_by(rising, bins, lax.rev(bins, (0,))), x, side=side, method=method or "scan")
    return choose_by(rising, at, lax.sub(literal(n, typeof(at).dtype), at))
