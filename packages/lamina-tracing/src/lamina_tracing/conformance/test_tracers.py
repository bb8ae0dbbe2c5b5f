"""Tracers: accepted as arrays, not convertible to Python numbers, reported if they leak."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_ir import LeakedTracerError, TracerArrayError, TracerBoolError, TracerIntegerError, UnboundAxisError
from lamina_tracing import Array, checking_leaks, jit, lax, make_jaxpr
from lamina_tracing.extend import Tracer, typeof

X = np.arange(3.0, dtype=np.float32)


@pytest.mark.parametrize(("use", "error"), [
    (lambda x: x if x else -x, TracerBoolError), (lambda x: bool(x), TracerBoolError), (lambda x: range(x), TracerIntegerError),
    (lambda x: [1, 2, 3][x], TracerIntegerError), (lambda x: np.asarray(x), TracerArrayError), (lambda x: int(x), TypeError),
    (lambda x: float(x), TypeError)], ids=range(7))
def test_tracer_cannot_convert_to_number(use, error):
    for traced in (jit(use), make_jaxpr(use)):
        with pytest.raises(error):
            traced(np.int32(1))


def test_functions_accept_tracers_as_arrays():
    seen = []

    def f(x):
        seen.append((x.shape, str(x.dtype), x.ndim, x.size, len(x), isinstance(x, Array), isinstance(x, Tracer)))
        return -(x + 1.0) * 2.0 - x / 4.0

    np.testing.assert_allclose(np.asarray(jit(f)(X)), -(X + 1) * 2 - X / 4, rtol=1e-6)
    assert seen[0] == ((3,), "float32", 1, 3, 3, True, True)
    assert typeof(X).shape == (3,) and str(typeof(2.0).dtype) == "float32" and typeof(2.0).weak_type


def test_results_convert_to_numpy_and_python():
    y = lax.mul(X, 2.0)
    assert isinstance(y, Array) and not isinstance(y, Tracer)
    np.testing.assert_array_equal(np.asarray(y), 2 * X)
    np.testing.assert_array_equal(np.add(y, 1), 2 * X + 1)
    assert float(lax.reduce_sum(y, (0,))) == 6 and y.tolist() == [0, 2, 4]


KEPT: list = []


def leaky(x):
    y = lax.sin(x)
    KEPT.append(y)
    return lax.neg(y)


@pytest.fixture(autouse=True)
def clear_leaks():
    """Release leaked tracers after each test."""
    yield
    KEPT.clear()


def test_leaked_tracer_is_reported_on_use():
    jit(leaky)(X)
    for use in (lambda: lax.cos(KEPT[0]), lambda: jit(lambda y: lax.add(y, KEPT[0]))(X)):
        with pytest.raises(LeakedTracerError):
            use()


def test_leak_check_reports_at_function_end():
    with checking_leaks(True):
        with pytest.raises(LeakedTracerError, match="sin"):
            jit(leaky)(X)
        assert float(jit(lambda x: jit(lambda y: lax.mul(x, y))(x))(np.float32(3))) == 9


@pytest.mark.collectives
def test_collective_needs_bound_axis():
    with pytest.raises(UnboundAxisError, match="'i'"):
        lax.psum(X, "i")
    with pytest.raises(UnboundAxisError, match="'i'"):
        jit(lambda x: lax.psum(x, "i"))(X)
