"""Sorting and partial sorting. NaN comes last; complex numbers are ordered by real, then imaginary part."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lamina_ir import dtypes
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import check_axis, typeof

from .._ground.promotion import aval, cast
from .._ground.publishing import public
from .._ground.conversion import asarray
from .._shape.layout import ravel

__all__ = ["argpartition", "argsort", "lexsort", "partition", "sort", "sort_complex"]



def _axis(call: str, a: Any, axis: int | None) -> tuple[Any, int]:
    shape = aval(call, a).shape
    if axis is None:
        return ravel(a), 0
    return a, check_axis(call, axis, len(shape))


def _kind(call: str, kind: Any, order: Any) -> None:
    if order is not None:
        raise ValueError(f"{call}: order= is for structured arrays, which there are none of here")
    if kind not in (None, "quicksort", "mergesort", "heapsort", "stable"):
        raise ValueError(f"{call}: unknown kind {kind!r}; every sort here is the same, stable unless stable=False")


@public("axis", "kind", "order", "stable", "descending")
def sort(a: ArrayLike, axis: int | None = -1, *, kind: None = None, order: None = None, stable: bool = True,
         descending: bool = False) -> Array:
    """Elements in ascending order along an axis; None sorts the flat array.

    >>> sort(np.array([3, 1, 2]))
    Array([1, 2, 3], dtype=int32)
    """
    _kind("sort", kind, order)
    a, at = _axis("sort", a, axis)
    (out,) = lax.sort([a], at, stable)
    return lax.rev(out, (at,)) if descending else out


@public("axis", "kind", "order", "stable", "descending")
def argsort(a: ArrayLike, axis: int | None = -1, *, kind: None = None, order: None = None, stable: bool = True,
            descending: bool = False) -> Array:
    """Positions that would sort the elements along an axis; equal ones stay in order."""
    _kind("argsort", kind, order)
    a, at = _axis("argsort", a, axis)
    shape = typeof(a).shape
    places = lax.broadcasted_iota(dtypes.canonical_int(), shape, at)
    if descending:  # a stable descending order: sort the reversed array, then reverse back
        a, places = (lax.rev(v, (at,)) for v in (a, places))
    _, out = lax.sort([a, places], at, stable)
    return lax.rev(out, (at,)) if descending else out


@public("axis")
def lexsort(keys: Sequence[ArrayLike] | ArrayLike, axis: int = -1) -> Array:
    """Positions that sort by several keys, the last one first."""
    keys = [asarray(k) for k in keys]
    if not keys:
        raise TypeError("lexsort: at least one key is needed")
    shape = typeof(keys[0]).shape
    if any(typeof(k).shape != shape for k in keys):
        raise ValueError("lexsort: keys must have one shape; got " + ", ".join(str(typeof(k).shape) for k in keys))
    if not shape:
        return cast(asarray(0), dtypes.canonical_int())
    at = check_axis("lexsort", axis, len(shape))
    places = lax.broadcasted_iota(dtypes.canonical_int(), shape, at)
    return lax.sort([*keys[::-1], places], at, num_keys=len(keys))[-1]


@public()
def sort_complex(a: ArrayLike) -> Array:
    """Elements sorted along the last axis, as complex numbers."""
    out = sort(a)
    d = typeof(out).dtype
    return out if dtypes.is_complex(d) else cast(out, dtypes.complex_of(d))


def _kth(call: str, kth: Any, n: int) -> None:
    if isinstance(kth, (list, tuple)):
        raise TypeError(f"{call}: kth must be one integer; got {kth!r}")
    check_axis(call, kth, n)


@public("kth", "axis")
def partition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """Elements rearranged so that position `kth` holds what it would when sorted (here: all of them sorted)."""
    a, at = _axis("partition", a, axis)
    _kth("partition", kth, typeof(a).shape[at])
    return sort(a, at)


@public("kth", "axis")
def argpartition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """Positions that would partition the elements (here: sort them)."""
    a, at = _axis("argpartition", a, axis)
    _kth("argpartition", kth, typeof(a).shape[at])
    return argsort(a, at)
