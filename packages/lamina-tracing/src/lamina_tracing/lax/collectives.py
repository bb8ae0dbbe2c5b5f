"""Communication across mapped axes. One meaning under `vmap(axis_name)` and `pmap`; see docs/collectives.md."""
from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from lamina_ir import ShapeError, prims, trees
from lamina_ir.dtypes import is_bool

from ..trace import axis_frame, bind
from ..tracer import typeof
from . import conversions, elementwise, reductions
from ._common import check_axes, given_back

__all__ = ["all_gather", "all_to_all", "axis_index", "axis_size", "pbroadcast", "pmax", "pmean", "pmin", "ppermute",
           "pshuffle", "psum", "psum_scatter", "pswapaxes"]

AxisName = Hashable
_NUMBERS = (bool, int, float, complex)


def _names(axis_name: AxisName | Sequence[AxisName]) -> tuple[Any, ...]:
    return axis_name if isinstance(axis_name, tuple) else tuple(axis_name) if isinstance(axis_name, list) else (axis_name,)


def axis_size(axis_name: AxisName | Sequence[AxisName]) -> int:
    """Number of examples or devices along mapped axes, as a Python int.

    Raises:
      UnboundAxisError: no enclosing map has bound the name.
    """
    n = 1
    for name in _names(axis_name):
        n *= axis_frame(name).size
    return n


def _group_size(call: str, names: tuple[Any, ...], groups: Any) -> int:
    size = axis_size(names)
    if groups is None:
        return size
    flat = sorted(i for g in groups for i in g)
    if flat != list(range(size)) or len({len(g) for g in groups}) != 1:
        raise ShapeError(f"{call}: axis_index_groups must split the indices 0..{size - 1} into groups of one size; "
                         f"got {groups}")
    return len(groups[0])


def _frozen(groups: Any) -> Any:
    return None if groups is None else tuple(tuple(g) for g in groups)


def _reduce(call: str, prim: Any, local: Callable[..., Any], x: Any, axis_name: Any, groups: Any) -> Any:
    names = _names(axis_name)
    _group_size(call, names, groups) if groups is not None else [axis_frame(n) for n in names if type(n) is not int]
    leaves, tree = trees.tree_flatten(x)
    positional = tuple(n for n in names if type(n) is int)
    if positional:
        leaves = [local(v, check_axes(call, positional, typeof(v).ndim)) for v in leaves]
        names = tuple(n for n in names if type(n) is not int)
    leaves = [given_back(v) for v in leaves]
    if names and leaves:
        leaves = list(bind(prim, *leaves, axes=names, axis_index_groups=_frozen(groups)))
    return trees.tree_unflatten(tree, leaves)


def psum(x: Any, axis_name: AxisName | Sequence[AxisName], *, axis_index_groups: Any = None) -> Any:
    """Sum over mapped axes; every participant gets the total.

    Args:
      x: array or tree of arrays. A Python number is multiplied by the axis size at once: `psum(1, name)` is the size.
      axis_name: name, or several, of axes bound by `vmap` or `pmap`. Integers among them are axes of `x` itself.
      axis_index_groups: lists of indices that split the axis into groups, each summed by itself.
    Returns:
      Array(s) of the shape and dtype of `x` (int32 for booleans).
    Raises:
      UnboundAxisError: a name is not bound.
      ShapeError: an integer is no axis of `x`, or names one twice.

    Derivative: linear; its transpose is `psum`.

    >>> from lamina_tracing import make_jaxpr
    >>> make_jaxpr(lambda x: psum(x, "i"), axis_env=[("i", 4)])(1.0)
    { lambda ; a:f32[]. let
        b:f32[] = psum[axes=('i',) axis_index_groups=None] a
      in (b,) }
    """
    names = _names(axis_name)
    if isinstance(x, _NUMBERS) and not any(type(n) is int for n in names):
        return x * _group_size("psum", names, axis_index_groups)
    leaves, tree = trees.tree_flatten(x)
    leaves = [conversions.convert_element_type(v, "int32") if is_bool(typeof(v).dtype) else v for v in leaves]
    return _reduce("psum", prims.psum_p, reductions.reduce_sum, trees.tree_unflatten(tree, leaves), axis_name,
                   axis_index_groups)


