"""Wrong arguments are rejected with an error that names them. Tests compare classes and names, not texts."""
from __future__ import annotations

import functools

import numpy as np
import pytest
from lamina_autodiff import grad, jacfwd, jacrev, jvp, linearize, vjp
from lamina_ir import MissingRuleError, Primitive, prims
from lamina_tracing import lax
from lamina_tracing.extend import bind

X = np.float32([1, 2, 3])
BAD = (TypeError, ValueError)


def vector(x):
    return x


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: grad(vector)(X), TypeError, "scalar"),
    (lambda: grad(lambda x: (x, x))(X[0]), TypeError, "tree|scalar"),
    (lambda: grad(lambda x: 1)(X[0]), TypeError, "int"),
    (lambda: grad(vector)(np.int32(1)), TypeError, "int"),
    (lambda: grad(vector)(np.complex64(1j)), TypeError, "holomorphic"),
    (lambda: grad(vector, holomorphic=True)(X[0]), TypeError, "holomorphic"),
    (lambda: grad(vector, argnums=2)(X[0]), BAD, "argnums"),
    (lambda: grad(vector, argnums="x")(X[0]), TypeError, "argnums"),
    (lambda: grad(3), TypeError, "int"),
    (lambda: grad(vector)("no"), TypeError, "vector"),
    (lambda: grad(vector, has_aux=True)(X[0]), TypeError, "pair"),
    (lambda: jacfwd(vector)(np.int32(1)), TypeError, "int"),
    (lambda: jacrev(vector)(np.int32(1)), TypeError, "int"),
    (lambda: vjp(vector, X)[1]((X, X)), BAD, "cotangent"),
    (lambda: vjp(vector, X)[1](X[:2]), BAD, "cotangent"),
    (lambda: vjp(vector, X)[1](np.int32([1, 2, 3])), BAD, "cotangent"),
    (lambda: jvp(vector, X[0], (X[0],)), TypeError, "primals"),
    (lambda: jvp(vector, (X,), X), TypeError, "tangents"),
    (lambda: jvp(vector, (X,), (X, X)), BAD, "tangents"),
    (lambda: jvp(vector, (X,), (X[:2],)), BAD, "shape"),
    (lambda: jvp(vector, (X,), (np.int32([1, 2, 3]),)), TypeError, "dtype"),
    (lambda: jvp(vector, (np.int32(1),), (np.int32(1),)), TypeError, "float0"),
    (lambda: linearize(vector, X)[1](X, X), BAD, "tangents"),
    (lambda: linearize(vector, X)[1](X[:1]), BAD, "shape"),
], ids=range(24))
def test_wrong_arguments_are_rejected_by_name(call, error, words):
    with pytest.raises(error, match=f"(?s){words}"):
        call()


def test_error_of_function_propagates_and_leaves_thread_usable():
    for make in (grad, lambda f: lambda x: jvp(f, (x,), (x,)), lambda f: lambda x: vjp(f, x)):
        with pytest.raises(ZeroDivisionError):
            make(lambda x: 1 / 0)(X[0])
    assert float(grad(lambda x: lax.mul(x, x))(X[1])) == 4


def test_primitive_without_derivative_is_rejected_by_name():
    lonely = Primitive("lonely_of_contract", infer=lambda x: x, numpy=lambda x: x, family="elementwise")
    for make in (grad, lambda f: lambda x: jvp(f, (x,), (x,))):
        with pytest.raises(MissingRuleError, match="lonely_of_contract"):
            make(functools.partial(bind, lonely))(X[0])


def test_conversion_that_loses_derivative_is_rejected():
    for lose in (float, np.asarray):
        with pytest.raises(TypeError):
            grad(lambda x, lose=lose: lax.mul(x, lose(x)))(X[1])
    assert float(grad(lambda x: lax.mul(x, bind(prims.stop_gradient_p, x)))(X[1])) == 2
