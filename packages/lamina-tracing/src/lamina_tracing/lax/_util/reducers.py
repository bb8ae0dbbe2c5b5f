"""Helpers of `reduce` and `reduce_window`: the function that combines two scalars, as a program or as one primitive.

A monoid is an associative primitive with an identity; such computations are recognized and recorded as that primitive.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from lamina_ir import ClosedJaxpr, DTypeError, dtypes, Primitive, prims, shaped, ShapeError, trees
from lamina_ir.prims import highest, lowest
from lamina_ir.trees import PyTreeDef
from lamina_ir.typing import Tree, Value

from ..._core.staging import stage
from ..._core.tracer import Tracer
from .operands import bind, check_callable, typeof
from .conversions import convert_element_type

__all__ = ["Combination", "IDENTITIES", "combine_with_init", "stage_combination"]

# monoid -> its identity in a dtype
IDENTITIES: dict[Primitive, Callable[[np.dtype], Value]] = {
    prims.add_p: lambda d: 0, prims.mul_p: lambda d: 1, prims.max_p: lowest, prims.min_p: highest,
    prims.and_p: lambda d: -1 if dtypes.is_integer(d) else True, prims.or_p: lambda d: 0, prims.xor_p: lambda d: 0}


class Combination(NamedTuple):
    """Flat operands, their initial values, the tree of both, `(a, b) -> a combined with b`, and its primitive if it is
    a monoid."""

    operands: list[Value]
    starts: list[Value]
    tree: PyTreeDef
    program: ClosedJaxpr
    monoid: Primitive | None


def stage_combination(call: str, operands: Tree, starts: Tree,
                      computation: Callable[[Tree, Tree], Tree]) -> Combination:
    """Check and flatten the arguments of a reduction by a function.

    Raises:
      ShapeError: the initial values have another tree than the operands, or the computation closes over a tracer.
      DTypeError: an operand's dtype cannot hold its initial value.
    """
    check_callable(call, "computation", computation)
    xs, tree = trees.tree_flatten(operands)
    inits, init_tree = trees.tree_flatten(starts)
    if tree != init_tree or not xs:
        raise ShapeError(f"{call}: the initial values must be a tree of scalars like the operands; got {init_tree} for "
                         f"{tree}")
    inits = [_convert_init(call, x, init) for x, init in zip(xs, inits, strict=True)]

    def flat(*args: Value) -> list[Value]:
        a, b = trees.tree_unflatten(tree, args[:len(xs)]), trees.tree_unflatten(tree, args[len(xs):])
        return trees.tree_leaves(computation(a, b))

    program, captured = stage(flat, [shaped((), typeof(x).dtype) for x in xs] * 2)
    if captured:
        raise ShapeError(f"{call}: the computation must use its two arguments alone; it uses a traced value from "
                         f"outside, {typeof(captured[0]).str_long()}. Pass it as one more operand")
    return Combination(xs, inits, tree, program, _find_monoid(program) if len(xs) == 1 else None)


def _convert_init(call: str, x: Value, init: Value) -> Value:
    """Convert an initial value to its operand's dtype. An infinity becomes the limit of that dtype; values that would
    be truncated raise."""
    dtype, given = typeof(x).dtype, typeof(init)
    if given.dtype == dtype:
        return init
    if dtypes.is_float(given.dtype) and not dtypes.is_inexact(dtype):
        fits = not isinstance(init, Tracer) and (not np.isfinite(init) or init == np.trunc(init))
    else:
        fits = dtypes.is_complex(dtype) or not dtypes.is_complex(given.dtype)
    if not fits:
        raise DTypeError(f"{call}: the initial value must be a scalar of the operand's dtype; got {given.str_long()} for "
                         f"{typeof(x).str_long()}: convert it with astype({dtype})")
    return convert_element_type(init, dtype)


def _find_monoid(program: ClosedJaxpr) -> Primitive | None:
    """Return the primitive of a program that applies one monoid to its two arguments, in either order."""
    body = program.jaxpr
    if len(body.eqns) == 1 and not body.constvars and body.outvars == list(body.eqns[0].outvars) \
            and body.eqns[0].primitive in IDENTITIES and set(body.eqns[0].invars) == set(body.invars):
        return body.eqns[0].primitive
    return None


def combine_with_init(op: Primitive, reduced: Value, start: Value) -> Value:
    """Combine the result of a monoid reduction with an initial value other than its identity."""
    dtype = typeof(reduced).dtype
    if isinstance(start, (bool, int, float, complex, np.ndarray, np.generic)) \
            and np.asarray(start) == np.asarray(IDENTITIES[op](dtype)).astype(dtype):
        return reduced
    return bind(op, reduced, start)
