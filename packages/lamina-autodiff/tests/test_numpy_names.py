"""Derivatives of NumPy functions that lamina_tracing implements, in both modes, against finite differences."""
import numpy as np
import pytest
from lamina_autodiff import grad, hessian, jacfwd, linearize, value_and_grad
from lamina_autodiff.testing import check_numpy_call
from lamina_ir import errors
from lamina_tracing import enable_x64, hooks, jit
from lamina_tracing.testing import numpy_calls

CALLS = [c for c in numpy_calls(core_only=True) if c.smooth]
STEP = 1e-6


@pytest.fixture(autouse=True)
def without_lamina_numpy(monkeypatch):
    monkeypatch.setattr(hooks.operators, "find_numpy_function", lambda name: None)


@pytest.mark.parametrize("call", CALLS, ids=[f"{c.name}-{i}" for i, c in enumerate(CALLS)])
def test_derivative_equals_finite_difference(call):
    check_numpy_call(call)


def loss(params, x):
    """Return the loss of a small network written with NumPy, loops and in-place sums."""
    total = 0.0
    for w, b in params:
        x = np.tanh(x @ w + b)
        total += 0.5 * np.sum(w**2)
    return np.mean((x - x.mean(axis=0)) ** 2) + np.sqrt(np.sum(x[:, -1] ** 2)) + 1e-3 * total


PARAMS = [(np.linspace(-1, 1, 12).reshape(3, 4), np.zeros(4)), (np.linspace(1, -0.5, 8).reshape(4, 2), np.ones(2))]
DATA = np.linspace(0, 2, 15).reshape(5, 3)


def test_gradient_of_network_written_with_numpy():
    with enable_x64():
        value, gradients = value_and_grad(loss)(PARAMS, DATA)
        again = jit(grad(loss))(PARAMS, DATA)
    np.testing.assert_allclose(value, loss(PARAMS, DATA), rtol=1e-12)
    for layer, (w, _) in enumerate(PARAMS):
        moved = [[np.array(p) for p in pair] for pair in PARAMS]
        moved[layer][0][1, 1] += STEP
        np.testing.assert_allclose(gradients[layer][0][1, 1], (loss(moved, DATA) - loss(PARAMS, DATA)) / STEP,
                                   rtol=1e-4)
        np.testing.assert_allclose(again[layer][0], gradients[layer][0], rtol=1e-12)


def rosenbrock(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def test_second_derivatives():
    x = np.array([-1.2, 1.0, 0.5])
    with enable_x64():
        h = hessian(rosenbrock)(x)
        again = jit(jacfwd(grad(rosenbrock)))(x)
        out, push = linearize(lambda x: np.prod(x) * x, x)
        pushed = push(np.ones(3))
    n = 2
    assert h.shape == (3, 3)
    np.testing.assert_allclose(h, again, rtol=1e-12)
    np.testing.assert_allclose(h[n, n], 200.0)
    np.testing.assert_allclose(h[0, 0], 1200 * 1.44 - 400 + 2)
    np.testing.assert_allclose(pushed, -0.6 + x * (1.0 * 0.5 - 1.2 * 0.5 - 1.2 * 1.0), rtol=1e-12)


def test_known_values_allow_data_dependent_shapes():
    def f(x):
        big = np.flatnonzero(x > 1)  # values are known in an eager derivative
        kept = x[x > 1]
        counts, _ = np.histogram(x, bins=2)
        return np.sum(x[big] ** 2) + np.sum(kept) * counts.sum() + (x[0] if np.all(x == x) else 0)
    np.testing.assert_allclose(grad(f)(np.float32([0.5, 2, 3])), [1, 4 + 3, 6 + 3])
    with pytest.raises(errors.TracerArrayError, match="numpy.flatnonzero of a traced bool"):
        jit(grad(f))(np.float32([0.5, 2, 3]))


def test_numpy_functions_of_concrete_arrays_return_ndarrays():
    seen = []

    def f(x, y):
        seen.append(type(np.sin(y)))
        return np.sum(x * np.sin(y))
    y = grad(lambda x: np.sum(x**2))(np.float32([1, 2]))
    assert type(np.sin(y)) is np.ndarray
    np.testing.assert_allclose(grad(f)(np.float32([1, 2]), y), np.sin([2.0, 4.0]), rtol=1e-6)
    assert seen == [np.ndarray]
