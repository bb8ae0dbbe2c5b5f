"""Reverse mode that keeps little: of `n` ops, what lies between some `sqrt(n)` pieces; the rest is computed again.

The function is staged once, its equations are cut into pieces of equal length, and each piece is a checkpoint of the stock's:
forwards only what one piece hands to the next is kept, backwards one piece at a time is computed again with its residuals. So a
chain of `n` ops takes memory for `2 sqrt(n)` values instead of `n`, and one more run. A function that looks at its values while
it runs cannot be staged; it keeps nothing, and is computed again as a whole.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isqrt
from typing import Any

import numpy as np
from lamina_autodiff.extend import make_reverse_mode
from lamina_autodiff._default import *
from lamina_autodiff._default import __all__ as _names
from lamina_autodiff._default import checkpoint
from lamina_autodiff._default import vjp as _recorded
from lamina_ir import ClosedJaxpr, ConcretizationError, Eqn, Jaxpr, Literal, Var, dtypes
from lamina_tracing import lax
from lamina_tracing.extend import eval_jaxpr, stage, typeof

__all__ = list(_names)
__contract__ = 1
__version__ = "0.1.0"


class Piece:
    """Some equations in a row: what they read of what was there before, and what later ones read of them."""

    def __init__(self, eqns: Sequence[Eqn], wanted: set[Var]) -> None:
        made = dict.fromkeys(v for e in eqns for v in e.outvars)
        self.ins = list(dict.fromkeys(a for e in eqns for a in e.invars if type(a) is Var and a not in made))
        self.outs = [v for v in made if v in wanted]
        closed = ClosedJaxpr(Jaxpr([], self.ins, list(eqns), self.outs), [])
        self.run = checkpoint(lambda *xs: list(eval_jaxpr(closed, xs)))


def pieces_of(eqns: Sequence[Eqn], wanted: set[Var]) -> list[Piece]:
    """The equations in pieces of some `sqrt(n)`; `wanted` are the variables of the results."""
    length = max(1, isqrt(len(eqns)))
    found: list[Piece] = []
    wanted = set(wanted)
    for start in reversed(range(0, len(eqns), length)):
        found.insert(0, Piece(eqns[start:start + length], wanted))
        wanted.update(found[0].ins)
    return found


def in_pieces(fun: Callable[..., Sequence[Any]], primals: Sequence[Any]) -> Callable[..., list[Any]]:
    """A function that does what `fun` does, piece by piece. ConcretizationError where it looks at values."""
    closed, outer = stage(lambda *xs: list(fun(*xs)), [typeof(x) for x in primals])
    jaxpr = closed.jaxpr
    pieces = pieces_of(jaxpr.eqns, {a for a in jaxpr.outvars if type(a) is Var})

    def run(*xs: Any) -> list[Any]:
        values: dict[Var, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*closed.consts, *outer, *xs)))
        for piece in pieces:
            values.update(zip(piece.outs, piece.run(*[values[v] for v in piece.ins])))
        return [eval_jaxpr(_literal(a), [])[0] if type(a) is Literal else values[a] for a in jaxpr.outvars]

    return run


def _literal(a: Literal) -> ClosedJaxpr:
    return ClosedJaxpr(Jaxpr([], [], [], [a]), [])


class Recomputed:
    """Pulls back by the stock's pull-back, which `made` gives when it is needed: of the first results, as many as there are."""

    def __init__(self, outs: Sequence[Any], made: Callable[[int], Callable[[Any], Any]], active: Sequence[bool]) -> None:
        self.outs, self.made, self.active = list(outs), made, active

    def backward(self, cts: Sequence[Any], *, free: bool = False) -> list[Any]:
        found = self.made(len(self.outs))([_zeros(o) if ct is None else ct for ct, o in zip(cts, self.outs)])
        return [g for g, on in zip(found, self.active) if on]


def _zeros(out: Any) -> Any:
    aval = typeof(out)
    return lax.full(aval.shape, 0, aval.dtype) if dtypes.is_inexact(aval.dtype) else np.zeros(aval.shape, dtypes.float0)


def recomputing(fun: Callable[..., Sequence[Any]], primals: Sequence[Any],
                active: Sequence[bool]) -> tuple[list[Any], Recomputed]:
    """The strategy: the function in pieces, each a checkpoint, under the stock's `vjp`."""
    try:
        pieces = in_pieces(fun, primals)
    except (ConcretizationError, TypeError):  # it looks at its values, or has results that are no arrays beside others
        outs = list(fun(*primals))
        return outs, Recomputed(outs, lambda n: _recorded(lambda *xs: list(fun(*xs))[:n], *primals)[1], active)
    outs, pull = _recorded(pieces, *primals)
    rest = list(outs)
    return outs, Recomputed(outs, lambda n: lambda cts: pull([*cts, *map(_zeros, rest[n:])]), active)


vjp, value_and_grad, grad, jacrev, hessian = make_reverse_mode(recomputing)
jacobian = jacrev
