"""Batched products do not transpose operands."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_batching import vmap
from lamina_tracing import lax, make_jaxpr

RNG = np.random.default_rng(0)
A = {None: (4, 5), 0: (7, 4, 5), 1: (4, 7, 5), 2: (4, 5, 7)}
B = {None: (5, 3), 0: (7, 5, 3), 1: (5, 7, 3), 2: (5, 3, 7)}


def test_vmap_of_dot_prints_expected_text():
    x = np.ones((8, 3), np.float32)
    text = " ".join(str(make_jaxpr(vmap(lax.dot))(x, x)).split())
    assert "c:f32[8] = dot_general[ dimension_numbers=(((1,), (1,)), ((0,), (0,))) precision=None " \
        "preferred_element_type=None ] a b" in text


@pytest.mark.parametrize("i", A)
@pytest.mark.parametrize("j", B)
def test_matrix_product(i, j):
    a, b = RNG.normal(size=A[i]).astype(np.float32), RNG.normal(size=B[j]).astype(np.float32)
    if i is None and j is None:
        return
    out = np.asarray(vmap(lax.dot, in_axes=(i, j))(a, b))
    for k in range(7):
        x, y = (v if at is None else np.take(v, k, at) for v, at in ((a, i), (b, j)))
        np.testing.assert_allclose(out[k], x @ y, rtol=1e-4, atol=1e-5)


def test_no_transpose_before_product():
    fun = vmap(vmap(lax.dot, in_axes=(None, 1)), in_axes=(0, None))
    eqns = make_jaxpr(fun)(np.ones((7, 5), np.float32), np.ones((5, 3), np.float32)).jaxpr.eqns
    assert [e.primitive.name for e in eqns] == ["dot_general"]
