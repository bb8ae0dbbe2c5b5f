"""Reductions and positions over mapped axes by their names, in terms of collectives (docs/how-to/names-as-axes.md)."""
from __future__ import annotations

import math
from collections.abc import Hashable

import numpy as np
from lamina_ir import dtypes, Primitive, prims, ShapeError
from lamina_ir.extend import as_axis_name
from lamina_ir.typing import Value
from typing_extensions import override

from ..._core.trace import axis_frame, bind
from ..._core.tracer import typeof
from .. import elementwise as ew
from .._util.operands import check_axes, is_axis_name
from .._util.conversions import convert_element_type
from ..shape import broadcast, squeeze
from ..._typing import Unchecked

__all__ = ["ReductionAxes", "argreduce_named_axis", "gather_named_axes", "parse_reduction_axes", "reduce_named_axes",
           "select_member"]


class ReductionAxes(tuple[int, ...]):
    """Axes of an array, as a tuple, and `names`: the names of mapped axes, at least one.

    Args:
      iterable: the axes of the array.

    >>> tuple(ReductionAxes((0, 2)))
    (0, 2)
    """

    names: tuple[Hashable, ...]

    @override
    def __eq__(self, other: object) -> bool:
        """Compare names too: equal axes are one key of the caches of staged functions."""
        return isinstance(other, ReductionAxes) and self.names == other.names and tuple(self) == tuple(other)

    @override
    def __ne__(self, other: object) -> bool:
        return not self == other

    @override
    def __hash__(self) -> int:
        return hash((tuple(self), self.names))

    @property
    def size(self) -> int:
        """The number of positions along the named axes."""
        n = 1
        for name in self.names:
            n *= axis_frame(name).size
        return n


def _is_named(axis: object) -> bool:
    return is_axis_name(axis) or isinstance(axis, tuple)  # among several axes a tuple is one name


def parse_reduction_axes(call: str, axes: Unchecked, ndim: int) -> tuple[int, ...]:
    """Return axes counted from the front, as `check_axes`; a `ReductionAxes` if there are names of mapped axes.

    Args:
      call: the calling function, for the message.
      axes: an integer or a name, or a sequence of them.
      ndim: the number of axes.
    Returns:
      A tuple, of type `ReductionAxes` if there are names.
    Raises:
      TypeError: something is neither an integer nor a name.
      ShapeError: one is out of range, or named twice.
      UnboundAxisError: a name is not bound.

    >>> parse_reduction_axes("sum", (-1, 0), 3)
    (2, 0)
    """
    if axes.__class__ is tuple:  # positions, as they are nearly always
        for a in axes:
            if a.__class__ is not int:
                break
        else:
            return check_axes(call, axes, ndim)
    elif axes.__class__ is ReductionAxes:
        return axes
    elif is_axis_name(axes):
        axes = (axes,)
    if not isinstance(axes, (tuple, list)) or not any(map(_is_named, axes)):
        return check_axes(call, axes, ndim)
    names = tuple([a for a in axes if _is_named(a)])
    found = ReductionAxes(check_axes(call, tuple([a for a in axes if not _is_named(a)]), ndim))
    if len(set(names)) < len(names):
        raise ShapeError(f"{call}: axes {tuple(axes)} name an axis twice")
    for name in names:
        axis_frame(name)
    found.names = names
    return found


# Reductions that one collective computes over a named axis. The others gather the partial results and reduce those: there
# is no collective for products, nor for bitwise combinations of integers.
_BY_NAME = {prims.reduce_sum_p: prims.psum_p, prims.reduce_max_p: prims.pmax_p, prims.reduce_min_p: prims.pmin_p}
_TRUTH = {prims.reduce_and_p: prims.pmin_p, prims.reduce_or_p: prims.pmax_p}


def reduce_named_axes(prim: Primitive, x: Value, axes: ReductionAxes) -> Value:
    """Reduce over axes of the array and named axes together: with one collective, if there is one for the reduction."""
    dtype = typeof(x).dtype
    truth = dtypes.is_bool(dtype)
    collective = (_TRUTH if truth else _BY_NAME).get(prim)
    if collective is None or dtypes.is_complex(dtype) and prim is not prims.reduce_sum_p:  # complex extremes are ops only here
        return bind(prim, gather_named_axes(bind(prim, x, axes=tuple(axes)), axes.names), axes=(0,))
    return bind(collective, x, axes=(*axes.names, *axes), axis_index_groups=None)[0]


def gather_named_axes(x: Value, names: tuple[Hashable, ...]) -> Value:
    """Gather the values of all members along a new axis in front; several named axes are one, the first varying slowest.

    Args:
      x: array, one per position.
      names: of mapped axes.
    Returns:
      An array with one axis more, the same for every position.

    >>> from lamina_tracing import make_jaxpr
    >>> make_jaxpr(lambda x: gather_named_axes(x, ("i",)), axis_env=[("i", 4)])(1.0).out_avals
    [ShapedArray(float32[4], weak_type=True)]
    """
    size = math.prod([axis_frame(name).size for name in names])
    return bind(prims.all_gather_p, x, axis_index_groups=None, axis_name=as_axis_name(names), axis_size=size,
                all_gather_dimension=0, tiled=False)


def select_member(x: Value, name: Hashable) -> Value:
    """Return this member's part of an array with one part per member.

    Args:
      x: array whose first axis has the positions of the named one.
      name: of a mapped axis.
    Returns:
      An array without that axis.

    >>> from lamina_tracing import make_jaxpr
    >>> make_jaxpr(lambda x: select_member(x, "i"), axis_env=[("i", 4)])(np.ones(4)).out_avals[0].shape
    ()
    """
    at = bind(prims.axis_index_p, axis_name=as_axis_name((name,)))
    shape = typeof(x).shape
    starts = [at, *[np.int32(0)] * (len(shape) - 1)]
    return squeeze(bind(prims.dynamic_slice_p, x, *starts, slice_sizes=(1, *shape[1:])), (0,))


def argreduce_named_axis(prim: Primitive, x: Value, name: Hashable, dtype: np.dtype) -> Value:
    """Return the lowest index among the members whose value is the extreme one; NaN is extreme."""
    aval, n = typeof(x), axis_frame(name).size
    if dtypes.is_complex(aval.dtype):  # collectives know no order of complex numbers
        return bind(prim, gather_named_axes(x, (name,)), axes=(0,), index_dtype=dtype)
    extreme = reduce_named_axes(prims.reduce_max_p if prim is prims.argmax_p else prims.reduce_min_p, x,
                                parse_reduction_axes(prim.name, name, len(aval.shape)))  # type: ignore[arg-type]
    wins = ew.bitwise_or(ew.eq(x, extreme), ew.ne(x, x))
    here = bind(prims.axis_index_p, axis_name=as_axis_name((name,)))
    places = [v if not aval.shape else broadcast(v, aval.shape) for v in (here, np.int32(n))]
    (first,) = bind(prims.pmin_p, ew.select(wins, *places), axes=(name,), axis_index_groups=None)
    return convert_element_type(first, dtype)
