"""Communication across mapped axes, with the same meaning under `vmap(axis_name)` and `pmap`; see
docs/design/collectives.md."""
from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import numpy as np
from lamina_ir import DTypeError, Primitive, prims, ShapeError, trees
from lamina_ir.dtypes import is_bool, is_complex, is_integer
from lamina_ir.extend import (as_axis_name, check_axis_names, check_groups, check_member_index, check_permutation,
                              split_axis_names)
from lamina_ir.typing import Function, Params, ParamValue, Tree, Value

from .._core.trace import axis_frame, bind
from .._core.tracer import typeof
from .._diagnostics.argument_errors import rename_errors
from ._util import conversions
from . import elementwise, reductions
from ._util.operands import check_axes, check_axis, copy_host_result
from .creation import full
from .indexing import dynamic_index_in_dim
from .shape import broadcast
from .._core.array import Array
from .._typing import AxisGroups

__all__ = ["all_gather", "all_to_all", "axis_index", "axis_size", "pargmax", "pargmin", "pbroadcast", "pcast", "pmax", "pmean",
           "pmin", "ppermute", "pshuffle", "psum", "psum_scatter", "pswapaxes", "pvary"]

AxisName = Hashable
_NUMBERS = (bool, int, float, complex)


def axis_size(axis_name: AxisName | Sequence[AxisName]) -> int:
    """Return the number of members along mapped axes, as a Python int.

    Raises:
      UnboundAxisError: no enclosing map has bound the name.
    """
    return _compute_size(check_axis_names("axis_size", axis_name))


def _compute_size(names: Sequence[AxisName]) -> int:
    n = 1
    for name in names:
        n *= axis_frame(name).size
    return n


class _Members(NamedTuple):
    """The members that take part in a collective."""

    names: tuple[AxisName, ...]
    groups: tuple[tuple[int, ...], ...] | None
    size: int | None  # of the own group; None: it differs between members

    def number(self) -> Value:
        """Return the size of the own group."""
        if self.size is not None:
            return self.size
        sizes = {i: len(g) for g in self.groups or () for i in g}
        table = np.array([sizes[i] for i in range(len(sizes))], np.int32)
        return dynamic_index_in_dim(table, axis_index(self.names), 0, False)


def _find_members(call: str, names: tuple[AxisName, ...], groups: AxisGroups, equal: bool = False) -> _Members:
    size = _compute_size(names)
    groups = check_groups(call, size, groups, names, equal)
    if groups is None:
        return _Members(names, None, size)
    sizes = {len(g) for g in groups}
    return _Members(names, groups, sizes.pop() if len(sizes) == 1 else None)


def find_group_size(call: str, names: tuple[AxisName, ...], groups: AxisGroups) -> int:
    """Return the number of members of each group; ShapeError if the groups differ in size."""
    size = _find_members(call, names, groups, equal=True).size
    assert size is not None
    return size


def _reduce(call: str, prim: Primitive, local: Function, x: Tree, axis_name: AxisName, groups: AxisGroups) -> Tree:
    names, positional = split_axis_names(call, axis_name)
    leaves, tree = trees.tree_flatten(x)
    return trees.tree_unflatten(tree, _reduce_leaves(call, prim, local, leaves, names, positional, groups))


def _reduce_leaves(call: str, prim: Primitive, local: Function, leaves: list[Value], names: tuple[AxisName, ...],
             positional: tuple[int, ...], groups: AxisGroups) -> list[Value]:
    members = _find_members(call, names, groups)
    if positional:
        leaves = [local(v, check_axes(call, positional, typeof(v).ndim)) for v in leaves]
    leaves = [copy_host_result(v) for v in leaves]
    if names and leaves:
        leaves = list(bind(prim, *leaves, axes=names, axis_index_groups=members.groups))
    return leaves


def psum(x: Tree, axis_name: AxisName | Sequence[AxisName], *, axis_index_groups: AxisGroups = None) -> Tree:
    """Sum over mapped axes; every member gets the total.

    Args:
      x: array or tree of arrays. A Python number is multiplied by the axis size at once: `psum(1, name)` is the size.
      axis_name: name, or several, of axes bound by `vmap` or `pmap`. Integers among them are axes of `x` itself.
      axis_index_groups: lists of indices that split the axis (for several names: their product) into groups of equal or
        different sizes, each summed separately.
    Returns:
      Array(s) of the shape and dtype of `x` (int32 for booleans).
    Raises:
      UnboundAxisError: a name is not bound.
      ShapeError: an integer is no axis of `x`, or names one twice.

    Derivative: linear; its transpose is `psum`.

    >>> from lamina_tracing import make_jaxpr
    >>> make_jaxpr(lambda x: psum(x, "i"), axis_env=[("i", 4)])(1.0)
    { lambda ; a:f32[]{i}. let
        b:f32[] = psum[axes=('i',) axis_index_groups=None] a
      in (b,) }
    """
    names, positional = split_axis_names("psum", axis_name)
    if isinstance(x, _NUMBERS) and not positional:
        members = _find_members("psum", names, axis_index_groups)
        if members.size is not None:
            return x * members.size
        return elementwise.mul(_cast_like(members.number(), x * 1), x * 1)
    leaves, tree = trees.tree_flatten(x)
    leaves = [conversions.convert_element_type(v, "int32") if is_bool(typeof(v).dtype) else v for v in leaves]
    return trees.tree_unflatten(tree, _reduce_leaves("psum", prims.psum_p, reductions.reduce_sum, leaves, names, positional,
                                               axis_index_groups))


