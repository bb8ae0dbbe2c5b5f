"""Reverse mode that stores few residuals: of `n` equations the values between about `sqrt(n)` segments. The rest is
recomputed.

The function is staged once, its equations are split into segments of equal length, and each segment is a default
`checkpoint`. The forward pass stores only the values between segments; the backward pass recomputes one segment at a
time with its residuals. So a chain of `n` equations needs memory for `2 sqrt(n)` values instead of `n`, and one more
run. A function that reads its values while it runs cannot be staged. It stores nothing, and is recomputed as a whole.
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
from lamina_autodiff._default import vjp as _default_vjp
from lamina_ir import ClosedJaxpr, ConcretizationError, Eqn, Jaxpr, Literal, Var, dtypes
from lamina_tracing import lax
from lamina_tracing.extend import eval_jaxpr, stage, typeof

__all__ = list(_names)
__contract__ = 1
__version__ = "0.1.0"


class Segment:
    """Consecutive equations, with the earlier variables that they read, and their variables that later ones read."""

    def __init__(self, eqns: Sequence[Eqn], needed: set[Var]) -> None:
        made = dict.fromkeys(v for e in eqns for v in e.outvars)
        self.ins = list(dict.fromkeys(a for e in eqns for a in e.invars if type(a) is Var and a not in made))
        self.outs = [v for v in made if v in needed]
        closed = ClosedJaxpr(Jaxpr([], self.ins, list(eqns), self.outs), [])
        self.run = checkpoint(lambda *xs: list(eval_jaxpr(closed, xs)))


def make_segments(eqns: Sequence[Eqn], needed: set[Var]) -> list[Segment]:
    """Split equations into segments of about `sqrt(n)`; `needed` are the variables of the results."""
    length = max(1, isqrt(len(eqns)))
    found: list[Segment] = []
    needed = set(needed)
    for start in reversed(range(0, len(eqns), length)):
        found.insert(0, Segment(eqns[start:start + length], needed))
        needed.update(found[0].ins)
    return found


def split_into_segments(fun: Callable[..., Sequence[Any]], primals: Sequence[Any]) -> Callable[..., list[Any]]:
    """Return a function that computes `fun` by segments. Raises ConcretizationError if `fun` reads its values."""
    closed, outer = stage(lambda *xs: list(fun(*xs)), [typeof(x) for x in primals])
    jaxpr = closed.jaxpr
    segments = make_segments(jaxpr.eqns, {a for a in jaxpr.outvars if type(a) is Var})

    def run(*xs: Any) -> list[Any]:
        values: dict[Var, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*closed.consts, *outer, *xs)))
        for segment in segments:
            values.update(zip(segment.outs, segment.run(*[values[v] for v in segment.ins])))
        return [eval_jaxpr(_literal(a), [])[0] if type(a) is Literal else values[a] for a in jaxpr.outvars]

    return run


def _literal(a: Literal) -> ClosedJaxpr:
    return ClosedJaxpr(Jaxpr([], [], [], [a]), [])


class RecomputingPullback:
    """A pullback by the default one. `make_pullback(n)` makes it on demand, for the first `n` results."""

    def __init__(self, outs: Sequence[Any], make_pullback: Callable[[int], Callable[[Any], Any]],
                 active: Sequence[bool]) -> None:
        self.outs, self.make_pullback, self.active = list(outs), make_pullback, active

    def backward(self, cts: Sequence[Any], *, free: bool = False) -> list[Any]:
        found = self.make_pullback(len(self.outs))([_zeros(o) if ct is None else ct for ct, o in zip(cts, self.outs)])
        return [g for g, on in zip(found, self.active) if on]


def _zeros(out: Any) -> Any:
    aval = typeof(out)
    return lax.full(aval.shape, 0, aval.dtype) if dtypes.is_inexact(aval.dtype) else np.zeros(aval.shape, dtypes.float0)


def recompute_segments(fun: Callable[..., Sequence[Any]], primals: Sequence[Any],
                       active: Sequence[bool]) -> tuple[list[Any], RecomputingPullback]:
    """Return the results and the pullback: the default `vjp` of the function in segments, each a checkpoint."""
    try:
        by_segments = split_into_segments(fun, primals)
    except (ConcretizationError, TypeError):  # it reads its values, or some results are not arrays
        outs = list(fun(*primals))
        return outs, RecomputingPullback(outs, lambda n: _default_vjp(lambda *xs: list(fun(*xs))[:n], *primals)[1], active)
    outs, pull = _default_vjp(by_segments, *primals)
    rest = list(outs)
    return outs, RecomputingPullback(outs, lambda n: lambda cts: pull([*cts, *map(_zeros, rest[n:])]), active)


vjp, value_and_grad, grad, jacrev, hessian = make_reverse_mode(recompute_segments)
jacobian = jacrev
