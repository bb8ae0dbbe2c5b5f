"""`auto_axes`: a function whose operations the compiler partitions, in a program over `Explicit` axes."""
from __future__ import annotations

import functools
from collections.abc import Hashable

from lamina_ir.typing import Function, Tree
from lamina_tracing.extend import call_with_out_sharding, check_out_sharding, function_name, wraps
from lamina_ir import trees

from .._mesh.mesh import mesh_in_scope

__all__ = ["auto_axes"]


def auto_axes(fun: Function | None = None, *, axes: Hashable = None, out_sharding: Tree = None) -> Function:
    """Make a function in which all mesh axes have the type `Auto`: the compiler chooses shardings.

    Inside of it no operation is refused. Its results have the given shardings.

    Args:
      fun: function of arrays and trees of them; None: return a decorator.
      axes: None, or the name or names of all `Explicit` axes of the mesh in scope.
      out_sharding: the sharding of the results over `Explicit` axes, or a tree of them that is a prefix of the results.
        The returned function also takes it as a keyword argument.
    Returns:
      A function of the same positional arguments.
    Raises:
      TypeError: no sharding is given.
      ValueError: a sharding names an axis that is not `Explicit`, or `axes` leaves out `Explicit` axes.

    Source: `jax.sharding.auto_axes`.

    >>> import numpy as np
    >>> from lamina_parallel import AxisType, Mesh, PartitionSpec, set_mesh
    >>> from lamina_parallel.testing import fake_devices
    >>> with set_mesh(Mesh(fake_devices(4), "x", AxisType.Explicit)):
    ...     auto_axes(lambda x: x * 2, out_sharding=PartitionSpec("x"))(np.float32([1, 2, 3, 4]))
    Array([2., 4., 6., 8.], dtype=float32)
    """
    if fun is None:
        return functools.partial(auto_axes, axes=axes, out_sharding=out_sharding)
    if not callable(fun):
        raise TypeError(f"auto_axes: fun: expected a function; got {type(fun).__name__}: {fun!r:.60}")
    call, default = f"auto_axes of `{function_name(fun)}`", out_sharding

    @wraps(fun)
    def call_auto(*args: Tree, out_sharding: Tree = None) -> Tree:
        _check_axes(call, axes)
        target = default if out_sharding is None else out_sharding
        if target is None:
            raise TypeError(f"{call}: out_sharding must be given, to auto_axes or to the call; got None")
        for leaf in trees.tree_leaves(target, is_leaf=lambda s: hasattr(s, "check_explicit")):
            check_out_sharding(call, leaf)
        return call_with_out_sharding(function_name(fun), fun, args, target)

    return call_auto


def _check_axes(call: str, axes: Hashable) -> None:
    """Raise ValueError unless `axes` is None or has all `Explicit` axes of the mesh in scope."""
    mesh = mesh_in_scope()
    if axes is None or mesh is None:
        return
    named = {*axes} if isinstance(axes, (tuple, list, set, frozenset)) else {axes}
    if named != mesh.explicit_axes:
        raise ValueError(f"{call}: axes must be None or all Explicit axes, {sorted(map(str, mesh.explicit_axes))}; got "
                         f"{axes!r}. Leave it out")