@rename_errors
def pmean(x: Tree, axis_name: AxisName | Sequence[AxisName], *, axis_index_groups: AxisGroups = None) -> Tree:
    """Compute the mean over mapped axes: `psum` divided by the number of members.

    Args:
      x, axis_name, axis_index_groups: as for `psum`.
    Returns:
      Array(s) of the shape of `x`, float32 for integers and booleans.
    """
    names, positional = split_axis_names("pmean", axis_name)
    members = _find_members("pmean", names, axis_index_groups)

    def mean(v: Value, total: Value) -> Value:
        if isinstance(v, _NUMBERS) and not positional:
            return v / 1  # the same on all members
        aval = typeof(v)
        if is_integer(aval.dtype) or is_bool(aval.dtype):
            total = conversions.convert_element_type(total, "float32")
        n = members.number() * math.prod(aval.shape[a] for a in positional)
        return elementwise.div(total, n if isinstance(n, int) else _cast_like(n, total))

    return trees.tree_map(mean, x, psum(x, axis_name, axis_index_groups=axis_index_groups))


def _cast_like(n: Value, x: Value) -> Value:
    """Convert an integer to the dtype of `x`."""
    return conversions.convert_element_type(n, typeof(x).dtype)


def pmax(x: Tree, axis_name: AxisName | Sequence[AxisName], *, axis_index_groups: AxisGroups = None) -> Tree:
    """Compute the largest value over mapped axes, elementwise.

    Args:
      x, axis_name, axis_index_groups: as for `psum`.
    Returns:
      Array(s) of the shape and dtype of `x`.
    """
    return _reduce("pmax", prims.pmax_p, reductions.reduce_max, x, axis_name, axis_index_groups)


def pmin(x: Tree, axis_name: AxisName | Sequence[AxisName], *, axis_index_groups: AxisGroups = None) -> Tree:
    """Compute the smallest value over mapped axes, elementwise.

    Args:
      x, axis_name, axis_index_groups: as for `psum`.
    Returns:
      Array(s) of the shape and dtype of `x`.
    """
    return _reduce("pmin", prims.pmin_p, reductions.reduce_min, x, axis_name, axis_index_groups)


def _find_first_member(call: str, extreme: Function, x: Tree, axis_name: AxisName) -> Tree:
    names = check_axis_names(call, axis_name)
    here, n = axis_index(names), np.int32(_compute_size(names))

    def one(v: Value) -> Value:
        shape = typeof(v).shape
        if is_complex(typeof(v).dtype):
            raise DTypeError(f"{call}: complex numbers have no order; got {typeof(v).str_long()}. Use the real and "
                             "imaginary parts")
        wins = elementwise.bitwise_or(elementwise.eq(v, extreme(v, names)), elementwise.ne(v, v))  # NaN is an extreme
        return pmin(elementwise.select(wins, broadcast(here, shape), broadcast(n, shape)), names)

    return trees.tree_map(one, x)


def pargmax(x: Tree, axis_name: AxisName | Sequence[AxisName]) -> Tree:
    """Find the member with the largest value, elementwise; among equals the lowest index.

    Args:
      x: array or tree of arrays of ordered numbers; NaN is the largest.
      axis_name: name, or several, of mapped axes; several count row-major.
    Returns:
      int32 array(s) of the shape of `x`.
    Raises:
      UnboundAxisError: a name is not bound.

    Derivative: zero. Source: `pmax`, then `pmin` of the indices that attain it.
    """
    return _find_first_member("pargmax", pmax, x, axis_name)


def pargmin(x: Tree, axis_name: AxisName | Sequence[AxisName]) -> Tree:
    """Find the member with the smallest value, elementwise; among equals the lowest index.

    Args:
      x: array or tree of arrays of ordered numbers; NaN is the smallest.
      axis_name: name, or several, of mapped axes; several count row-major.
    Returns:
      int32 array(s) of the shape of `x`.
    Raises:
      UnboundAxisError: a name is not bound.

    Derivative: zero. Source: `pmin`, then `pmin` of the indices that attain it.
    """
    return _find_first_member("pargmin", pmin, x, axis_name)


