"""Closing the clients: resources are freed, functions work with the next clients, and old arrays are refused.

Each test runs in a subprocess, because shardings made by other tests end with their client."""
import gc
import os
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
from lamina_ir import config
from lamina_parallel import pmap
from lamina_runtime._backend import backends, client_state
from lamina_runtime._compile import executable_cache
from lamina_runtime import device_put, devices, effects_barrier, live_arrays
from lamina_runtime._sharding import shardings
from lamina_tracing import debug, jit, lax

X = np.arange(32, dtype=np.float32).reshape(8, 4)


def sines(x):
    return lax.add(lax.sin(x), x)


def run_sines(x):
    return np.asarray(jit(sines)(x))


class JittedFunctions:
    """Functions of all kinds, created once and called several times."""

    def __init__(self):
        self.seen = []
        self.calls = {
            "jit": jit(sines), "eager": sines, "sums": pmap(lambda x: lax.psum(x, "i"), axis_name="i"), "rows": pmap(sines),
            "within": jit(pmap(lambda x: lax.psum(x, "i"), axis_name="i")),
            "loop": lambda x: lax.scan(lambda c, a: (lax.add(c, a), c), np.zeros(4, np.float32), x)[1],
            "callback": jit(lambda x: (debug.callback(self.seen.append, x), lax.add(x, x))[1]),
            "in order": jit(lambda x: (debug.callback(self.seen.append, x, ordered=True), lax.add(x, x))[1]),
            "row": lambda x: next(iter(self.calls["rows"](x))),
            "moved": lambda x: device_put(self.calls["rows"](x), devices()[2]),
            "given": lambda x: jit(lambda v: lax.add(v, v), donate_argnums=0)(device_put(x)),
        }

    def __call__(self):
        return {name: np.array(f(X)) for name, f in self.calls.items() for _ in range(2)}


def count_threads():
    with open("/proc/self/status", encoding="ascii") as file:
        return int(next(line for line in file if line.startswith("Threads")).split()[1])


def run_in_subprocess(what):
    code = f"import conftest, test_client_state; test_client_state.{what.__name__}(); print('done')"
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(
        [os.path.dirname(__file__), *sys.path])}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout.split()[-1:] == ["done"], done.stdout + done.stderr


def check_closed_clients():
    met, first, counts = JittedFunctions(), None, []
    for epoch in range(4):
        assert client_state.current.epoch == backends.client_epoch() == epoch
        found = met()
        first = first or found
        for name in found:
            np.testing.assert_array_equal(found[name], first[name])
        client = weakref.ref(backends.client())
        busy, kept = count_threads(), device_put(X)
        backends.reset()
        np.testing.assert_array_equal(kept, X)
        assert client() is not None
        del kept
        gc.collect()
        counts.append(count_threads())
        assert client() is None and busy >= counts[-1] + 8, (epoch, busy, counts)
        assert executable_cache.memory_usage() == (0, 0) and not client_state.current.clients
    effects_barrier()
    assert len(met.seen) == 16 and max(counts) == min(counts)


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="threads are counted in /proc")
def test_reset_frees_the_client_and_its_threads():
    run_in_subprocess(check_closed_clients)


def check_old_arrays():
    f, g, h = jit(sines), pmap(lambda x: lax.psum(x, "i"), axis_name="i"), pmap(sines)
    old, mapped, there = f(X), h(X), device_put(X, devices()[3])
    over = (jit(lambda v: lax.add(v, old)), jit(lambda v: lax.add(v, mapped)),
            pmap(lambda v: lax.add(v, lax.reshape(there, (32,)))))
    wide = np.ones((8, 32), np.float32)
    compiled = f.lower(X).compile()
    before, place, where = [np.array(k(X)) for k in over[:2]] + [np.array(over[2](wide))], mapped.sharding, devices()
    for k in (f, g, h):
        k(X), k(X)
    f(old), f(there), f(mapped), g(mapped)
    backends.reset()
    new, want = device_put(X), run_sines(X)
    refused = {
        "one": lambda: f(old), "committed": lambda: f(there), "split": lambda: f(mapped), "mapped": lambda: g(mapped),
        "mapped one": lambda: h(old), "eager": lambda: lax.add(old, new), "second": lambda: lax.add(new, old),
        "rows": lambda: list(mapped), "part": lambda: mapped.addressable_data(1), "device": lambda: device_put(X, where[0]),
        "placement": lambda: device_put(X, place), "new there": lambda: device_put(new, place),
        "asked": lambda: jit(sines, device=where[0])(X), "devices": lambda: pmap(sines, devices=where)(X),
        "layout": lambda: jit(sines, in_shardings=(place,))(X), "compiled": lambda: compiled(old),
        "given": lambda: jit(sines, donate_argnums=0)(old)}
    for name, call in refused.items():
        for _ in range(2):
            with pytest.raises(RuntimeError, match="closed by clear_backends"):
                print(name, call())
    np.testing.assert_array_equal(np.asarray(old), want)
    np.testing.assert_array_equal(np.asarray(mapped), want)
    for x in (device_put(old, devices()[1]), device_put(mapped, devices()[1]),
              device_put(mapped, shardings.replicated_sharding(tuple(devices())))):
        np.testing.assert_array_equal(x, want)
        f(x)
    for k, want, arg in zip(over, before, (X, X, wide)):  # captured arrays are moved
        np.testing.assert_array_equal(k(arg), want)


