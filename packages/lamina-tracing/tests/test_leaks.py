"""Traced values that outlive their function: what names them, with the check for leaks and without."""
from __future__ import annotations

import threading

import numpy as np
import pytest
from lamina_ir import LeakedTracerError
from lamina_tracing import checking_leaks, jit, lax, make_jaxpr

KEPT: list = []


@pytest.fixture(autouse=True)
def nothing_kept():
    yield
    KEPT.clear()


def leaky(x):
    y = lax.sin(x)
    KEPT.append(y)
    return lax.neg(y)


def test_without_the_check_a_leak_is_told_when_it_is_used():
    jit(leaky)(1.0)
    for use in (lambda: lax.cos(KEPT[0]), lambda: jit(lambda y: lax.add(y, KEPT[0]))(1.0)):
        with pytest.raises(LeakedTracerError):
            use()


def test_with_the_check_it_is_told_when_the_function_ends():
    words = r"float32\[\], the result of `sin` at .*test_leaks.py:\d+"
    with checking_leaks(True), pytest.raises(LeakedTracerError, match=words):
        jit(leaky)(1.0)


def test_the_line_is_that_of_the_op():
    line = leaky.__code__.co_firstlineno + 1
    with checking_leaks(True), pytest.raises(LeakedTracerError, match=f"test_leaks.py:{line} "):
        make_jaxpr(leaky)(1.0)


def test_the_holder_is_named():
    def keep(x):
        KEPT.append(lax.sin(x))
        return x

    with checking_leaks(True), pytest.raises(LeakedTracerError, match="held by list"):
        jit(keep)(1.0)


def test_values_that_are_returned_do_not_leak():
    with checking_leaks(True):
        assert jit(lambda x: (x, lax.sin(x)))(np.float32(0))[1] == 0
        assert jit(lambda x: jit(lambda y: lax.mul(x, y))(x))(3.0) == 9


def test_what_an_error_holds_is_no_leak():
    def fails(x):
        y = lax.sin(x)
        raise RuntimeError(y)

    with checking_leaks(True):
        with pytest.raises(RuntimeError):
            jit(fails)(1.0)
        assert jit(lax.neg)(1.0) == -1


def test_the_check_is_of_one_thread():
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
