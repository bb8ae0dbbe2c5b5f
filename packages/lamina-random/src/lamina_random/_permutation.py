"""Orders and choices."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
from lamina_ir import ShapeError, config, dtypes
from lamina_tracing import Array, ArrayLike, jit, lax, ShapeLike
from lamina_tracing.extend import check_axis, rename_errors, check_no_axis_name, scalar, typeof

from ._args import as_flag, as_shape, check_key, is_high, refuse_complex
from ._bits import draw_bits
from ._continuous import gumbel_core
from ._discrete import randint_core
from ._keys import split_keys
from ._named_axes import takes_names
from ._typed_keys import unwrap_key
from ._normal import draw_unit

__all__ = ["choice", "permutation", "shuffle"]

_part, _high = config.threefry_partitionable, config.high_dynamic_range_gumbel


@rename_errors
def permutation(key: ArrayLike, x: ArrayLike, axis: int = 0, independent: bool = False) -> Array:
    """`x` in random order along one axis; for an integer n, the numbers 0..n-1 in random order.

    Args:
      key: a key, from `random.key` or `split`.
      x: an array, or an integer.
      axis: the axis whose positions change places.
      independent: whether each line along the axis gets an order of its own.
    Returns:
      Array of the shape and dtype of `x`; for an integer n int32[n] (int64 in 64-bit mode).
    Raises:
      ShapeError: `axis` is outside of `x`, `x` is a number that is no integer, or `key` is not uint32[2].

    Source: sorted by random 32-bit keys, as often as makes equal keys too rare to matter.

    >>> from lamina_random import PRNGKey
    >>> sorted(permutation(PRNGKey(0), 4).tolist())
    [0, 1, 2, 3]
    """
    aval, key = typeof(x), unwrap_key("permutation", key)
    independent = as_flag("permutation", independent, "independent")
    if not aval.shape:
        if not dtypes.is_integer(aval.dtype):
            raise ShapeError(f"permutation: expected an array or an integer; got {aval.str_long()}")
        check_axis("permutation", axis, 1)
        return _count_off(key, max(int(np.asarray(x)), 0), _part.value)
    axis = check_axis("permutation", axis, aval.ndim)
    if aval.shape[axis] == 0:  # nothing to take rows from
        return lax.full(aval.shape, 0, aval.dtype)
    return _permute(key, x, axis, independent or aval.ndim == 1, _part.value)


@rename_errors
def shuffle(key: ArrayLike, x: ArrayLike, axis: int = 0) -> Array:
    """`x` with the elements of each line along an axis in a random order of their own.

    Args:
      key: a key, from `random.key` or `split`.
      x: an array.
      axis: the axis along which the lines run.
    Returns:
      Array of the shape and dtype of `x`.
    Raises:
      ShapeError: `axis` is outside of `x`, or `key` is not uint32[2].

    Source: `permutation` with `independent=True`.

    >>> from lamina_random import PRNGKey
    >>> sorted(shuffle(PRNGKey(0), np.arange(4)).tolist())
    [0, 1, 2, 3]
    """
    check_no_axis_name("shuffle", "axis", axis)
    return permutation(key, x, axis, independent=True)


def sort_by_bits(key: Any, x: Any, axis: int, part: bool) -> Any:
    size = typeof(x).size
    for _ in range(math.ceil(3 * math.log(max(1, size)) / math.log((1 << 32) - 1))):
        key, now = split_keys(key, 2, part)
        order = draw_bits("permutation", now, 32, typeof(x).shape, part)
        _, x = lax.sort_key_val(order, x, axis)
    return x


def _permute_range(key: Any, n: int, part: bool) -> Any:
    check_key("permutation", key)
    return sort_by_bits(key, lax.iota(dtypes.canonical_int(), n), 0, part)


def _permute_core(key: Any, x: Any, axis: int, independent: bool, part: bool) -> Any:
    if independent:
        return sort_by_bits(key, x, axis, part)
    return _take(x, _permute_range(key, typeof(x).shape[axis], part), axis)


_count_off = jit(_permute_range, static_argnums=(1, 2), inline=True)
_permute = jit(_permute_core, static_argnums=(2, 3, 4), inline=True)


def _take(x: Any, index: Any, axis: int) -> Any:
    """Positions of one axis: `index`'s axes take the place of `axis`."""
    flat = lax.index_take(x, (lax.reshape(index, (typeof(index).size,)),), (axis,))
    shape, own = typeof(x).shape, typeof(index).shape
    order = (*range(1, axis + 1), 0, *range(axis + 1, len(shape)))
    return lax.reshape(lax.transpose(flat, order), (*shape[:axis], *own, *shape[axis + 1:]))


