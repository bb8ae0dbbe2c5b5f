"""Plain numbers that lie ready on the device: what the slot gives for them, and when it gives the numbers themselves."""
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
def _as_new(monkeypatch):
    monkeypatch.setattr(hooks.operators, "device_scalar_like", scalar_cache.device_scalar_like)
    monkeypatch.setattr(client_state.current, "scalar_cache", {float: {}, int: {}})


def third(x, number):
    return [hooks.operators.device_scalar_like(x, number) for _ in range(3)][-1]


@pytest.mark.parametrize("number", [0.9, -2.5, 1e30, 0.0, -0.0, 7, 0, -1, 2**31 - 1])
@pytest.mark.parametrize("wide", [False, True])
def test_a_number_that_comes_again_is_an_array_of_the_same_type(number, wide):
    with config.enable_x64(wide):
        hooks.operators.device_scalar_like = scalar_cache.device_scalar_like
        ready = third(device_put(np.float32(1)), number)
        assert ready.aval == aval_of(number) and ready.weak_type and not ready.committed
        assert np.asarray(ready).tobytes() == np.asarray(number, ready.dtype).tobytes()
        assert all(x is not ready for x in live_arrays())


@pytest.mark.parametrize("number", [1e300, 1e-40, float("inf"), float("nan"), 2**31, -2**40])
def test_numbers_that_stay_as_they_are(number):
    """They are too large or too small for some width, or equal nothing."""
    assert third(device_put(np.float32(1)), number) is number


def test_numbers_that_are_equal_stay_apart():
    x = device_put(np.float32(1))
    assert [str(third(x, n)) for n in (0.0, -0.0, 0, -0.0, 0.0)] == ["0.0", "-0.0", "0", "-0.0", "0.0"]
    assert [third(x, n).dtype.kind for n in (2, 2.0, 1.0, 1)] == ["i", "f", "f", "i"]


def test_beside_what_was_placed_and_while_a_program_is_written_a_number_is_a_number():
    x, placed = device_put(np.float32(1)), device_put(np.float32(1), backends.devices()[0])
    seen = []
    assert not isinstance(third(x, 0.5), float) and third(placed, 0.5) == 0.5 and isinstance(third(placed, 0.5), float)
    jit(lambda y: (seen.append(third(x, 0.5)), y)[1])(1.0)
    assert isinstance(seen[0], float)


def test_beside_a_row_that_lies_on_another_device_a_number_is_a_number():
    rows = pmap(lambda x: lax.add(x, x))(np.arange(2, dtype=np.float32))
    assert isinstance(third([*rows][1], 0.5), float)


@pytest.mark.parametrize("block", [lambda: config.enable_x64(True), lambda: default_device("cpu"),
                                   lambda: transfer_guard("disallow")])
def test_none_is_given_any_more_once_a_block_may_give_numbers_another_meaning(block):
    x = device_put(np.float32(1))
    third(x, 0.5)
    with block():
        assert isinstance(third(x, 0.5), float)
    assert isinstance(third(x, 0.5), float)


def test_as_many_as_there_is_room_for():
    x = device_put(np.float32(1))
    for n in range(2000):
        third(x, n + 0.5)
    assert len(client_state.current.scalar_cache[float]) <= 256


def test_another_width_and_other_clients_have_numbers_of_their_own():
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
