"""`print_saved_residuals`: list the residuals that the backward pass of a function saves, and their origins."""
from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir import Atom, dtypes, Eqn, Jaxpr, Literal, prims, ShapedArray, trees
from lamina_ir.typing import Function, Tree, Value
from lamina_tracing.extend import StagingTracer, Tracer, stage, typeof

from .._engine.linearize import linearize_flat

__all__ = ["print_saved_residuals", "saved_residuals"]


def saved_residuals(f: Function, *args: Tree, **kwargs: Tree) -> list[tuple[ShapedArray, str]]:
    """Return the types of the residuals that the backward pass of `f` saves, each with a text that names its origin.

    Args:
      f: function of arrays and trees of them.
      args, kwargs: its arguments.
    """
    flat, tree = trees.tree_flatten((args, kwargs))
    named = _parameters(f)
    names = [_describe_path(path, named) for path, _ in trees.tree_flatten_with_path((args, kwargs))[0]]
    avals = [typeof(x) for x in flat]

    def run(*xs: Value) -> list[Value]:
        def fun(*ys: Value) -> list[Value]:
            given, named = trees.tree_unflatten(tree, ys)
            return trees.tree_leaves(f(*given, **named))

        _, program = linearize_flat(fun, xs, [dtypes.is_inexact(a.dtype) for a in avals])
        residuals = {id(a): a for eqn in program.eqns for a in eqn[1] if _is_residual(a)}
        return list(residuals.values())

    closed, outer = stage(run, avals)
    jaxpr = closed.jaxpr
    constants, given = {*jaxpr.constvars, *jaxpr.invars[:len(outer)]}, jaxpr.invars[len(outer):]
    found = []
    for v in dict.fromkeys(v for v in jaxpr.outvars if not isinstance(v, Literal)):
        if v in given:
            where = f"from the argument {names[given.index(v)]}"
        elif v in constants or (made := _defining_eqn(jaxpr, v)) is None:
            where = "from a constant"
        elif made.primitive is prims.name_p:
            where = f"named {made.params['name']!r} from {made.source}"
        else:
            where = f"output of {made.primitive.name} from {made.source}"
        found.append((v.aval, where))
    return found


def _defining_eqn(jaxpr: Jaxpr, v: Atom) -> Eqn | None:
    """Return the equation that binds `v`; for a result of a checkpointed call, the equation inside it."""
    for eqn in jaxpr.eqns:
        if v in eqn.outvars:
            if eqn.primitive is not prims.remat_p:
                return eqn
            body = eqn.params["call_jaxpr"].jaxpr
            return _defining_eqn(body, body.outvars[eqn.outvars.index(v)]) or eqn
    return None


def _is_residual(a: Value) -> bool:
    # Known scalars are constants of the program, not saved memory.
    return isinstance(a, StagingTracer) or not isinstance(a, Tracer) and np.ndim(a) > 0


def _parameters(f: Function) -> list[str]:
    """Return the names of positional parameters; empty if the signature is unknown."""
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _describe_path(path: Sequence[Any], named: list[str]) -> str:
    """Describe a leaf of (args, kwargs) by its parameter name and the path below it."""
    (is_keyword, first, *rest) = path
    if is_keyword.idx:
        name = str(first.key)
    else:
        name = named[first.idx] if first.idx < len(named) else f"args[{first.idx}]"
    return name + trees.keystr(tuple(rest))


def print_saved_residuals(f: Function, *args: Tree, **kwargs: Tree) -> None:
    """Print the residuals that the backward pass of `f` saves: one line each, with type and origin.

    Args:
      f: function of arrays and trees of them.
      args, kwargs: its arguments.

    >>> from lamina_autodiff import checkpoint
    >>> from lamina_tracing import lax
    >>> print_saved_residuals(checkpoint(lambda x: lax.sin(lax.sin(x))), np.float32(1))
    f32[] from the argument x
    """
    for aval, where in saved_residuals(f, *args, **kwargs):
        print(aval.str_short(), where)
