"""Transformations, loops, branches and rules around a function from a list of inexact arrays to another."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import lamina
import numpy as np
from growing import axes, batched_by_hand, truth
from lamina import lax
from lamina_tracing.extend import typeof

__all__ = ["WRAPS"]

Fun = Callable[..., list[Any]]


def ones(xs: Sequence[Any]) -> list[Any]:
    return [lax.full_like(x, 1) for x in xs]


def scaled(fun: Fun, xs: Sequence[Any]) -> Callable[[Any], list[Any]]:
    return lambda s: fun(*[lax.mul(x, lax.convert_element_type(s, typeof(x).dtype)) for x in xs])


def added(ys: Sequence[Any]) -> list[Any]:
    return [lax.reduce_sum(y, (0,)) for y in ys]


def with_jvp_rule(fun: Fun) -> Fun:
    rule = lamina.custom_jvp(fun)
    rule.defjvp(lambda primals, tangents: lamina.jvp(fun, primals, tangents))
    return rule


def with_vjp_rule(fun: Fun) -> Fun:
    rule = lamina.custom_vjp(fun)
    rule.defvjp(lambda *xs: (fun(*xs), xs), lambda xs, ct: lamina.vjp(fun, *xs)[1](ct))
    return rule


def with_vmap_rule(fun: Fun) -> Fun:
    rule = lamina.custom_batching.custom_vmap(fun)
    rule.def_vmap(lambda size, batched, *xs: batched_by_hand(fun, size, batched, xs))
    return rule


SCALES = np.array([1.0, 0.5, -0.7])
WRAPS: dict[str, Callable[[Fun], Fun]] = {
    "jvp": lambda f: lambda *xs: lamina.jvp(f, xs, tuple(ones(xs)))[1],
    "linearize": lambda f: lambda *xs: lamina.linearize(f, *xs)[1](*ones(xs)),
    "vjp": lambda f: lambda *xs: (lambda out, pull: list(pull(ones(out))))(*lamina.vjp(f, *xs)),
    "vmap": lambda f: lambda *xs: added(lamina.vmap(scaled(f, xs))(SCALES)),
    "scan": lambda f: lambda *xs: added(lax.map(scaled(f, xs), SCALES)),
    "cond": lambda f: lambda *xs: lax.cond(lax.reduce_or(truth(xs[0]), axes(xs[0])), f,
                                           lambda *ys: [lax.mul(y, 0.5) for y in f(*ys)], *xs),
    "while": lambda f: lambda *xs: lax.while_loop(
        lambda c: lax.lt(c[0], 1), lambda c: (lax.add(c[0], 1), f(*xs)), (0, [lax.mul(y, 0) for y in f(*xs)]),
        max_iters=2)[1],
    "jit": lamina.jit, "checkpoint": lamina.checkpoint, "custom_jvp": with_jvp_rule, "custom_vjp": with_vjp_rule,
    "custom_vmap": with_vmap_rule}
