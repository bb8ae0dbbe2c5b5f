"""Extension API: a third-party `Trace` is a transformation, and an installed hook is used until it is replaced."""
from __future__ import annotations

import functools

import numpy as np
import pytest
from lamina_ir import Primitive, TracerBoolError, prims
from lamina_tracing import jit, lax, hooks
from lamina_tracing.extend import (EVALUATION, Trace, Tracer, bind, eval_jaxpr, get_concrete_value, get_underlying_value,
                                   new_trace_level, jaxpr_as_fun, trace_state, stage, typeof)

X = np.float32([0.5, 1, 2])


class Pair(Tracer):
    """A value and its tangent."""

    __slots__ = ("value", "tangent")

    def __init__(self, trace, value, tangent):
        super().__init__(trace, typeof(value))
        self.value, self.tangent = value, tangent

    def concrete_value(self):
        return get_concrete_value(self.value)

    def underlying_value(self):
        return self.value


class ForwardTrace(Trace):
    """A third-party transformation: forward derivatives of three primitives."""

    def parts(self, x):
        return (x.value, x.tangent) if self.owns(x) else (x, lax.mul(x, 0.0))

    def process(self, prim, args, params):
        (a, da), *rest = map(self.parts, args)
        if prim is prims.sin_p:
            return Pair(self, lax.sin(a), lax.mul(da, lax.cos(a)))
        if len(rest) != 1:
            raise NotImplementedError(prim.name)
        (b, db), = rest
        if prim is prims.mul_p:
            return Pair(self, lax.mul(a, b), lax.add(lax.mul(da, b), lax.mul(a, db)))
        if prim is prims.add_p:
            return Pair(self, lax.add(a, b), lax.add(da, db))
        raise NotImplementedError(prim.name)


def derivative(f):
    def derived(x):
        trace = ForwardTrace(trace_state.depth + 1)
        with new_trace_level(trace):
            out = f(Pair(trace, x, np.ones(np.shape(x), np.float32)))
        return out.tangent
    return derived


def f(x):
    return lax.mul(lax.sin(x), lax.add(x, x))


def test_bind_uses_transformation_of_operands():
    want = 2 * (X * np.cos(X) + np.sin(X))
    np.testing.assert_allclose(np.asarray(derivative(f)(X)), want, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(jit(derivative(f))(X)), want, rtol=1e-5)


@pytest.mark.order
def test_innermost_transformation_is_applied_first():
    """The derivative of x * (d/dy of x * y) is 2 x: each level sees its own operands."""
    got = derivative(lambda x: lax.mul(x, derivative(lambda y: lax.mul(x, y))(np.float32(3))))(np.float32(5))
    assert float(got) == 10


@pytest.mark.order
def test_error_in_transformation_restores_trace_state():
    before = trace_state.trace, trace_state.depth
    with pytest.raises(NotImplementedError):
        derivative(lax.cos)(X)
    assert (trace_state.trace, trace_state.depth) == before and trace_state.trace is EVALUATION
    np.testing.assert_array_equal(np.asarray(lax.neg(X)), -X)


def test_trace_owns_its_tracers():
    outer = ForwardTrace(trace_state.depth + 1)
    with new_trace_level(outer):
        inner = ForwardTrace(trace_state.depth + 1)
        with new_trace_level(inner):
            x, y = Pair(outer, X, X), Pair(inner, X, X)
            assert outer.owns(x) and inner.owns(y) and outer.owns(lax.mul(x, 2.0)) and inner.owns(lax.mul(x, y))
            assert not any([outer.owns(y), inner.owns(x), inner.owns(X), inner.owns(2.0)])


@pytest.mark.order
def test_functions_decide_by_the_concrete_value_of_a_tracer():
    kept = []

    def g(x):
        kept.append(x)
        return lax.mul(x, x) if x else lax.sin(x)

    assert float(derivative(g)(np.float32(3))) == 6 and float(derivative(g)(np.float32(0))) == 1
    assert float(derivative(derivative(g))(np.float32(3))) == 2
    with pytest.raises(TracerBoolError):  # its trace has ended
        bool(kept[0])
    with pytest.raises(TracerBoolError):
        jit(derivative(g))(np.float32(3))