def pmean(x: Any, axis_name: AxisName | Sequence[AxisName], *, axis_index_groups: Any = None) -> Any:
    """Mean over mapped axes: `psum` divided by the number of participants.

    Args:
      x, axis_name, axis_index_groups: as for `psum`.
    Returns:
      Array(s) of the shape of `x`, float32 for integers and booleans.
    """
    n = _group_size("pmean", _names(axis_name), axis_index_groups)
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)

    def divide(v: Any) -> Any:
        if isinstance(v, _NUMBERS):
            return v / n
        aval = typeof(v)
        if aval.dtype.kind in "iub" and aval.dtype.name[:2] != "bf":
            v = conversions.convert_element_type(v, "float32")
        return elementwise.div(v, n)

    return trees.tree_map(divide, total)


def pmax(x: Any, axis_name: AxisName | Sequence[AxisName], *, axis_index_groups: Any = None) -> Any:
    """Largest value over mapped axes, element by element.

    Args:
      x, axis_name, axis_index_groups: as for `psum`.
    Returns:
      Array(s) of the shape and dtype of `x`.
    """
    return _reduce("pmax", prims.pmax_p, reductions.reduce_max, x, axis_name, axis_index_groups)


def pmin(x: Any, axis_name: AxisName | Sequence[AxisName], *, axis_index_groups: Any = None) -> Any:
    """Smallest value over mapped axes, element by element.

    Args:
      x, axis_name, axis_index_groups: as for `psum`.
    Returns:
      Array(s) of the shape and dtype of `x`.
    """
    return _reduce("pmin", prims.pmin_p, reductions.reduce_min, x, axis_name, axis_index_groups)


def axis_index(axis_name: AxisName | Sequence[AxisName]) -> Any:
    """This participant's index along a mapped axis: int32, rank 0. Several names count row-major."""
    total = None
    for name in _names(axis_name):
        size = axis_frame(name).size
        index = bind(prims.axis_index_p, axis_name=name)
        total = index if total is None else elementwise.add(elementwise.mul(total, size), index)
    return total


def _one(axis_name: Any) -> Any:
    return axis_name[0] if isinstance(axis_name, (tuple, list)) and len(axis_name) == 1 else axis_name


def all_gather(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None, axis: int = 0, tiled: bool = False) -> Any:
    """Everybody's values, stacked along a new axis (or, tiled, concatenated along an existing one).

    Args:
      x: array or tree of arrays `[...]`.
      axis_name: mapped axis of size `n`.
      axis_index_groups: as for `psum`.
      axis: where the participants go in the result.
      tiled: concatenate along `axis` instead of stacking.
    Returns:
      Array(s) with an axis of size `n` at `axis`.

    Derivative: linear; its transpose is `psum_scatter`.
    """
    size = _group_size("all_gather", _names(axis_name), axis_index_groups)

    def gather(v: Any) -> Any:
        ndim = typeof(v).ndim + (not tiled)
        if not -ndim <= axis < ndim:
            raise ShapeError(f"all_gather: axis {axis} is out of range for a result with {ndim} axes")
        return bind(prims.all_gather_p, v, all_gather_dimension=axis % ndim, axis_index_groups=_frozen(axis_index_groups),
                    axis_name=_one(axis_name), axis_size=size, tiled=tiled)

    return trees.tree_map(gather, x)


def psum_scatter(x: Any, axis_name: AxisName, *, scatter_dimension: int = 0, axis_index_groups: Any = None,
                 tiled: bool = False) -> Any:
    """Sum over a mapped axis, of which participant `i` keeps part `i` along `scatter_dimension`.

    Args:
      x: array or tree of arrays whose length along `scatter_dimension` is `n`, the size of the axis (or, tiled, a
        multiple of it).
      axis_name: mapped axis.
      scatter_dimension: the axis to part.
      axis_index_groups: as for `psum`.
      tiled: keep `scatter_dimension`, `n` times shorter, instead of dropping it.
    Returns:
      Array(s) of the dtype of `x`.

    Derivative: linear; its transpose is `all_gather`.
    """
    size = _group_size("psum_scatter", _names(axis_name), axis_index_groups)
    return trees.tree_map(lambda v: bind(prims.psum_scatter_p, v, axis_index_groups=_frozen(axis_index_groups),
                                         axis_name=_one(axis_name), axis_size=size,
                                         scatter_dimension=scatter_dimension % typeof(v).ndim, tiled=tiled), x)


