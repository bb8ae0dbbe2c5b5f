"""`smap`: map a function of shards over one axis of the mesh in scope."""
from __future__ import annotations

import functools
from collections.abc import Hashable

from lamina_ir import trees
from lamina_ir.extend import check_axis_name
from lamina_ir.typing import Function, Tree
from lamina_tracing.extend import api_boundary, wraps

from .._mesh.partition_spec import PartitionSpec
from .shard_map import shard_map

__all__ = ["smap"]

_MISSING = object()


@api_boundary
def smap(f: Function | None = None, /, *, in_axes: Tree = _MISSING, out_axes: Tree = _MISSING, axis_name: Hashable) -> Function:
    """Map a function of shards over one axis of the mesh in scope, as `shard_map` does with a mesh of several axes.

    Arrays are split over the axis into as many shards as it has devices, and `f` runs on each. The other axes of the mesh
    are left to the compiler, or to an `smap` inside of `f`.

    Args:
      f: function of shards: arrays and trees of them. Left out, `smap` is a decorator with options.
      in_axes: the dimension of the arguments that is split; None: each device has the whole array. A tuple has an entry for
        each argument, and an entry may be a tree that is a prefix of the argument.
      out_axes: the dimension along which the shards of the result are joined; None for a result that is the same on all
        devices; or a tree of these that is a prefix of the result. Counted from the front.
      axis_name: the axis of the mesh, which collectives in `f` refer to.
    Returns:
      A function of whole positional arrays.
    Raises:
      TypeError: an axis is neither an int nor None.
      ValueError: no mesh is in scope, it does not have the axis, or a dimension is out of range or not divisible.

    >>> from lamina_parallel import Mesh
    >>> from lamina_parallel.testing import fake_devices
    >>> with Mesh(fake_devices(2), "x"):
    ...     smap(lambda x: x.sum(), in_axes=0, out_axes=None, axis_name="x")(np.ones(4))
    Traceback (most recent call last):
    ValueError: shard_map of `<lambda>`: out_specs for output leaves out the mesh axis 'x', but it may differ over that: ...
    """
    if f is None:
        return functools.partial(smap, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name)
    if not callable(f):
        raise TypeError(f"smap: expected a function; got {type(f).__name__}: {f!r:.60}")
    if in_axes is _MISSING or out_axes is _MISSING:
        raise TypeError("smap: give both in_axes and out_axes, as in_axes=0, out_axes=0")
    check_axis_name("smap: axis_name", axis_name)
    out_specs = trees.tree_map(lambda axis: _spec("out_axes", axis, axis_name, None), out_axes, is_leaf=_is_axis)
    names = frozenset((axis_name,))

    @wraps(f, functools.WRAPPER_UPDATES)
    def mapped(*args: Tree) -> Tree:
        axes = in_axes if _is_axis(in_axes) else tuple(in_axes)
        try:
            flat = trees.broadcast_prefix(axes, args, is_leaf=_is_axis)
        except ValueError as e:
            raise ValueError(f"smap: in_axes: {e}") from None
        leaves, tree = trees.tree_flatten(args)
        specs = [_spec("in_axes", axis, axis_name, getattr(x, "ndim", 0)) for axis, x in zip(flat, leaves, strict=True)]
        return shard_map(f, in_specs=tree.unflatten(specs), out_specs=out_specs, axis_names=names)(*args)

    return mapped


def _is_axis(x: object) -> bool:
    return x is None or isinstance(x, int)


def _spec(what: str, axis: object, name: Hashable, ndim: int | None) -> PartitionSpec:
    """Return the spec of an array of `ndim` dimensions, None if unknown, that is split along `axis`."""
    if axis is None:
        return PartitionSpec()
    if not isinstance(axis, int) or isinstance(axis, bool):
        raise TypeError(f"smap: {what}: expected an int or None; got {type(axis).__name__}: {axis!r:.60}")
    if ndim is None and axis < 0:
        raise ValueError(f"smap: {what}: expected an axis counted from the front; got {axis}")
    if ndim is not None and not -ndim <= axis < ndim:
        raise ValueError(f"smap: {what}: axis {axis} is out of range for an array of {ndim} dimensions")
    return PartitionSpec(*[None] * (axis if axis >= 0 else axis + (ndim or 0)), name)
