"""`ode.odeint` against solutions that are known: trees, both directions, derivatives, ends that are not reached."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_autodiff import grad
from lamina_autodiff.testing import check_grads
from lamina_batching import vmap
from lamina_ir import LaminaError, ShapeError, config
from lamina_scipy.ode import odeint
from lamina_tracing import jit

pytestmark = pytest.mark.usefixtures("x64")
T = np.linspace(0, 5, 11)
A = np.array([[0.0, 1.0], [-1.0, 0.0]])


def close(got, wanted, atol=1e-7):
    assert np.shape(got) == np.shape(wanted)
    np.testing.assert_allclose(got, wanted, atol=atol, rtol=1e-7)


def multiply(y, t, a):
    return a @ y


def test_known_solutions():
    close(odeint(lambda y, t: -y * t, 1.0, T), np.exp(-T ** 2 / 2))
    close(odeint(multiply, np.array([1.0, 0.0]), T, A), np.stack([np.cos(T), -np.sin(T)], 1))
    close(odeint(multiply, np.array([1.0, 0.0]), T[::-1].copy(), A)[::-1], np.stack([np.cos(T - 5), -np.sin(T - 5)], 1))
    both = odeint(lambda y, t: {"a": y["b"][0], "b": -y["a"][None]}, {"a": np.float64(1), "b": np.zeros(1)}, T)
    close(both["a"], np.cos(T))
    close(both["b"], -np.sin(T)[:, None])
    close(odeint(lambda y, t: 1j * y, 1 + 0j, T), np.exp(1j * T))
    close(odeint(lambda y, t: -y, 2.0, np.array([3.0])), [2.0])
    close(vmap(lambda y: odeint(lambda y, t: -y, y, T))(np.array([1.0, 2.0])), np.outer([1, 2], np.exp(-T)))
    close(jit(lambda y: odeint(lambda y, t: -y, y, T, hmax=0.5))(1.0), np.exp(-T))
    loose = odeint(lambda y, t: -y, 1.0, T, rtol=1e-3, atol=1e-3)
    assert 1e-7 < abs(np.asarray(loose) - np.exp(-T)).max() < 1e-2


def test_single_precision_by_default_tolerances():
    with config.enable_x64(False):
        y = odeint(lambda y, t: -y, np.float32(1), np.float32(T))
        assert y.dtype == np.float32
        np.testing.assert_allclose(y, np.exp(-T), rtol=1e-4, atol=1e-6)


def test_ends_that_are_not_reached_are_nan():
    y = np.asarray(odeint(lambda y, t: y ** 2, 1.0, np.array([0.0, 0.5, 1.5])))  # infinite at 1
    close(y[:2], [1.0, 2.0])
    assert np.isnan(y[2])
    assert np.isnan(odeint(lambda y, t: -y, 1.0, np.array([0.0, 50.0]), mxstep=5)[1])


def test_reverse_derivatives():
    check_grads(lambda y, t, a: odeint(multiply, y, t, a, rtol=1e-11, atol=1e-11),
                (np.array([1.0, 0.3]), np.array([0.0, 0.7, 1.1]), A), 1, modes=["rev"])
    times = np.array([0.0, 1.0, 2.0])
    close(grad(lambda w: odeint(lambda y, t: -w * y * t, 1.0, times)[-1])(1.3), -2 * np.exp(-2.6))
    close(grad(lambda y: odeint(lambda y, t, k: -y * k, y, times, 2)[1])(1.0), np.exp(-2))
    close(grad(lambda t: odeint(lambda y, t: t * y, 1.0, t)[-1])(times), [0.0, 0.0, 2 * np.exp(2)], atol=1e-6)
    for refused in (lambda y: grad(lambda y: odeint(lambda y, t: -y ** 2, y, times)[-1])(y),):
        with pytest.raises(LaminaError, match="reverse"):
            grad(refused)(1.0)


@pytest.mark.parametrize("call, error, words", [
    (lambda: odeint(1, 1.0, T), TypeError, "func must be a function.*int"),
    (lambda: odeint(lambda y, t: y, 1.0, 2.0), ShapeError, "t must be a vector"),
    (lambda: odeint(lambda y, t: y, 1.0, 1j * T), TypeError, "t must contain real numbers"),
    (lambda: odeint(lambda y, t: y[:1], np.ones(2), T), ShapeError, r"func gives a tree like y0; got shapes \(1,\)")])
def test_bad_input_is_named(call, error, words):
    with pytest.raises(error, match=words):
        call()
