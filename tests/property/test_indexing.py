"""Properties of indexing: reads and writes match NumPy, and writing is the transpose of reading."""
from __future__ import annotations

import lamina
import lamina.numpy as jnp
import numpy as np
import pytest
from sample_cases import index_cases
from hypothesis import given, settings

MORE = max(20, settings().max_examples)
pytestmark = pytest.mark.usefixtures("on_numpy")


@settings(max_examples=MORE)
@given(case=index_cases())
def test_reading_matches_numpy(case):
    x, index = case
    np.testing.assert_array_equal(jnp.asarray(x)[index], x[index])


@settings(max_examples=MORE)
@given(case=index_cases())
def test_writing_matches_numpy(case):
    x, index = case
    for name, ufunc in (("add", np.add), ("multiply", np.multiply), ("max", np.maximum), ("min", np.minimum)):
        y = x.copy()
        ufunc.at(y, index, 1.5)
        np.testing.assert_allclose(getattr(jnp.asarray(x).at[index], name)(1.5), y)
    y = x.copy()
    y[index] = 1.5
    np.testing.assert_array_equal(jnp.asarray(x).at[index].set(1.5), y)


@settings(max_examples=MORE)
@given(case=index_cases())
def test_transpose_of_reading_adds(case):
    x, index = case
    picked, pull = lamina.vjp(lambda a: a[index], jnp.asarray(x))
    ct = np.random.default_rng(0).normal(size=picked.shape)
    y = np.zeros_like(x)
    np.add.at(y, index, ct)
    np.testing.assert_allclose(pull(jnp.asarray(ct))[0], y, atol=1e-12)


@settings(max_examples=MORE)
@given(case=index_cases())
def test_batched_reading_matches_a_loop(case):
    x, index = case
    stack = np.stack([x, 2 * x])
    got = lamina.vmap(lambda a: a[index])(jnp.asarray(stack))
    np.testing.assert_array_equal(got, np.stack([x[index], 2 * x[index]]))
