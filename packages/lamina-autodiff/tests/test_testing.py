"""The public gradient checks: they accept correct derivatives and reject wrong ones."""
from __future__ import annotations

import functools

import numpy as np
import pytest
from lamina_autodiff import custom_jvp, jvp, vjp
from lamina_autodiff.testing import check_grads, check_jvp, check_vjp
from lamina_tracing import lax


@custom_jvp
def wrong(x):
    return lax.sin(x)


wrong.defjvp(lambda primals, tangents: (lax.sin(*primals), lax.mul(tangents[0], np.float32(1.1))))


def test_check_grads_finds_a_wrong_derivative():
    with pytest.raises(AssertionError, match="check_grads: jvp against finite differences"):
        check_grads(wrong, (0.0,), order=1)


@pytest.mark.parametrize("name", ["atol", "rtol"])
def test_tolerances_can_be_given_by_dtype(name):
    check_grads(wrong, (0.0,), order=1, **{name: {np.dtype("float32"): 0.3, np.float64: 1e-9}})
    check_jvp(wrong, functools.partial(jvp, wrong), (0.0,), **{name: {"float32": 0.3}})
    check_vjp(wrong, functools.partial(vjp, wrong), (0.0,), **{name: {np.float32: 0.3}})


def test_unlisted_dtype_has_default_tolerance():
    with pytest.raises(AssertionError):
        check_grads(wrong, (0.0,), order=1, rtol={np.float64: 0.3})


@pytest.mark.parametrize("given", [{"no such dtype": 0.1}, {np.float32: "much"}])
def test_invalid_tolerances_are_rejected(given):
    with pytest.raises(TypeError, match="atol must be a number or a dict from dtypes to numbers"):
        check_grads(lax.sin, (0.0,), atol=given)
