"""Joining and splitting."""
from __future__ import annotations

import operator
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir import ConcretizationError, ShapeError, dtypes
from lamina_tracing import Array, ArrayLike, DTypeLike
from lamina_tracing.extend import check_axis, EVALUATION, now, typeof

from .._ground.promotion import aval, cast, no_out, promote_all
from .._ground.publishing import compiled, core, public
from .._ground.axes import _GROUP, joined, split_at, with_axes
from .._ground.conversion import asarray
from .layout import atleast_1d, atleast_2d, atleast_3d, ravel, reshape, squeeze

__all__ = ["append", "array_split", "block", "column_stack", "concat", "concatenate", "dsplit", "dstack", "hsplit",
           "hstack", "split", "stack", "unstack", "vsplit", "vstack"]


def _several(call: str, arrays: Any) -> list[Any]:
    if isinstance(arrays, (list, tuple)):
        out = [asarray(a) if isinstance(a, (list, tuple)) else a for a in arrays]
    elif typeof(arrays).shape:
        out = [arrays[i] for i in range(typeof(arrays).shape[0])]
    else:
        raise TypeError(f"{call}: expected a sequence of arrays; got {typeof(arrays).long()}")
    if not out:
        raise ValueError(f"{call}: expected at least one array; got none")
    return out


def _grouped(fun: Callable[..., Any]) -> Callable[..., Any]:
    """`fun` as published: compiled as a whole, except that many arrays are joined in groups."""
    def call(arrays: Any, *args: Any, **kwargs: Any) -> Any:
        many = isinstance(arrays, (list, tuple)) and len(arrays) > _GROUP and now.trace is EVALUATION
        return (fun if many else compiled(fun))(arrays, *args, **kwargs)
    return call


@public("axis", "dtype", face=_grouped)
def concatenate(arrays: Sequence[ArrayLike] | ArrayLike, axis: int | None = 0, dtype: DTypeLike | None = None) -> Array:
    """Arrays joined end to end along an axis they have; `axis=None` flattens first.

    >>> concatenate([asarray([1, 2]), asarray([3.0])])
    Array([1., 2., 3.], dtype=float32)
    """
    xs = _several("concatenate", arrays)
    if axis is None:
        xs, axis = [ravel(x) for x in xs], 0
    shapes = [aval("concatenate", x, i).shape for i, x in enumerate(xs)]
    if any(len(s) != len(shapes[0]) for s in shapes):
        raise ShapeError(f"concatenate: arrays must have equally many axes; got shapes {', '.join(map(str, shapes))}")
    if not shapes[0]:
        raise ShapeError("concatenate: rank-0 arrays have no axis to join along; use stack")
    xs = promote_all("concatenate", xs) if dtype is None else [cast(x, dtypes.canonical(dtype)) for x in xs]
    return joined(xs, check_axis("concatenate", axis, len(shapes[0])))


concat = concatenate


@public("axis", "dtype", "out", face=_grouped)
def stack(arrays: Sequence[ArrayLike] | ArrayLike, axis: int = 0, out: None = None,
          dtype: DTypeLike | None = None) -> Array:
    """Arrays of one shape joined along a new axis."""
    no_out("stack", out)
    xs = _several("stack", arrays)
    shapes = [aval("stack", x, i).shape for i, x in enumerate(xs)]
    if any(s != shapes[0] for s in shapes):
        raise ShapeError(f"stack: arrays must have one shape; got {', '.join(map(str, shapes))}")
    at = check_axis("stack", axis, len(shapes[0]) + 1)
    xs = promote_all("stack", xs) if dtype is None else [cast(x, dtypes.canonical(dtype)) for x in xs]
    return joined([with_axes(x, (at,)) for x in xs], at)


