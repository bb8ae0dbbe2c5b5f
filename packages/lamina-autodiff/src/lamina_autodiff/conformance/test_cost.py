"""The work of derivatives: an installed evaluator counts the primitives that run."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_autodiff import grad, jvp, linearize, value_and_grad, vjp
from lamina_ir import walk
from lamina_tracing import lax, make_jaxpr, hooks

pytestmark = pytest.mark.cost

X = np.linspace(0.1, 1, 5, dtype=np.float32)


class CountingEvaluator:
    """An evaluator that counts the primitives it runs."""

    def __init__(self, under):
        self.under, self.ops = under, 0

    def __getattr__(self, name):
        return getattr(self.under, name)

    def primitive(self, prim, args, params):
        self.ops += 1
        return self.under.primitive(prim, args, params)

    def program(self, closed, args):
        self.ops += len(list(walk(closed)))
        return self.under.program(closed, args)

    def array(self, value, aval):
        return self.under.array(value, aval)


@pytest.fixture
def ops():
    """Return `ops(f, *args)`, which counts the primitives that a call runs."""
    counting = CountingEvaluator(hooks.evaluator)
    hooks.set_evaluator(counting)

    def run(fun, *args):
        counting.ops = 0
        fun(*args)
        return counting.ops

    yield run
    hooks.set_evaluator(counting.under)


def chain(n):
    def fun(x):
        for _ in range(n):
            x = lax.sin(lax.mul(x, 1.5))
        return lax.reduce_sum(x, (0,))
    return fun


@pytest.mark.parametrize("make", [grad, lambda f: lambda x: jvp(f, (x,), (x,)), lambda f: lambda x: vjp(f, x)[1](
    np.float32(1)), value_and_grad], ids=["grad", "jvp", "vjp", "value_and_grad"])
def test_derivative_runs_a_small_multiple_of_the_primitives(ops, make):
    for n in (10, 100):
        plain = ops(chain(n), X)
        assert plain == 2 * n + 1
        assert ops(make(chain(n)), X) <= 5 * plain + 10


def test_cost_does_not_depend_on_argument_size(ops):
    few, many = (ops(grad(chain(10)), np.full(n, 0.5, np.float32)) for n in (1, 1000))
    assert few == many


def test_cost_does_not_grow_with_arguments_times_function(ops):
    def f(*xs):
        total = np.float32(0)
        for x in xs:
            total = lax.add(total, lax.sin(x))
        return total

    for n in (5, 50):
        xs = [np.float32(0.1)] * n
        assert ops(lambda *xs, n=n: grad(f, tuple(range(n)))(*xs), *xs) <= 5 * ops(f, *xs) + 10


def test_function_runs_once():
    for make in (grad, lambda f: lambda x: jvp(f, (x,), (x,)), lambda f: lambda x: vjp(f, x)[1](x)):
        count = []
        make(lambda x, count=count: count.append(1) or lax.sin(x))(np.float32(1))
        assert len(count) == 1


def test_linear_functions_do_not_run_function_again(ops):
    count = []

    def f(x):
        count.append(1)
        return lax.sin(lax.exp(lax.mul(x, x)))

    _, push = linearize(f, X)
    _, pull = vjp(f, X)
    assert len(count) == 2
    assert all(ops(g, X) <= 10 for g in (push, push, pull, pull))
    assert len(count) == 2


def test_staged_gradient_length_is_linear_in_function():
    def length(n):
        return len(list(walk(make_jaxpr(grad(chain(n)))(X))))

    assert length(40) - length(20) <= 2 * 5 * 20


def test_independent_values_are_not_differentiated():
    def f(x, y):
        return lax.mul(x, lax.sin(lax.exp(y)))

    names = [e.primitive.name for e in walk(make_jaxpr(grad(f))(np.float32(1), np.float32(1)))]
    assert "cos" not in names and names.count("exp") == 1


def test_linear_part_has_only_linear_primitives():
    def f(x, t):
        return linearize(lambda x: lax.sin(lax.exp(x)), x)[1](t)

    names = [e.primitive.name for e in walk(make_jaxpr(f)(np.float32(1), np.float32(1)))]
    assert names.count("exp") == 1 and names.count("cos") == 1
