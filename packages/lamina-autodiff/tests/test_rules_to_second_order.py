"""Custom rules that differ from the true derivative, to detect which one is used: in loops, branches and calls."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_autodiff import checkpoint, checkpoint_policies, custom_jvp, custom_vjp, grad, jvp, linearize, vjp
from lamina_tracing import jit, lax

X = 0.6


@custom_jvp
def by_jvp(x):
    return lax.sin(x)


by_jvp.defjvp(lambda p, t: (by_jvp(p[0]), 1.5 * lax.cos(p[0]) * t[0]))


@custom_vjp
def by_vjp(x):
    return lax.tanh(x)


by_vjp.defvjp(lambda x: (by_vjp(x), (x, None)), lambda r, g: (0.7 * g * lax.cos(r[0]),))


@custom_vjp
def symbolic(x):
    return lax.exp(x)


symbolic.defvjp(lambda x: (symbolic(x.value), x.value), lambda r, g: (-0.5 * g * lax.sin(r),), symbolic_zeros=True)


def twice(f):
    return lambda x: f(f(x))


def scanned(f, **options):
    return lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2, **options)[0]


def stacked(f):
    return lambda x: lax.scan(lambda c, _: (f(c), c), x, None, length=3)[1][2]


WAYS = {"jit": lambda f: jit(twice(f)), "checkpoint": lambda f: checkpoint(twice(f)), "scan": scanned, "stacked": stacked,
        "checkpoint all": lambda f: checkpoint(twice(f), policy=checkpoint_policies.everything_saveable),
        "scan of checkpoint": lambda f: scanned(checkpoint(f)), "unrolled": lambda f: scanned(f, unroll=2),
        "fori_loop": lambda f: lambda x: lax.fori_loop(0, 2, lambda i, c: f(c), x),
        "while_loop": lambda f: lambda x: lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, f(c[1])), (0, x),
                                                         max_iters=4)[1],
        "cond": lambda f: lambda x: lax.cond(x > 0, twice(f), lambda x: x, x),
        "switch": lambda f: jit(lambda x: lax.switch(1, [lambda x: x, twice(f)], x))}


@pytest.mark.parametrize("f", [by_jvp, by_vjp, symbolic], ids=["jvp", "vjp", "symbolic"])
@pytest.mark.parametrize("way", WAYS)
def test_custom_rule_is_used_at_first_and_second_order(way, f):
    plain, wrapped = twice(f), WAYS[way](f)
    first, second = grad(plain)(X), grad(grad(plain))(X)
    # differs from the true derivative
    assert abs(float(first) - (float(plain(X + 1e-2)) - float(plain(X - 1e-2))) / 2e-2) > 0.1
    found = [grad(wrapped)(X), jvp(wrapped, (X,), (1.0,))[1], linearize(wrapped, X)[1](1.0), vjp(wrapped, X)[1](1.0)[0]]
    np.testing.assert_allclose(found, [first] * 4, rtol=1e-5)
    found = [grad(grad(wrapped))(X), jvp(grad(wrapped), (X,), (1.0,))[1], grad(lambda x: jvp(wrapped, (x,), (1.0,))[1])(X)]
    np.testing.assert_allclose(found, [second] * 3, rtol=1e-4)
