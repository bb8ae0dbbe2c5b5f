"""Hooks: set by function or assignment, effect on existing callables, and rejected values."""
import numpy as np
import pytest
from lamina_ir import config, prims
from lamina_tracing import lax, hooks
from lamina_tracing.extend import EVALUATION, Trace


class RecordingEvaluator(hooks.NumPyEvaluator):
    def __init__(self):
        self.ops = []

    def primitive(self, prim, args, params):
        self.ops.append(prim)
        return super().primitive(prim, args, params)


@pytest.fixture
def restored_hooks():
    """Return the hooks; restore them after the test."""
    old = hooks.evaluator, hooks.dispatcher, hooks.basis_map
    yield hooks
    hooks.set_evaluator(old[0])
    hooks.set_dispatcher(old[1])
    hooks.set_basis_map(old[2])


@pytest.mark.parametrize("fill", [hooks.set_evaluator, lambda new: setattr(hooks, "evaluator", new)], ids=["set", "assign"])
def test_new_evaluator_runs_every_primitive(restored_hooks, fill):
    mine, key = RecordingEvaluator(), config.cache_key()
    lax.sin(.5)
    fill(mine)
    assert hooks.evaluator is mine and config.cache_key() != key
    assert float(lax.sin(.5)) == pytest.approx(np.sin(.5)) and mine.ops == [prims.sin_p]


@pytest.mark.parametrize("name, value, words", [
    ("evaluator", object(), "set_evaluator: expected an object with the methods primitive, program, array; object has no"),
    ("dispatcher", None, "NoneType has no jit, pmap"), ("basis_map", 3, "set_basis_map: expected a function or None; got int"),
    ("operators", {}, r"operators.install\(...\)")])
def test_invalid_hook_values_are_rejected(restored_hooks, name, value, words):
    before = getattr(hooks, name)
    with pytest.raises(TypeError, match=words):
        setattr(hooks, name, value)
    assert getattr(hooks, name) is before


def test_handler_replaces_process_of_trace():
    class Plain(Trace):
        def process(self, prim, args, params):
            return "own"

    trace = Plain(1)
    assert trace.process(prims.sin_p, (), {}) == "own" and trace.alive
    trace.set_handler(lambda prim, args, params: "handler")
    assert trace.process(prims.sin_p, (), {}) == "handler"
    trace.set_handler(None)
    assert trace.process(prims.sin_p, (), {}) == "own"
    with pytest.raises(NotImplementedError, match="Trace defines no `process`"):
        Trace(1).process(prims.sin_p, (), {})
    assert EVALUATION.alive
