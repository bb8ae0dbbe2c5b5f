"""Thousands of queued collectives on eight devices finish with right results, alone and mixed with other work."""
import threading

import lamina as jax
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax

pytestmark = pytest.mark.devices


def test_ten_thousand_queued_psums_finish():
    f = jax.pmap(lambda x: lax.psum(x, "i") / 8, axis_name="i")
    x = jax.pmap(lambda x: x)(np.arange(8 * 4, dtype=np.float32).reshape(8, 4))
    mean = np.asarray(x).mean(0)
    for _ in range(10_000):
        out = f(x)
    np.testing.assert_allclose(np.asarray(out), np.tile(mean, (8, 1)), rtol=1e-6)


def test_dependent_chain_and_programs_between():
    f = jax.pmap(lambda x: lax.pmean(x, "i"), axis_name="i")
    g = jax.pmap(lambda x: x + 1)
    x = jnp.arange(8.0)
    for _ in range(500):
        x = g(f(x))
        x.sum()
    np.testing.assert_allclose(np.asarray(x), np.full(8, 3.5 + 500), rtol=1e-5)


def test_jitted_pmap_queued():
    f = jax.jit(jax.pmap(lambda x: lax.psum(x, "i"), axis_name="i"))
    x = jnp.ones((8, 2))
    for _ in range(300):
        out = f(x)
    assert np.asarray(out).tolist() == [[8, 8]] * 8


def test_queued_psums_of_several_threads():
    f = jax.pmap(lambda x: lax.psum(x, "i"), axis_name="i")
    results, x = [], np.ones((8, 2), np.float32)

    def work():
        for _ in range(300):
            out = f(x)
        results.append(np.asarray(out))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 4 and all((r == 8).all() for r in results)


def test_donated_results_of_psums():
    f = jax.pmap(lambda x: lax.psum(x, "i") / 8, axis_name="i", donate_argnums=0)
    x = jax.pmap(lambda x: x)(np.ones((8, 2), np.float32))
    first = x
    for _ in range(200):
        x = f(x)
    assert (np.asarray(x) == 1).all()
    with pytest.raises(RuntimeError, match="deleted or donated"):
        f(first)
    with pytest.raises(RuntimeError, match="deleted or donated"):
        jax.pmap(lambda x: x)(first)
