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


PLAIN = {"eager": lambda x: x * 2, "pmap": jax.pmap(lambda x: x * 2), "jit": jax.jit(lambda x: x * 2)}


@pytest.mark.parametrize("plain", PLAIN)
def test_psums_of_one_thread_and_other_programs_of_three(plain):
    """Each device takes 32 launches: those of one thread must not fill it while a launch of another is incomplete."""
    f, g, results = jax.pmap(lambda x: lax.psum(x, "i"), axis_name="i"), PLAIN[plain], []
    x = jax.pmap(lambda x: x)(np.ones((8, 2), np.float32))

    def work(f, calls, want):
        for _ in range(calls):
            out = f(x)
        results.append((np.asarray(out) == want).all())

    threads = [threading.Thread(target=work, args=args) for args in [(f, 200, 8), *[(g, 400, 2)] * 3]]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [True] * 4


@pytest.mark.parametrize("plain", PLAIN)
def test_psums_and_other_programs_of_one_thread_queued(plain):
    f, g = jax.pmap(lambda x: lax.psum(x, "i"), axis_name="i"), PLAIN[plain]
    x = jax.pmap(lambda x: x)(np.ones((8, 2), np.float32))
    for n in (1, 3, 10, 50) * 30:
        y = f(x)
        for _ in range(n):
            z = g(x)
    assert (np.asarray(y) == 8).all() and (np.asarray(z) == 2).all()


def test_threads_compile_and_launch_the_same_functions():
    """A thread that compiles needs the lock for its launch, while others wait for its result in jaxlib."""
    x, failures = np.ones((8, 2), np.float32), []
    makers = [lambda n: jax.pmap(lambda x: lax.psum(x * n, "i"), axis_name="i"), lambda n: jax.jit(lambda x: x.sum(0) * n),
              lambda n: lambda x: jnp.clip(x, n, n)[0] * 8]
    sharded = jax.pmap(lambda x: x)(x)
    for n in range(6):
        functions, barrier = [make(n) for make in makers], threading.Barrier(4)

        def work(functions=functions, barrier=barrier, n=n):
            barrier.wait()
            for _ in range(5):
                failures.extend(f for f in functions if not (np.asarray(f(sharded)) == 8 * n).all())

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert not failures


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
