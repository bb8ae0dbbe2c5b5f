"""Sorting and partial sorting. NaN comes last; complex numbers are ordered by real, then imaginary part."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lamina_ir import dtypes
from lamina_ir.extend import docstring_entries
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import check_axis, typeof

from .._core.promotion import aval, cast
from .._core.named_axes import along_axis
from .._core.public_api import public_api
from .._core.conversion import asarray
from .._shape.layout import ravel

__all__ = ["argpartition", "argsort", "lexsort", "partition", "sort", "sort_complex"]

_SORTING = docstring_entries("""
    a: array of any dtype; NaN is the largest, complex numbers are ordered by real, then imaginary part.
    axis: the axis to sort along, negative counts from the end, or the name of a mapped one; None sorts the flat array.
    kind: the name of one of NumPy's algorithms, or None; no effect.
    order: must be None; NumPy uses it for structured arrays.
    stable: whether equal elements must stay in order.
    descending: largest first, NaN before them.
    kth: an int: the position whose element is that of the sorted array; negative counts from the end.
    moved: Array of the dtype and units of `a`, and of its shape, or `[a.size]` if `axis` is None.
    ShapeError: `axis` names an axis that `a` does not have.
    TypeError: `a` is neither an array nor a number.
    ValueError: `kind` is unknown, or `order` is given.
    """)
_PARTITION = {**_SORTING, **docstring_entries("""
    axis: the axis to rearrange along, negative counts from the end, or the name of a mapped one; None for the flat
      array.
    ShapeError: `kth` or `axis` is out of range.
    TypeError: `kth` is not an integer, or `a` is neither an array nor a number.
    """)}

def _check_axis(call: str, a: Any, axis: int | None) -> tuple[Any, int]:
    shape = aval(call, a).shape
    if axis is None:
        return ravel(a), 0
    return a, check_axis(call, axis, len(shape))


def _check_kind(call: str, kind: Any, order: Any) -> None:
    if order is not None:
        raise ValueError(f"{call}: order= must be None, since there are no structured arrays")
    if kind not in (None, "quicksort", "mergesort", "heapsort", "stable"):
        raise ValueError(f"{call}: unknown kind {kind!r}; all kinds are the same sort, which is stable unless stable=False")


@public_api("axis", "kind", "order", "stable", "descending", entries=_SORTING)
@along_axis()
def sort(a: ArrayLike, axis: int | None = -1, *, kind: str | None = None, order: None = None, stable: bool = True,
         descending: bool = False) -> Array:
    """Elements in ascending order along an axis.

    Args: {a, axis, kind, order, stable, descending}
    Returns: {moved}
    Raises: {ShapeError, TypeError, ValueError}

    Derivative: linear where no two elements are equal: elements are moved.
    Source: meaning of `numpy.sort`, `descending` of the array API.

    >>> sort(np.array([3, 1, 2]))
    Array([1, 2, 3], dtype=int32)
    """
    _check_kind("sort", kind, order)
    a, at = _check_axis("sort", a, axis)
    (out,) = lax.sort([a], at, stable)
    return lax.rev(out, (at,)) if descending else out


@public_api("axis", "kind", "order", "stable", "descending", entries=_SORTING)
@along_axis()
def argsort(a: ArrayLike, axis: int | None = -1, *, kind: str | None = None, order: None = None, stable: bool = True,
            descending: bool = False) -> Array:
    """Positions that would sort the elements along an axis.

    Args:
      {a, axis, kind, order, stable}
      descending: largest first, NaN before them; equal elements stay in order.
    Returns:
      Array of the default integer, of the shape of `a`, or `[a.size]` if `axis` is None.
    Raises: {ShapeError, TypeError, ValueError}

    Source: meaning of `numpy.argsort`, `descending` of the array API.

    >>> argsort(np.array([3, 1, 2]))
    Array([1, 2, 0], dtype=int32)
    """
    _check_kind("argsort", kind, order)
    a, at = _check_axis("argsort", a, axis)
    shape = typeof(a).shape
    places = lax.broadcasted_iota(dtypes.canonical_int(), shape, at)
    if descending:  # a stable descending order: sort the reversed array, then reverse back
        a, places = (lax.rev(v, (at,)) for v in (a, places))
    _, out = lax.sort([a, places], at, stable)
    return lax.rev(out, (at,)) if descending else out


@public_api("axis")
@along_axis()
def lexsort(keys: Sequence[ArrayLike] | ArrayLike, axis: int = -1) -> Array:
    """Positions that sort by several keys, the last one first.

    Args:
      keys: a sequence, or an array's first axis, of arrays of one shape and any dtype.
      axis: the axis of each key to sort along; negative counts from the end. Or the name of a mapped one.
    Returns:
      Array of the default integer, of the shape of a key; equal places stay in order; 0 for keys without axes.
    Raises:
      TypeError: there are no keys, or one is neither an array nor a number.
      ValueError: keys have different shapes.
      ShapeError: `axis` names an axis that the keys do not have.

    Source: meaning of `numpy.lexsort`.

    >>> lexsort((np.array([1, 2, 0]), np.array([1, 0, 0])))
    Array([2, 1, 0], dtype=int32)
    """
    keys = [asarray(k) for k in keys]  # type: ignore[union-attr]  # a number raises TypeError
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


@public_api(entries=_SORTING)
def sort_complex(a: ArrayLike) -> Array:
    """Elements sorted along the last axis, as complex numbers.

    Args: {a}
    Returns:
      Complex array of the shape and units of `a`; complex128 where `a` is float64, else complex64.
    Raises:
      ShapeError: `a` has no axes.
      TypeError: `a` is neither an array nor a number.

    Source: meaning of `numpy.sort_complex`.

    >>> sort_complex(np.array([3, 1]))
    Array([1.+0.j, 3.+0.j], dtype=complex64)
    """
    out = sort(a)
    d = typeof(out).dtype
    return out if dtypes.is_complex(d) else cast(out, dtypes.complex_dtype(d))


def _parse_kth(call: str, kth: Any, n: int) -> None:
    if isinstance(kth, (list, tuple)):
        raise TypeError(f"{call}: kth must be one integer; got {kth!r}")
    check_axis(call, kth, n)


@public_api("kth", "axis", entries=_PARTITION)
@along_axis()
def partition(a: ArrayLike, kth: int, axis: int | None = -1) -> Array:
    """Elements rearranged so that those before position `kth` are not larger, those after it not smaller.

    Args: {a, kth, axis}
    Returns: {moved}
      This implementation sorts all of it.
    Raises: {ShapeError, TypeError}

    Source: meaning of `numpy.partition`, for one `kth`.

    >>> partition(np.array([3, 1, 2]), 1)
    Array([1, 2, 3], dtype=int32)
    """
    a, at = _check_axis("partition", a, axis)
    _parse_kth("partition", kth, typeof(a).shape[at])
    return sort(a, at)


@public_api("kth", "axis", entries=_PARTITION)
@along_axis()
def argpartition(a: ArrayLike, kth: int, axis: int | None = -1) -> Array:
    """Positions that would partition the elements.

    Args: {a, kth, axis}
    Returns:
      Array of the default integer, of the shape of `a`, or `[a.size]` if `axis` is None. This implementation sorts
      all of it.
    Raises: {ShapeError, TypeError}

    Source: meaning of `numpy.argpartition`, for one `kth`.

    >>> argpartition(np.array([[3, 1, 2], [6, 5, 4]]), 1)
    Array([[1, 2, 0],
           [2, 1, 0]], dtype=int32)
    """
    a, at = _check_axis("argpartition", a, axis)
    _parse_kth("argpartition", kth, typeof(a).shape[at])
    return argsort(a, at)
