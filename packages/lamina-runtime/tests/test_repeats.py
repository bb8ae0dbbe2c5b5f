"""Calls that are like one before find its program again."""
import lamina_runtime
import numpy as np
from lamina_ir import config
from lamina_runtime._backend import client_state
from lamina_runtime._dispatch.multi_process_call_cache import MAX_SIGNATURES, CallCache
from lamina_runtime._jaxlib.pytree_registry import REGISTRY


class Program:
    pass


def noted(repeats, *args):
    program = Program()
    flat, _ = REGISTRY.flatten((args, {}))
    repeats.note(args, {}, flat, program, REGISTRY.flatten([0])[1])
    return program


def test_only_calls_that_are_alike():
    repeats = CallCache()
    x, y = lamina_runtime.device_put(np.ones(3, np.float32)), np.ones((2, 2))
    program = noted(repeats, x, {"y": y}, 2.0)
    found = repeats.find((x, {"y": y + 1}, 3.0), {})
    assert found[0] is program and found[1][0] is x and found[1][2] == 3.0
    for other in ((x[:2], {"y": y}, 2.0), (x, {"y": y.astype(np.int32)}, 2.0), (x, {"z": y}, 2.0), (x, {"y": y}, True),
                  (np.asarray(x), {"y": y}, 2.0), (x, {"y": y})):
        assert repeats.find(other, {}) is None
    assert repeats.find((x, {"y": y}), {"z": 2.0}) is None
    with config.default_matmul_precision("highest"):
        assert repeats.find((x, {"y": y}, 2.0), {}) is None
    x.delete()
    assert repeats.find((x, {"y": y}, 2.0), {}) is None


def test_integers_are_looked_at_and_programs_let_go():
    repeats = CallCache()
    noted(repeats, 3)
    assert repeats.find((3,), {}) is None  # their type follows from their size
    y = np.ones(3, np.float32)
    program = noted(repeats, y)
    assert repeats.find((y,), {})[0] is program
    del program
    assert repeats.find((y,), {}) is None
    kept = [noted(repeats, np.ones(n)) for n in range(3 * MAX_SIGNATURES)]
    assert len(client_state.current.call_caches[repeats]) == MAX_SIGNATURES and repeats.find((np.ones(len(kept) - 1),),
                                                                                             {})[0] is kept[-1]
    repeats.forget()
    assert repeats.find((y,), {}) is None


def test_what_is_known_goes_with_the_clients(monkeypatch):
    repeats, y = CallCache(), np.ones(3, np.float32)
    program = noted(repeats, y)
    assert repeats.find((y,), {})[0] is program
    monkeypatch.setattr(client_state, "current", client_state.ClientState(client_state.current.epoch + 1))
    assert repeats.find((y,), {}) is None
