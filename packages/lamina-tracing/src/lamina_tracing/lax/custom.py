"""Barriers and names: values the compiler may not move across, and values a checkpoint policy can ask for."""
from __future__ import annotations

from typing import Any

from lamina_ir import prims, trees

from ._common import bind

__all__ = ["optimization_barrier"]


def optimization_barrier(operand: Any, /) -> Any:
    """The operands unchanged; the compiler computes all of them before anything that uses one of the results, and does
    not merge work across.

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