def test_arrays_of_a_closed_client_can_only_be_read_and_moved():
    run_in_subprocess(check_old_arrays)


def check_launches_in_flight():
    sums, slow = pmap(lambda x: lax.psum(x, "i"), axis_name="i"), JittedFunctions()
    outs = [sums(X) for _ in range(200)]
    with_callback = slow.calls["callback"](X)
    backends.reset()
    assert all(o.is_ready() for o in outs[-8:]) and len(slow.seen) == 1
    np.testing.assert_array_equal(outs[0], np.tile(X.sum(0), (8, 1)))
    del outs, with_callback

    failed = []

    def work():
        try:
            for _ in range(30):
                np.testing.assert_array_equal(sums(X), np.tile(X.sum(0), (8, 1)))
        except RuntimeError as e:
            failed.append(e)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for w in workers:
        w.start()
    for _ in range(5):
        backends.reset()
    for w in workers:
        w.join()
    assert all("closed by clear_backends" in str(e) for e in failed), failed
    np.testing.assert_array_equal(sums(X), np.tile(X.sum(0), (8, 1)))


def test_reset_waits_for_launches_in_flight():
    run_in_subprocess(check_launches_in_flight)


def check_new_device_count():
    f, g = pmap(sines), jit(sines)
    f(X), g(X)
    with pytest.raises(RuntimeError, match="first used"):
        config.update("num_cpu_devices", 4)
    backends.reset()
    config.update("num_cpu_devices", 4)
    assert len(devices()) == 4 and not live_arrays()
    np.testing.assert_array_equal(g(X), run_sines(X))
    np.testing.assert_array_equal(f(X[:4]), run_sines(X[:4]))
    with pytest.raises(ValueError, match="8"):
        f(X)


def test_number_of_devices_can_change_after_a_reset():
    run_in_subprocess(check_new_device_count)


def calls_with_old_objects():
    """Return calls that use closed devices, arrays or shardings; created anew each time."""
    f, g, h = jit(sines), pmap(lambda x: lax.psum(x, "i"), axis_name="i"), pmap(sines)
    old, mapped, there = f(X), h(X), device_put(X, devices()[3])
    place, where = mapped.sharding, devices()
    made = [jit(sines, device=where[0]), pmap(sines, devices=where), jit(sines, in_shardings=(place,))]
    for k in (f, g, h, *made):
        k(X), k(X)
    f(old), f(there), f(mapped), g(mapped)
    backends.reset()
    new = device_put(X)
    return {
        "one": lambda: f(old), "committed": lambda: f(there), "split": lambda: f(mapped), "mapped": lambda: g(mapped),
        "mapped one": lambda: h(old), "eager": lambda: lax.sin(old), "second": lambda: lax.add(new, old),
        "device": lambda: device_put(X, where[0]), "placement": lambda: device_put(X, place), "made": lambda: made[0](X),
        "made over": lambda: made[1](X), "made with": lambda: made[2](X), "asked": lambda: jit(sines, device=where[0])(X),
        "over": lambda: pmap(sines, devices=where)(X), "with": lambda: jit(sines, in_shardings=(place,))(X),
        "constraint": lambda: jit(lambda x: lax.with_sharding_constraint(x, place))(new),
        "closed over": lambda: pmap(lambda x: lax.add(x, lax.reduce_sum(there, axes=(0,))))(mapped),
        "given": lambda: jit(sines, donate_argnums=0)(old), "nothing": backends.reset}


def check_refused_calls_free_the_client():
    for name in list(calls_with_old_objects()):
        call = calls_with_old_objects()[name]
        for _ in range(2):
            try:
                call()
                assert name == "nothing", name
            except RuntimeError as e:
                assert "closed by clear_backends" in str(e)
        del call
        while gc.collect():
            pass
        assert not client_state.closed_clients(), name


def test_refused_calls_free_the_client():
    run_in_subprocess(check_refused_calls_free_the_client)
