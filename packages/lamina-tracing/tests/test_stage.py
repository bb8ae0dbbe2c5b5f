"""Staging: contents of programs, closed-over values, and state after errors."""
from __future__ import annotations

import gc

import numpy as np
import pytest
from lamina_ir import TracerBoolError, TracerIntegerError, check, dumps, loads
from lamina_tracing import jit, lax, make_jaxpr
from lamina_tracing.extend import eval_jaxpr, trace_state, stage, typeof

X = np.arange(3.0, dtype=np.float32)


def names(closed):
    return [e.primitive.name for e in closed.eqns]


def test_stage_returns_program_without_outer_values():
    closed, outer = stage(lambda x, y: [lax.mul(x, y), x], [typeof(X), typeof(X)])
    assert names(closed) == ["mul"] and outer == [] and closed.jaxpr.outvars[1] is closed.jaxpr.invars[0]
    check(closed)


def test_closed_over_array_is_one_constant():
    closed = make_jaxpr(lambda x: lax.add(lax.mul(x, X), lax.sub(x, X)))(X)
    assert len(closed.consts) == 1


def test_constants_have_dtype_of_their_aval():
    wide, whole = np.arange(3.0) / 3, np.arange(3)
    inner = jit(lambda x: lax.add(lax.mul(x, wide), lax.convert_element_type(lax.neg(whole), np.float32)))
    closed = make_jaxpr(lambda x: inner(lax.add(x, wide)))(X)
    again = loads(dumps(closed))  # checks the constants
    assert {c.dtype.name for c in again.consts} <= {"float32", "int32"}
    np.testing.assert_array_equal(eval_jaxpr(again, [X])[0], eval_jaxpr(closed, [X])[0])


def test_python_scalar_is_a_literal_of_operand_dtype():
    closed = make_jaxpr(lambda x: lax.mul(x, 2.0))(X)
    assert "2.0:f32[]" in str(closed) and not closed.consts


def test_values_of_enclosing_program_are_leading_arguments():
    seen = []

    def f(x):
        y = lax.sin(x)
        closed, outer = stage(lambda z: [lax.mul(z, y)], [typeof(X)])
        seen.append((closed, [o is y for o in outer]))
        return eval_jaxpr(closed, [*outer, x])[0]

    program = make_jaxpr(f)(X)
    closed, same = seen[0]
    assert same == [True] and len(closed.in_avals) == 2 and names(program) == ["sin", "mul"]


def test_unused_equations_are_recorded():
    assert names(make_jaxpr(lambda x: (lax.sin(x), x)[1])(X)) == ["sin"]


def test_results_may_be_arguments_constants_and_numbers():
    closed = make_jaxpr(lambda x: (x, X, 3))(1.0)
    assert [a.shape for a in closed.out_avals] == [(), (3,), ()] and names(closed) == []


def test_staging_eval_jaxpr_reproduces_the_program():
    closed = make_jaxpr(lambda x: lax.neg(lax.sin(x)))(X)
    again = make_jaxpr(lambda x: eval_jaxpr(closed, [x])[0])(X)
    assert str(again) == str(closed)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_exception_restores_trace_state(error):
    before = trace_state.trace, trace_state.depth, trace_state.scope, gc.isenabled()

    def fail(y):
        raise error("stop")

    with pytest.raises(error):
        jit(lambda x: jit(fail)(lax.sin(x)))(X)
    assert (trace_state.trace, trace_state.depth, trace_state.scope, gc.isenabled()) == before
    np.testing.assert_allclose(np.asarray(lax.sin(X)), np.sin(X), rtol=1e-6)


@pytest.mark.parametrize(("f", "error", "words"), [
    (lambda x: x if x else -x, TracerBoolError, "a conditional expression at .*lax.cond"),
    (lambda x: [1, 2, 3][x], TracerIntegerError, "traced value int32"),
    (lambda x: range(x), TracerIntegerError, "static_argnums")])
def test_python_use_of_traced_value_error_names_alternative(f, error, words):
    with pytest.raises(error, match=words):
        jit(f)(1)


def test_type_error_names_primitive_and_both_types():
    with pytest.raises((TypeError, ValueError), match=r"add.*float32\[3\].*float32\[2\]"):
        jit(lambda x: lax.add(x, np.zeros(2, np.float32)))(X)


def test_non_array_results_are_named_by_path():
    with pytest.raises(TypeError, match=r"returned object at output\[1\]\['a'\]"):
        make_jaxpr(lambda x: (x, {"a": object()}))(X)
