"""Transposes of dot_general: layout, dtypes, precision."""
from __future__ import annotations

import ml_dtypes
import numpy as np
from lamina_autodiff import grad, vjp
from lamina_tracing import lax, make_jaxpr

X, W = np.ones((8, 3), np.float32), np.ones((3, 4), np.float32)


def test_gradient_of_weights_needs_no_transpose():
    names = [e.primitive.name for e in
             make_jaxpr(grad(lambda w: lax.reduce_sum(lax.dot(X, w), (0, 1))))(W).jaxpr.eqns]
    assert "transpose" not in names and names.count("dot_general") == 2


def test_batch_axes_at_any_position():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(4, 2, 7, 5)).astype(np.float32), rng.normal(size=(5, 3, 4, 7)).astype(np.float32)
    out, pull = vjp(lambda x, y: lax.dot_general(x, y, (((3, 0), (0, 2)), ((2,), (3,)))), x, y)
    ct = rng.normal(size=out.shape).astype(np.float32)
    dx, dy = pull(ct)
    np.testing.assert_allclose(np.asarray(out), np.einsum("abcd,dfac->cbf", x, y), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.asarray(dx), np.einsum("cbf,dfac->abcd", ct, y), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.asarray(dy), np.einsum("cbf,abcd->dfac", ct, x), rtol=1e-4, atol=1e-5)


def test_cotangents_have_dtype_of_operands():
    x, w = X.astype(ml_dtypes.bfloat16), W.astype(ml_dtypes.bfloat16)
    out, pull = vjp(lambda x, w: lax.dot(x, w, preferred_element_type=np.float32), x, w)
    assert out.dtype == np.float32
    assert [d.dtype for d in pull(np.ones((8, 4), np.float32))] == [ml_dtypes.bfloat16, ml_dtypes.bfloat16]


def test_precision_is_kept():
    eqns = make_jaxpr(grad(lambda w: lax.reduce_sum(lax.dot(X, w, precision="highest"), (0, 1))))(W).jaxpr.eqns
    found = {e.params["precision"] for e in eqns if e.primitive.name == "dot_general"}
    assert found == {(lax.Precision.HIGHEST, lax.Precision.HIGHEST)}
