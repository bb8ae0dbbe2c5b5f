"""`closure_convert`: turn the values that a function closes over into arguments."""
from __future__ import annotations

from lamina_ir import ClosedJaxpr, Jaxpr, dtypes, trees
from lamina_ir.trees import PyTreeDef
from lamina_ir.typing import Function, Tree, Value
from lamina_tracing.extend import get_duck_typed_avals, eval_jaxpr, function_name, stage, typeof

from .._engine.arg_checks import check_function

__all__ = ["closure_convert"]


def closure_convert(fun: Function, *example_args: Tree) -> tuple[Function, list[Value]]:
    """Convert a function with a closure into one without, and return the values it closed over.

    Args:
      fun: a pure function of arrays and trees of them.
      example_args: arguments (or objects with shape and dtype) of the types of later calls.
    Returns:
      (`converted`, `values`): `converted(*args, *values)` is `fun(*args)` for arguments of those types. `values` holds
      the closed-over values that are traced, or have a float or complex dtype. Known integers stay constants.

    >>> from lamina_autodiff import grad
    >>> def area(r):
    ...     converted, values = closure_convert(lambda pi: pi * r * r, 3.0)
    ...     return converted(3.0, *values)
    >>> grad(area)(2.0)
    Array(12., dtype=float32, weak_type=True)
    """
    check_function("closure_convert", fun)
    name = function_name(fun)
    flat, tree = trees.tree_flatten(example_args)
    avals = get_duck_typed_avals("closure_convert", name, flat, trees.tree_structure((example_args, {})))
    out_tree: PyTreeDef  # set by `run`

    def run(*xs: Value) -> list[Value]:
        nonlocal out_tree
        outs, out_tree = trees.tree_flatten(fun(*trees.tree_unflatten(tree, xs)))
        return outs

    closed, values = stage(run, avals)
    jaxpr = closed.jaxpr
    # `stage` makes traced values the leading arguments of the program. Known values that can have a derivative become
    # trailing arguments, so that a custom rule can return their cotangents.
    moved = [(v, c) for v, c in zip(jaxpr.constvars, closed.consts) if dtypes.is_inexact(typeof(c).dtype)]
    constants = [(v, c) for v, c in zip(jaxpr.constvars, closed.consts) if not dtypes.is_inexact(typeof(c).dtype)]
    n = len(values)
    program = ClosedJaxpr(Jaxpr([v for v, _ in constants], [*jaxpr.invars[n:], *jaxpr.invars[:n], *[v for v, _ in moved]],
                                jaxpr.eqns, jaxpr.outvars, jaxpr.axis_names, jaxpr.effectful), [c for _, c in constants])
    values = [*values, *[c for _, c in moved]]
    n_values = len(values)

    def converted(*args: Tree) -> Tree:
        count = len(args) - n_values
        if count < 0:
            raise TypeError(f"closure_convert: the converted `{name}` takes its arguments followed by {n_values} values; "
                            f"got {len(args)} arguments")
        leaves, given = trees.tree_flatten(tuple(args[:count]))
        if given != tree:
            raise TypeError(f"closure_convert: the converted `{name}` takes arguments of the structure of its examples, "
                            f"{tree}; got {given}")
        for i, (x, a) in enumerate(zip(leaves, avals)):
            got = typeof(x)
            if got.shape != a.shape or (got.dtype != a.dtype and not got.weak_type):
                raise TypeError(f"closure_convert: the converted `{name}` was made for {a.str_long()} as argument leaf "
                                f"{i}; got {got.str_long()}")
        return trees.tree_unflatten(out_tree, eval_jaxpr(program, [*leaves, *args[count:]]))

    converted.__name__ = name
    return converted, values
