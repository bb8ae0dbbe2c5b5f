"""Choosing and placing elements by condition: `where` and its relatives."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir import dtypes
from lamina_tracing import Array, ArrayLike, lax, hooks
from lamina_tracing.extend import Tracer, check_axis, rename_errors, typeof

from .._core.promotion import (alike, aval, broadcast, broadcast_shapes_of, cast, check_cast, is_array, literal,
                               refuse_out)
from .._core.public_api import PLAIN_NUMBERS, get_jitted, jitted_core, public_api
from .._core.axes import insert_axes
from .._core.select import choose_by, truth
from .._core.conversion import asarray, wrap_host_values
from .._elementwise.division import remainder
from .._shape.layout import moveaxis, ravel, reshape
from .._shape.tiling import resize
from .._reductions.cumulative import cumsum
from .take import take
from .positions import bring_into_range, nonzero

__all__ = ["choose", "compress", "extract", "piecewise", "place", "put", "select", "where"]


def _dispatch_where(plain: Any) -> Any:
    """Return the exported `where`: with three arguments, the most common form, one compiled call."""
    twin, named, slot = get_jitted(plain), rename_errors(plain), hooks.operators

    def call(condition: Any, x: Any = None, y: Any = None, /, *, size: int | None = None, fill_value: Any = None) -> Any:
        if x is None or y is None or size is not None or fill_value is not None:
            return named(condition, x, y, size=size, fill_value=fill_value)
        if type(x) in PLAIN_NUMBERS:
            x = slot.device_scalar_like(condition, x)
        if type(y) in PLAIN_NUMBERS:
            y = slot.device_scalar_like(condition, y)
        return twin(condition, x, y)
    return call


@public_api(wrap=_dispatch_where)
def where(condition: ArrayLike, x: ArrayLike | None = None, y: ArrayLike | None = None, /, *, size: int | None = None,
          fill_value: ArrayLike | Sequence[ArrayLike] | None = None) -> Any:
    """One array where a condition holds, another where not; or where it holds.

    Args:
      condition: booleans, or numbers, which hold where they are not zero.
      x, y: arrays or numbers that broadcast with the condition and each other; None both for the indices.
      size, fill_value: of the indices, as of `nonzero`.
    Returns:
      Array of the common shape and dtype of `x` and `y`. Without them what `nonzero(condition)` gives: a tuple of one
      integer array per axis.
    Raises:
      ValueError: only one of `x` and `y` is given, or `size` or `fill_value` with them; or the condition is the only
        argument and has no axis.
      ShapeError: they do not broadcast.
      TypeError: an argument is neither an array nor a number.
      ConcretizationError: the condition alone is traced and `size` is None.

    Derivative: goes to the array chosen; where the one not chosen has an infinite derivative, NaN comes out all the same.
    Source: meaning of `numpy.where`; `size` and `fill_value` are additions.

    >>> where(np.array([True, False]), np.array([1, 2]), 9.0)
    Array([1., 9.], dtype=float32, weak_type=True)
    >>> where(np.array([False, True]))
    (Array([1], dtype=int32),)
    """
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        raise ValueError("where: give both x and y, or neither")
    if size is not None or fill_value is not None:
        raise ValueError("where: size and fill_value need the form with one argument")
    return choose_by(condition, x, y)


@public_api()
def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: ArrayLike = 0) -> Array:
    """For each element the first choice whose condition holds.

    Args:
      condlist: boolean arrays.
      choicelist: as many arrays or numbers; all broadcast with the conditions.
      default: the element where no condition holds.
    Returns:
      Array of the common shape, and of the common dtype of choices and default.
    Raises:
      ValueError: there are no conditions, or not as many as choices.
      TypeError: a condition is not boolean, or a choice neither an array nor a number.
      ShapeError: they do not broadcast.

    Source: meaning of `numpy.select`.

    >>> select([np.array([True, False, False]), np.array([True, True, False])], [1, 2], 9)
    Array([1, 2, 9], dtype=int32, weak_type=True)
    """
    if len(condlist) != len(choicelist):
        raise ValueError(f"select: condlist and choicelist must have the same length; got {len(condlist)} and "
                         f"{len(choicelist)}")
    if not condlist:
        raise ValueError("select: at least one condition is needed")
    *choices, out = alike("select", [*choicelist, default])
    for condition, choice in zip(reversed(condlist), reversed(choices)):
        if typeof(condition).dtype != dtypes.BOOL:
            raise TypeError(f"select: conditions must be boolean; got {typeof(condition).str_long()}")
        out = choose_by(condition, choice, out)
    return out


@jitted_core("mode", name="choose")
def _choose(a: Any, choices: Any, mode: str) -> Any:
    return choose(a, choices, None, mode)


def choose(a: ArrayLike, choices: Sequence[ArrayLike] | ArrayLike, out: None = None, mode: str = "raise") -> Array:
    """For each element the choice that its integer names.

    Args:
      a: integers in `[0, n)`.
      choices: `n` arrays or numbers that broadcast with `a`, or one array whose first axis has length `n`.
      out: not supported, must be None: arrays never change.
      mode: what becomes of integers outside: "raise", which must know them, "wrap" takes them modulo `n`, "clip" the
        nearest inside.
    Returns:
      Array of the common shape, and of the common dtype of the choices.
    Raises:
      ValueError: `a` holds no integers, one outside in mode "raise", or another `mode`.
      ConcretizationError: `a` is traced in mode "raise".
      ShapeError: `a` and the choices do not broadcast.
      NotImplementedError: `out` is given.

    Source: meaning of `numpy.choose`.

    >>> choose(np.array([0, 1, 0]), [np.array([1, 2, 3]), 9])
    Array([1, 9, 3], dtype=int32)
    """
    refuse_out("choose", out)
    a = a if hasattr(a, "dtype") else asarray(a)
    if not dtypes.is_integer(aval("choose", a).dtype):
        raise ValueError(f"choose: expected integers; got {typeof(a).str_long()}")
    if not isinstance(choices, (list, tuple)):
        rows = asarray(choices)
        choices = [rows[i] for i in range(typeof(rows).shape[0])]
    n = len(choices)
    if mode == "raise":
        known = np.asarray(a)
        if ((known < 0) | (known >= n)).any():
            raise ValueError(f"choose: an index is outside [0, {n}); use mode 'wrap' or 'clip'")
        if not isinstance(a, Tracer):
            return _choose(a, choices, "clip")
    elif mode not in ("wrap", "clip"):
        raise ValueError(f"choose: mode must be 'raise', 'wrap' or 'clip'; got {mode!r}")
    a = bring_into_range(a, n, mode)
    values = alike("choose", choices)
    # A chain of selects from the last choice to the first: choices need not have one shape, only broadcast.
    picked = values[-1]
    shape = broadcast_shapes_of("choose", (typeof(a).shape, typeof(picked).shape))
    a = broadcast(a, typeof(a).shape, shape)
    picked = broadcast(picked, typeof(picked).shape, shape)
    for i in range(n - 2, -1, -1):
        picked = choose_by(lax.eq(a, literal(i, typeof(a).dtype)), values[i], picked)
    return picked


def piecewise(x: ArrayLike, condlist: Any, funclist: Sequence[Any], *args: Any, **kwargs: Any) -> Array:
    """A function by cases.

    Args:
      x: array, number or list of numbers.
      condlist: a sequence of conditions that broadcast to `x`, booleans or numbers; or one boolean array of the shape
        of `x`.
      funclist: one number or function for each condition, of which the last that holds wins; one more is for where
        none holds, else 0.
      args, kwargs: further arguments of the functions. Each is called once, with the whole of `x`.
    Returns:
      Array of the shape and dtype of `x`, as which all values are taken.
    Raises:
      ValueError: `funclist` does not fit `condlist`.
      ShapeError: a condition does not broadcast to `x`.
      TypeError: `x` holds what is no number.

    Source: meaning of `numpy.piecewise`, which calls each function with its part of `x` only.

    >>> piecewise(np.array([-1.0, 2.0]), [np.array([True, False])], [lambda x: -x, 5.0])
    Array([1., 5.], dtype=float32)
    """
    own: Any = x if hasattr(x, "dtype") else asarray(x)
    if not isinstance(condlist, (list, tuple)):
        condlist = [condlist] if typeof(condlist).dtype == dtypes.BOOL and typeof(condlist).shape == own.shape \
            else list(condlist)
    condlist = [asarray(c) for c in condlist]
    if len(funclist) not in (len(condlist), len(condlist) + 1):
        raise ValueError(f"piecewise: with {len(condlist)} conditions, expected {len(condlist)} or {len(condlist) + 1} "
                         f"functions; got {len(funclist)}")
    values = [f(own, *args, **kwargs) if callable(f) else f for f in funclist]
    out: Any = values.pop() if len(values) > len(condlist) else 0
    dtype = typeof(own).dtype
    out = cast(out, dtype)
    # the last condition that holds wins, as in numpy.piecewise
    for condition, value in zip(condlist, values):
        out = choose_by(condition, cast(value, dtype), out)
    return broadcast(out, typeof(out).shape, own.shape)


def extract(condition: ArrayLike, arr: ArrayLike, *, size: int | None = None, fill_value: ArrayLike = 0) -> Array:
    """The elements where a condition holds.

    Args:
      condition: array of booleans or numbers, in flat order; known, unless `size` is given.
      arr: array of as many elements, in flat order.
      size: length of the result: what is too much is cut off, what is missing filled up. None for as many as there
        are.
      fill_value: what fills up.
    Returns:
      Array of one axis, with the dtype and units of `arr`.
    Raises:
      ValueError: the condition holds past the end of `arr`, or `size` is negative.
      ConcretizationError: the condition is traced and `size` is None.
      TypeError: an argument holds what is no number.

    Source: meaning of `numpy.extract`; `size` and `fill_value` are additions.

    >>> extract(np.array([True, False, True]), np.array([1, 2, 3]))
    Array([1, 3], dtype=int32)
    """
    is_known = isinstance(condition, np.ndarray) or is_array(condition) and not isinstance(condition, Tracer)
    mask = np.asarray(condition).reshape(-1) if is_known else ravel(asarray(condition))  # stays known while tracing
    return compress(mask, ravel(asarray(arr)), size=size, fill_value=fill_value)


def compress(condition: ArrayLike, a: ArrayLike, axis: int | None = None, *, size: int | None = None,
             fill_value: ArrayLike = 0, out: None = None) -> Array:
    """The slices along an axis where a condition holds.

    Args:
      condition: booleans or numbers `[k]`; short ones hold no further. Known, unless `size` is given.
      a: array `[..., n, ...]` of any dtype.
      axis: the axis of length `n`; negative counts from the end. None flattens `a` first.
      size: length of the result: what is too much is cut off, what is missing filled up. None for as many as there
        are.
      fill_value: what fills up.
      out: not supported, must be None: arrays never change.
    Returns:
      Array with the dtype and units of `a`.
    Raises:
      ValueError: the condition does not have one axis or holds past the end, or `size` is negative.
      ConcretizationError: the condition is traced and `size` is None.
      ShapeError: `axis` is outside `[-a.ndim, a.ndim)`.
      NotImplementedError: `out` is given.

    Source: meaning of `numpy.compress`; `size` and `fill_value` are additions.

    >>> compress(np.array([False, True]), np.array([[1, 2], [3, 4]]), axis=0)
    Array([[3, 4]], dtype=int32)
    """
    refuse_out("compress", out)
    mask, a = asarray(condition), asarray(a)
    if len(mask.shape) != 1:
        raise ValueError(f"compress: the condition must have one axis; got {typeof(mask).str_long()}")
    if axis is None:
        a, axis = ravel(a), 0
    axis = check_axis("compress", axis, len(a.shape))
    n = min(mask.shape[0], a.shape[axis])
    if size is None:
        found = np.flatnonzero(np.asarray(mask))
        if found.size and found[-1] >= n:
            raise ValueError(f"compress: condition is true at index {found[-1]}, past the end of axis {axis} of "
                             f"{typeof(a).str_long()}")
        return take(a, wrap_host_values(found), axis=axis)
    (at,) = nonzero(mask[:n], size=size, fill_value=n)
    good = lax.lt(at, literal(n, typeof(at).dtype))
    picked = moveaxis(take(a, at, axis=axis, mode="clip"), axis, -1)
    good = insert_axes(good, tuple(range(len(typeof(picked).shape) - 1)))
    if type(fill_value) is int and typeof(picked).dtype == dtypes.BOOL:
        fill_value = bool(fill_value)  # the default, 0, would make integers of truth values
    return moveaxis(choose_by(good, picked, fill_value), -1, axis)


def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = True) -> Array:
    """A copy of an array with other values where a mask holds.

    Args:
      arr: array of any dtype.
      mask: as many booleans or numbers; may be traced.
      vals: values for the places in order, begun again where they are too few; they become elements of the dtype of
        `arr`.
      inplace: must be False: arrays never change.
    Returns:
      Array of the shape, dtype and units of `arr`.
    Raises:
      ValueError: `inplace` is True, `mask` has another number of elements, or `vals` none.
      TypeError: an argument holds what is no number.

    Source: meaning of `numpy.place`, which changes `arr`.

    >>> place(np.array([1, 2, 3]), np.array([True, False, True]), np.array([8, 9]), inplace=False)
    Array([8, 2, 9], dtype=int32)
    """
    if inplace:
        raise ValueError("place: arrays are immutable; pass inplace=False and use the result")
    arr, mask, vals = asarray(arr), ravel(truth("place", asarray(mask))), ravel(asarray(vals))
    if typeof(mask).size != typeof(arr).size:
        raise ValueError(f"place: arr and mask must have as many elements; got {typeof(arr).str_long()} and "
                         f"{typeof(mask).str_long()}")
    if not vals.shape[0]:
        raise ValueError("place: vals must not be empty")
    check_cast("place", arr, vals)
    order = remainder(cumsum(mask, dtype=np.dtype("int32")) - 1, vals.shape[0])
    new = cast(take(vals, order, mode="clip"), typeof(arr).dtype)
    return reshape(choose_by(mask, new, ravel(arr)), arr.shape)


def put(a: ArrayLike, ind: ArrayLike, v: ArrayLike, mode: str | None = None, *, inplace: bool = True) -> Array:
    """A copy of an array with other values at flat positions.

    Args:
      a: array of any dtype.
      ind: integers, the positions; may be traced.
      v: values for them in order, begun again where they are too few; they become elements of the dtype of `a`.
      mode: what becomes of positions outside: None skips them, negative ones counting from the end; "clip" takes the
        nearest inside, "wrap" goes modulo the number of elements.
      inplace: must be False: arrays never change.
    Returns:
      Array of the shape, dtype and units of `a`; the same where `v` is empty.
    Raises:
      ValueError: `inplace` is True, or another `mode`.
      TypeError: `ind` holds no integers, or another argument what is no number.

    Source: meaning of `numpy.put`, which changes `a` and refuses positions outside.

    >>> put(np.array([1, 2, 3]), np.array([0, -1]), np.array([8, 9]), inplace=False)
    Array([8, 2, 9], dtype=int32)
    """
    if inplace:
        raise ValueError("put: arrays are immutable; pass inplace=False and use the result")
    a, ind, v = asarray(a), ravel(asarray(ind)), asarray(v)
    if mode not in (None, "clip", "wrap"):
        raise ValueError(f"put: mode must be None, 'clip' or 'wrap'; got {mode!r}")
    if not typeof(v).size:  # as in NumPy: nothing to put
        return a
    check_cast("put", a, v)
    if mode == "wrap" and dtypes.is_integer(typeof(ind).dtype):
        ind = bring_into_range(ind, typeof(a).size, "wrap")
    v = cast(resize(v, typeof(ind).shape), typeof(a).dtype)
    flat = ravel(a).at[ind].set(v, mode="clip" if mode == "clip" else "drop")
    return reshape(flat, typeof(a).shape)
