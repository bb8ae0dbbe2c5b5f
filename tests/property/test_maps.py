"""A program with maps inside gives the same results with `pmap` and with `vmap`, for every nesting.

Programs are random: maps of one axis and of two, in loops, branches, calls and checkpoints, under derivatives and batches, with
work that the compiler partitions, on arguments that are sharded, on one device, on reversed devices or on the host.
"""
from __future__ import annotations

import random

import numpy as np
import pytest

import lamina
import lamina.numpy as jnp
from lamina import lax

pytestmark = pytest.mark.devices
DEVICES = lamina.devices()


def member_function(rng, name, size):
    """Return a function of one member: f32[4] -> f32[4]."""
    pick = rng.choice(["sum", "mean", "max", "gather", "send", "index", "exchange", "none"])
    if pick == "sum":
        return lambda r: jnp.sin(r) + lax.psum(r, name) * 0.125
    if pick == "mean":
        return lambda r: r * lax.pmean(r, name)
    if pick == "max":
        return lambda r: r - 0.5 * lax.pmax(r, name)
    if pick == "gather":
        return lambda r: r + lax.all_gather(r, name)[0] * 0.25
    if pick == "send":
        return lambda r: lax.ppermute(r, name, [(i, (i + 1) % size) for i in range(size)])
    if pick == "index":
        return lambda r: r * (1 + lax.axis_index(name))
    if pick == "exchange" and size == 4:
        return lambda r: lax.all_to_all(r, name, 0, 0)
    return lambda r: jnp.tanh(r) * 2


def layer(rng, make, depth):
    """Return a function f32[8,4] -> f32[8,4]; `make` is pmap or vmap."""
    kind = rng.choice(["map", "map", "nest", "short", "scan", "cond", "jit", "auto", "flip", "grad", "checkpoint", "batch",
                       "fori"] if depth else ["map", "nest", "auto", "short"])
    inner = layer(rng, make, depth - 1) if kind in ("scan", "cond", "jit", "grad", "checkpoint", "batch", "fori") else None
    if kind == "map":
        return make(member_function(rng, "i", 8), axis_name="i")
    if kind == "nest":
        member, around = member_function(rng, "j", 4), rng.random() < 0.5
        within = make(member, axis_name="j")
        outer = make((lambda x: within(x * 2) + lax.psum(x, "i")) if around else within, axis_name="i")
        return lambda x: outer(x.reshape(2, 4, 4)).reshape(8, 4)
    if kind == "short":  # fewer members than devices
        n = rng.choice([2, 3, 4, 5, 7])
        f = make(member_function(rng, "k", n), axis_name="k")
        return lambda x: jnp.concatenate([f(x[:n]), x[n:]])
    if kind == "scan":
        return lambda x: lax.scan(lambda c, _: (inner(c) * 0.5, None), x, None, length=2)[0]
    if kind == "fori":
        return lambda x: lax.fori_loop(0, 2, lambda i, c: inner(c) * 0.5, x)
    if kind == "cond":
        limit = rng.choice([-1e9, 0.0, 1e9])
        return lambda x: lax.cond(x.sum() > limit, inner, lambda x: x * 2, x)
    if kind == "jit":
        return lamina.jit(inner)
    if kind == "auto":
        return lambda x: x * 0.5 + x.mean(0) - jnp.roll(x, 1, 1)
    if kind == "flip":
        return lambda x: x[::-1] * 1.5
    if kind == "grad":
        return lambda x: x + 0.1 * lamina.grad(lambda v: (inner(v) ** 2).mean())(x)
    if kind == "checkpoint":
        return lamina.checkpoint(inner)
    return lambda x: lamina.vmap(inner)(jnp.stack([x, x * 2])).sum(0) * 0.5


def random_program(seed, make):
    rng = random.Random(seed)
    layers = [layer(rng, make, 2) for _ in range(rng.choice([1, 2, 3]))]

    def program(x):
        for f in layers:
            x = f(x)
        return x

    return program


def with_shardings(x):
    yield x
    yield lamina.pmap(lambda r: r)(x)
    yield lamina.pmap(lambda r: r, devices=DEVICES[::-1])(x)
    yield lamina.pmap(lambda r: r, in_axes=1, out_axes=1, devices=DEVICES[:4])(x)


@pytest.mark.parametrize("seed", [*range(12), *[pytest.param(n, marks=pytest.mark.slow) for n in range(12, 60)]])
def test_pmap_matches_vmap(seed):
    x = np.random.RandomState(seed).randn(8, 4).astype(np.float32)
    wanted = np.asarray(lamina.jit(random_program(seed, lamina.vmap))(x))
    mapped = lamina.jit(random_program(seed, lamina.pmap))
    for given in with_shardings(x):
        np.testing.assert_allclose(np.asarray(mapped(given)), wanted, rtol=2e-4, atol=2e-4)
