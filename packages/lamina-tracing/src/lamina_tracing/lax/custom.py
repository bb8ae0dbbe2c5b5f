"""Hints to the compiler about values: optimization barriers and sharding constraints."""
from __future__ import annotations

from lamina_ir import prims, trees
from lamina_ir.typing import Sharding, Tree, Value

from .._diagnostics.argument_errors import rename_errors
from ._util.operands import bind, copy_host_result, typeof

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

    Derivative: linear; tangents and cotangents are constrained alike. `vmap` leaves its axis to the compiler.

    >>> with_sharding_constraint((1.0, 2.0), None)
    (1.0, 2.0)
    """
    flat, tree = trees.tree_flatten(x)
    given = trees.broadcast_prefix(shardings, x, is_leaf=lambda s: s is None or hasattr(s, "constraint"))
    return trees.tree_unflatten(tree, [_constrained(v, s) for v, s in zip(flat, given, strict=True)])


def _constrained(x: Value, sharding: Sharding) -> Value:
    if sharding is None:
        return copy_host_result(x)
    try:
        constraint = sharding.constraint
    except AttributeError:
        raise TypeError("with_sharding_constraint: expected shardings, such as an array's `.sharding`, PartitionSpecs in a "
                        f"block `with mesh:`, or None; got {type(sharding).__name__}") from None
    text, unspecified = constraint(typeof(x))
    return bind(prims.sharding_constraint_p, x, sharding=text, unspecified_dims=unspecified)
