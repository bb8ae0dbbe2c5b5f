"""Reductions, cumulations and scans."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_ir import ShapeError
from lamina_tracing import lax, make_jaxpr


def assert_equal(got, wanted):
    np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), rtol=1e-5, atol=1e-5)


X = np.array([[3.0, 1.0, 2.0], [0.5, 4.0, 4.0]], np.float32)


@pytest.mark.parametrize(("computation", "init", "name"), [
    (lax.add, 0.0, "reduce_sum"), (lambda a, b: b * a, 1.0, "reduce_prod"), (lax.max, -np.inf, "reduce_max"),
    (lax.min, np.float32(np.inf), "reduce_min")])
def test_reduce_recognizes_monoids(computation, init, name):
    jaxpr = make_jaxpr(lambda x: lax.reduce(x, init, computation, (1,)))(X).jaxpr
    assert [e.primitive.name for e in jaxpr.eqns] == [name]


def test_reduce_adds_initial_value_that_is_not_the_identity():
    assert_equal(lax.reduce(X, 10.0, lax.add, (0, 1)), 24.5)


def test_reduce_with_generic_computation():
    def both(a, b):
        return lax.add(a[0], b[0]), lax.max(a[1], b[1])
    total, top = lax.reduce((X, X), (0.0, -9.0), both, (1,))
    assert_equal(total, X.sum(1))
    assert_equal(top, X.max(1))


@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan_of_matrix_products(n, reverse):
    ms = np.random.default_rng(0).normal(size=(n, 2, 2)).astype(np.float32)
    got = lax.associative_scan(lax.batch_matmul, ms, reverse=reverse)
    wanted, order = [], ms[::-1] if reverse else ms
    for m in order:
        wanted.append(m if not wanted else wanted[-1] @ m)
    assert_equal(got, np.stack(wanted[::-1] if reverse else wanted))


def test_cumulative_functions_by_axis():
    assert_equal(lax.cumsum(X, 1), np.cumsum(X, 1))
    assert_equal(lax.cummax(X, -1, reverse=True), [[3, 2, 2], [4, 4, 4]])
    assert_equal(lax.cumlogsumexp(X, 0), np.logaddexp.accumulate(X, 0))
    rare = np.array([-np.inf, -np.inf, 0.0, np.inf], np.float32)
    assert_equal(lax.cumlogsumexp(rare), rare)


def test_axes_are_checked():
    with pytest.raises(ShapeError, match="axis 2"):
        lax.reduce_sum(X, (2,))
    assert lax.argmax(X, -1, np.int32).tolist() == [0, 1]


def test_cumlogsumexp_of_complex_numbers():
    x = np.complex64([1 + 1j, 2 - 3j, -1 + 3j])
    got = np.asarray(lax.cumlogsumexp(x))
    np.testing.assert_allclose(np.exp(got), np.cumsum(np.exp(x)), rtol=1e-4)
    assert (np.abs(got.imag) <= np.pi + 1e-6).all()
