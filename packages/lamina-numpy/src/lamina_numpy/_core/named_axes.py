"""Names of mapped axes where a function takes axes: the one place that decides names from positions.

Three kinds of function take names. Reductions get their axes from `axes_of`: a tuple of positions or, with names, a
`ReductionAxes`, for which `reduce_axes` binds the primitive and then collectives. Functions that keep an axis are marked
`along_axis`: they run on the values of all positions, and each position takes its own part of the result. Single ones say
themselves what a name means. All others refuse a name, where they check their axis (`check_axis`).
"""
from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable
from inspect import signature
from typing import Any, TypeVar, cast

from lamina_ir import prims, trees
from lamina_tracing import lax
from lamina_tracing.extend import (ReductionAxes, parse_reduction_axes, check_axis, gather_named_axes, is_axis_name,
                                   select_member, typeof)

from .axes import insert_axes
from .promotion import equation

__all__ = ["ReductionAxes", "along_axis", "axes_of", "count_along", "gather_to_front", "keep_axes", "reduce_axes"]

F = TypeVar("F", bound=Callable[..., Any])

_REDUCTIONS = {prims.reduce_sum_p: lax.reduce_sum, prims.reduce_prod_p: lax.reduce_prod, prims.reduce_max_p: lax.reduce_max,
               prims.reduce_min_p: lax.reduce_min, prims.reduce_and_p: lax.reduce_and, prims.reduce_or_p: lax.reduce_or}


def axes_of(call: str, axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes to go over, counted from the front: all positional ones for None; an `ReductionAxes` where there are names."""
    if axis is None:
        return tuple(range(ndim))
    if type(axis) is int:
        return (axis,) if 0 <= axis < ndim else (check_axis(call, axis, ndim),)
    return parse_reduction_axes(call, axis, ndim)


def keep_axes(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """With `keepdims` the reduced axes, of length 1; a named one has no place to keep."""
    return insert_axes(x, axes) if keepdims else x


def count_along(axes: tuple[int, ...], shape: tuple[int, ...]) -> int:
    """How many elements go into one of a reduction."""
    n = math.prod([shape[i] for i in axes])
    return n if type(axes) is tuple else n * axes.size  # type: ignore[attr-defined]  # an Along


def reduce_axes(prim: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """A reduction as one equation; over names, then the collective of that meaning."""
    if type(axes) is tuple:
        return equation(prim, x, axes=axes)
    return _REDUCTIONS[prim](x, axes)


def gather_to_front(x: Any, names: tuple[Hashable, ...]) -> Any:
    """The values of all positions, with a new axis in front for each name."""
    for name in reversed(names):
        x = gather_named_axes(x, (name,))
    return x


def along_axis(arrays: int = 1, several: bool = False, argument: str = "axis") -> Callable[[F], F]:
    """Mark a function whose result has the axes that it goes along: it takes names for them.

    Args:
      arrays: how many of its first arguments have these axes; None among them is left alone.
      several: whether it takes several axes.
      argument: what it calls them.
    """
    def mark(fun: F) -> F:
        parameters = signature(fun).parameters
        at, default = list(parameters).index(argument), parameters[argument].default

        @functools.wraps(fun)
        def run(*args: Any, **kwargs: Any) -> Any:
            axis = args[at] if len(args) > at else kwargs[argument] if argument in kwargs else default
            if type(axis) is int or axis is None or not _has_name(axis, several):
                return fun(*args, **kwargs)
            bound = signature(fun).bind(*args, **kwargs)
            given = bound.arguments
            first = list(parameters)[:arrays]
            axes = parse_reduction_axes(fun.__name__, axis, len(typeof(_get_first_leaf(given[first[0]])).shape))
            names = axes.names  # type: ignore[attr-defined]
            for name in first:
                if given.get(name) is not None:
                    given[name] = trees.tree_map(lambda x: gather_to_front(x, names), given[name])
            moved = [names.index(a) if not hasattr(a, "__index__") else a if a < 0 else a + len(names)
                     for a in (axis if isinstance(axis, (tuple, list)) else (axis,))]
            given[argument] = tuple(moved) if isinstance(axis, (tuple, list)) else moved[0]
            return trees.tree_map(lambda y: _select_own(fun.__name__, argument, y, names),
                                  fun(*bound.args, **bound.kwargs))
        return cast(F, run)
    return mark


def _has_name(axis: Any, several: bool) -> bool:
    return any(not hasattr(a, "__index__") for a in axis) if several and isinstance(axis, (tuple, list)) else is_axis_name(axis)


def _get_first_leaf(x: Any) -> Any:
    return x[0] if isinstance(x, (tuple, list)) and x else x


def _select_own(call: str, argument: str, y: Any, names: tuple[Hashable, ...]) -> Any:
    for name in names:
        n, size = typeof(y).shape[0], lax.axis_size(name)
        if n != size:
            raise TypeError(f"{call}: {argument} takes positional axes only where their length changes; the result has {n} "
                            f"places along {name!r}, which has {size} positions")
        y = select_member(y, name)
    return y
