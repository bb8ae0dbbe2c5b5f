"""Hints to the compiler about values: optimization barriers and sharding constraints."""
from __future__ import annotations

from lamina_ir import prims, trees
from lamina_ir.typing import Tree

from .._core.explicit_shardings import check_constraint
from .._diagnostics.argument_errors import rename_errors
from ._sharding.out_sharding import constrain_sharding
from ._util.operands import bind

__all__ = ["optimization_barrier", "with_sharding_constraint"]


def optimization_barrier(operand: Tree, /) -> Tree:
    """Return the operands unchanged, as a barrier for the compiler.

    The compiler computes all operands before anything that uses a result, and does not merge work across.

    Args:
      operand: array or tree of arrays.
    Returns:
      The same tree.

    Derivative: linear; the tangents and the cotangents pass a barrier too.
    Source: StableHLO `optimization_barrier`.

    >>> optimization_barrier((1.0, 2.0))[1]
    Array(2., dtype=float32, weak_type=True)
    """
    flat, tree = trees.tree_flatten(operand)
    return trees.tree_unflatten(tree, bind(prims.optimization_barrier_p, *flat) if flat else ())


@rename_errors
def with_sharding_constraint(x: Tree, shardings: Tree) -> Tree:
    """Return the operands unchanged; in a program partitioned over devices, the compiler uses the sharding.

    A program runs on the devices that its constraints name, all the same ones. Inside of `pmap` a constraint has no effect.

    On a mesh whose axes are all `Explicit`, it checks that `x` has the sharding. On other meshes with `Explicit` axes, it
    may name only the other axes. Use `sharding.reshard` to move an array over `Explicit` axes.

    Args:
      x: array or tree of arrays.
      shardings: a sharding, as `NamedSharding(mesh, spec)` or an array's `.sharding`, for all of `x`, or a tree of them
        that is a prefix of the tree of `x`; None leaves the layout to the compiler. In a block `with mesh:` a
        `PartitionSpec` is also accepted. A spec may have `PartitionSpec.UNCONSTRAINED` for dimensions that the compiler
        may split.
    Returns:
      The same tree.
    Raises:
      TypeError: a leaf of `shardings` is neither a sharding nor None.
      ValueError: a sharding splits more axes than an array has, a spec names an axis that the mesh does not have,
        or no mesh is in scope.
      ShardingMismatchError: all axes of the mesh are `Explicit`, and the array has another sharding. It is also an
        AssertionError.

    Derivative: linear; tangents and cotangents are constrained alike. `vmap` leaves its axis to the compiler.

    >>> with_sharding_constraint((1.0, 2.0), None)
    (1.0, 2.0)
    """
    flat, tree = trees.tree_flatten(x)
    given = trees.broadcast_prefix(shardings, x, is_leaf=lambda s: s is None or hasattr(s, "constraint"))
    return trees.tree_unflatten(tree, [constrain_sharding(v, check_constraint(v, s)) for v, s in zip(
        flat, given, strict=True)])