@public("axis")
def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices along an axis, as a tuple."""
    sizes = aval("unstack", x).shape
    at = check_axis("unstack", axis, len(sizes))
    return tuple(squeeze(part, at) for part in split_at(x, [*range(1, sizes[at])], at)) if sizes[at] else ()


@public("dtype")
def vstack(tup: Sequence[ArrayLike] | ArrayLike, dtype: DTypeLike | None = None) -> Array:
    """Arrays stacked as rows."""
    return concatenate([atleast_2d(x) for x in _several("vstack", tup)], 0, dtype)


@public("dtype")
def hstack(tup: Sequence[ArrayLike] | ArrayLike, dtype: DTypeLike | None = None) -> Array:
    """Arrays side by side: along the second axis, or the only one."""
    xs = [atleast_1d(x) for x in _several("hstack", tup)]
    return concatenate(xs, 0 if len(typeof(xs[0]).shape) == 1 else 1, dtype)


@public("dtype")
def dstack(tup: Sequence[ArrayLike] | ArrayLike, dtype: DTypeLike | None = None) -> Array:
    """Arrays stacked along the third axis."""
    return concatenate([atleast_3d(x) for x in _several("dstack", tup)], 2, dtype)


@public()
def column_stack(tup: Sequence[ArrayLike] | ArrayLike) -> Array:
    """One-dimensional arrays as the columns of a matrix."""
    xs = [asarray(x) for x in _several("column_stack", tup)]
    return concatenate([reshape(x, (-1, 1)) if len(typeof(x).shape) < 2 else x for x in xs], 1)


@public()
def block(arrays: Any) -> Array:
    """An array from nested lists of blocks: the innermost lists join along the last axis, the outermost first."""
    def depth(x: Any) -> int:
        if not isinstance(x, list):
            return 0
        if not x:
            raise ValueError("block: a list of blocks is empty")
        found = {depth(e) for e in x}
        if len(found) > 1:
            raise ValueError(f"block: blocks must be nested equally deep; got lists {min(found)} and {max(found)} deep "
                             "in one list")
        return 1 + found.pop()

    def rank(x: Any) -> int:
        return max(map(rank, x)) if isinstance(x, list) else len(aval("block", x).shape)

    def join(x: Any, level: int) -> Array:
        if isinstance(x, list):
            return concatenate([join(e, level - 1) for e in x], n - level)
        short = n - len(typeof(x).shape)
        return with_axes(asarray(x), tuple(range(short)))
    levels = depth(arrays)
    n = max(levels, rank(arrays), 1)
    return join(arrays, levels)


@public("axis")
def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """`values` after the end of `arr`; flat unless an axis is named."""
    return concatenate([ravel(asarray(arr)), ravel(asarray(values))], 0) if axis is None \
        else concatenate([arr, values], axis)


@core("indices_or_sections", "axis", name="split")
def _split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    return _split_raw("split", ary, indices_or_sections, axis, True)


@core("indices_or_sections", "axis", name="array_split")
def _array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    return _split_raw("array_split", ary, indices_or_sections, axis, False)


def _split_raw(call: str, ary: Any, sections: Any, axis: int, equal: bool) -> list[Any]:
    sizes = aval(call, ary).shape
    at = check_axis(call, axis, len(sizes))
    if isinstance(sections, tuple):
        return split_at(ary, sections, at)
    n, k = sizes[at], sections
    if k < 1:
        raise ValueError(f"{call}: expected at least one section; got {k}")
    base, extra = divmod(n, k)
    if equal and extra:
        raise ValueError(f"{call}: axis {axis} of length {n} does not divide into {k} equal parts; use array_split")
    return split_at(ary, [i * base + min(i, extra) for i in range(1, k)], at)


def _cuts(call: str, x: Any) -> int | tuple[int, ...]:
    """A number of parts, or places to cut at, as static arguments."""
    if hasattr(x, "shape"):
        x = np.asarray(x).tolist()
    try:
        return tuple(map(operator.index, x)) if isinstance(x, (list, tuple)) else operator.index(x)
    except TypeError as e:
        if isinstance(e, ConcretizationError):
            raise
        raise TypeError(f"{call}: indices_or_sections is an integer or a sequence of them; got {x!r}") from e


def split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Equal parts along an axis, or parts cut at the given places."""
    return _split(ary, _cuts("split", indices_or_sections), axis)


def array_split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Like `split`, but the first parts may be one longer."""
    return _array_split(ary, _cuts("array_split", indices_or_sections), axis)


def hsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """`split` along the second axis, or the only one."""
    return split(ary, indices_or_sections, 0 if len(aval("hsplit", ary).shape) == 1 else 1)


def vsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """`split` along the first axis."""
    return split(ary, indices_or_sections, 0)


def dsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """`split` along the third axis."""
    return split(ary, indices_or_sections, 2)