def axis_index(axis_name: AxisName | Sequence[AxisName]) -> Array:
    """Return this member's index along a mapped axis: int32, rank 0. Several names count in row-major order."""
    total = None
    for name in check_axis_names("axis_index", axis_name):
        size = axis_frame(name).size
        index = bind(prims.axis_index_p, axis_name=as_axis_name((name,)))
        total = index if total is None else elementwise.add(elementwise.mul(total, size), index)
    return full((), 0, np.dtype("int32")) if total is None else total


def _exchange(call: str, prim: Primitive, x: Tree, axis_name: AxisName, groups: AxisGroups, of: Callable[[int], Params],
              **params: ParamValue) -> Tree:
    """Bind a collective with groups of equal size to each leaf; `of(ndim)` returns the params that name axes of the
    operand."""
    names, groups, size = _find_members(call, check_axis_names(call, axis_name), groups, equal=True)

    def one(v: Value) -> Value:
        return bind(prim, v, axis_index_groups=groups, axis_name=as_axis_name(names), axis_size=size, **of(typeof(v).ndim),
                    **params)

    return trees.tree_map(one, x)


def all_gather(x: Tree, axis_name: AxisName, *, axis_index_groups: AxisGroups = None, axis: int = 0,
               tiled: bool = False) -> Tree:
    """Gather the values of all members, stacked along a new axis (or, tiled, concatenated along an existing one).

    Args:
      x: array or tree of arrays `[...]`.
      axis_name: mapped axis of size `n`.
      axis_index_groups: as for `psum`.
      axis: the new axis of the result, over the members.
      tiled: concatenate along `axis` instead of stacking.
    Returns:
      Array(s) with an axis of size `n` at `axis`.

    Derivative: linear; its transpose is `psum_scatter`.
    """
    return _exchange("all_gather", prims.all_gather_p, x, axis_name, axis_index_groups, tiled=tiled,
                     of=lambda ndim: {"all_gather_dimension": check_axis("all_gather", axis, ndim + (not tiled))})


def psum_scatter(x: Tree, axis_name: AxisName, *, scatter_dimension: int = 0, axis_index_groups: AxisGroups = None,
                 tiled: bool = False) -> Tree:
    """Sum over a mapped axis; member `i` keeps part `i` along `scatter_dimension`.

    Args:
      x: array or tree of arrays whose length along `scatter_dimension` is `n`, the size of the axis (or, tiled, a
        multiple of it).
      axis_name: mapped axis.
      scatter_dimension: the axis to split.
      axis_index_groups: as for `psum`.
      tiled: keep `scatter_dimension`, `n` times shorter, instead of dropping it.
    Returns:
      Array(s) of the dtype of `x`.

    Derivative: linear; its transpose is `all_gather`.
    """
    return _exchange("psum_scatter", prims.psum_scatter_p, x, axis_name, axis_index_groups, tiled=tiled,
                     of=lambda ndim: {"scatter_dimension": check_axis("psum_scatter", scatter_dimension, ndim)})


def all_to_all(x: Tree, axis_name: AxisName, split_axis: int, concat_axis: int, *, axis_index_groups: AxisGroups = None,
               tiled: bool = False) -> Tree:
    """Exchange parts: split along one axis, send part `i` to member `i`, and join the received parts along another
    axis.

    Args:
      x: array or tree of arrays whose length along `split_axis` is `n`, the size of the axis (or, tiled, a multiple).
      axis_name: mapped axis.
      split_axis: the axis to split; dropped unless `tiled`.
      concat_axis: the axis along which received parts are stacked (tiled: concatenated).
      axis_index_groups: as for `psum`.
      tiled: split and concatenate existing axes.
    Returns:
      Array(s) of the dtype and number of elements of `x`.

    Derivative: linear; its transpose is `all_to_all` with the two axes exchanged.
    """
    return _exchange("all_to_all", prims.all_to_all_p, x, axis_name, axis_index_groups, tiled=tiled,
                     of=lambda ndim: {"split_axis": check_axis("all_to_all", split_axis, ndim),
                                      "concat_axis": check_axis("all_to_all", concat_axis, ndim)})


