"""Wrong arguments are rejected with an error that names them. Tests compare classes and names, not texts."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_batching import vmap
from lamina_ir import UnboundAxisError
from lamina_tracing import lax

X = np.arange(6.0, dtype=np.float32).reshape(2, 3)


def g(first, second):
    return lax.add(first, second)


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: vmap(3), TypeError, "vmap"),
    (lambda: vmap(g, in_axes="x")(X, X), (TypeError, ValueError), "in_axes"),
    (lambda: vmap(g, in_axes=(0,))(X, X), ValueError, "in_axes|2 arguments"),
    (lambda: vmap(g, in_axes=(0, (0, 0)))(X, X), ValueError, "second"),
    (lambda: vmap(g)(X, X[:1]), ValueError, "first.*second|second.*first"),
    (lambda: vmap(g, axis_size=5)(X, X), ValueError, "axis_size"),
    (lambda: vmap(g, in_axes=(2, 0))(X, X), ValueError, "first"),
    (lambda: vmap(g)(np.float32(1), X), ValueError, "first"),
    (lambda: vmap(g, in_axes=None)(X, X), ValueError, "in_axes|axis_size"),
    (lambda: vmap(g, out_axes=None)(X, X), ValueError, "out_axes"),
    (lambda: vmap(g, out_axes=3)(X, X), ValueError, "out_axes"),
    (lambda: vmap(g, out_axes=(0, 0))(X, X), ValueError, "out_axes"),
    (lambda: vmap(lambda x: "no")(X), TypeError, "str"),
    (lambda: vmap(g)(X, "no"), TypeError, "second"),
    (lambda: vmap(g, axis_name=3)(X, X), TypeError, "axis_name|name"),
    (lambda: vmap(g, axis_name=["i"])(X, X), TypeError, "axis_name|name"),
], ids=range(16))
def test_wrong_arguments_are_rejected_by_name(call, error, words):
    with pytest.raises(error, match=f"(?s){words}"):
        call()


def test_error_of_function_propagates_and_unbinds_axis_name():
    with pytest.raises(ZeroDivisionError):
        vmap(lambda x: 1 / 0, axis_name="i")(X)
    with pytest.raises(UnboundAxisError):
        lax.psum(X, "i")
    np.testing.assert_array_equal(np.asarray(lax.neg(X)), -X)


def test_axis_name_is_unbound_after_map():
    np.testing.assert_array_equal(np.asarray(vmap(lambda x: lax.psum(x, "i"), axis_name="i")(X)), np.stack([X.sum(0)] * 2))
    with pytest.raises(UnboundAxisError, match="'i'"):
        lax.psum(X, "i")


def test_unbound_axis_name_is_rejected():
    with pytest.raises(UnboundAxisError, match="'j'"):
        vmap(lambda x: lax.psum(x, "j"), axis_name="i")(X)


def test_function_sees_shapes_of_one_example():
    with pytest.raises((TypeError, ValueError)):
        vmap(lambda x: lax.dot(x, np.ones(2, np.float32)))(X)
