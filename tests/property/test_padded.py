"""`padded` matches the map of random functions, in values and derivatives. NumPy evaluates the map, with a device for each
member."""
import contextlib

import lamina
import numpy as np
import pytest
from draw_members import member_function
from lamina import grad, jvp, pmap
from lamina.parallel import padded
from lamina_tracing import lax, hooks

W = np.float32([1, -1, 2])
SIZES = [(1, 8), (3, 8), (8, 8), (9, 8), (13, 8), (16, 8), (5, 2), (7, 3), (2, 1), (6, 3), (17, 4)]


@contextlib.contextmanager
def numpy_only():
    before = hooks.evaluator, hooks.dispatcher
    hooks.use_numpy()
    try:
        yield
    finally:
        hooks.set_evaluator(before[0])
        hooks.set_dispatcher(before[1])


def evaluate_with_derivatives(mapped, x):
    weights = np.arange(x.size, dtype=np.float32).reshape(x.shape) % 3

    def loss(w, x):
        return lax.reduce_sum(lax.mul(mapped(w, x), weights), (0, 1))

    return [np.asarray(v) for v in (*jvp(mapped, (W, x), (np.ones_like(W), x)), *grad(loss, (0, 1))(W, x))]


def check_padded(seed, devices, within):
    rows, count = SIZES[seed % len(SIZES)]
    f, x = member_function(seed, rows), np.random.default_rng(seed).integers(-2, 3, (rows, 3)).astype(np.float32)
    with numpy_only():
        want = evaluate_with_derivatives(pmap(f, in_axes=(None, 0), axis_name="i"), x)
    with within():
        got = evaluate_with_derivatives(padded(f, in_axes=(None, 0), axis_name="i", devices=devices(count)), x)
    np.testing.assert_array_equal(got[0], want[0])
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-5)  # members with equal maxima share the derivative
        assert a.dtype == b.dtype


@pytest.mark.parametrize("seed", [*range(33), *[pytest.param(s, marks=pytest.mark.slow) for s in range(33, 990)]])
def test_padded_random_functions_on_numpy(seed):
    check_padded(seed, range, numpy_only)


@pytest.mark.parametrize("seed", [*range(3, 11), *[pytest.param(s, marks=pytest.mark.slow) for s in range(11, 66)]])
def test_padded_random_functions_on_devices(seed):
    check_padded(seed, lambda n: lamina.devices()[:n], contextlib.nullcontext)
