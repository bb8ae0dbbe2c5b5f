"""Shapes and axes under everything else: sizes checked, and changes of shape that are one equation or none."""
from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir import ShapeError, prims
from lamina_tracing import lax
from lamina_tracing.extend import contains_tracer, EVALUATION, trace_state, Tracer, typeof

from .promotion import equation

__all__ = ["as_shape", "insert_axes", "join", "permute_axes", "reshape_to", "resolve_sizes", "split_at"]


def as_shape(call: str, shape: Any, name: str = "a shape") -> tuple[int, ...]:
    """A shape, or something like it that messages call `name`, as a tuple of ints."""
    try:
        if isinstance(shape, int) or getattr(shape, "shape", None) == ():
            sizes: tuple[int, ...] = (operator.index(shape),)
        else:
            sizes = tuple(map(operator.index, shape))
    except TypeError as e:
        raise _make_not_sizes_error(call, shape, name, e) from e
    if isinstance(shape, (dict, set)):
        raise TypeError(f"{call}: {name} must be a sequence of integers; got {shape!r}")
    if sizes and min(sizes) < 0:
        raise ShapeError(f"{call}: {name} must not have negative sizes; got {sizes}")
    return sizes


def _make_not_sizes_error(call: str, shape: Any, name: str, why: TypeError) -> TypeError:
    if any(isinstance(x, Tracer) for x in (shape, *(shape if isinstance(shape, (list, tuple)) else ()))):
        return why  # it says where the traced size comes from
    return TypeError(f"{call}: {name} must be a sequence of integers; got {shape!r}")


def resolve_sizes(call: str, old: tuple[int, ...], new: Any) -> tuple[int, ...]:
    """A target shape with its -1 worked out; TypeError when the number of elements differs."""
    if isinstance(new, (int, np.integer)):
        sizes: tuple[int, ...] = (int(new),)
    else:
        try:
            sizes = tuple([operator.index(s) for s in new])
        except TypeError as e:
            raise _make_not_sizes_error(call, new, "a shape", e) from e
    count = math.prod(old)
    if -1 in sizes:
        rest = -math.prod(sizes)
        if sizes.count(-1) > 1 or rest <= 0 or count % rest:
            raise _make_size_error(call, old, sizes)
        sizes = tuple([count // rest if s == -1 else s for s in sizes])
    if math.prod(sizes) != count or sizes and min(sizes) < 0:
        raise _make_size_error(call, old, sizes)
    return sizes


def _make_size_error(call: str, old: tuple[int, ...], new: Any) -> Exception:
    return ShapeError(f"{call}: cannot reshape an array of shape {old} ({math.prod(old)} elements) into {new}; the "
                      "numbers of elements must agree, with at most one -1")


def reshape_to(a: Any, old: tuple[int, ...], new: tuple[int, ...]) -> Any:
    """`a`, of shape `old`, in the shape `new` of as many elements."""
    return a if old == new else equation(prims.reshape_p, a, new_sizes=new, dimensions=None)


def permute_axes(a: Any, order: tuple[int, ...]) -> Any:
    """`a` with its axes in this order."""
    return a if order == tuple(range(len(order))) else equation(prims.transpose_p, a, permutation=order)


def insert_axes(a: Any, axes: tuple[int, ...]) -> Any:
    """`a` with new axes of length 1 at these (sorted or not, non-negative) places."""
    return equation(prims.expand_dims_p, a, dimensions=tuple(sorted(axes))) if axes else a

_GROUP = 64  # how many arrays an eager concatenation takes at a time


def join(xs: list[Any], at: int) -> Any:
    """Arrays of one dtype end to end. Many are joined in groups when eager: compiling one op of them all takes long."""
    if len(xs) > _GROUP and trace_state.trace is EVALUATION and not contains_tracer(xs):
        xs = [join(xs[i:i + _GROUP], at) for i in range(0, len(xs), _GROUP)]
        return join(xs, at)
    return xs[0] if len(xs) == 1 else lax.concatenate(xs, at)


def split_at(x: Any, at: Sequence[int], axis: int) -> list[Any]:
    """`x` in pieces, each beginning where the one before ends; positions as in slices."""
    sizes = typeof(x).shape
    n = sizes[axis]
    edges = [0, *(min(max(i + n if i < 0 else i, 0), n) for i in at), n]
    parts = []
    for lo, hi in zip(edges, edges[1:]):
        start, stop = [0] * len(sizes), list(sizes)
        start[axis], stop[axis] = lo, max(lo, hi)
        parts.append(lax.slice(x, tuple(start), tuple(stop)))
    return parts
