"""`auto_axes` and `explicit_axes`: functions that are traced with other types of mesh axes."""
from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from typing import Any

from lamina_ir import ShapedArray, trees
from lamina_ir.errors import ShardingTypeError
from lamina_ir.typing import Function, Tree, Value
from lamina_tracing import jit
from lamina_tracing.extend import (ExplicitEntries, FunctionCache, call_with_out_sharding, check_out_sharding, constrain_tree,
                                   eval_jaxpr, flatten_results, function_name, stage, typeof, wraps)

from .analyze import add_sharding_types
from .._mesh.abstract_mesh import AxisType
from .._mesh.array_shardings import read_entries
from .._mesh.mesh import Mesh, mesh_in_scope, with_axis_types
from .._mesh.partition_spec import PartitionSpec, check_explicit_spec, explicit_spec, spec_entries

__all__ = ["auto_axes", "explicit_axes"]

_explicit_calls = FunctionCache()


def auto_axes(fun: Function | None = None, *, axes: Hashable = None, out_sharding: Tree = None) -> Function:
    """Make a function in which mesh axes have the type `Auto`: the compiler chooses shardings over them.

    Inside of it, operations are refused only because of other `Explicit` axes. Its results have the given shardings.

    Args:
      fun: function of arrays and trees of them; None: return a decorator.
      axes: the name or names of `Explicit` axes of the mesh in scope; None: all.
      out_sharding: the sharding of the results over `Explicit` axes, or a tree of them that is a prefix of the results.
        The returned function also takes it as a keyword argument.
    Returns:
      A function of the same positional arguments.
    Raises:
      TypeError: no sharding is given.
      ValueError: a sharding names an axis that is not `Explicit`, or `axes` has an axis that is not `Explicit`.

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
        # None for all: such programs are not analyzed.
        numbers = None if axes is None else _number_axes(call, axes, AxisType.Explicit)
        target = default if out_sharding is None else out_sharding
        if target is None:
            raise TypeError(f"{call}: out_sharding must be given, to auto_axes or to the call; got None")
        for leaf in trees.tree_leaves(target, is_leaf=lambda s: hasattr(s, "check_explicit")):
            check_out_sharding(call, leaf)
        return call_with_out_sharding(function_name(fun), fun, args, target, numbers)

    return call_auto


def explicit_axes(fun: Function | None = None, *, axes: Hashable = None, in_sharding: Tree = None) -> Function:
    """Make a function in which mesh axes have the type `Explicit`: types have shardings, ambiguous operations are refused.

    Args:
      fun: function of arrays and trees of them; None: return a decorator.
      axes: the name or names of `Auto` axes of the mesh in scope; None: all.
      in_sharding: the shardings of the arguments over these axes, or a tree of them that is a prefix of the arguments; a
        single one is for all of them. The returned function also takes it as a keyword argument.
    Returns:
      A function of the same positional arguments. Its results have the shardings that follow from the operations.
    Raises:
      TypeError: no sharding is given, or one is not a `PartitionSpec`.
      ValueError: a sharding names an axis that is not `Explicit` inside, or `axes` has an axis that is not `Auto`.
      ShardingTypeError: an operation is ambiguous, or the function uses a traced value that is not its argument.

    Source: `jax.sharding.explicit_axes`.

    >>> import numpy as np
    >>> from lamina_parallel import Mesh, PartitionSpec, set_mesh
    >>> from lamina_parallel.testing import fake_devices
    >>> with set_mesh(Mesh(fake_devices(4), "x")):
    ...     explicit_axes(lambda x: x * 2, in_sharding=PartitionSpec("x"))(np.float32([1, 2, 3, 4]))
    Array([2., 4., 6., 8.], dtype=float32)
    """
    if fun is None:
        return functools.partial(explicit_axes, axes=axes, in_sharding=in_sharding)
    if not callable(fun):
        raise TypeError(f"explicit_axes: fun: expected a function; got {type(fun).__name__}: {fun!r:.60}")
    call, default = f"explicit_axes of `{function_name(fun)}`", in_sharding

    @wraps(fun)
    def call_explicit(*args: Tree, in_sharding: Tree = None) -> Tree:
        numbers = _number_axes(call, axes, AxisType.Auto)
        given = default if in_sharding is None else in_sharding
        if given is None:
            raise TypeError(f"{call}: in_sharding must be given, to explicit_axes or to the call; got None")
        specs = _broadcast_specs(call, given, args)
        table = _explicit_calls.get_table(fun)
        key = numbers, specs
        run = table.get(key)
        if run is None:
            run = table[key] = _make_explicit_call(call, fun, numbers, specs)
        return run(*args)

    return call_explicit


def _broadcast_specs(call: str, given: Tree, args: Sequence[Tree]) -> tuple[PartitionSpec, ...]:
    """Return a spec for each flat argument. Raise TypeError or ValueError for a wrong one."""
    found = trees.broadcast_prefix(given, args if not isinstance(given, PartitionSpec) else tuple(args),
                                   is_leaf=lambda s: isinstance(s, PartitionSpec))
    for spec in found:
        if not isinstance(spec, PartitionSpec):
            raise TypeError(f"{call}: in_sharding: expected a PartitionSpec, or a tree of them; got "
                            f"{type(spec).__name__}: {spec!r:.60}")
    return tuple(found)


def _make_explicit_call(call: str, fun: Function, numbers: Sequence[int], specs: Sequence[PartitionSpec]) -> Function:
    """Return a jitted function whose program is analyzed when it is traced, because the shardings are known then."""
    def run(*args: Tree) -> Tree:
        outside = mesh_in_scope()
        assert outside is not None  # `_number_axes` checks it
        inside = with_axis_types(outside, numbers, AxisType.Explicit)
        flat, tree = trees.tree_flatten(args)
        for spec in specs:
            check_explicit_spec(inside, spec, f"{call}: in_sharding")
        with inside:
            entries = [spec_entries(explicit_spec(inside, spec, typeof(x).ndim)) for x, spec in zip(flat, specs, strict=True)]
            program, out_tree = _stage_explicit(call, fun, tree, [
                typeof(x).with_sharding(ExplicitEntries(found)) for x, found in zip(flat, entries, strict=True)])
            typed, _ = add_sharding_types(program, entries, inside, lambda value: read_entries(inside, value), label=outside)
        return out_tree.unflatten(eval_jaxpr(typed, constrain_tree(flat, list(specs))))

    run.__name__ = f"explicit_axes({function_name(fun)})"
    return jit(run)


def _stage_explicit(call: str, fun: Function, tree: Any, avals: Sequence[ShapedArray]) -> tuple[Any, Any]:
    """Stage a function of trees; return its program and the tree of the result."""
    out_tree: Any = None

    def flat_fun(*tracers: Value) -> list[Value]:
        nonlocal out_tree
        out, out_tree = flatten_results("explicit_axes", function_name(fun), fun(*tree.unflatten(tracers)))
        return out

    program, outer = stage(flat_fun, avals, ("explicit_axes", fun, None, ()))
    if outer:
        raise ShardingTypeError(f"{call}: the function uses a traced value, {outer[0].aval.str_long()}, whose sharding over "
                                "the Explicit axes is unknown. Pass it as an argument")
    return program, out_tree


def _get_mesh(call: str) -> Mesh:
    mesh = mesh_in_scope()
    if mesh is None:
        raise ValueError(f"{call}: a mesh must be in scope; got none. Use set_mesh")
    return mesh


def _number_axes(call: str, axes: Hashable, kind: AxisType) -> tuple[int, ...]:
    """Return the numbers of axes of the mesh in scope, None: all. Raise ValueError unless they have the type `kind`."""
    mesh = _get_mesh(call)
    if axes is None:
        return tuple(range(len(mesh.axis_names)))
    named = axes if isinstance(axes, (tuple, list, set, frozenset)) else (axes,)
    found = [i for i, (name, old) in enumerate(zip(mesh.axis_names, mesh.axis_types)) if name in named and old is kind]
    if len(found) < len({*named}):
        have = [name for name, old in zip(mesh.axis_names, mesh.axis_types) if old is kind]
        raise ValueError(f"{call}: axes must be None or {kind.name} axes of the mesh, {have}; got {axes!r}")
    return tuple(found)
