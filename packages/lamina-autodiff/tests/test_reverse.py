"""`vjp`, `grad`, `value_and_grad`, `linear_transpose`: arguments, trees, types and errors."""
from __future__ import annotations

import pickle

import numpy as np
import pytest
from lamina_autodiff import grad, hessian, jacfwd, jacrev, linear_transpose, linearize, value_and_grad, vjp
from lamina_autodiff.conformance.test_closed_forms import energy, loss, total
from lamina_ir import dtypes, trees
from lamina_tracing import jit, lax

X = np.float32([1, 2, 3])


W = {"a": X, "b": np.float32(2)}


def test_gradient_has_tree_of_argument():
    g = grad(loss)(W, X)
    np.testing.assert_array_equal(np.asarray(g["a"]), 2 * X)
    assert g["b"] == 14


def test_argnums_tuple_returns_tuple():
    dw, dx = grad(loss, argnums=(0, 1))(W, X)
    np.testing.assert_array_equal(np.asarray(dx), 2 * X)
    last, = grad(loss, argnums=[-1])(W, X)
    np.testing.assert_array_equal(np.asarray(last), 2 * X)


def test_keyword_arguments_are_not_differentiated():
    assert grad(loss)(W, X, scale=10.0)["b"] == 140


def test_value_and_grad_runs_function_once():
    count = []
    value, g = value_and_grad(lambda x: count.append(1) or energy(x))(X)
    assert value == 14 and len(count) == 1
    np.testing.assert_array_equal(np.asarray(g), 2 * X)


def test_vjp_and_grad_with_has_aux():
    (value, aux), g = value_and_grad(lambda x: (energy(x), {"n": 3}), has_aux=True)(X)
    assert (value, aux) == (14, {"n": 3})
    g, aux = grad(lambda x: (energy(x), x), has_aux=True)(X)
    np.testing.assert_array_equal(np.asarray(aux), X)


def test_pullback_can_be_called_many_times():
    count = []
    y, pull = vjp(lambda x, k: (count.append(1) or lax.mul(x, k), k), X, 2.0)
    for scale in (1, 10):
        dx, dk = pull((scale * np.ones(3, np.float32), 0.0))
        np.testing.assert_array_equal(np.asarray(dx), [2 * scale] * 3)
        assert dk == 6 * scale
    assert len(count) == 1


def test_unused_argument_has_zero_gradient():
    np.testing.assert_array_equal(np.asarray(grad(lambda x, y: total(y), argnums=0)(X, X)), np.zeros(3))


def test_cotangents_of_value_used_twice_are_added():
    assert grad(lambda x: lax.add(lax.mul(x, x), x))(3.0) == 7


def test_grad_of_grad_distinguishes_perturbations():
    assert grad(grad(lambda x: lax.mul(x, lax.mul(x, x))))(2.0) == 12
    assert grad(lambda x: lax.mul(x, grad(lambda y: lax.mul(x, y))(1.0)))(3.0) == 6


def test_integer_argument_has_float0_gradient_with_allow_int():
    g = grad(lambda n, x: lax.mul(x, 2.0), allow_int=True)(3, 1.0)
    assert g.dtype == dtypes.float0


def test_holomorphic():
    assert grad(lambda z: lax.mul(z, z), holomorphic=True)(1 + 2j) == 2 + 4j


def test_eager_gradients_do_not_stage():
    """Primitives run immediately: Python code may read values."""
    seen = []

    def f(x):
        y = lax.mul(x, x)
        seen.append(type(y).__name__)
        return y

    assert grad(f)(3.0) == 6 and jit(grad(f))(3.0) == 6
    assert len(seen) == 2


def test_jacfwd_and_jacrev_agree():
    f = lambda x: lax.mul(lax.sin(x), total(x))  # noqa: E731
    np.testing.assert_allclose(np.asarray(jacfwd(f)(X)), np.asarray(jacrev(f)(X)), rtol=1e-5, atol=1e-5)
    h = np.asarray(hessian(lambda x: total(lax.mul(x, lax.mul(x, x))))(X))
    np.testing.assert_allclose(h, np.diag(6 * X), atol=1e-5)


def test_linear_transpose_is_the_transpose():
    m = np.float32([[1, 2, 3], [4, 5, 6]])
    back, = linear_transpose(lambda x: lax.dot(m, x), X)(np.float32([1, 10]))
    np.testing.assert_array_equal(np.asarray(back), m.T @ np.float32([1, 10]))


