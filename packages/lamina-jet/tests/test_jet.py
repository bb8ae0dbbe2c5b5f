"""`jet` computes the derivatives that nested `jvp` computes."""
import math

import numpy as np
import pytest
from lamina_autodiff import checkpoint, custom_jvp, custom_linear_solve, custom_vjp, grad, jvp
from lamina_autodiff.extend import jvp_rules
from lamina_batching import vmap
from lamina_ir import config, prims
from lamina_jet import jet
from lamina_jet.extend import jet_rules
from lamina_tracing import jit, lax, make_jaxpr
from lamina_tracing.lax import factorizations

X = np.array([0.3, 0.7])


@pytest.fixture(autouse=True)
def use_64_bits():
    with config.enable_x64(True):
        yield


def nested_jvp(f, x, series):
    """Return [f(x), its derivatives] along the curve with this value and these derivatives."""
    def along_curve(t):
        return f(sum([c * t**k / math.factorial(k) for k, c in enumerate(series, 1)], x))

    g, found = along_curve, [along_curve(0.0)]
    for _ in series:
        g = (lambda g: lambda t: jvp(g, (t,), (1.0,))[1])(g)
        found.append(g(0.0))
    return found


def check(f, x=X, order=4, rtol=1e-9):
    generator = np.random.default_rng(0)
    series = [generator.normal(size=np.shape(x)) for _ in range(order)]
    value, derivatives = jet(f, (x,), (series,))
    for found, wanted in zip([value, *derivatives], nested_jvp(f, x, series), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol)


UNARY = """exp exp2 expm1 log log1p sin cos tan sinh cosh tanh asin acos atan asinh atanh sqrt rsqrt cbrt logistic erf erfc
erf_inv lgamma digamma bessel_i0e bessel_i1e abs sign neg square floor reciprocal""".split()


@pytest.mark.parametrize("name", UNARY)
def test_elementwise_function(name):
    check(getattr(lax, name))


@pytest.mark.parametrize("f, x", [
    (lax.acosh, X + 1.5), (lambda x: lax.pow(x, 2.5), X), (lambda x: lax.pow(x, 3.0), np.array([0.0, 1.0])),
    (lambda x: lax.pow(x, x), X), (lambda x: lax.pow(2.0, x), X), (lambda x: lax.atan2(x, x * x + 1), X),
    (lambda x: (x + 1) / (x * x + 2), X), (lambda x: 1 / (x * x + 2), X), (lambda x: lax.max(x, x * x), X),
    (lambda x: lax.select(np.array([True, False]), x * x, lax.sin(x)), X), (lambda x: lax.rem(x * 5, x), X),
    *[(lambda x, n=n: lax.integer_pow(x, n), X) for n in (-3, -1, 0, 1, 2, 3, 5)],
    *[(lambda x, n=n: lax.integer_pow(x, n), np.zeros(2)) for n in (0, 1, 2, 3)]])
def test_function_of_several_operands(f, x):
    check(f, x)


A = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 5.0]])


@pytest.mark.parametrize("f, x, order", [
    (lambda a: lax.dot(a, a), A, 4), (lambda a: lax.reduce_sum(a * a, (0,)), A, 4), (lambda x: lax.reduce_prod(x, (0,)), X, 4),
    (lax.cumprod, X, 4), (lax.cumlogsumexp, X, 4), (lax.cumsum, X, 3), (lambda x: lax.reduce_max(x * x, (0,)), X, 3),
    (lambda a: factorizations.cholesky(lax.dot(a, a)), A, 3), (lambda a: factorizations.lu(a)[0], A, 3),
    (lambda a: factorizations.triangular_solve(a, a * a), A, 3),
    (lambda a: factorizations.eigh(a + lax.transpose(a, (1, 0)))[1], A, 2),
    (lambda x: lax.sort(x * x), X, 3), (lambda x: lax.concatenate([x, x * x, np.ones(2)], 0), X, 3),
    (lambda x: lax.dynamic_slice(x * x, (1,), (1,)), X, 3), (lambda x: lax.real(lax.exp(lax.complex(x, x * x))), X, 4),
    (lambda x: lax.abs(lax.complex(x, x * x)), X, 3), (lambda x: lax.stop_gradient(x) * x, X, 3)])
def test_array_function(f, x, order):
    check(f, x, order, 1e-8)


def loop_carry(x):
    return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * x + 1), (0, x))[1]


@pytest.mark.parametrize("f", [
    lambda x: lax.scan(lambda c, y: (c * lax.sin(y) + x[0], c * c), 1.0, x)[1], loop_carry,
    lambda x: lax.fori_loop(0, 4, lambda i, c: lax.sin(c) * x, x),
    lambda x: lax.cond(x[0] < 0.5, lambda y: y * y, lambda y: y, x),
    lambda x: lax.cond(x[0] < 0.5, lambda y: np.ones(2), lambda y: y, x), jit(lambda x: lax.sin(x) * x),
    checkpoint(lambda x: lax.sin(x) * x), vmap(lambda x: lax.sin(x) * x),
    lambda x: custom_linear_solve(lambda v: v * (2 + x), x, lambda matvec, b: b / (2 + x))],
    ids=["scan", "while", "fori", "cond", "constant branch", "jit", "checkpoint", "vmap", "linear solve"])
