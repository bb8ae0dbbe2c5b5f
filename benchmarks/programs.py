"""The measured programs, run once per system and round, in a separate process.

usage: python programs.py MODULE RESULT.json CACHE_FOLDER [part of a name ...]

`MODULE` is `lamina` or `jax`; only public names of both are used. A result is microseconds per call, the best of
several repeats; growth rows are exponents. The result of a program that fails is its error.
"""
from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import control_programs  # noqa: F401 - registers its rows
import loop_programs  # noqa: F401
import operation_programs  # noqa: F401

with contextlib.suppress(ImportError):  # later versions of jax have no xmap
    import named_programs  # noqa: F401
if any(part.startswith("library") for part in sys.argv[4:]):
    import library_programs  # noqa: F401
import numpy as np
from harness import (FIGURES, IMPORT_SECONDS, MODULE, PROGRAMS, array, best_of, figure, host, lax, random, sharded,
                     timed, tree_map, wait, xnp, xp)


def inner(v: Any, u: Any) -> Any:
    return xnp.vdot(v, u)


def network(depth: int, width: int) -> list[tuple[Any, Any]]:
    return [(array(width, width, seed=n) * 0.1, xnp.zeros(width)) for n in range(depth)]


def network_sum(params: Any, x: Any) -> Any:
    for weights, bias in params:
        x = xnp.tanh(x @ weights + bias)
    return x.sum()


def descend(params: Any, x: Any) -> Any:
    return tree_map(lambda p, g: p - 0.01 * g, params, xp.grad(network_sum)(params, x))


def sines(x: Any, count: int = 1000) -> Any:
    for _ in range(count):
        x = xnp.sin(x)
    return x


# Calls of compiled programs

@timed(2000)
def jit_call_one_argument() -> Any:
    call, x = xp.jit(lambda x: x + 1), array(8, 3)
    return lambda: call(x)


@timed(300)
def jit_call_100_leaves() -> Any:
    tree = {f"layer{n}": (array(8, 3), array(3)) for n in range(50)}
    call = xp.jit(lambda tree: tree_map(lambda x: x + 1, tree))
    return lambda: call(tree)


@timed(200)
def jit_call_training_step() -> Any:
    call, params, x = xp.jit(descend), network(3, 64), array(32, 64)
    return lambda: call(params, x)


@timed(200)
def pmap_call_sharded() -> Any:
    call, v, u = xp.pmap(inner), sharded(8, 3), sharded(8, 3, seed=1)
    return lambda: call(v, u)


@timed(100)
def pmap_call_host_arrays() -> Any:
    call, v, u = xp.pmap(inner), host(8, 3), host(8, 3, seed=1)
    return lambda: call(v, u)


@timed(100)
def pmap_call_psum_blocking() -> Any:
    call, v = xp.pmap(lambda x: lax.psum(x, "i"), axis_name="i"), sharded(8, 3)
    return lambda: call(v).block_until_ready()


@timed(100)
def pmap_call_of_jit() -> Any:
    call, v, u = xp.pmap(xp.jit(inner)), sharded(8, 3), sharded(8, 3, seed=1)
    return lambda: call(v, u)


@timed(100)
def jit_call_of_pmap() -> Any:
    call, v, u = xp.jit(xp.pmap(inner)), sharded(8, 3), sharded(8, 3, seed=1)
    return lambda: call(v, u)


@timed(100)
def jit_call_of_pmap_and_more() -> Any:
    mapped, v, u = xp.pmap(inner), sharded(8, 3), sharded(8, 3, seed=1)
    call = xp.jit(lambda v, u: mapped(v * 2, u) + 1)
    return lambda: call(v, u)


@timed(100)
def jit_call_of_pmap_psum_blocking() -> Any:
    mapped, v = xp.pmap(lambda x: lax.psum(x, "i"), axis_name="i"), sharded(8, 3)
    call = xp.jit(lambda v: mapped(v * 2) + 1)
    return lambda: call(v).block_until_ready()


@timed(50)
def pmap_call_training_step() -> Any:
    def step(params: Any, x: Any) -> Any:
        grads = lax.pmean(xp.grad(network_sum)(params, x), "i")
        return tree_map(lambda p, g: p - 0.01 * g, params, grads)
    call = xp.pmap(step, axis_name="i")
    params = xp.pmap(lambda _: network(3, 64))(np.arange(8))
    x = sharded(8, 4, 64)
    return lambda: wait(call(params, x))


