"""Compiled lamina.example_libraries and lamina.experimental.rnn: values match those stored in the tests of lamina-nn, which
NumPy computes there."""
import importlib.util
from pathlib import Path

import lamina
import numpy as np
import pytest
from lamina.example_libraries import optimizers, stax
from lamina.experimental import rnn

NN_TESTS = Path(__file__).parents[2] / "packages" / "lamina-nn" / "tests"


def _load(name):
    spec = importlib.util.spec_from_file_location(f"nn_{name}", NN_TESTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LAYERS, STEPS, CELLS = map(_load, ("test_stax", "test_optimizers", "test_rnn"))


@pytest.mark.parametrize("name", LAYERS.NETWORKS)
def test_compiled_layers(name):
    (init, apply), shape = LAYERS.networks(stax)[name]
    want = LAYERS.NUMBERS[name]
    out_shape, params = init(lamina.random.PRNGKey(7), shape)
    run = lamina.jit(lambda params, x: apply(params, x, rng=lamina.random.key(8)))
    got = lamina.tree_leaves(run(params, LAYERS.inputs_of(shape)))
    assert str(out_shape) == want["shape"] and [str(x.shape) for x in got] == want["shapes"]
    np.testing.assert_allclose([LAYERS.digest(x) for x in got], want["result"], rtol=2e-5, atol=3e-5)


@pytest.mark.parametrize("name", STEPS.NUMBERS)
def test_compiled_optimizers(name):
    init, update, get_params = STEPS.make_optimizers(optimizers)[name]
    params, gradients = STEPS.make_parameters()
    state, step = lamina.jit(init)(params), lamina.jit(update)
    for i, g in enumerate(gradients):
        state = step(i, g, state)
    np.testing.assert_allclose(STEPS.numbers_of(get_params(state)), STEPS.NUMBERS[name], rtol=1e-5, atol=2e-6)
    assert lamina.tree_structure(state) == lamina.tree_structure(init(params))


@pytest.mark.parametrize("sizes, lengths", CELLS.CASES)
def test_compiled_rnn_cells(sizes, lengths):
    weights = rnn.init_lstm_weight(lamina.random.key(3), *sizes)
    want, start = CELLS.NUMBERS[str((sizes, lengths))], CELLS.make_inputs(sizes, lamina.random)

    def total(*args):
        out = rnn.lstm(*args[1:], args[0], np.array(lengths), *sizes[:3], 0.0, sizes[3])
        return sum((x ** 2).sum() for x in out), out
    gradients, out = lamina.jit(lamina.grad(total, (0, 1, 2, 3), has_aux=True))(weights, *start)
    np.testing.assert_allclose([CELLS.digest(x) for x in out], want["result"], rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose([CELLS.digest(x) for x in gradients], want["slopes"], rtol=1e-4, atol=1e-4)