def test_nested_program(f):
    check(f)


def test_custom_derivatives_are_used():
    f = custom_jvp(lambda x: x * x)
    f.defjvp(lambda primals, tangents: (f(*primals), 3 * primals[0] * tangents[0]))
    g = custom_vjp(lambda x: x * x)
    g.defvjp(lambda x: (g(x), x), lambda x, ct: (3 * x * ct,))
    check(f)
    check(g)


def test_jet_can_be_transformed():
    def second(x):
        return jet(lax.tanh, (x,), ((1.0, 0.0),))[1][1]

    wanted = [-2 * math.tanh(x) / math.cosh(x) ** 2 for x in X]
    np.testing.assert_allclose(vmap(second)(X), wanted, rtol=1e-12)
    np.testing.assert_allclose(jit(second)(0.3), wanted[0], rtol=1e-12)
    t = math.tanh(0.3)
    np.testing.assert_allclose(grad(second)(0.3), -2 * (1 - t * t) * (1 - 3 * t * t), rtol=1e-12)
    check(lambda x: jet(lax.sin, (x,), ((x, x * x),))[1][1], order=3)
    check(grad(lambda x: lax.reduce_sum(lax.sin(x) * x, (0,))), order=3)


def test_several_arguments_and_results():
    y, terms = jet(lambda x, y: (x * y, {"x": x}), (2.0, 3.0), ((1.0, 0.0), (0.0, 1.0)))
    assert (float(y[0]), float(y[1]["x"])) == (6.0, 2.0)
    assert [float(t) for t in terms[0]] == [3.0, 2.0] and [float(t) for t in terms[1]["x"]] == [1.0, 0.0]


def test_tree_arguments():
    value, (first, second) = jet(lambda p: p["a"] * p["b"], ({"a": 2.0, "b": 3.0},),
                                 (({"a": 1.0, "b": 0.0}, {"a": 0.0, "b": 1.0}),))
    assert (float(value), float(first), float(second)) == (6.0, 3.0, 2.0)


def test_constant_result_has_zero_derivatives():
    value, derivatives = jet(lambda x: 3.0, (1.0,), ((1.0, 0.0),))
    assert (value, [float(d) for d in derivatives]) == (3.0, [0.0, 0.0])


def test_integer_arguments_are_constant():
    value, (first,) = jet(lambda n, x: n * x, (2, 3.0), ((0,), (1.0,)))
    assert (float(value), float(first)) == (6.0, 2.0)


def test_coefficients_without_factorials():
    found = jet(lax.sin, (0.5,), ((1.0, 0.0, 0.0),), factorial_scaled=False)[1]
    wanted = [math.cos(0.5), -math.sin(0.5) / 2, -math.cos(0.5) / 6]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_values_of_an_enclosing_transformation():
    found = grad(lambda w: jet(lambda x: lax.sin(w * x), (0.3,), ((1.0, 0.0),))[1][1])(2.0)
    np.testing.assert_allclose(found, -4 * math.sin(0.6) - 4 * 0.3 * math.cos(0.6), rtol=1e-12)


def steps(x):
    for _ in range(10):
        x = lax.tanh(x) * lax.sin(x) + x
    return x


def test_cost_grows_slower_than_that_of_nested_jvp():
    def count(order):
        return len(make_jaxpr(lambda x: jet(steps, (x,), ((1.0,) + (0.0,) * (order - 1),)))(0.3).eqns)

    def nested(x):
        g = steps
        for _ in range(4):
            g = (lambda g: lambda t: jvp(g, (t,), (1.0,))[1])(g)
        return g(x)

    assert count(4) < len(make_jaxpr(nested)(0.3).eqns) / 2 and count(8) < 5 * count(4)


def test_every_primitive_has_a_rule_or_a_jvp_rule():
    without = [p.name for p in prims.ALL if p not in jet_rules and p not in jvp_rules and p not in jvp_rules.missing_rules]
    assert not without


@pytest.mark.parametrize("args, error, message", [
    ((3, (1.0,), ((1.0,),)), TypeError, "fun must be callable; got int"),
    ((lax.sin, 1.0, ((1.0,),)), TypeError, "primals must be a tuple with one entry per argument; got float"),
    ((lax.sin, (1.0,), 2.0), TypeError, "series must be a tuple with one entry per argument; got float"),
    ((lax.sin, (1.0,), ((1.0,), (2.0,))), ValueError, "got 1 primals and 2 series"),
    ((lax.sin, (1.0,), (1.0,)), TypeError, r"series\[0\] must be a tuple of the derivatives"),
    ((lax.add, (1.0, 2.0), ((1.0, 0.0), (1.0,))), ValueError, "the same number of terms"),
    ((lax.sin, (1.0,), ((),)), ValueError, "at least one"),
    ((lax.sin, (1.0,), (({"a": 1.0},),)), TypeError, "must have the structure of the primals"),
    ((lax.sin, (np.ones(2),), ((np.ones(3),),)), ValueError, r"must have the shape of the primal, \(2,\); got \(3,\)"),
    ((lax.sin, (1.0,), ((1j,),)), TypeError, "is complex")])
def test_wrong_argument(args, error, message):
    with pytest.raises(error, match=message):
        jet(*args)
