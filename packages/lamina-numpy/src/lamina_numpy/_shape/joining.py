"""Joining and splitting."""
from __future__ import annotations

import operator
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from lamina_ir import ConcretizationError, ShapeError
from lamina_ir.errors import mark_builtin_error
from lamina_ir.extend import docstring_entries, fill_docstring
from lamina_tracing import Array, ArrayLike, DTypeLike
from lamina_tracing.extend import (check_axis, EVALUATION, rename_errors, trace_state, check_no_axis_name, typeof,
                                   resolve_requested_dtype)

from .._core.promotion import aval, cast, promote_all, refuse_out
from .._core.public_api import check_known, get_jitted, jitted_core, make_static_hashable, public_api
from .._core.axes import _GROUP, insert_axes, join, split_at
from .._core.conversion import asarray
from .layout import atleast_1d, atleast_2d, atleast_3d, ravel, reshape, squeeze

__all__ = ["append", "array_split", "block", "column_stack", "concat", "concatenate", "dsplit", "dstack", "hsplit",
           "hstack", "split", "stack", "unstack", "vsplit", "vstack"]

_JOINING = docstring_entries("""
    ary: array `[..., n, ...]` of any dtype.
    dtype: element type of the result; None for the common one of the arrays.
    indices_or_sections: the number of equal parts, or a sequence of ints: the start of each part except the first, as
      in slices. Must be known while tracing.
    axis: the axis of length `n`; negative ones count from the end.
    two_axes: Array of at least two axes.
    result: List of arrays with the dtype and units of `ary`; a part is empty if the next one does not start later.
    ShapeError: the arrays differ in rank, or in length along an axis other than the joined one.
    TypeError: the argument is not a sequence, or an element is neither an array nor a number.
    ValueError: there are no arrays.
    """)
_SPLIT = {**_JOINING, **docstring_entries("""
    ValueError: a number of parts that does not divide the length or is below 1.
    TypeError: `indices_or_sections` does not contain integers, or `ary` is neither an array nor a number.
    """)}


def _to_list(call: str, arrays: Any) -> list[Any]:
    if isinstance(arrays, (list, tuple)):
        out = [asarray(a) if isinstance(a, (list, tuple, range)) else a for a in arrays]
    elif typeof(arrays).shape:
        out = [arrays[i] for i in range(typeof(arrays).shape[0])]
    else:
        raise TypeError(f"{call}: expected a sequence of arrays; got {typeof(arrays).str_long()}")
    if not out:
        raise ValueError(f"{call}: expected at least one array; got none")
    return out


