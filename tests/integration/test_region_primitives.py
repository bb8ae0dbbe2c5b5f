"""A third-party primitive with a region and a region signature, under every transformation."""
import numpy as np
import pytest
from lamina_ir.testing.structured import repeat_p
from lamina_tracing.extend import bind, stage, typeof

import lamina
import lamina.numpy as jnp
from lamina import lax

A, W = np.linspace(-1, 1, 3).astype(np.float32), np.linspace(0.5, 1, 3).astype(np.float32)


def repeat(fun, times, carry, *consts):
    """Apply `carry = fun(*consts, *carry)` the given number of times."""
    body, outer = stage(lambda *xs: list(fun(*xs)), [typeof(x) for x in (*consts, *carry)])
    return bind(repeat_p, *outer, *consts, *carry, body=body, num_consts=len(outer) + len(consts), times=times)


def step(w, a):
    return (jnp.sin(a) * w + lax.cond(a.sum() > 0, jnp.cos, jnp.exp, a),)


def by_repeat(w, a):
    return repeat(step, 3, (a,), w)[0]


def by_hand(w, a):
    for _ in range(3):
        a, = step(w, a)
    return a


@pytest.mark.parametrize("make", [
    lambda f: f,
    lambda f: lamina.grad(lambda w, a: f(w, a).sum(), 1),
    lambda f: lamina.grad(lambda w, a: (lamina.grad(lambda a: f(w, a).sum())(a) ** 2).sum(), 1),
    lambda f: lambda w, a: lamina.jvp(f, (w, a), (a, w))[1],
    lambda f: lambda w, a: lamina.linearize(lambda a: f(w, a), a)[1](w),
    lambda f: lamina.grad(lamina.checkpoint(lambda w, a: f(w, a).sum()), 1),
], ids=["plain", "grad", "grad of grad", "jvp", "linearize", "checkpoint"])
def test_derivatives_with_and_without_jit(make):
    want = make(by_hand)(W, A)
    np.testing.assert_allclose(make(by_repeat)(W, A), want, rtol=2e-5)
    np.testing.assert_allclose(lamina.jit(make(by_repeat))(W, A), want, rtol=2e-5)


def test_region_primitive_under_vmap_and_pmap():
    rows = np.stack([A, -A, W])
    want = np.stack([np.asarray(lamina.grad(lambda a: by_hand(W, a).sum())(r)) for r in rows])
    g = lamina.grad(lambda a: by_repeat(W, a).sum())
    np.testing.assert_allclose(lamina.jit(lamina.vmap(g))(rows), want, rtol=2e-5)
    np.testing.assert_allclose(lamina.pmap(g)(rows), want, rtol=2e-5)
    total = lamina.pmap(lambda a: repeat(lambda a: (lax.psum(a, "i") / 3,), 2, (a,))[0], axis_name="i")(rows)
    np.testing.assert_allclose(total, np.broadcast_to(rows.sum(0) / 3, (3, 3)), rtol=1e-5)


def test_ordered_effects_in_the_region():
    seen = []

    def say(a):
        lamina.debug.callback(lambda v: seen.append(float(v)), a, ordered=True)
        return (a * 2,)
    lamina.jit(lambda a: repeat(say, 4, (a,))[0])(jnp.float32(1)).block_until_ready()
    lamina.effects_barrier()
    assert seen == [1, 2, 4, 8]
