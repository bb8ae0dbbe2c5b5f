"""The call cache finds the program of an earlier equivalent call."""
import lamina_runtime
import numpy as np
from lamina_ir import config
from lamina_runtime._backend import client_state
from lamina_runtime._dispatch.multi_process_call_cache import MAX_SIGNATURES, CallCache
from lamina_runtime._jaxlib.pytree_registry import REGISTRY


class Program:
    pass


def note_call(repeats, *args):
    program = Program()
    flat, _ = REGISTRY.flatten((args, {}))
    repeats.note(args, {}, flat, program, REGISTRY.flatten([0])[1])
    return program


def test_find_requires_an_equivalent_call():
    repeats = CallCache()
    x, y = lamina_runtime.device_put(np.ones(3, np.float32)), np.ones((2, 2))
    program = note_call(repeats, x, {"y": y}, 2.0)
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


def test_integers_are_not_cached_and_programs_are_weak():
    repeats = CallCache()
    note_call(repeats, 3)
    assert repeats.find((3,), {}) is None  # their dtype depends on the value
    y = np.ones(3, np.float32)
    program = note_call(repeats, y)
    assert repeats.find((y,), {})[0] is program
    del program
    assert repeats.find((y,), {}) is None
    held = [note_call(repeats, np.ones(n)) for n in range(3 * MAX_SIGNATURES)]
    assert len(client_state.current.call_caches[repeats]) == MAX_SIGNATURES and repeats.find((np.ones(len(held) - 1),),
                                                                                             {})[0] is held[-1]
    repeats.forget()
    assert repeats.find((y,), {}) is None


def test_cache_is_cleared_with_the_clients(monkeypatch):
    repeats, y = CallCache(), np.ones(3, np.float32)
    program = note_call(repeats, y)
    assert repeats.find((y,), {})[0] is program
    monkeypatch.setattr(client_state, "current", client_state.ClientState(client_state.current.epoch + 1))
    assert repeats.find((y,), {}) is None