def test_underlying_value_of_a_tracer_is_found_through_all_levels():
    seen = []

    def g(x):
        seen.append(get_underlying_value(x))
        return lax.mul(x, x)

    x = np.float32(3)
    derivative(derivative(g))(x)
    assert seen[0] is x


def test_third_party_primitive_can_be_bound():
    twice = Primitive("twice_of_conformance", infer=lambda x: x, numpy=lambda x: x * np.float32(2),
                      family="elementwise")
    g = functools.partial(bind, twice)
    np.testing.assert_array_equal(np.asarray(g(X)), 2 * X)
    np.testing.assert_array_equal(np.asarray(jit(g)(X)), 2 * X)


def test_jaxpr_can_be_called_as_function():
    closed, outer = stage(lambda x, y: [lax.mul(x, y), x], [typeof(X), typeof(X)])
    assert outer == []
    for run in (lambda *xs: eval_jaxpr(closed, xs), jaxpr_as_fun(closed), jit(jaxpr_as_fun(closed))):
        a, b = run(X, 2 * X)
        np.testing.assert_array_equal(np.asarray(a), 2 * X * X)
        np.testing.assert_array_equal(np.asarray(b), X)


def test_outer_values_are_leading_arguments_of_program():
    def around(x):
        y = lax.sin(x)
        closed, outer = stage(lambda z: [lax.mul(z, y)], [typeof(X)])
        assert len(outer) == 1 and outer[0] is y and len(closed.in_avals) == 2
        return eval_jaxpr(closed, [*outer, x])[0]

    np.testing.assert_allclose(np.asarray(jit(around)(X)), X * np.sin(X), rtol=1e-6)


@pytest.fixture
def restored_hooks():
    """Restore the hooks after the test."""
    old = hooks.evaluator, hooks.dispatcher, hooks.basis_map
    yield
    hooks.set_evaluator(old[0])
    hooks.set_dispatcher(old[1])
    hooks.set_basis_map(old[2])


def test_installed_evaluator_runs_every_primitive(restored_hooks):
    ops = []

    class RecordingEvaluator(hooks.NumPyEvaluator):
        def primitive(self, prim, args, params):
            ops.append(prim.name)
            return super().primitive(prim, args, params)

    old = hooks.evaluator
    hooks.set_evaluator(RecordingEvaluator())
    np.testing.assert_allclose(np.asarray(f(X)), np.sin(X) * 2 * X, rtol=1e-6)
    assert ops == ["sin", "add", "mul"]
    hooks.set_evaluator(old)
    f(X)
    assert len(ops) == 3


def test_existing_callables_follow_dispatcher(restored_hooks):
    old, calls = hooks.dispatcher, []

    class RecordingDispatcher:
        def jit(self, spec):
            inner = old.jit(spec)

            def recording(*args):
                calls.append(spec.name)
                return inner(*args)
            return recording

        def pmap(self, spec):
            return old.pmap(spec)

    def double(x):
        return lax.mul(x, 2.0)

    made = jit(double)
    assert float(made(np.float32(3))) == 6
    hooks.set_dispatcher(RecordingDispatcher())
    assert float(made(np.float32(3))) == 6 and float(jit(double)(np.float32(4))) == 8 and calls == ["double"] * 2
    hooks.set_dispatcher(old)
    assert float(made(np.float32(3))) == 6 and len(calls) == 2


@pytest.mark.parametrize(("fill", "value"), [(hooks.set_evaluator, object()), (hooks.set_dispatcher, None),
                                             (hooks.set_basis_map, 3)], ids=["evaluator", "dispatcher", "basis_map"])
def test_invalid_hook_values_are_rejected(fill, value, restored_hooks):
    with pytest.raises(TypeError, match="expected"):
        fill(value)
    np.testing.assert_array_equal(np.asarray(lax.neg(X)), -X)