def ppermute(x: Tree, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> Tree:
    """Send values along (source, destination) pairs; members that receive nothing get zeros.

    Args:
      x: array or tree of arrays.
      axis_name: mapped axis of size `n`.
      perm: pairs of indices below `n`.
    Returns:
      Array(s) of the shape and dtype of `x`.
    Raises:
      ShapeError: an index is out of range, or occurs twice as source or as destination.
    """
    names = check_axis_names("ppermute", axis_name)
    pairs = check_permutation("ppermute", _compute_size(names), perm, names)
    return trees.tree_map(lambda v: bind(prims.ppermute_p, v, axis_name=as_axis_name(names), perm=pairs), x)


def pbroadcast(x: Tree, axis_name: AxisName, source: int) -> Tree:
    """Send the values of member `source` to all members.

    Args:
      x: array or tree of arrays.
      axis_name: name of a mapped axis.
      source: index along it.
    Returns:
      Array(s) of the shape and dtype of `x`.
    Raises:
      ShapeError: `source` is out of range.
      UnboundAxisError: the name is not bound.

    Derivative: linear; in the transpose the source gets the sum of all cotangents.
    Source: `psum` of the values of one member and zeros of the others.
    """
    names = check_axis_names("pbroadcast", axis_name)
    source = check_member_index("pbroadcast", _compute_size(names), source, names, "source")
    mine = elementwise.eq(axis_index(names), source)

    def send(v: Value) -> Value:
        if isinstance(v, _NUMBERS):  # the same on all members
            return v
        if is_bool(typeof(v).dtype):
            return pmax(elementwise.bitwise_and(v, mine), names)
        return psum(elementwise.select(mine, v, 0), names)

    return trees.tree_map(send, x)


def pcast(x: Tree, axis_name: AxisName | Sequence[AxisName], *, to: str) -> Tree:
    """Return `x`, as a value that may differ between the members of mapped axes.

    Whether a value differs is inferred from the program, so nothing is marked and no operation is added. The result has the
    derivative of `x` itself: inside a mapped function it is the member's own, and `psum` sums those of all members.

    Args:
      x: array or tree of arrays.
      axis_name: name of a mapped axis, or several; None or () for none.
      to: 'varying'. The types of arrays have no partial sums, so 'unreduced' and 'reduced' are refused.
    Returns:
      `x`.
    Raises:
      UnboundAxisError: a name is not bound.
      ValueError: another value of `to`.

    >>> from lamina_tracing import make_jaxpr
    >>> make_jaxpr(lambda x: pcast(x, "i", to="varying"), axis_env=[("i", 4)])(1.0)
    { lambda ; a:f32[]{i}. let  in (a,) }
    """
    if to in ("unreduced", "reduced"):
        raise ValueError(f"pcast: to must be 'varying'; got {to!r}. Types have no partial sums here: use lax.psum for the "
                         "sum over the axis")
    if to != "varying":
        raise ValueError(f"pcast: to must be 'varying'; got {to!r}")
    return _check_bound("pcast", x, axis_name)


def pvary(x: Tree, axis_name: AxisName | Sequence[AxisName]) -> Tree:
    """Return `x`, as a value that may differ between the members of mapped axes: `pcast(x, axis_name, to="varying")`.

    Args:
      x: array or tree of arrays.
      axis_name: name of a mapped axis, or several.
    Returns:
      `x`.
    Raises:
      UnboundAxisError: a name is not bound.
    """
    return _check_bound("pvary", x, axis_name)


def _check_bound(call: str, x: Tree, axis_name: AxisName | Sequence[AxisName]) -> Tree:
    _compute_size(check_axis_names(call, () if axis_name is None else axis_name))
    for leaf in trees.tree_leaves(x):
        typeof(leaf)  # an error for other objects
    return x


def pshuffle(x: Tree, axis_name: AxisName, perm: Sequence[int]) -> Tree:
    """Permute values: member `i` receives from member `perm[i]`.

    Args:
      x: array or tree of arrays.
      axis_name: mapped axis of size `n`.
      perm: the indices below `n` in any order.
    Raises:
      ShapeError: `perm` is no permutation.
    """
    names = check_axis_names("pshuffle", axis_name)
    size = _compute_size(names)
    sources = check_groups("pshuffle", size, [perm], names, arg_name="perm")[0]  # type: ignore[index]
    return ppermute(x, axis_name, [(source, i) for i, source in enumerate(sources)])


def pswapaxes(x: Tree, axis_name: AxisName, axis: int, *, axis_index_groups: AxisGroups = None) -> Tree:
    """Swap a mapped axis with an axis of the array, of the same size.

    Args:
      x: array or tree of arrays.
      axis_name: mapped axis.
      axis: the axis of `x`.
      axis_index_groups: as for `psum`.
    """
    names = check_axis_names("pswapaxes", axis_name)
    _, _, size = _find_members("pswapaxes", names, axis_index_groups, equal=True)
    for v in trees.tree_leaves(x):
        aval = typeof(v)
        if aval.shape[check_axis("pswapaxes", axis, aval.ndim)] != size:
            raise ShapeError(f"pswapaxes: axis {axis} of the operand must have the size of the mapped axis "
                             f"{', '.join(map(repr, names))}, {size}; got {aval.str_long()}")
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)
