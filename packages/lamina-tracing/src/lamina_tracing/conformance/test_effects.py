"""Effects of functions: once per run, in program order."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_tracing import debug, io_callback, jit, lax, make_jaxpr, pure_callback

pytestmark = pytest.mark.order

X = np.float32(2)
INT = np.zeros((), np.int32)


@pytest.fixture
def log():
    """Return the list that `recorded` appends to."""
    return []


@pytest.fixture
def recorded(log):
    """Return a host function that records its argument and returns the number of calls."""
    def note(x):
        log.append(np.asarray(x).item())
        return np.int32(len(log))
    return note


def test_pure_callback_is_a_function(recorded):
    f = lambda x: pure_callback(lambda v: np.sin(v), X, x)
    for g in (f, jit(f)):
        np.testing.assert_allclose(float(g(X)), np.sin(2), rtol=1e-6)


def test_effects_run_at_every_call(recorded, log):
    f = jit(lambda x: (io_callback(recorded, INT, x, ordered=True), lax.mul(x, 2.0))[1])
    for k in range(3):
        assert float(f(np.float32(k))) == 2 * k
    assert log == [0, 1, 2]


def test_ordered_effects_keep_their_order(recorded, log):
    def f(x):
        for k in range(5):
            io_callback(recorded, INT, lax.add(x, float(k)), ordered=True)
        return x

    f(X), jit(f)(X)
    assert log == [2, 3, 4, 5, 6] * 2


def test_effects_in_loops_run_at_each_iteration(recorded, log):
    def f(n):
        return lax.fori_loop(0, n, lambda i, s: lax.add(s, io_callback(recorded, INT, i, ordered=True)), np.int32(0))

    assert int(f(4)) == 10 and log == [0, 1, 2, 3]
    log.clear()
    assert int(jit(f)(4)) == 10 and log == [0, 1, 2, 3]


def test_only_effects_of_selected_branch_run(recorded, log):
    f = lambda p, x: lax.cond(p, lambda: io_callback(recorded, INT, x, ordered=True), lambda: np.int32(7))
    for g in (f, jit(f)):
        assert int(g(False, X)) == 7
    assert log == []
    assert int(jit(f)(True, X)) == 1 and log == [2]


def test_tracing_runs_no_effects(recorded, log):
    make_jaxpr(lambda x: io_callback(recorded, INT, x, ordered=True))(X)
    assert log == []


def test_effects_with_unused_results_run(recorded, log):
    jit(lambda x: (io_callback(recorded, INT, x, ordered=True), x)[1])(X)
    jit(lambda x: (debug.callback(recorded, x, ordered=True), x)[1])(X)
    assert log == [2, 2]


def test_values_can_be_printed(capfd):
    jit(lambda x: (debug.print("x is {x}", x=x, ordered=True), x)[1])(X)
    assert "x is 2.0" in capfd.readouterr().out


def test_error_of_host_function_propagates():
    def fails(x):
        raise ZeroDivisionError("of the host")

    with pytest.raises(Exception, match="of the host"):
        np.asarray(jit(lambda x: pure_callback(fails, X, x))(X))
    assert float(jit(lambda x: lax.neg(x))(X)) == -2
