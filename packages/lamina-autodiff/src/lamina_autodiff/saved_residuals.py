"""`print_saved_residuals`: what the backward pass of a function keeps, and where each value comes from."""
from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from lamina_ir import Eqn, Jaxpr, Literal, dtypes, prims, trees
from lamina_tracing.extend import StagingTracer, Tracer, stage, typeof

from .linear import linearize_flat

__all__ = ["print_saved_residuals", "saved_residuals"]


def saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> list[tuple[Any, str]]:
    """The types of what the backward pass of `f` keeps, each with words for where it comes from.

    Args:
      f: function of arrays and trees of them.
      args, kwargs: its arguments.
    """
    flat, tree = trees.tree_flatten((args, kwargs))
    named = _parameters(f)
    names = [_place(path, named) for path, _ in trees.tree_flatten_with_path((args, kwargs))[0]]
    avals = [typeof(x) for x in flat]

    def run(*xs: Any) -> list[Any]:
        def fun(*ys: Any) -> list[Any]:
            given, named = trees.tree_unflatten(tree, ys)
            return trees.tree_leaves(f(*given, **named))

        _, program = linearize_flat(fun, xs, [dtypes.is_inexact(a.dtype) for a in avals])
        held = {id(a): a for row in program.rows for a in row[1] if _is_kept(a)}
        return list(held.values())

    closed, outer = stage(run, avals)
    jaxpr = closed.jaxpr
    constants, given = {*jaxpr.constvars, *jaxpr.invars[:len(outer)]}, jaxpr.invars[len(outer):]
    found = []
    for v in dict.fromkeys(v for v in jaxpr.outvars if not isinstance(v, Literal)):
        if v in given:
            where = f"from the argument {names[given.index(v)]}"
        elif v in constants or (made := _maker(jaxpr, v)) is None:
            where = "from a constant"
        elif made.primitive is prims.name_p:
            where = f"named {made.params['name']!r} from {made.source}"
        else:
            where = f"output of {made.primitive.name} from {made.source}"
        found.append((v.aval, where))
    return found


def _maker(jaxpr: Jaxpr, v: Any) -> Eqn | None:
    """The equation that gives `v`: that of the checkpointed function, where its call does."""
    for eqn in jaxpr.eqns:
        if v in eqn.outvars:
            if eqn.primitive is not prims.remat_p:
                return eqn
            body = eqn.params["call_jaxpr"].jaxpr
            return _maker(body, body.outvars[eqn.outvars.index(v)]) or eqn
    return None


def _is_kept(a: Any) -> bool:
    return isinstance(a, StagingTracer) or not isinstance(a, Tracer) and np.ndim(a) > 0


def _parameters(f: Callable[..., Any]) -> list[str]:
    """The names of positional parameters, as far as they are known."""
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _place(path: Any, named: list[str]) -> str:
    (side, first, *rest) = path
    if side.idx:
        words = str(first.key)
    else:
        words = named[first.idx] if first.idx < len(named) else f"args[{first.idx}]"
    return words + trees.keystr(tuple(rest))


def print_saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Print what the backward pass of `f` keeps: one line per value, its type and where it comes from.

    Args:
      f: function of arrays and trees of them.
      args, kwargs: its arguments.

    >>> from lamina_autodiff import checkpoint
    >>> from lamina_tracing import lax
    >>> print_saved_residuals(checkpoint(lambda x: lax.sin(lax.sin(x))), np.float32(1))
    f32[] from the argument x
    """
    for aval, where in saved_residuals(f, *args, **kwargs):
        print(aval.short(), where)
