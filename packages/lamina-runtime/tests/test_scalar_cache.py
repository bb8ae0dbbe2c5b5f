"""Cached device scalars for Python numbers: when the hook returns an array, and when the number itself."""
import os
import subprocess
import sys

import numpy as np
import pytest
from lamina_ir import aval_of, config
from lamina_runtime._backend import backends, client_state
from lamina_runtime import default_device, device_put, live_arrays, transfer_guard
from lamina_runtime._array import scalar_cache
from lamina_parallel import pmap
from lamina_tracing import jit, lax, hooks


@pytest.fixture(autouse=True)
def _empty_cache(monkeypatch):
    """Install the hook with an empty cache."""
    monkeypatch.setattr(hooks.operators, "device_scalar_like", scalar_cache.device_scalar_like)
    monkeypatch.setattr(client_state.current, "scalar_cache", {float: {}, int: {}})


def third_call(x, number):
    return [hooks.operators.device_scalar_like(x, number) for _ in range(3)][-1]


@pytest.mark.parametrize("number", [0.9, -2.5, 1e30, 0.0, -0.0, 7, 0, -1, 2**31 - 1])
@pytest.mark.parametrize("wide", [False, True])
def test_repeated_number_becomes_an_array_of_the_same_type(number, wide):
    with config.enable_x64(wide):
        hooks.operators.device_scalar_like = scalar_cache.device_scalar_like
        cached = third_call(device_put(np.float32(1)), number)
        assert cached.aval == aval_of(number) and cached.weak_type and not cached.committed
        assert np.asarray(cached).tobytes() == np.asarray(number, cached.dtype).tobytes()
        assert all(x is not cached for x in live_arrays())


@pytest.mark.parametrize("number", [1e300, 1e-40, float("inf"), float("nan"), 2**31, -2**40])
def test_numbers_that_are_not_cached(number):
    """They are out of range for some dtype, or are NaN."""
    assert third_call(device_put(np.float32(1)), number) is number


def test_equal_numbers_of_different_types_are_cached_separately():
    x = device_put(np.float32(1))
    assert [str(third_call(x, n)) for n in (0.0, -0.0, 0, -0.0, 0.0)] == ["0.0", "-0.0", "0", "-0.0", "0.0"]
    assert [third_call(x, n).dtype.kind for n in (2, 2.0, 1.0, 1)] == ["i", "f", "f", "i"]


def test_numbers_with_committed_or_traced_operands_are_not_cached():
    x, placed = device_put(np.float32(1)), device_put(np.float32(1), backends.devices()[0])
    seen = []
    assert not isinstance(third_call(x, 0.5), float)
    assert third_call(placed, 0.5) == 0.5 and isinstance(third_call(placed, 0.5), float)
    jit(lambda y: (seen.append(third_call(x, 0.5)), y)[1])(1.0)
    assert isinstance(seen[0], float)


def test_number_with_an_operand_on_another_device_is_not_cached():
    shards = pmap(lambda x: lax.add(x, x))(np.arange(2, dtype=np.float32))
    assert isinstance(third_call([*shards][1], 0.5), float)


@pytest.mark.parametrize("block", [lambda: config.enable_x64(True), lambda: default_device("cpu"),
                                   lambda: transfer_guard("disallow")])
def test_cache_is_disabled_after_settings_that_change_numbers(block):
    x = device_put(np.float32(1))
    third_call(x, 0.5)
    with block():
        assert isinstance(third_call(x, 0.5), float)
    assert isinstance(third_call(x, 0.5), float)


def test_cache_is_bounded():
    x = device_put(np.float32(1))
    for n in range(2000):
        third_call(x, n + 0.5)
    assert len(client_state.current.scalar_cache[float]) <= 256


def test_cache_is_separate_per_width_and_client():
    code = """
import numpy as np
from lamina_ir import config
from lamina_runtime import device_put; from lamina_runtime._backend import backends
from lamina_tracing import hooks
def dtype_of_third():
    x = device_put(np.float32(1))
    return [hooks.operators.device_scalar_like(x, 0.1) for _ in range(3)][-1].dtype.name
found = [dtype_of_third()]
config.update("enable_x64", True)
found.append(dtype_of_third())
backends.reset()
found.append(dtype_of_third())
assert found == ["float32", "float64", "float64"], found
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300,
                   env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
