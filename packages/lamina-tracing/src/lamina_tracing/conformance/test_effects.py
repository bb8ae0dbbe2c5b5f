"""What a function does beside its results: once per run, and in the order it is written in."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_tracing import debug, io_callback, jit, lax, make_jaxpr, pure_callback

pytestmark = pytest.mark.order

X = np.float32(2)
INT = np.zeros((), np.int32)


@pytest.fixture
def log():
    return []


@pytest.fixture
def noted(log):
    """A host function that notes what it is given and counts."""
    def note(x):
        log.append(np.asarray(x).item())
        return np.int32(len(log))
    return note


def test_a_pure_callback_is_a_function(noted):
    f = lambda x: pure_callback(lambda v: np.sin(v), X, x)
    for g in (f, jit(f)):
        np.testing.assert_allclose(float(g(X)), np.sin(2), rtol=1e-6)


def test_effects_happen_at_every_call(noted, log):
    f = jit(lambda x: (io_callback(noted, INT, x, ordered=True), lax.mul(x, 2.0))[1])
    for k in range(3):
        assert float(f(np.float32(k))) == 2 * k
    assert log == [0, 1, 2]


def test_ordered_effects_keep_their_order(noted, log):
    def f(x):
        for k in range(5):
            io_callback(noted, INT, lax.add(x, float(k)), ordered=True)
        return x

    f(X), jit(f)(X)
    assert log == [2, 3, 4, 5, 6] * 2


def test_effects_in_loops_happen_at_each_turn(noted, log):
    def f(n):
        return lax.fori_loop(0, n, lambda i, s: lax.add(s, io_callback(noted, INT, i, ordered=True)), np.int32(0))

    assert int(f(4)) == 10 and log == [0, 1, 2, 3]
    log.clear()
    assert int(jit(f)(4)) == 10 and log == [0, 1, 2, 3]


def test_only_the_branch_that_is_taken_has_effects(noted, log):
    f = lambda p, x: lax.cond(p, lambda: io_callback(noted, INT, x, ordered=True), lambda: np.int32(7))
    for g in (f, jit(f)):
        assert int(g(False, X)) == 7
    assert log == []
    assert int(jit(f)(True, X)) == 1 and log == [2]


def test_tracing_and_typing_have_no_effects(noted, log):
    make_jaxpr(lambda x: io_callback(noted, INT, x, ordered=True))(X)
    assert log == []


def test_effects_whose_results_nobody_reads_happen(noted, log):
    jit(lambda x: (io_callback(noted, INT, x, ordered=True), x)[1])(X)
    jit(lambda x: (debug.callback(noted, x, ordered=True), x)[1])(X)
    assert log == [2, 2]


def test_values_can_be_printed(capfd):
    jit(lambda x: (debug.print("x is {x}", x=x, ordered=True), x)[1])(X)
    assert "x is 2.0" in capfd.readouterr().out


def test_an_error_of_the_host_function_comes_out():
    def fails(x):
        raise ZeroDivisionError("of the host")

    with pytest.raises(Exception, match="of the host"):
        np.asarray(jit(lambda x: pure_callback(fails, X, x))(X))
    assert float(jit(lambda x: lax.neg(x))(X)) == -2
