"""Batching of reductions: axes after the batch axis are shifted."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_batching import vmap
from lamina_ir import MissingRuleError
from lamina_tracing import lax

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("axis", [0, 1])
def test_reduction_axis_is_shifted(at, axis):
    rest = np.moveaxis(X, at, 0)
    np.testing.assert_array_equal(np.asarray(vmap(lambda x: lax.reduce_sum(x, (axis,)), in_axes=at)(X)),
                                  rest.sum(axis + 1))
    np.testing.assert_array_equal(np.asarray(vmap(lambda x: lax.cumsum(x, axis), in_axes=at)(X)),
                                  rest.cumsum(axis + 1))
    np.testing.assert_array_equal(np.asarray(vmap(lambda x: lax.argmax(x, axis, "int32"), in_axes=at)(X)),
                                  rest.argmax(axis + 1))


def test_batched_initial_values_are_rejected():
    def f(init):
        return lax.reduce((X, X), (init, init), lambda a, b: (lax.add(a[0], b[1]), lax.mul(a[1], b[0])), (0,))
    with pytest.raises(MissingRuleError, match="initial values"):
        vmap(f)(np.ones(3, np.float32))
