"""Derivatives of max and min with ties and of products with zeros."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_autodiff import grad, hessian, jvp
from lamina_ir import MissingRuleError
from lamina_tracing import lax


def test_max_divides_derivative_equally_among_ties():
    g = grad(lambda x: lax.reduce_max(x, (0,)))(np.array([1, 3, 3], np.float32))
    np.testing.assert_array_equal(np.asarray(g), [0, 0.5, 0.5])


def test_cummin_divides_derivative_equally_among_ties():
    g = grad(lambda x: lax.index_in_dim(lax.cummin(x), -1, keepdims=False))(np.array([2, 1, 1, 3, 1], np.float32))
    np.testing.assert_allclose(np.asarray(g), [0, 1 / 3, 1 / 3, 0, 1 / 3], rtol=1e-6)


@pytest.mark.parametrize("zeros", [(), (1,), (1, 3)])
def test_second_derivative_of_product_with_zeros(zeros):
    x = np.array([2, 5, 3, 7], np.float32)
    x[list(zeros)] = 0
    got = np.asarray(hessian(lambda x: lax.reduce_prod(x, (0,)))(x))
    wanted = [[0 if i == j else np.prod(np.delete(x, [i, j])) for j in range(4)] for i in range(4)]
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_running_product_with_zeros():
    x, t = np.array([2, 0, 3, 0, 5], np.float32), np.array([1, 10, 100, 1000, 10000], np.float32)
    _, dt = jvp(lax.cumprod, (x,), (t,))
    np.testing.assert_allclose(np.asarray(dt), [1, 20, 60, 0, 0], rtol=1e-6)


def test_argmax_has_zero_derivative():
    g = grad(lambda x: lax.reduce_sum(lax.mul(x, lax.convert_element_type(lax.argmax(x, 0, "int32"), "float32")), (0,)))
    np.testing.assert_array_equal(np.asarray(g(np.array([1, 4, 2], np.float32))), [1, 1, 1])


def test_missing_rule_of_generic_reduction_names_alternative():
    def f(x):
        return lax.reduce(x, np.float32(0), lambda a, b: lax.add(lax.mul(a, b), b), (0,))
    with pytest.raises(MissingRuleError, match="associative_scan"):
        grad(f)(np.ones(3, np.float32))