def all_to_all(x: Any, axis_name: AxisName, split_axis: int, concat_axis: int, *, axis_index_groups: Any = None,
               tiled: bool = False) -> Any:
    """Exchange parts: split along one axis, send part `i` to participant `i`, join what arrives along another.

    Args:
      x: array or tree of arrays whose length along `split_axis` is `n`, the size of the axis (or, tiled, a multiple).
      axis_name: mapped axis.
      split_axis: the axis to part; dropped unless `tiled`.
      concat_axis: where what arrives is stacked (tiled: concatenated).
      axis_index_groups: as for `psum`.
      tiled: split and concatenate existing axes.
    Returns:
      Array(s) of the dtype and number of elements of `x`.

    Derivative: linear; its transpose is `all_to_all` with the two axes exchanged.
    """
    size = _group_size("all_to_all", _names(axis_name), axis_index_groups)
    return trees.tree_map(lambda v: bind(prims.all_to_all_p, v, axis_index_groups=_frozen(axis_index_groups),
                                         axis_name=_one(axis_name), axis_size=size,
                                         concat_axis=concat_axis % typeof(v).ndim,
                                         split_axis=split_axis % typeof(v).ndim, tiled=tiled), x)


def ppermute(x: Any, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> Any:
    """Send values along (source, destination) pairs; who receives nothing gets zeros.

    Args:
      x: array or tree of arrays.
      axis_name: mapped axis of size `n`.
      perm: pairs of indices below `n`.
    Returns:
      Array(s) of the shape and dtype of `x`.
    Raises:
      ShapeError: an index is out of range, or occurs twice as source or as destination.
    """
    n = axis_size(axis_name)
    pairs = tuple((int(a), int(b)) for a, b in perm)
    for side, word in ((0, "source"), (1, "destination")):
        found = [p[side] for p in pairs]
        if len(set(found)) != len(found) or any(not 0 <= i < n for i in found):
            raise ShapeError(f"ppermute: each {word} must be a different index in 0..{n - 1}; got perm {pairs}")
    return trees.tree_map(lambda v: bind(prims.ppermute_p, v, axis_name=_one(axis_name), perm=pairs), x)


def pbroadcast(x: Any, axis_name: AxisName, source: int) -> Any:
    """The values of participant `source` for every participant.

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
    Source: `psum` of the values of one participant and zeros of the others.
    """
    n = axis_size(axis_name)
    source = source.__index__()
    if not 0 <= source < n:
        raise ShapeError(f"pbroadcast: source must be an index in 0..{n - 1} of axis {axis_name!r}; got {source}")
    mine = elementwise.eq(axis_index(axis_name), source)

    def send(v: Any) -> Any:
        if isinstance(v, _NUMBERS):  # the same everywhere
            return v
        if is_bool(typeof(v).dtype):
            return pmax(elementwise.bitwise_and(v, mine), axis_name)
        return psum(elementwise.select(mine, v, 0), axis_name)

    return trees.tree_map(send, x)


def pshuffle(x: Any, axis_name: AxisName, perm: Sequence[int]) -> Any:
    """`ppermute` in which participant `i` receives from participant `perm[i]`.

    Args:
      x: array or tree of arrays.
      axis_name: mapped axis of size `n`.
      perm: the indices below `n` in any order.
    Raises:
      ShapeError: `perm` is no permutation.
    """
    if sorted(perm) != list(range(axis_size(axis_name))):
        raise ShapeError(f"pshuffle: perm must be a permutation of the axis' indices; got {list(perm)}")
    return ppermute(x, axis_name, [(source, i) for i, source in enumerate(perm)])


def pswapaxes(x: Any, axis_name: AxisName, axis: int, *, axis_index_groups: Any = None) -> Any:
    """Swap a mapped axis with an axis of the array, of the same size.

    Args:
      x: array or tree of arrays.
      axis_name: mapped axis.
      axis: the axis of `x`.
      axis_index_groups: as for `psum`.
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)
