"""Derivatives through windows to second order, and with ties."""
import numpy as np
import pytest
from lamina_autodiff import grad, jvp
from lamina_autodiff.testing import check_grads
from lamina_ir import config
from lamina_tracing import lax

RNG = np.random.default_rng(0)
STARTS = {"sum": (lax.add, 0.0), "prod": (lax.mul, 1.0), "max": (lax.max, -np.inf), "min": (lax.min, np.inf)}


@pytest.mark.parametrize("kind", STARTS)
@pytest.mark.parametrize("gaps", [1, 2])
def test_second_derivative_of_windowed_reductions(kind, gaps):
    fun, start = STARTS[kind]
    with config.enable_x64(True):
        x = RNG.permutation(np.linspace(-2, 2, 24)).reshape(4, 6)

        def pooled(v):
            return lax.reduce_window(v, start, fun, (2, 3), (1, 2), ((0, 0), (1, 1)), (1, 1), (1, gaps))
        check_grads(lambda v: lax.square(pooled(v)), (x,), order=2, eps=1e-5, rtol=1e-4, atol=1e-4)


def test_first_of_tied_elements_gets_derivative():
    x = np.float32([1, 1, 1])
    pooled = grad(lambda v: lax.reduce_sum(lax.reduce_window(v, -np.inf, lax.max, (2,), (1,), "VALID"), (0,)))(x)
    np.testing.assert_array_equal(pooled, [1, 1, 0])
    _, t = jvp(lambda v: lax.reduce_window(v, -np.inf, lax.max, (2,), (1,), "VALID"), (x,), (np.float32([1, 2, 3]),))
    np.testing.assert_array_equal(t, [1, 2])
