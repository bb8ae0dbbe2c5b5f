"""Programs that are compiled quickly for their first calls, and optimised in the background."""
import logging
import os
import shutil
import subprocess
import sys
import threading
import warnings
from types import SimpleNamespace

import lamina_runtime as runtime
import numpy as np
import pytest
from lamina_ir import config
from lamina_parallel import Mesh, PartitionSpec, pmap, shard_map, xmap
from lamina_runtime._backend import client_state
from lamina_runtime._compile import compile_tiers as compile_tiers_module, disk_cache, executable_cache
from lamina_runtime._compile.compile_tiers import compile_tiers, estimate_costs, has_two_tiers
from lamina_runtime._compile.tier_switch import TierSwitch
from lamina_runtime._launch import process_group
from lamina_tracing import jit, lax, make_jaxpr

X = np.linspace(0.5, 1, 64, dtype=np.float32).reshape(8, 8)
MESH = Mesh(np.array(runtime.devices()), ("rows",))


def heavy(x, factor=1.0):
    """A function with a convolution, which takes long to compile."""
    images = lax.expand_dims(lax.mul(x, np.float32(factor)), (0, 3))
    filtered = lax.conv_general_dilated(images, np.full((3, 3, 1, 1), 0.1, np.float32), (1, 1), "SAME",
                                        dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return lax.sin(lax.squeeze(filtered, (0, 3)))


def new_heavy():
    factor = float(np.random.default_rng().uniform(1, 2))
    return lambda x: heavy(x, factor)


@pytest.fixture(autouse=True)
def tiers(monkeypatch):
    monkeypatch.setattr(compile_tiers_module, "_MIN_COMPILE_MS", 50.0)
    runtime.clear_memory()
    with compile_tiers("auto"), disk_cache.compilation_cache(False):
        yield
    runtime.wait_for_optimized()


class Gate:
    """The compiler of the background thread waits until `open`; `fail` is raised instead."""

    def __init__(self, monkeypatch, fail=None):
        self.open, self.started, self.compiled = threading.Event(), threading.Event(), []
        original = executable_cache._CompileTask._compile

        def compile(task, options):
            self.compiled.append(options)
            if threading.current_thread().name == "lamina-compile":
                self.started.set()
                assert self.open.wait(60)
                if fail is not None:
                    raise fail
            return original(task, options)

        monkeypatch.setattr(executable_cache._CompileTask, "_compile", compile)


def live_executables():
    return len(runtime.devices()[0].client.live_executables())


def test_first_calls_run_the_first_tier_and_later_ones_the_optimised_executable(monkeypatch):
    gate, f = Gate(monkeypatch), jit(new_heavy())
    first = np.asarray(f(X))
    assert gate.started.wait(20) and len(gate.compiled) == 2
    f(X)
    executables = live_executables()
    gate.open.set()
    runtime.wait_for_optimized()
    assert live_executables() == executables  # that of the first tier is freed
    np.testing.assert_allclose(f(X), first, rtol=1e-6)
    assert len(gate.compiled) == 2
    assert runtime.cache_stats().misses == 1


def test_calls_are_on_the_fast_path_once_it_is_optimised(monkeypatch):
    gate, f = Gate(monkeypatch), jit(new_heavy())
    calls = []
    monkeypatch.setattr(type(f.miss_handler), "compile_and_run", counted(type(f.miss_handler).compile_and_run, calls))
    for _ in range(3):
        f(X)
    assert len(calls) == 3
    gate.open.set()
    runtime.wait_for_optimized()
    for _ in range(3):
        f(X)
    assert len(calls) == 4


def counted(method, calls):
    def call(*args, **kwargs):
        calls.append(1)
        return method(*args, **kwargs)
    return call


def test_small_programs_and_long_loops_have_one_tier():
    def loop(length):
        return lambda x: lax.scan(lambda c, _: (heavy(c), None), x, None, length=length)[0]
    assert has_two_tiers(make_jaxpr(heavy)(X)) and has_two_tiers(make_jaxpr(loop(10))(X))
    assert not has_two_tiers(make_jaxpr(lax.sin)(X))
    assert not has_two_tiers(make_jaxpr(loop(10**6))(X))
    assert not has_two_tiers(make_jaxpr(heavy)(np.ones((4096, 4096), np.float32)))
    assert not has_two_tiers(make_jaxpr(lambda x: lax.while_loop(lambda c: lax.lt(c[0, 0], np.float32(9)), heavy, x))(X))


def test_calls_of_calls_are_estimated_once():
    f = jit(lax.sin)
    for _ in range(60):
        f = (lambda g: jit(lambda x: g(g(x))))(f)
    assert estimate_costs(make_jaxpr(f)(1.0)).compile_ms > 1e15


@pytest.mark.parametrize("how", ["setting", "options", "callback", "compiler", "debug_nans", "unoptimised",
                                 "processes"])
def test_one_tier(how, monkeypatch):
    gate = Gate(monkeypatch)
    gate.open.set()
    fun, options, contexts = new_heavy(), {}, []
    if how == "setting":
        contexts.append(compile_tiers("optimized"))
    elif how == "options":
        options["compiler_options"] = {"xla_cpu_enable_fast_min_max": False}
    elif how == "callback":
        inner = fun
        fun = lambda x: lax.add(inner(x), lax_callback(x))  # noqa: E731
    elif how == "debug_nans":
        contexts.append(config.debug_nans(True))
    elif how == "unoptimised":
        contexts.append(executable_cache.disable_most_optimizations(True))
    elif how == "processes":
        monkeypatch.setattr(client_state.current, "launcher", SimpleNamespace(is_stuck=False, store=None))
        monkeypatch.setattr(process_group, "multi_process_launcher", lambda devices: (None, ()))
    elif how == "compiler":
        class Other(runtime.XLACompiler):
            name = "other"
        runtime.set_compiler(Other())
    try:
        for c in contexts:
            c.__enter__()
        jit(fun, **options)(X)
    finally:
        for c in contexts:
            c.__exit__(None, None, None)
        runtime.set_compiler(None)
    runtime.wait_for_optimized()
    assert not gate.started.is_set()


def lax_callback(x):
    from lamina_tracing import pure_callback  # noqa: PLC0415
    return pure_callback(lambda v: v, x, x)


def test_compile_ahead_of_time_waits_for_the_optimised_executable(monkeypatch):
    gate, f = Gate(monkeypatch), jit(new_heavy())
    f(X)
    assert gate.started.wait(20)
    threading.Timer(0.2, gate.open.set).start()
    compiled = f.lower(X).compile()
    assert gate.open.is_set() and compiled.tier == "optimized" and len(gate.compiled) == 2
    assert jit(new_heavy()).lower(X).compile().tier == "optimized"
    assert len(gate.compiled) == 3


def test_queued_job_is_run_by_the_thread_that_waits(monkeypatch):
    gate, f, g = Gate(monkeypatch), jit(new_heavy()), jit(new_heavy())
    f(X)
    g(X)
    assert gate.started.wait(20)
    assert g.lower(X).compile().tier == "optimized" and not gate.open.is_set()
    gate.open.set()


def test_failed_background_compile_keeps_the_first_tier_and_warns_once(monkeypatch):
    gate, f = Gate(monkeypatch, fail=MemoryError("no memory left")), jit(new_heavy())
    first = f(X)
    assert gate.started.wait(20)
    gate.open.set()
    runtime.wait_for_optimized()
    with pytest.warns(RuntimeWarning, match=r"could not optimize `<lambda>` in the background: MemoryError: no memory left"):
        second = f(X)
    np.testing.assert_array_equal(first, second)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(X)
        assert f.lower(X).compile().tier == "optimized"  # compiled again, in this thread


def test_disk_cache_stores_the_optimised_executable_only(monkeypatch, tmp_path):
    gate, fun = Gate(monkeypatch), new_heavy()
    with disk_cache.compilation_cache(True), disk_cache.compilation_cache_dir(str(tmp_path)):
        monkeypatch.delenv("LAMINA_CACHE", raising=False)
        jit(fun)(X)
        assert gate.started.wait(20) and not [*disk_cache.list_files(str(tmp_path))]
        shutil.rmtree(tmp_path)
        gate.open.set()
        runtime.wait_for_optimized()
        assert len([*disk_cache.list_files(str(tmp_path))]) == 1
        runtime.clear_caches()
        jit(lambda x: fun(x))(X)
        runtime.wait_for_optimized()
        assert runtime.cache_stats().disk_hits == 1 and len(gate.compiled) == 2


def test_log_shows_both_tiers(monkeypatch, caplog):
    f = jit(new_heavy())
    with caplog.at_level(logging.WARNING), config.log_compiles(True):
        f(X)
        runtime.wait_for_optimized()
    assert [any(text in m for m in caplog.messages) for text in ("compiled quickly in", "optimized in the background")] == [
        True, True], caplog.messages


def test_donated_arguments():
    f = jit(new_heavy(), donate_argnums=0)
    reference = np.asarray(f(runtime.device_put(X)))
    runtime.wait_for_optimized()
    x = runtime.device_put(X)
    np.testing.assert_allclose(f(x), reference, rtol=1e-6)
    assert x.is_deleted()


def test_map_of_one_device_with_a_collective(monkeypatch):
    gate = Gate(monkeypatch)
    fun = new_heavy()
    f = pmap(lambda x: lax.psum(fun(x), "i"), axis_name="i", devices=runtime.devices()[:1])
    first = [np.asarray(f(X[None])) for _ in range(3)]
    gate.open.set()
    runtime.wait_for_optimized()
    for y in [*first, f(X[None]), f(X[None])]:
        np.testing.assert_allclose(y, first[0], rtol=1e-6)
    assert len(gate.compiled) == 2


def sharded(x):
    """An array of 8 rows on 8 devices."""
    return runtime.device_put(x, runtime.NamedSharding(MESH, PartitionSpec("rows")))


def parallel_call(how, donate=False):
    """Return a function over 8 devices with a collective that is compiled in two tiers, and its argument."""
    fun, donated = new_heavy(), {"donate_argnums": 0} if donate else {}
    rows = np.stack([X] * 8) * np.arange(1, 9, dtype=np.float32)[:, None, None]
    if how == "pmap":
        f = pmap(lambda x: lax.add(lax.psum(fun(x), "i"), x), axis_name="i", **donated)
        return f, rows
    if how == "shard_map":
        inner = shard_map(lambda x: lax.add(lax.psum(lax.expand_dims(fun(lax.squeeze(x, (0,))), (0,)), "rows"), x), MESH,
                          in_specs=PartitionSpec("rows"), out_specs=PartitionSpec("rows"))
        return jit(inner, **donated), rows
    if how == "xmap":
        f = xmap(lambda x: lax.add(lax.psum(fun(x), "i"), x), in_axes=["i", ...], out_axes=["i", ...],
                 axis_resources={"i": "rows"}, **donated)
        return f, rows
    return jit(lambda x: lax.add(lax.broadcast_in_dim(fun(lax.reduce_sum(x, axes=(0,))), x.shape, (1, 2)), x), **donated), rows


PARALLEL = ["pmap", "shard_map", "xmap", "sharded jit"]


@pytest.mark.parametrize("how", PARALLEL)
def test_programs_over_several_devices(how, monkeypatch):
    gate = Gate(monkeypatch)
    f, rows = parallel_call(how)
    with MESH:
        first = [f(sharded(rows)) for _ in range(3)]
        assert gate.started.wait(20) and len(gate.compiled) == 2
        gate.open.set()
        runtime.wait_for_optimized()
        later = [f(sharded(rows)) for _ in range(3)]
    for y in [*first, *later]:
        assert y.sharding == first[0].sharding and len(y.sharding.device_set) == 8
        np.testing.assert_allclose(y, first[0], rtol=1e-5)
    assert len(gate.compiled) == 2


@pytest.mark.parametrize("how", PARALLEL)
def test_donated_arguments_over_several_devices(how, monkeypatch):
    gate = Gate(monkeypatch)
    f, rows = parallel_call(how, donate=True)
    with MESH:
        x = sharded(rows)
        first = np.asarray(f(x))
        assert x.is_deleted()
        gate.open.set()
        runtime.wait_for_optimized()
        for _ in range(3):
            x = sharded(rows)
            np.testing.assert_allclose(f(x), first, rtol=1e-5)
            assert x.is_deleted()
            with pytest.raises(RuntimeError, match="deleted|donated"):
                f(x)


@pytest.mark.parametrize("how", ["pmap", "sharded jit"])
def test_collectives_run_while_the_executable_is_replaced(how):
    f, rows = parallel_call(how)
    results = [f(sharded(rows)) for _ in range(100)]
    runtime.wait_for_optimized()
    results += [f(sharded(rows)) for _ in range(100)]
    for y in results:
        np.testing.assert_allclose(y, results[0], rtol=1e-5)


def test_programs_over_several_devices_with_callbacks_have_one_tier(monkeypatch):
    gate, fun = Gate(monkeypatch), new_heavy()
    gate.open.set()
    f = pmap(lambda x: lax.psum(lax.add(fun(x), lax_callback(x)), "i"), axis_name="i")
    with compile_tiers("optimized"):
        expected = 8 * (np.asarray(fun(X)) + X)
    np.testing.assert_allclose(f(np.stack([X] * 8))[0], expected, rtol=1e-5)
    runtime.wait_for_optimized()
    assert not gate.started.is_set()


def test_disk_cache_of_a_program_over_several_devices(monkeypatch, tmp_path):
    gate, (f, rows) = Gate(monkeypatch), parallel_call("sharded jit")
    gate.open.set()
    with disk_cache.compilation_cache(True), disk_cache.compilation_cache_dir(str(tmp_path)):
        monkeypatch.delenv("LAMINA_CACHE", raising=False)
        first = np.asarray(f(sharded(rows)))
        runtime.wait_for_optimized()
        assert len([*disk_cache.list_files(str(tmp_path))]) == 1
        runtime.clear_caches()
        np.testing.assert_allclose(jit(lambda x: f.__wrapped__(x))(sharded(rows)), first, rtol=1e-5)
        assert runtime.cache_stats().disk_hits == 1 and len(gate.compiled) == 2


def test_other_result_shardings_of_the_optimised_executable_keep_the_first_tier(monkeypatch):
    gate, (f, rows) = Gate(monkeypatch), parallel_call("sharded jit")
    chosen = iter([["{replicated}"], ["{devices=[8]<=[8]}"]])
    monkeypatch.setattr(executable_cache, "_result_shardings", lambda loaded: next(chosen))
    first = f(sharded(rows))
    gate.open.set()
    runtime.wait_for_optimized()
    with pytest.warns(RuntimeWarning, match="could not optimize .*: the compiler chose other shardings for the results"):
        np.testing.assert_array_equal(f(sharded(rows)), first)


def test_cost_of_a_map_grows_with_its_members():
    def lost(members):
        mapped = pmap(heavy, devices=runtime.devices()[:members])
        return estimate_costs(make_jaxpr(mapped)(np.stack([X] * members))).lost_ms
    assert lost(8) == pytest.approx(8 * lost(1), rel=1e-3)


def test_threads_call_while_the_executable_is_replaced():
    f, errors = jit(new_heavy()), []
    expected, stop = np.asarray(f(X)), threading.Event()

    def work():
        while not stop.is_set():
            try:
                np.testing.assert_allclose(f(X), expected, rtol=1e-6)
            except Exception as e:
                errors.append(e)
                return

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    runtime.wait_for_optimized()
    stop.set()
    for t in threads:
        t.join()
    assert not errors


def test_unknown_tier():
    with pytest.raises(ValueError, match=r"compile_tiers.*auto.*optimized"):
        config.update("compile_tiers", "fast")
    with pytest.raises(ValueError, match="compile_tiers"):
        compile_tiers("fast").__enter__()


PROGRAM = """
import os, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in background jobs
import numpy as np
from lamina_tracing import jit, lax
import lamina_runtime as runtime
from lamina_runtime._compile import background
X = np.ones((8, 8), np.float32)
def heavy(x, n=6):
    for i in range(n):
        filters = np.full((3, 3 + 2 * i, 1, 1), 0.1, np.float32)
        y = lax.conv_general_dilated(lax.expand_dims(x, (0, 3)), filters, (1, 1), "SAME",
                                     dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = lax.sin(lax.squeeze(y, (0, 3)))
    return x
def queued():
    return len(background._queue.unfinished())
f, g = jit(heavy), jit(lambda x: heavy(lax.sin(x)))
y = f(X); g(X)
assert queued()
"""


def run(code, signal_after=None):
    environment = {**os.environ, "LAMINA_COMPILE_TIERS": "auto", "LAMINA_CACHE": "0"}
    process = subprocess.Popen([sys.executable, "-c", PROGRAM + code], env=environment, text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    out, err = process.communicate(timeout=240)
    return process.returncode, out, err


@pytest.mark.parametrize("code, status", [
    ("print('end')", 0),
    ("print('end'); sys.exit(3)", 3),
    ("print('end', flush=True); raise ValueError", 1),
    ("runtime.clear_backends(); print('end')", 0),
    ("runtime.wait_for_optimized(); assert not queued(); f(X); print('end')", 0),
    ("time.sleep(0.3); print('end')", 0),
    ("threading.Thread(target=jit(lambda x: heavy(lax.cos(x), 12)), args=(X,), daemon=True).start(); time.sleep(0.3); "
     "print('end', flush=True)", 0),  # a daemon thread compiles, too
])
def test_process_that_ends_during_a_background_compile(code, status):
    code, out, err = run(code)
    assert (code, out) == (status, "end\n"), err


def test_closed_client_drops_its_jobs():
    code, out, err = run("""
runtime.clear_backends()
runtime.wait_for_optimized()
assert not queued()
np.testing.assert_allclose(g(X), g(X), rtol=1e-6)
print("end")
""")
    assert (code, out) == (0, "end\n"), err


def test_interrupt_during_the_calls_and_at_exit():
    code, out, err = run("""
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
runtime.wait_for_optimized()
print(queued())
""")
    assert (code, out) == (0, "interrupted\n0\n"), err
    code, out, err = run("""
import atexit
atexit.register(lambda: threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start())
runtime.wait_for_optimized()
jit(lambda x: heavy(lax.cos(x), 40))(X)
time.sleep(0.2)  # the compilation runs
print("end")
""")
    assert code in (0, 130) and out == "end\n", (code, err)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_fork_during_a_background_compile():
    code, out, err = run("""
import warnings
warnings.simplefilter("ignore")
y.block_until_ready()
pid = os.fork()
if not pid:
    assert not queued()
    runtime.wait_for_optimized()
    np.testing.assert_allclose(f(X), y, rtol=1e-5)
    sys.exit(7)
_, status = os.waitpid(pid, 0)
print(os.waitstatus_to_exitcode(status))
""")
    assert (code, out) == (0, "7\n"), err


class Texts(dict):
    """Texts that simulated processes share."""

    set, number = dict.__setitem__, 0

    def delete(self, prefix):
        for key in [key for key in self if key.startswith(prefix)]:
            del self[key]

    def next_number(self, processes):
        return self.number


class SimulatedProcess:
    """A process of a program with two tiers; `finish` and `is_final` are those of its executable."""

    processes, name = (1, 4), "step"

    def __init__(self, rank, store):
        self.rank, self.store, self.switch, self.tier, self.reasons = rank, store, TierSwitch(), "first", []
        self.loaded, self.first_launch_done = self, True

    def finish(self, made, error):
        self.tier = "first" if made is None else made
        self.reasons += [error] * bool(error)

    def is_final(self, name):
        return True

    def launch(self):
        self.switch.before_launch(self, self.store, self.rank)
        return self.tier


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("compiled", [(0, 3), (4, 1), (2, 2)])
@pytest.mark.parametrize("fails", [None, 0, 1])
def test_simulated_processes_switch_together(order, compiled, fails):
    store = Texts()
    every = [SimulatedProcess(rank, store) for rank in (1, 4)]
    launches = []
    for number in range(10):
        for i in order:
            if number == compiled[i]:
                every[i].switch.note_compiled(*((None, "no memory") if i == fails else ("optimized", "")))
        launches.append({every[i].launch() for i in order})
    assert all(len(tiers) == 1 for tiers in launches)
    if fails is None:
        assert launches[max(compiled) + 1] == {"first"} and launches[max(compiled) + 3] == {"optimized"} and not store
    else:
        assert launches[-1] == {"first"}
        assert [p.reasons for p in every] == [[f"process {every[fails].rank}: no memory"]] * 2


def test_switch_continues_after_an_executable_is_compiled_again():
    store = Texts()
    one, other = [SimulatedProcess(rank, store) for rank in (1, 4)]
    for p in (one, other):
        p.launch()
        p.switch.note_compiled("optimized", "")
    for p in (one, other, one, other):
        p.launch()
    one.tier = "first"  # a new executable
    one.switch.note_compiled("again", "")
    assert [p.launch() for p in (one, other)] == ["first", "first"]
    assert [p.launch() for p in (one, other)] == ["again", "optimized"]
    one.switch.note_compiled("late", "")
    assert one.switch.is_optimized and one.launch() == "again"
