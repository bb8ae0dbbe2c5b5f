"""Compare calls of lamina with the launch of the same executable by jaxlib alone, in one process.

usage: python benchmarks/raw_calls.py [--rounds N] [--only PART ...]

The two are measured alternately, in processor time; the best of the rounds counts. A ratio of 1 means that lamina adds
nothing. The raw launch gets flat arrays of the right devices, and returns arrays made by jaxlib's own result handlers.
"""
from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from harness import array, host, sharded, wait

import lamina
import lamina.numpy as jnp
from lamina import lax

_jax = import_module("jaxlib._jax")  # the raw part: the only benchmark that calls jaxlib
GOAL = 1.05

Row = tuple[Callable[[], Any], Callable[[], Any], int]
ROWS: dict[str, Callable[[], Row]] = {}


def row(calls: int) -> Callable[[Callable[[], tuple[Any, Any]]], Any]:
    """Register a function that returns the two calls to compare; each is timed `calls` times at once."""
    def enter(make: Callable[[], tuple[Any, Any]]) -> Any:
        ROWS[make.__name__] = lambda: (*make(), calls)
        return make
    return enter


def _result_handler(x: Any) -> Any:
    try:
        return _jax.array_result_handler(x.aval, x.sharding, committed=True, _skip_checks=True)
    except TypeError:  # newer releases of jaxlib do not check
        return _jax.array_result_handler(x.aval, x.sharding, committed=True)


def make_raw(fun: Any, *args: Any) -> Callable[..., list[Any]]:
    """Return a function of flat arrays that launches the executable of `fun(*args)` and makes its results."""
    executable = fun.lower(*args).compile().runtime_executable()
    outs = lamina.tree_util.tree_leaves(fun(*args))
    handlers = [_result_handler(x) for x in outs]
    launch = executable.execute_sharded
    return lambda *flat: launch(flat).consume_with_handlers(handlers)


@row(500)
def eager_matmul() -> tuple[Any, Any]:
    x, y = array(8, 8), array(8, 8, seed=1)
    raw = make_raw(lamina.jit(lambda a, b: a @ b), x, y)
    return lambda: x @ y, lambda: raw(x, y)


@row(500)
def eager_where() -> tuple[Any, Any]:
    x = array(8, 250)
    known, zero = x > 0, jnp.float32(0)
    raw = make_raw(lamina.jit(jnp.where), known, x, zero)
    return lambda: jnp.where(known, x, 0.0), lambda: raw(known, x, zero)


@row(100)
def jit_call_100_leaves() -> tuple[Any, Any]:
    tree = {"a": [array(250)] * 50, "b": tuple([array(250, seed=1)] * 50)}
    step = lamina.jit(lambda t: lamina.tree_util.tree_map(lambda x: x + 1, t))
    raw, flat = make_raw(step, tree), lamina.tree_util.tree_leaves(tree)
    return lambda: step(tree), lambda: raw(*flat)


@row(100)
def pmap_call_sharded() -> tuple[Any, Any]:
    x, y, dot = sharded(8, 250), sharded(8, 250, seed=1), lamina.pmap(jnp.dot)
    raw = make_raw(dot, x, y)
    return lambda: dot(x, y), lambda: raw(x, y)


@row(50)
def pmap_call_host_arrays() -> tuple[Any, Any]:
    x, y, dot = host(8, 250), host(8, 250, seed=1), lamina.pmap(jnp.dot)
    placed = sharded(8, 250)
    raw = make_raw(dot, placed, placed)
    sharding, aval, devices = placed.sharding, placed.aval, lamina.local_devices()

    def put(v: np.ndarray) -> Any:
        return _jax.batched_device_put(aval, sharding, [v[i:i + 1] for i in range(8)], devices, True)
    return lambda: dot(x, y), lambda: raw(put(x), put(y))


@row(50)
def pmap_call_psum_blocking() -> tuple[Any, Any]:
    x, total = sharded(8, 250), lamina.pmap(lambda v: lax.psum(v, "i"), axis_name="i")
    raw = make_raw(total, x)
    return lambda: total(x).block_until_ready(), lambda: raw(x)[0].block_until_ready()


@row(20)
def eager_adam_20_leaves() -> tuple[Any, Any]:
    params = [array(16, 16, seed=i) for i in range(20)]
    scalars = {value: jnp.float32(value) for value in (0.9, 0.1, 0.99, 0.01, 1e-8)}
    x, s = params[0], scalars[0.9]
    raw = {name: make_raw(lamina.jit(getattr(jnp, name)), x, x) for name in ("add", "multiply", "subtract", "divide")}
    by_scalar = {name: make_raw(lamina.jit(getattr(jnp, name)), x, s) for name in ("add", "multiply")}
    root = make_raw(lamina.jit(jnp.sqrt), x)

    def ours(p: Any, g: Any, m: Any, v: Any) -> Any:
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        return p - 0.01 * m / (jnp.sqrt(v) + 1e-8)

    def times(value: float, a: Any) -> Any:
        return by_scalar["multiply"](a, scalars[value])[0]

    def launch(p: Any, g: Any, m: Any, v: Any) -> Any:
        add, mul, sub, div = (lambda a, b, call=raw[n]: call(a, b)[0] for n in ("add", "multiply", "subtract", "divide"))
        m, v = add(times(0.9, m), times(0.1, g)), add(times(0.99, v), mul(times(0.01, g), g))
        return sub(p, div(times(0.01, m), by_scalar["add"](root(v)[0], scalars[1e-8])[0]))
    return lambda: [ours(p, p, p, p) for p in params], lambda: [launch(p, p, p, p) for p in params]


def time_of(call: Callable[[], Any], calls: int) -> float:
    start = time.process_time()
    for _ in range(calls):
        last = call()
    wait(last)
    return (time.process_time() - start) / calls * 1e6


def measure(name: str, rounds: int) -> tuple[float, float]:
    """Return the best times of lamina's call and of the raw launch, in microseconds."""
    ours, raw, calls = ROWS[name]()
    wait([ours(), raw()])
    found = [(time_of(ours, calls), time_of(raw, calls)) for _ in range(rounds)]
    return min(a for a, _ in found), min(b for _, b in found)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--only", nargs="*", default=[""])
    options = parser.parse_args(arguments)
    print("| row | lamina (us) | raw jaxlib (us) | ratio | |\n| --- | ---: | ---: | ---: | --- |")
    for name in ROWS:
        if any(part in name for part in options.only):
            ours, raw = measure(name, options.rounds)
            verdict = "" if ours / raw <= GOAL else "short"
            print(f"| {name} | {ours:.2f} | {raw:.2f} | {ours / raw:.2f} | {verdict} |", flush=True)


if __name__ == "__main__":
    main()
