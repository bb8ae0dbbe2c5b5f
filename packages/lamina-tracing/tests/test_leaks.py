"""Leaked tracers: error messages with and without the leak check."""
from __future__ import annotations

import linecache
import threading

import numpy as np
import pytest
from lamina_ir import ConcretizationError, LeakedTracerError
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


class Model:
    state = None


def store_attribute(x):
    Model.state = lax.cos(x)
    return x


def test_leak_error_names_value_function_holder_and_use():
    jit(leaky)(np.ones(2, np.float32))
    first = leaky.__code__.co_firstlineno
    with pytest.raises(LeakedTracerError) as found:
        lax.cos(KEPT[0])  # the use
    text = str(found.value)
    used = next(i for i in range(first, first + 200) if "# the " + "use" in linecache.getline(__file__, i))
    assert f"`cos` at {__file__}:{used} " in text
    assert f"whose trace has ended, that of `leaky` at {__file__}:{first}, traced by jit." in text
    assert f"It is the result of `sin` at {__file__}:{first + 1} (leaky), and depends on argument x of `leaky`." in text
    assert f"It was stored in the global `KEPT` at {__file__}:{first + 2}. Return it" in text


def test_leaked_argument_is_named():
    jit(lambda first, second: KEPT.append(second) or first)(1.0, 2.0)
    with pytest.raises(LeakedTracerError, match="depends on argument second of `<lambda>`"):
        lax.cos(KEPT[0])


def test_leak_into_enclosing_variable_is_named():
    kept = []
    jit(lambda x: kept.append(lax.sin(x)) or x)(1.0)
    with pytest.raises(LeakedTracerError, match=r"stored in the variable `kept` of an enclosing function at .*test_leaks.py"):
        lax.cos(kept[0])


def test_leak_into_class_attribute_is_named():
    jit(store_attribute)(1.0)
    try:
        words = r"the result of `cos` at .*stored in the attribute `state` of class Model at .*test_leaks.py:\d+"
        with pytest.raises(LeakedTracerError, match=words):
            lax.neg(Model.state)
    finally:
        Model.state = None


def test_conversion_of_leaked_tracer_names_its_function():
    jit(leaky)(np.ones(3, np.float32))
    with pytest.raises(ConcretizationError, match=r"`complex` at .*its trace has ended. It is the result of `sin` .*`leaky`"):
        complex(KEPT[0])


def test_jitted_call_with_leaked_argument_is_named():
    jit(leaky)(np.ones(4, np.float32))
    with pytest.raises(LeakedTracerError, match=r"jit of `user` at .*test_leaks.py:\d+"):
        def user(y):
            return lax.add(y, KEPT[0])
        jit(user)(1.0)
