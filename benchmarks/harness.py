"""Shared parts of the measured programs: the module under test, timing, and arrays.

`MODULE` is `lamina` or `jax`, the first argument of the process; `lamina` if that is an option or absent.
"""
from __future__ import annotations

import functools
import importlib
import math
import os
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

MODULE = next((argument for argument in sys.argv[1:2] if not argument.startswith("-")), "lamina")
started = time.perf_counter()
xp = importlib.import_module(MODULE)
xnp = importlib.import_module(MODULE + ".numpy")
IMPORT_SECONDS = time.perf_counter() - started
lax = importlib.import_module(MODULE + ".lax")
random = importlib.import_module(MODULE + ".random")
leaves, tree_map = xp.tree_util.tree_leaves, xp.tree_util.tree_map

Clock = Callable[[], float]
PROGRAMS: dict[str, tuple[Callable[[], Callable[[], Any]], int, int, Clock]] = {}
FIGURES: dict[str, Callable[[str], float]] = {}


def timed(calls: int, repeats: int = 5, clock: Clock = time.perf_counter) -> Callable[[Any], Any]:
    """Register a function that returns the function to time: `calls` calls at a time, `repeats` times; the best
    counts."""
    def enter(set_up: Any) -> Any:
        PROGRAMS[set_up.__name__] = set_up, calls, repeats, clock
        return set_up
    return enter


def figure(measure: Any) -> Any:
    """Register a function that returns its own number; it gets the cache folder."""
    FIGURES[measure.__name__] = measure
    return measure


def wait(tree: Any) -> None:
    for leaf in leaves(tree):
        if hasattr(leaf, "block_until_ready"):
            leaf.block_until_ready()


def best_of(run: Callable[[], Any], calls: int, repeats: int, clock: Clock = time.perf_counter) -> float:
    wait(run())
    found = math.inf
    is_queued = clock is time.perf_counter  # other threads may run a queued call after the last one has ended
    for _ in range(repeats):
        start = clock()
        for _ in range(calls):
            last = run()
            if not is_queued:
                wait(last)
        wait(last)
        found = min(found, (clock() - start) / calls)
    return found * 1e6


@functools.cache
def host(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def array(*shape: int, seed: int = 0) -> Any:
    return xnp.asarray(host(*shape, seed=seed))


def sharded(*shape: int, seed: int = 0) -> Any:
    return xp.pmap(lambda x: x)(host(*shape, seed=seed))