# Op by op

@timed(2000)
def eager_add() -> Any:
    x, y = array(8, 3), array(8, 3, seed=1)
    return lambda: x + y


@timed(2000)
def eager_sin() -> Any:
    x = array(8, 3)
    return lambda: xnp.sin(x)


@timed(500)
def eager_sum_axis() -> Any:
    x = array(8, 3)
    return lambda: x.sum(1)


@timed(500)
def eager_where() -> Any:
    x = array(8, 3)
    return lambda: xnp.where(x > 0, x, 0.0)


@timed(100)
def eager_random_normal() -> Any:
    key = random.PRNGKey(0)
    return lambda: random.normal(key, (8, 3))


@timed(500)
def eager_matmul() -> Any:
    x, y = array(8, 3), array(3, 8)
    return lambda: x @ y


@timed(500)
def eager_index() -> Any:
    x = array(8, 3)
    return lambda: x[0]


@timed(300)
def eager_update() -> Any:
    x = array(8, 3)
    return lambda: x.at[1].set(2.0)


@timed(50)
def eager_grad() -> Any:
    x = array(8, 3)
    return lambda: xp.grad(lambda x: (xnp.sin(x) * x).sum())(x)


@timed(50)
def eager_vmap() -> Any:
    v, u = array(8, 3), array(8, 3, seed=1)
    return lambda: xp.vmap(inner)(v, u)


@timed(20)
def eager_jacfwd() -> Any:
    x = array(3)
    return lambda: xp.jacfwd(lambda x: xnp.sin(x) * x[0])(x)


# Tracing and lowering

@timed(1)
def trace_chain() -> Any:
    return lambda: xp.make_jaxpr(lambda x: sines(x))(1.0) and None


@timed(1)
def trace_jvp_chain() -> Any:
    return lambda: xp.make_jaxpr(lambda x: xp.jvp(sines, (x,), (x,)))(1.0) and None


@timed(1)
def trace_grad_chain() -> Any:
    return lambda: xp.make_jaxpr(lambda x: xp.grad(sines)(x))(1.0) and None


@timed(1)
def trace_vmap_chain() -> Any:
    x = array(3)
    return lambda: xp.make_jaxpr(lambda x: xp.vmap(sines)(x))(x) and None


@timed(1)
def trace_and_lower_grad_network() -> Any:
    params, x = network(20, 64), array(32, 64)
    return lambda: xp.jit(lambda p, x: xp.grad(network_sum)(p, x)).lower(params, x) and None


@timed(1, 3)
def first_result_grad_network() -> Any:
    params, x = network(20, 64), array(32, 64)
    return lambda: xp.jit(lambda p, x: xp.grad(network_sum)(p, x))(params, x)


@timed(1, 3)
def first_result_pmap_psum() -> Any:
    x = host(8, 3)
    return lambda: xp.pmap(lambda x: lax.psum(x * 2, "i"), axis_name="i")(x)


# Work at real sizes

@timed(5, 3)
def run_training_step_wide() -> Any:
    call, params, x = xp.jit(descend), network(4, 512), array(128, 512)
    return lambda: wait(call(params, x))


@timed(5, 3)
def run_pmap_vmap_dot() -> Any:
    call, v, u = xp.pmap(xp.vmap(inner)), sharded(8, 250_000, 3), sharded(8, 250_000, 3, seed=1)
    return lambda: call(v, u).block_until_ready()


@timed(3, 3)
def run_two_million_normals() -> Any:
    call, key = xp.jit(lambda key: random.normal(key, (2_000_000,))), random.PRNGKey(0)
    return lambda: call(key).block_until_ready()


# Figures of another kind

def exponent(run: Callable[[int], Any], small: int = 1000, large: int = 16000) -> float:
    """Return p in time ~ n^p between two program sizes, the best of three at each."""
    def seconds(size: int) -> float:
        found = math.inf
        for _ in range(3):
            start = time.perf_counter()
            run(size)
            found = min(found, time.perf_counter() - start)
        return found
    seconds(small)
    return math.log(seconds(large) / seconds(small)) / math.log(large / small)


@figure
def growth_trace(_: str) -> float:
    return exponent(lambda n: xp.make_jaxpr(lambda x: sines(x, n))(1.0))


@figure
def growth_jvp(_: str) -> float:
    return exponent(lambda n: xp.make_jaxpr(lambda x: xp.jvp(lambda y: sines(y, n), (x,), (x,)))(1.0))