def vector(x):
    return x


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: grad(vector)(X), TypeError, r"grad: needs a scalar output; `vector` returned float32\[3\]. Sum it, or use"),
    (lambda: grad(lambda x: (x, x))(1.0), TypeError, "returned a tree of 2 arrays"),
    (lambda: grad(lambda x: 1)(1.0), TypeError, "needs a real output; got int32"),
    (lambda: grad(vector)(1), TypeError, "inputs must be of a real or complex dtype; got int32.* allow_int=True"),
    (lambda: grad(vector)(1j), TypeError, "holomorphic=True"),
    (lambda: grad(vector, holomorphic=True)(1.0), TypeError, "holomorphic=True needs complex inputs"),
    (lambda: grad(vector, argnums=2)(1.0), ValueError, "argnums 2 is out of range: `vector` was called with 1 positional"),
    (lambda: grad(loss, argnums=(0, -2))(W, X), ValueError, "names an argument twice"),
    (lambda: grad(vector, argnums="x")(1.0), TypeError, "argnums expects an int"),
    (lambda: grad(3), TypeError, "grad: expected a function; got int"),
    (lambda: grad(vector)("no"), TypeError, r"grad of `vector`: args\[0\]"),
    (lambda: grad(vector, has_aux=True)(1.0), TypeError, r"must return a pair .* got float32\[\]"),
    (lambda: vjp(vector, X)[1]((X, X)), TypeError, "the cotangent must have the tree of the output of `vector`"),
    (lambda: vjp(vector, X)[1]((X, X)), ValueError, "the cotangent must have the tree of the output of `vector`"),
    (lambda: vjp(vector, X)[1](X, X), TypeError, "takes one argument, a cotangent"),
    (lambda: vjp(vector, X)[1](X[:2]), ValueError, r"the shape of the output, float32\[3\]; got float32\[2\]"),
    (lambda: vjp(vector, X)[1](np.int32([1, 2, 3])), TypeError, "the dtype of the output"),
    (lambda: linear_transpose(lax.sin, X), TypeError, "`sin` is not linear"),
    (lambda: linear_transpose(lambda x: lax.add(x, 1.0), X)(X), TypeError, "is not linear")])
def test_wrong_arguments_are_rejected(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_error_leaves_thread_usable():
    with pytest.raises(ZeroDivisionError):
        grad(lambda x: 1 / 0)(1.0)
    assert grad(energy)(X).shape == (3,)


@pytest.mark.parametrize("fun, derivative", [
    (lambda x: lax.mul(x, float(int(x))), 2), (lambda x: lax.mul(x, x.item()), 2), (lambda x: x if bool(x) else lax.neg(x), 1),
    (lambda x: lax.neg(x) if x > 3 else x, 1), (lambda x: lax.mul(x, 3.0) if x else x, 3)])
def test_known_values_convert_to_python_numbers_outside_jit(fun, derivative):
    assert grad(fun)(2.0) == derivative
    assert grad(lambda x: lax.mul(x, grad(fun)(x)))(2.0) == derivative  # two tangents of one value


def test_in_operator_works_on_known_values():
    assert grad(lambda x: total(x) if 2.0 in x else lax.neg(total(x)))(X).tolist() == [1, 1, 1]


@pytest.mark.parametrize("convert", [float, complex, np.asarray, lambda x: x.tolist()])
def test_python_float_of_differentiated_value_is_rejected(convert):
    with pytest.raises(TypeError, match="differentiated would lose its derivative.*lax.stop_gradient"):
        grad(lambda x: lax.mul(x, convert(x)))(2.0)
    assert grad(lambda x: lax.mul(x, float(lax.stop_gradient(x))))(2.0) == 2


def test_staged_and_ended_values_cannot_convert_to_numbers():
    with pytest.raises(TypeError, match="no known number"):
        grad(jit(lambda x: lax.mul(x, float(int(x)))))(2.0)
    kept = []
    grad(lambda x: kept.append(x) or x)(2.0)
    with pytest.raises(TypeError, match="no known number"):
        int(kept[0])


def test_linear_functions_have_func_and_args():
    _, pull = vjp(lambda x: lax.mul(lax.sin(x), x), X)
    _, push = linearize(lambda x: lax.mul(lax.sin(x), x), X)
    for f in (pull, push):
        (held,) = f.args
        assert f.keywords == {} and held and all(np.shape(h) == (3,) for h in held)
        np.testing.assert_array_equal(first(f.func(*f.args, X)), first(f(X)))
        np.testing.assert_allclose(first(f.func([lax.mul(h, 0.0) for h in held], X)), np.zeros(3))
        assert f.func == f.func


def first(x):
    return x[0] if isinstance(x, tuple) else x


@pytest.mark.parametrize("fun", [lambda x: lax.mul(lax.sin(x), x), lambda x: {"y": energy(x), "x": x}])
def test_linear_functions_pickle_without_original_function(fun):
    x = np.arange(3.0, dtype=np.float32)
    out, pull = vjp(fun, x)
    again = pickle.loads(pickle.dumps(pull))
    np.testing.assert_array_equal(again(out)[0], pull(out)[0])
    assert repr(again) == repr(pull)
    push = linearize(fun, x)[1]
    again = pickle.loads(pickle.dumps(push))
    for a, b in zip(trees.tree_leaves(again(x)), trees.tree_leaves(push(x))):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(TypeError, match="takes one argument"):
        pickle.loads(pickle.dumps(pull))(out, out)
