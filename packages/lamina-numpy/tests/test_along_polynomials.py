"""Polynomials, where values are known and where they are not."""
from __future__ import annotations

from typing import Any

import lamina_numpy as lnp
import numpy as np
import pytest
from lamina_autodiff.testing import check_grads
from lamina_tracing import jit

X = np.linspace(0, 3, 20).astype(np.float32)
Y = np.stack([np.sin(X), X ** 3], 1)
W = np.linspace(1, 2, 20).astype(np.float32)


@pytest.mark.parametrize("y", [Y, Y[:, 0]])
@pytest.mark.parametrize("w", [None, W])
def test_fits_of_traced_points(y: Any, w: Any) -> None:
    found = jit(lambda x, y, w: lnp.polyfit(x, y, 3, w=w))(X, y, w)
    np.testing.assert_allclose(found, np.polyfit(X, y, 3, w=w), rtol=2e-3, atol=1e-3)
    np.testing.assert_allclose(lnp.polyfit(X, y, 3, w=w), np.polyfit(X, y, 3, w=w), rtol=1e-5, atol=1e-5)


def test_fits_have_derivatives() -> None:
    check_grads(lambda y: lnp.polyfit(X, y, 2), (Y[:, 0],), 2)


def test_points_that_do_not_fit_are_refused() -> None:
    for call, words in [(lambda x: lnp.polyfit(x, x[1:], 2), "expected points"), (lambda x: lnp.polyfit(x, x, -1), "deg must"),
                        (lambda x: lnp.polyfit(x, x, 2, w=x[1:]), "weights must")]:
        with pytest.raises(ValueError, match=words):
            jit(call)(X)