@figure
def growth_grad(_: str) -> float:
    return exponent(lambda n: xp.make_jaxpr(xp.grad(lambda x: sines(x, n)))(1.0))


@figure
def growth_vmap(_: str) -> float:
    return exponent(lambda n: xp.make_jaxpr(xp.vmap(lambda x: sines(x, n)))(host(3)))


@figure
def growth_remat(_: str) -> float:
    return exponent(lambda n: xp.make_jaxpr(xp.grad(xp.checkpoint(lambda x: sines(x, n))))(1.0))


@figure
def growth_print(_: str) -> float:
    programs = {n: xp.make_jaxpr(lambda x, n=n: sines(x, n))(1.0) for n in (1000, 16000)}
    return exponent(lambda n: str(programs[n]))


@figure
def growth_calls(_: str) -> float:
    """Return the growth of the time to the first result from 10 to 300 calls of one jitted function in a program."""
    block, fresh = xp.jit(lambda x: xnp.tanh(x * 2.0 + 1.0) @ x), iter(range(1, 100))

    def run(count: int) -> None:
        shift = next(fresh) / 64  # a program never seen before

        def many(x: Any) -> Any:
            for _ in range(count):
                x = block(x + shift)
            return x
        xp.jit(many)(array(8, 8)).block_until_ready()
    return exponent(run, 10, 300)


SECOND = """
import os, sys, time
import numpy as np
import {module} as xp, {module}.numpy as xnp
params = [(xnp.asarray(np.full((64, 64), 0.01 * n, "float32")), xnp.zeros(64)) for n in range(20)]
x = xnp.ones((32, 64))
def network_sum(params, x):
    for weights, bias in params:
        x = xnp.tanh(x @ weights + bias)
    return x.sum()
call = xp.jit(lambda p, x: xp.grad(network_sum)(p, x))
start = time.perf_counter()
for leaf in xp.tree_util.tree_leaves(call(params, x)):
    leaf.block_until_ready()
print("seconds", time.perf_counter() - start)
"""


@figure
def second_process_first_result(cache: str) -> float:
    """Return the time to the first result of the same program in a second process, with the on-disk cache."""
    environment = {**os.environ, "LAMINA_CACHE_DIR": cache, "JAX_COMPILATION_CACHE_DIR": cache,
                   "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}
    found = math.inf
    for repeat in range(4):
        done = subprocess.run([sys.executable, "-c", SECOND.format(module=MODULE)], env=environment,
                              capture_output=True, text=True, check=True)
        if repeat:
            found = min(found, float(done.stdout.split()[-1]))
    return found * 1e6


QUEUED = """
import sys, time
import numpy as np
import {module} as xp
call = xp.pmap(lambda x: xp.lax.psum(x, "i"), axis_name="i")
x = xp.pmap(lambda x: x)(np.ones((8, 3), "float32"))
call(x).block_until_ready()
start = time.perf_counter()
for _ in range({count}):
    out = call(x)
    {each}
out.block_until_ready()
print("seconds", (time.perf_counter() - start) / {count})
assert np.asarray(out).tolist() == [[8.0] * 3] * 8
"""


def queued(count: int, each: str) -> float:
    done = subprocess.run([sys.executable, "-c", QUEUED.format(module=MODULE, count=count, each=each)], text=True,
                          capture_output=True, timeout=300)
    if done.returncode:
        raise RuntimeError(f"the process ended with {done.returncode}")
    return float(done.stdout.split()[-1]) * 1e6


@figure
def psum_10000_queued(_: str) -> float:
    return queued(10_000, "")


@figure
def psum_10000_blocking(_: str) -> float:
    return queued(10_000, "out.block_until_ready()")


def main() -> None:
    result, cache, wanted = sys.argv[2], sys.argv[3], sys.argv[4:]
    found: dict[str, float | str] = {"import": IMPORT_SECONDS * 1e6}
    for name in (*PROGRAMS, *FIGURES):
        if wanted and not any(part in name for part in wanted):
            continue
        try:
            if name in PROGRAMS:
                set_up, calls, repeats, clock = PROGRAMS[name]
                found[name] = best_of(set_up(), calls, repeats, clock)
            else:
                found[name] = FIGURES[name](cache)
        except Exception as error:  # what is missing is a result too
            found[name] = f"{type(error).__name__}: {str(error)[:120]}"
    with open(result, "w", encoding="utf-8") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