@takes_names
def choice(key: ArrayLike, a: ArrayLike, shape: ShapeLike = (), replace: bool = True, p: ArrayLike | None = None,
           axis: int = 0, mode: str | None = None) -> Array:
    """Elements chosen from an array, or from 0..a-1 for an integer `a`.

    Args:
      key: a key, from `random.key` or `split`.
      a: an array, or a positive integer.
      shape: how many; its axes take the place of `axis`.
      replace: whether an element may be chosen again.
      p: probabilities of the positions along `axis`, float `[n]`; default: equal ones.
      axis: the axis of `a` to choose along.
      mode: "low" or "high", as in `gumbel`: of choices without `replace` and with `p`.
    Returns:
      Array of the dtype of `a`, of its shape with `axis` replaced by `shape`.
    Raises:
      ShapeError: there is nothing to choose from; without `replace` more is asked for than there is; `p` does not give one
        probability per position; `axis` is outside of `a`; `key` is not uint32[2].
      ValueError: another `mode`.

    Source: without `replace` and with `p`, the positions of the largest sums of `log p` and Gumbel numbers.

    >>> from lamina_random import PRNGKey
    >>> choice(PRNGKey(0), 5, (3,), replace=False).shape
    (3,)
    """
    shape, replace = as_shape("choice", shape), as_flag("choice", replace, "replace")
    aval = typeof(a)
    if aval.shape:
        axis = check_axis("choice", axis, aval.ndim)
        count = aval.shape[axis]
    else:
        count = int(np.asarray(a))
    drawn = math.prod(shape)
    if count < 1 and drawn:
        raise ShapeError("choice: there is nothing to choose from; a must not be empty")
    if not replace and drawn > count:
        raise ShapeError(f"choice: without replace at most {count} elements can be chosen; got shape {shape}, so "
                         f"{drawn}")
    if p is not None and typeof(p).shape != (count,):
        raise ShapeError(f"choice: p must give {count} probabilities; got {typeof(p).str_long()}")
    if p is not None:
        refuse_complex("choice", typeof(p))
    high = is_high("choice", mode, _high.value)
    return _choice(key, a if aval.shape else None, p, count, shape, replace, axis, high, _part.value)


def _choice_core(key: Any, a: Any, p: Any, count: int, shape: tuple[int, ...], replace: bool, axis: int, high: bool,
                 part: bool) -> Any:
    kind = dtypes.canonical_int()
    drawn = math.prod(shape)
    if p is None and not replace:
        if a is not None:
            return _take_first(_permute_core(key, a, axis, typeof(a).ndim == 1, part), drawn, shape, axis)
        index = lax.reshape(lax.slice(_permute_range(key, count, part), (0,), (drawn,)), shape)
    elif p is None:
        index = randint_core(key, np.asarray(0, kind), np.asarray(count, kind), shape, kind, False, part)
    else:
        own = typeof(p).dtype
        p = lax.convert_element_type(p, own if dtypes.is_float(own) else f"float{max(8 * own.itemsize, 32)}")
        index = _draw_by_weight(key, p, shape, part) if replace else _draw_by_gumbel(key, p, shape, high, part)
    return index if a is None else _take(a, index, axis)


_choice = jit(_choice_core, static_argnums=(3, 4, 5, 6, 7, 8), inline=True)


def _take_first(x: Any, n: int, shape: tuple[int, ...], axis: int) -> Any:
    own = typeof(x).shape
    return lax.reshape(lax.slice_in_dim(x, 0, n, axis=axis), (*own[:axis], *shape, *own[axis + 1:]))


def _draw_by_weight(key: Any, p: Any, shape: tuple[int, ...], part: bool) -> Any:
    """Where the running sum of weights first reaches a uniform number times their total: a search by halves."""
    aval, kind = typeof(p), dtypes.canonical_int()
    n = aval.shape[0]
    sums = lax.cumsum(p, 0)
    total = lax.index_in_dim(sums, n - 1, 0, keepdims=False)
    goal = lax.mul(total, lax.sub(scalar(1, aval.dtype), draw_unit("choice", key, shape, aval.dtype, part)))
    low, high = lax.full(shape, 0, kind), lax.full(shape, n, kind)
    for _ in range(n.bit_length()):
        middle = lax.shift_right_logical(lax.add(low, high), scalar(1, kind))
        below = lax.lt(_take(sums, lax.min(middle, scalar(n - 1, kind)), 0), goal)
        open_ = lax.lt(low, high)
        low, high = (lax.select(lax.bitwise_and(below, open_), lax.add(middle, scalar(1, kind)), low),
                     lax.select(below, high, middle))
    return lax.min(low, scalar(n - 1, kind))


def _draw_by_gumbel(key: Any, p: Any, shape: tuple[int, ...], high: bool, part: bool) -> Any:
    aval = typeof(p)
    score = lax.add(gumbel_core(key, aval.shape, aval.dtype, part, high), lax.log(p))
    _, order = lax.sort_key_val(lax.neg(score), lax.iota(dtypes.canonical_int(), aval.shape[0]), 0)
    return lax.reshape(lax.slice(order, (0,), (math.prod(shape),)), shape)
