"""Leaked tracers: error messages with and without the leak check."""
from __future__ import annotations

import threading

import numpy as np
import pytest
from lamina_ir import LeakedTracerError
from lamina_tracing import checking_leaks, jit, lax, make_jaxpr

KEPT: list = []


@pytest.fixture(autouse=True)
def clear_leaks():
    """Release leaked tracers after each test."""
    yield
    KEPT.clear()


def leaky(x):
    y = lax.sin(x)
    KEPT.append(y)
    return lax.neg(y)


def test_leak_is_reported_on_use_without_check():
    jit(leaky)(1.0)
    for use in (lambda: lax.cos(KEPT[0]), lambda: jit(lambda y: lax.add(y, KEPT[0]))(1.0)):
        with pytest.raises(LeakedTracerError):
            use()


def test_leak_is_reported_at_function_end_with_check():
    words = r"float32\[\], the result of `sin` at .*test_leaks.py:\d+"
    with checking_leaks(True), pytest.raises(LeakedTracerError, match=words):
        jit(leaky)(1.0)


def test_leak_error_has_line_of_primitive():
    line = leaky.__code__.co_firstlineno + 1
    with checking_leaks(True), pytest.raises(LeakedTracerError, match=f"test_leaks.py:{line} "):
        make_jaxpr(leaky)(1.0)


def test_leak_error_names_holder():
    def keep(x):
        KEPT.append(lax.sin(x))
        return x

    with checking_leaks(True), pytest.raises(LeakedTracerError, match="held by list"):
        jit(keep)(1.0)


def test_returned_values_are_not_leaks():
    with checking_leaks(True):
        assert jit(lambda x: (x, lax.sin(x)))(np.float32(0))[1] == 0
        assert jit(lambda x: jit(lambda y: lax.mul(x, y))(x))(3.0) == 9


def test_values_held_by_exception_are_not_leaks():
    def fails(x):
        y = lax.sin(x)
        raise RuntimeError(y)

    with checking_leaks(True):
        with pytest.raises(RuntimeError):
            jit(fails)(1.0)
        assert jit(lax.neg)(1.0) == -1


def test_leak_check_applies_to_one_thread():
    errors = []

    def elsewhere():
        try:
            jit(lambda x: leaky(x))(2.0)
        except LeakedTracerError as e:
            errors.append(e)

    with checking_leaks(True):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert not errors and KEPT
