"""Caches are bounded, are freed with their functions, and may shrink while other threads call."""
import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from lamina_parallel import pmap
from lamina_runtime import cache_stats, devices
from lamina_runtime._compile import executable_cache
from lamina_runtime._dispatch import eager, jit_call
from lamina_tracing import jit, lax, pure_callback


def count_executables():
    gc.collect()
    return len(devices("cpu")[0].client.live_executables())


@pytest.fixture
def max_8_programs(monkeypatch):
    """Limit the empty cache of executables to 8 programs."""
    executable_cache.clear_memory()
    monkeypatch.setattr(executable_cache, "MAX_PROGRAMS", 8)


def test_call_caches_of_jaxlib_have_the_same_bound():
    for cache in (jit_call._cache, eager._cache):
        assert cache.capacity() == executable_cache.MAX_PROGRAMS == 1024


def test_programs_of_one_jitted_function_are_bounded(max_8_programs):
    f = jit(lambda x: lax.add(lax.sin(x), 0.5))
    before = count_executables()
    for n in range(1, 41):
        assert f(np.zeros(n, np.float32)).shape == (n,)
    assert executable_cache.memory_usage()[0] == 8
    f._clear_cache()  # jaxlib's own cache has another bound
    assert count_executables() - before <= 8
    assert f(np.zeros(3, np.float32)).tolist() == [0.5] * 3  # an evicted program is loaded again


@pytest.mark.slow
def test_programs_of_eager_primitives_are_bounded(max_8_programs):
    before = count_executables()
    for n in range(1, 41):
        assert lax.atan2(lax.full((n,), 0.0), lax.full((n,), 1.0)).shape == (n,)
    assert executable_cache.memory_usage()[0] == 8
    eager._cache.clear()
    assert count_executables() - before <= 8


def test_programs_of_a_mapped_function_are_bounded(max_8_programs):
    f = pmap(lambda x: lax.mul(x, 3.0))
    before = count_executables()
    for n in range(1, 21):
        f(np.zeros((2, n), np.float32))
    assert executable_cache.memory_usage()[0] == 8
    jit_call._cache.clear()
    assert count_executables() - before <= 8


@pytest.mark.slow
def test_large_programs_are_evicted_by_size_from_every_cache(monkeypatch):
    executable_cache.clear_memory()
    monkeypatch.setattr(executable_cache, "MAX_BYTES", 1_000_000)
    f = jit(lambda x: lax.add(lax.sin(x), 0.75))
    before = count_executables()
    for n in range(1, 41):
        f(np.zeros(n, np.float32))
        count, size = executable_cache.memory_usage()
        assert size <= 1_000_000 and count <= 16
    assert count_executables() - before <= 16


def test_programs_are_freed_with_their_function():
    executable_cache.clear_memory()
    f = jit(lambda x: lax.add(lax.sin(x), 0.875))
    before = count_executables()
    for n in range(1, 6):
        f(np.zeros(n, np.float32))
    assert count_executables() == before + 5
    executable_cache.clear_memory()
    f.clear_cache()
    del f
    assert count_executables() == before


def test_captures_of_a_callback_are_freed_with_its_program():
    class Model:
        def step(self, x):
            return x + 1

    def use():
        model = Model()
        out = jit(lambda x: pure_callback(lambda v: model.step(v), x, x))(np.float32(1))
        assert float(out) == 2
        return weakref.ref(model)

    before = executable_cache.memory_usage()
    model = use()
    gc.collect()
    assert model() is None and executable_cache.memory_usage() == before


def test_recursive_mapped_function_is_freed():
    def use():
        def f(x):
            return lax.mul(x, 2.0 if mapped else 1.0)
        mapped = pmap(f)
        mapped(np.ones((1, 3), np.float32))
        assert mapped._cache_size() == 1
        mapped.clear_cache()
        return weakref.ref(f)

    function = use()
    gc.collect()
    assert function() is None


# --- threads ----------------------------------------------------------------------------------------------------------
def run_in_threads(work, threads=16):
    start = threading.Barrier(threads)

    def one(i):
        start.wait(60)
        return work(i)
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(one, range(threads)))


def test_threads_compile_a_shared_program_once():
    executable_cache.clear_memory()
    x = np.zeros(7, np.float32)
    shared = jit(lambda x: lax.add(lax.cos(x), 0.0625))
    assert run_in_threads(lambda i: float(shared(x)[0])) == [1.0625] * 16
    assert run_in_threads(lambda i: float(jit(lambda x: lax.add(lax.cos(x), 0.03125))(x)[0])) == [1.03125] * 16
    stats = cache_stats()
    fresh = [stats.misses + stats.disk_hits]
    assert fresh[0] <= 4  # the two programs, and reading one element of each
    assert not executable_cache._compile_locks


@pytest.mark.slow
def test_programs_are_evicted_while_threads_call(monkeypatch):
    executable_cache.clear_memory()
    monkeypatch.setattr(executable_cache, "MAX_PROGRAMS", 2)
    monkeypatch.setattr(executable_cache, "MAX_BYTES", 200_000)
    functions = [jit(lambda x, k=float(k): lax.add(lax.sin(x), k)) for k in range(6)]

    def work(i):
        found = []
        for n in range(30):
            k = (i + n) % 6
            x = np.zeros(1 + (i + n) % 3, np.float32)
            found.append(np.asarray(functions[k](x)).tolist() == [k] * len(x))
            found.append(np.asarray(lax.neg(lax.sin(x))).shape == x.shape)
        return all(found)

    assert run_in_threads(work) == [True] * 16
    assert executable_cache.memory_usage()[0] <= 2 and not executable_cache._compile_locks