def _join_in_groups(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Return the exported version of `fun`: one compiled call, except that many arrays are joined in groups."""
    named, name = rename_errors(fun), fun.__code__.co_varnames[0]

    def call(*args: Any, **kwargs: Any) -> Any:
        if not args and name in kwargs:
            args = kwargs.pop(name),
        arrays = args[0] if args else None
        if isinstance(arrays, range):
            arrays = tuple(arrays)
            args = arrays, *args[1:]
        many = isinstance(arrays, (list, tuple)) and len(arrays) > _GROUP and trace_state.trace is EVALUATION
        if len(args) > 1 and isinstance(args[1], (np.ndarray, Array)) and args[1].ndim:
            # `vstack(a, b)` would take the rows of `a`, and the dtype of `b`.
            raise mark_builtin_error(TypeError(f"{fun.__name__}: {fun.__code__.co_varnames[1]} must not be an array; got "
                                               f"{typeof(args[1]).str_long()}. Pass the arrays as one list"))
        if kwargs or len(args) > 1:
            args, kwargs = make_static_hashable(fun, args, kwargs)
        try:
            return (named if many else get_jitted(fun))(*args, **kwargs)
        except ValueError:
            check_known(fun, args, kwargs)
            raise
    return call


@public_api("axis", "dtype", wrap=_join_in_groups, entries=_JOINING)
def concatenate(arrays: Sequence[ArrayLike] | ArrayLike, axis: int | None = 0, dtype: DTypeLike | None = None) -> Array:
    """Join arrays along an existing axis.

    Args:
      arrays: a sequence of arrays, or one array, whose slices along its first axis are meant; they have one shape but
        for the axis.
      axis: the axis; negative ones count from the end. None flattens every array first.
      {dtype}
    Returns:
      Array, as long along the axis as all arrays together.
    Raises:
      ShapeError: the arrays differ in rank or along another axis, have no axes, or not this one.
      {TypeError, ValueError}

    Derivative: linear; the transpose takes the parts apart.
    Source: meaning of `numpy.concatenate`.

    >>> concatenate([np.array([1, 2]), np.array([3.0])])
    Array([1., 2., 3.], dtype=float32)
    """
    xs = _to_list("concatenate", arrays)
    if axis is None:
        xs, axis = [ravel(x) for x in xs], 0
    return _join("concatenate", xs, axis, dtype)


def _join(call: str, xs: list[Any], axis: int, dtype: DTypeLike | None = None) -> Any:
    """`concatenate` of a list, in the name of the function that was called."""
    shapes = [aval(call, x, i).shape for i, x in enumerate(xs)]
    shown = ", ".join(map(str, shapes))
    if any(len(s) != len(shapes[0]) for s in shapes):
        raise ShapeError(f"{call}: arrays must have equally many axes; got shapes {shown}")
    if not shapes[0]:
        raise ShapeError(f"{call}: rank-0 arrays have no axis to join along; use stack")
    at = check_axis(call, axis, len(shapes[0]))
    if any(s[:at] != shapes[0][:at] or s[at + 1:] != shapes[0][at + 1:] for s in shapes):
        raise ShapeError(f"{call}: arrays must agree on every axis but {at}, along which they are joined; got shapes {shown}")
    xs = promote_all(call, xs) if dtype is None else [cast(x, resolve_requested_dtype(dtype)) for x in xs]
    return join(xs, at)


concat = concatenate


@public_api("axis", "dtype", "out", wrap=_join_in_groups, entries=_JOINING)
def stack(arrays: Sequence[ArrayLike] | ArrayLike, axis: int = 0, out: None = None,
          dtype: DTypeLike | None = None) -> Array:
    """Join arrays of one shape along a new axis.

    Args:
      arrays: a sequence of arrays, or one array, whose slices along its first axis are meant; all of one shape.
      axis: position of the new axis in the result; negative ones count from its end.
      out: not supported, must be None: arrays never change.
      {dtype}
    Returns:
      Array with one axis more, as long as there are arrays.
    Raises:
      ShapeError: the arrays differ in shape, or the result does not have the axis.
      {TypeError, ValueError}
      NotImplementedError: `out` is given.

    Derivative: linear; the transpose is `unstack`.
    Source: meaning of `numpy.stack`.

    >>> stack([np.array([1, 2]), np.array([3, 4])], axis=-1)
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    refuse_out("stack", out)
    xs = _to_list("stack", arrays)
    shapes = [aval("stack", x, i).shape for i, x in enumerate(xs)]
    if any(s != shapes[0] for s in shapes):
        raise ShapeError(f"stack: arrays must have one shape; got {', '.join(map(str, shapes))}")
    at = check_axis("stack", axis, len(shapes[0]) + 1)
    xs = promote_all("stack", xs) if dtype is None else [cast(x, resolve_requested_dtype(dtype)) for x in xs]
    return join([insert_axes(x, (at,)) for x in xs], at)


@public_api("axis")
def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices along an axis.

    Args:
      x: array `[..., n, ...]` of any dtype.
      axis: the axis of length `n`; negative ones count from the end.
    Returns:
      Tuple of `n` arrays without the axis, with the dtype and units of `x`.
    Raises:
      ShapeError: `axis` is outside `[-x.ndim, x.ndim)`.
      TypeError: `x` is neither an array nor a number.

    Derivative: linear; the transpose is `stack`.
    Source: meaning of `numpy.unstack`.

    >>> unstack(np.array([[1, 2], [3, 4]]), axis=1)
    (Array([1, 3], dtype=int32), Array([2, 4], dtype=int32))
    """
    sizes = aval("unstack", x).shape
    at = check_axis("unstack", axis, len(sizes))
    return tuple(squeeze(part, at) for part in split_at(x, [*range(1, sizes[at])], at)) if sizes[at] else ()


@public_api("dtype", wrap=_join_in_groups, entries=_JOINING)
def vstack(tup: Sequence[ArrayLike] | ArrayLike, dtype: DTypeLike | None = None) -> Array:
    """Join arrays along the first axis.

    Args:
      tup: a sequence of arrays, or one array, whose slices along its first axis are meant; numbers count as `[1, 1]`,
        arrays `[n]` as `[1, n]`.
      {dtype}
    Returns: {two_axes}
    Raises: {ShapeError, TypeError, ValueError}

    Derivative: linear; the transpose takes the parts apart.
    Source: meaning of `numpy.vstack`.

    >>> vstack([np.array([1, 2]), np.array([3, 4])])
    Array([[1, 2],
           [3, 4]], dtype=int32)
    """
    return _join("vstack", [atleast_2d(x) for x in _to_list("vstack", tup)], 0, dtype)


@public_api("dtype", wrap=_join_in_groups, entries=_JOINING)
def hstack(tup: Sequence[ArrayLike] | ArrayLike, dtype: DTypeLike | None = None) -> Array:
    """Join arrays along the second axis, or along the only one.

    Args:
      tup: a sequence of arrays, or one array, whose slices along its first axis are meant; numbers count as `[1]`.
      {dtype}
    Returns:
      Array of at least one axis.
    Raises: {ShapeError, TypeError, ValueError}

    Derivative: linear; the transpose takes the parts apart.
    Source: meaning of `numpy.hstack`.

    >>> hstack([np.array([[1], [2]]), np.array([[3], [4]])])
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    xs = [atleast_1d(x) for x in _to_list("hstack", tup)]
    return _join("hstack", xs, 0 if len(typeof(xs[0]).shape) == 1 else 1, dtype)


@public_api("dtype", wrap=_join_in_groups, entries=_JOINING)
def dstack(tup: Sequence[ArrayLike] | ArrayLike, dtype: DTypeLike | None = None) -> Array:
    """Join arrays along the third axis.

    Args:
      tup: a sequence of arrays, or one array, whose slices along its first axis are meant; numbers count as
        `[1, 1, 1]`, arrays `[n]` as `[1, n, 1]`, `[n, m]` as `[n, m, 1]`.
      {dtype}
    Returns:
      Array of at least three axes, joined along the third.
    Raises: {ShapeError, TypeError, ValueError}

    Derivative: linear; the transpose takes the parts apart.
    Source: meaning of `numpy.dstack`.

    >>> dstack([np.array([[1, 2]]), np.array([[3, 4]])])
    Array([[[1, 3],
            [2, 4]]], dtype=int32)
    """
    return _join("dstack", [atleast_3d(x) for x in _to_list("dstack", tup)], 2, dtype)


@public_api(wrap=_join_in_groups, entries=_JOINING)
def column_stack(tup: Sequence[ArrayLike] | ArrayLike) -> Array:
    """Arrays of one axis as the columns of a matrix.

    Args:
      tup: a sequence of arrays, or one array, whose slices along its first axis are meant; numbers and arrays `[n]`
        become one column, arrays of more axes stay as they are.
    Returns:
      Array of at least two axes, of the common dtype.
    Raises:
      ShapeError: the arrays differ in length.
      {TypeError, ValueError}

    Derivative: linear; the transpose takes the parts apart.
    Source: meaning of `numpy.column_stack`.

    >>> column_stack([np.array([1, 2]), np.array([3, 4])])
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    xs = [asarray(x) for x in _to_list("column_stack", tup)]
    return _join("column_stack", [reshape(x, (-1, 1)) if len(typeof(x).shape) < 2 else x for x in xs], 1)


@public_api()
def block(arrays: Any) -> Array:
    """An array put together from nested lists of blocks.

    Args:
      arrays: an array or number, or lists of such, nested equally deep: the innermost lists join along the last axis,
        those around them along the one before, and so on. Blocks with fewer axes get new ones in front.
    Returns:
      Array of the common dtype, with at least as many axes as lists are nested.
    Raises:
      ShapeError: blocks in a list differ along another axis than theirs.
      ValueError: a list is empty, or lists are not nested equally deep.
      TypeError: a block is neither an array nor a number; tuples are none.

    Derivative: linear; the transpose takes the blocks apart.
    Source: meaning of `numpy.block`.

    >>> block([[np.eye(2), np.zeros((2, 1))], [np.ones((1, 3))]])
    Array([[1., 0., 0.],
           [0., 1., 0.],
           [1., 1., 1.]], dtype=float32)
    """
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
            return _join("block", [join(e, level - 1) for e in x], n - level)
        short = n - len(typeof(x).shape)
        return insert_axes(asarray(x), tuple(range(short)))
    levels = depth(arrays)
    n = max(levels, rank(arrays))
    return join(arrays, levels)


@public_api("axis")
def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """Values behind the end of an array.

    Args:
      arr: array, number or list of numbers.
      values: what comes behind; of the shape of `arr` but for the axis.
      axis: the axis along which they are joined; negative ones count from the end. None flattens both first.
    Returns:
      Array of the common dtype.
    Raises:
      ShapeError: with an axis, `arr` and `values` differ in rank or along another axis, or do not have this one.
      TypeError: `arr` or `values` holds what is no number.

    Derivative: linear; the transpose takes the parts apart.
    Source: meaning of `numpy.append`.

    >>> append(np.array([1, 2]), 3)
    Array([1, 2, 3], dtype=int32)
    """
    check_no_axis_name("append", "axis", axis)
    return _join("append", [ravel(asarray(arr)), ravel(asarray(values))], 0) if axis is None \
        else _join("append", _to_list("append", [arr, values]), axis)


@jitted_core("indices_or_sections", "axis", name="split")
def _split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    return _split_raw("split", ary, indices_or_sections, axis, True)


@jitted_core("indices_or_sections", "axis", name="array_split")
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


def _parse_cuts(call: str, x: Any) -> int | tuple[int, ...]:
    """A number of parts, or places to cut at, as static arguments."""
    if hasattr(x, "shape"):
        x = np.asarray(x).tolist()
    try:
        return tuple(map(operator.index, x)) if isinstance(x, (list, tuple)) else operator.index(x)
    except TypeError as e:
        if isinstance(e, ConcretizationError):
            raise
        raise TypeError(f"{call}: indices_or_sections must be an integer or a sequence of them; got {x!r}") from e


@fill_docstring(_SPLIT)
def split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Split an array into equal parts along an axis.

    Args: {ary, indices_or_sections, axis}
    Returns: {result}
    Raises:
      {ValueError}
      ShapeError: `axis` is outside `[-ary.ndim, ary.ndim)`.
      {TypeError}

    Derivative: linear; the transpose joins the parts.
    Source: meaning of `numpy.split`.

    >>> split(np.arange(4), [1, 3])
    [Array([0], dtype=int32), Array([1, 2], dtype=int32), Array([3], dtype=int32)]
    """
    return _split(ary, _parse_cuts("split", indices_or_sections), axis)


@fill_docstring(_JOINING)
def array_split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Split an array into parts along an axis, also into nearly equal ones.

    Args:
      ary: array `[..., n, ...]` of any dtype.
      indices_or_sections: the number of parts, the first of which are one longer if it does not divide `n`; or a
        sequence of ints: the start of each part except the first, as in slices. Must be known while tracing.
      axis: the axis of length `n`; negative ones count from the end.
    Returns: {result}
    Raises:
      ValueError: a number of parts below 1.
      ShapeError: `axis` is outside `[-ary.ndim, ary.ndim)`.
      TypeError: `indices_or_sections` holds no integers, or `ary` is neither an array nor a number.

    Derivative: linear; the transpose joins the parts.
    Source: meaning of `numpy.array_split`.

    >>> [part.shape for part in array_split(np.arange(5), 3)]
    [(2,), (2,), (1,)]
    """
    return _array_split(ary, _parse_cuts("array_split", indices_or_sections), axis)


class Split(Protocol):
    """The type of `hsplit`, `vsplit` and `dsplit`."""

    def __call__(self, ary: ArrayLike, indices_or_sections: int | Sequence[int]) -> list[Array]: ...


def _make_split(name: str, axis: int, says: str, least: str, example: str) -> Split:
    def op(ary: ArrayLike, indices_or_sections: int | Sequence[int]) -> list[Array]:
        if name == "hsplit" and len(aval(name, ary).shape) == 1:
            return split(ary, indices_or_sections, 0)
        return split(ary, indices_or_sections, axis)
    op.__name__ = op.__qualname__ = name
    op.__doc__ = f"""{says}

    Args:
      ary: array of at least {least}, of any dtype.
      {{indices_or_sections}}
    Returns: {{result}}
    Raises:
      {{ValueError, TypeError}}
      ShapeError: `ary` has fewer axes.

    Derivative: linear; the transpose joins the parts.
    Source: meaning of `numpy.{name}`.

    {example}
    """
    return fill_docstring(_SPLIT)(op)


hsplit = _make_split("hsplit", 1, "Split an array along its second axis, or its only one.", "one axis",
                     ">>> hsplit(np.array([[1, 2], [3, 4]]), 2)[1]\n    Array([[2],\n           [4]], dtype=int32)")
vsplit = _make_split("vsplit", 0, "Split an array along its first axis.", "one axis",
                     ">>> vsplit(np.array([[1, 2], [3, 4]]), 2)[1]\n    Array([[3, 4]], dtype=int32)")
dsplit = _make_split("dsplit", 2, "Split an array along its third axis.", "three axes",
                     ">>> [part.shape for part in dsplit(np.ones((2, 3, 4)), 2)]\n    [(2, 3, 2), (2, 3, 2)]")
