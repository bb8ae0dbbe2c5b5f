"""`jvp` and `linearize`: trees, types, levels and errors. The rules of the primitives are tested elsewhere."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_autodiff import jvp, linearize
from lamina_ir import dtypes
from lamina_tracing import jit, lax, make_jaxpr
from lamina_tracing.extend import typeof

X = np.float32([1, 2, 3])


def cube(x):
    return lax.mul(x, lax.mul(x, x))


def test_value_and_tangent_have_tree_of_result():
    (a, b), (da, db) = jvp(lambda p, y: ({"s": lax.add(p["x"], y)}, p["n"]), ({"x": X, "n": 3.0}, 1.0),
                           ({"x": X, "n": 0.5}, 2.0))
    np.testing.assert_array_equal(np.asarray(da["s"]), X + 2)
    assert set(a) == {"s"} and b == 3 and db == 0.5


def test_integers_have_float0_tangents():
    value, tangent = jvp(lambda n, x: (n, x), (3, 2.0), (np.zeros((), dtypes.float0), 1.0))
    assert value[0] == 3 and tangent[0].dtype == dtypes.float0 and tangent[1] == 1


def test_jvp_and_linearize_with_has_aux():
    assert jvp(lambda x: (lax.neg(x), {"seen": x}), (2.0,), (1.0,), has_aux=True) == (-2, -1, {"seen": 2})


def test_nested_perturbations_are_distinguished():
    """d/dx (x * d/dy (x + y)) is 1: the inner perturbation must not be confused with the outer one."""
    outer = jvp(lambda x: lax.mul(x, jvp(lambda y: lax.add(x, y), (1.0,), (1.0,))[1]), (2.0,), (1.0,))
    assert outer == (2, 1)


def test_third_derivative():
    def d(f):
        return lambda x: jvp(f, (x,), (1.0,))[1]
    assert d(d(d(cube)))(5.0) == 6 and d(d(d(d(cube))))(5.0) == 0


def test_constant_function_has_zero_tangent():
    value, tangent = jvp(lambda x: X, (1.0,), (1.0,))
    np.testing.assert_array_equal(np.asarray(tangent), np.zeros(3))


def test_jvp_runs_the_function_once():
    count = []
    jvp(lambda x: count.append(1) or cube(x), (2.0,), (1.0,))
    assert len(count) == 1


def test_linearize_runs_the_function_once_for_all_tangents():
    count = []
    y, push = linearize(lambda x: count.append(1) or cube(x), 2.0)
    assert (y, push(1.0), push(0.5)) == (8, 12, 6) and len(count) == 1


def test_linearize_equals_jvp():
    f = lambda x, y: {"a": lax.sin(lax.mul(x, y)), "b": y}  # noqa: E731
    y, push = linearize(f, X, 2.0)
    want = jvp(f, (X, 2.0), (X, 1.0))
    np.testing.assert_allclose(np.asarray(push(X, 1.0)["a"]), np.asarray(want[1]["a"]), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(y["a"]), np.asarray(want[0]["a"]), rtol=1e-6)


def test_linear_part_of_staged_function_is_linear():
    def f(x, t):
        return linearize(lambda x: lax.sin(lax.exp(x)), x)[1](t)
    used = [e.primitive.name for e in make_jaxpr(f)(1.0, 1.0).eqns]
    assert used.count("exp") == 1 and used[-2:] == ["mul", "mul"]


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: jvp(cube, 1.0, (1.0,)), TypeError, r"jvp: primals must be a tuple or list .* Write \(primal,\) for one argument"),
    (lambda: jvp(cube, (1.0,), 1.0), TypeError, "jvp: tangents must be a tuple or list"),
    (lambda: jvp(cube, (1.0,), (1.0, 2.0)), TypeError, "same tree"),
    (lambda: jvp(cube, (X,), (X[:2],)), ValueError, r"the same shape; got float32\[3\] and float32\[2\]"),
    (lambda: jvp(cube, (X,), (np.int32([1, 2, 3]),)), TypeError, r"the same dtype; got float32\[3\] and int32\[3\]"),
    (lambda: jvp(cube, (1,), (1,)), TypeError, "must have dtype float0"),
    (lambda: jvp(cube, ("no",), (1.0,)), TypeError, r"jvp of `cube`: args\[0\]"),
    (lambda: jvp(cube, (1.0,), (1.0,), has_aux=True), TypeError, "`cube` must return a pair"),
    (lambda: linearize(cube, X)[1](X, X), TypeError, "linearize: the tangents must have the tree of the primals"),
    (lambda: linearize(cube, X)[1](X[:1]), ValueError, "same shape")])
def test_wrong_arguments_are_rejected(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_error_leaves_thread_usable():
    with pytest.raises(ZeroDivisionError):
        jvp(lambda x: 1 / 0, (1.0,), (1.0,))
    assert jvp(cube, (2.0,), (1.0,)) == (8, 12)


def test_jvp_under_jit():
    assert jit(lambda x, t: jvp(cube, (x,), (t,)))(2.0, 1.0) == (8, 12)


@pytest.mark.parametrize("fun", [
    lambda x: lax.mul(x, 2.), jit(lambda x: lax.mul(lax.sin(x), x)),
    lambda x: lax.fori_loop(0, 3, lambda i, c: lax.mul(c, x), x),
    lambda x: lax.cond(True, lax.sin, lax.cos, x), lambda x: lax.mul(np.float32(2), x)])
def test_tangents_have_weak_type_of_values(fun):
    value, tangent = jvp(fun, (3.,), (1.,))
    assert typeof(tangent).weak_type == typeof(linearize(fun, 3.)[1](1.)).weak_type == typeof(value).weak_type
