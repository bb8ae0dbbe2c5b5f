"""The functions of `lax` compared with NumPy: values, types, and promotion of Python scalars."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_tracing import jit, lax

X = np.float32([[0.5, -1.5, 2.0], [1.0, 0.25, -0.75]])
V = np.float32([3, 1, 2])
I = np.int32([[5, -3, 7], [0, 2, 9]])
B = np.array([[True, False, True], [False, False, True]])
Z = np.complex64([1 + 2j, -3j])
P = np.abs(X) + np.float32(0.1)

TABLE = {
    "add": (lambda: lax.add(X, P), lambda: X + P), "sub": (lambda: lax.sub(X, 2.0), lambda: X - 2),
    "mul": (lambda: lax.mul(X, X), lambda: X * X), "div": (lambda: lax.div(X, P), lambda: X / P),
    "div of integers": (lambda: lax.div(I, np.int32(2)), lambda: np.trunc(I / 2).astype(np.int32)),
    "rem": (lambda: lax.rem(I, np.int32(3)), lambda: np.fmod(I, 3)),
    "neg": (lambda: lax.neg(X), lambda: -X), "abs": (lambda: lax.abs(X), lambda: np.abs(X)),
    "sign": (lambda: lax.sign(X), lambda: np.sign(X)), "floor": (lambda: lax.floor(X), lambda: np.floor(X)),
    "ceil": (lambda: lax.ceil(X), lambda: np.ceil(X)), "exp": (lambda: lax.exp(X), lambda: np.exp(X)),
    "log": (lambda: lax.log(P), lambda: np.log(P)), "sqrt": (lambda: lax.sqrt(P), lambda: np.sqrt(P)),
    "rsqrt": (lambda: lax.rsqrt(P), lambda: 1 / np.sqrt(P)), "sin": (lambda: lax.sin(X), lambda: np.sin(X)),
    "cos": (lambda: lax.cos(X), lambda: np.cos(X)), "tanh": (lambda: lax.tanh(X), lambda: np.tanh(X)),
    "atan2": (lambda: lax.atan2(X, P), lambda: np.arctan2(X, P)), "pow": (lambda: lax.pow(P, X), lambda: P ** X),
    "integer_pow": (lambda: lax.integer_pow(X, 3), lambda: X ** 3), "max": (lambda: lax.max(X, 0.0), lambda: np.maximum(X, 0)),
    "min": (lambda: lax.min(X, P), lambda: np.minimum(X, P)),
    "clamp": (lambda: lax.clamp(-1.0, X, 1.0), lambda: np.clip(X, -1, 1)),
    "eq": (lambda: lax.eq(I, np.int32(2)), lambda: I == 2), "lt": (lambda: lax.lt(X, 0.0), lambda: X < 0),
    "and": (lambda: lax.bitwise_and(I, np.int32(6)), lambda: I & 6), "not": (lambda: lax.bitwise_not(B), lambda: ~B),
    "select": (lambda: lax.select(B, X, -X), lambda: np.where(B, X, -X)),
    "real": (lambda: lax.real(Z), lambda: Z.real), "conj": (lambda: lax.conj(Z), lambda: Z.conj()),
    "convert": (lambda: lax.convert_element_type(X, np.int32), lambda: X.astype(np.int32)),
    "reshape": (lambda: lax.reshape(X, (3, 2)), lambda: X.reshape(3, 2)),
    "transpose": (lambda: lax.transpose(X, (1, 0)), lambda: X.T),
    "broadcast_in_dim": (lambda: lax.broadcast_in_dim(V, (2, 3), (1,)), lambda: np.stack([V, V])),
    "expand_dims": (lambda: lax.expand_dims(V, (0,)), lambda: V[None]),
    "squeeze": (lambda: lax.squeeze(X[:1], (0,)), lambda: X[0]),
    "concatenate": (lambda: lax.concatenate([X, X], 1), lambda: np.concatenate([X, X], 1)),
    "pad": (lambda: lax.pad(V, np.float32(9), [(1, 0, 1)]), lambda: np.float32([9, 3, 9, 1, 9, 2])),
    "rev": (lambda: lax.rev(X, (1,)), lambda: X[:, ::-1]),
    "iota": (lambda: lax.iota(np.int32, 4), lambda: np.arange(4, dtype="i4")),
    "slice": (lambda: lax.slice(X, (0, 1), (2, 3)), lambda: X[:, 1:]),
    "slice_in_dim": (lambda: lax.slice_in_dim(X, 0, 3, 2, 1), lambda: X[:, 0:3:2]),
    "dynamic_slice": (lambda: lax.dynamic_slice(X, (1, 1), (1, 2)), lambda: X[1:, 1:]),
    "dynamic_slice past the end": (lambda: lax.dynamic_slice(V, (5,), (2,)), lambda: V[1:]),
    "dynamic_update_slice": (lambda: lax.dynamic_update_slice(V, V[:1], (2,)), lambda: np.float32([3, 1, 3])),
    "index_in_dim": (lambda: lax.index_in_dim(X, 1, 0, False), lambda: X[1]),
    "reduce_sum": (lambda: lax.reduce_sum(X, (0,)), lambda: X.sum(0)),
    "reduce_prod": (lambda: lax.reduce_prod(X, (1,)), lambda: X.prod(1)),
    "reduce_max": (lambda: lax.reduce_max(X, (0, 1)), lambda: X.max()),
    "reduce_min": (lambda: lax.reduce_min(X, (1,)), lambda: X.min(1)),
    "reduce_or": (lambda: lax.reduce_or(B, (0,)), lambda: B.any(0)),
    "reduce_and": (lambda: lax.reduce_and(B, (0,)), lambda: B.all(0)),
    "argmax": (lambda: lax.argmax(X, 1, np.int32), lambda: X.argmax(1).astype("i4")),
    "cumsum": (lambda: lax.cumsum(X, axis=1), lambda: X.cumsum(1)),
    "cumsum reversed": (lambda: lax.cumsum(V, axis=0, reverse=True), lambda: V[::-1].cumsum()[::-1]),
    "cummax": (lambda: lax.cummax(V, axis=0), lambda: np.maximum.accumulate(V)),
    "dot": (lambda: lax.dot(X, X.T), lambda: X @ X.T), "dot of vectors": (lambda: lax.dot(V, V), lambda: V @ V),
    "dot_general": (lambda: lax.dot_general(X, X, (((1,), (1,)), ((0,), (0,)))), lambda: (X * X).sum(1)),
    "sort": (lambda: lax.sort(V), lambda: np.sort(V)), "sort of rows": (lambda: lax.sort(X, 0), lambda: np.sort(X, 0)),
    "top_k": (lambda: lax.top_k(V, 2)[0], lambda: np.float32([3, 2])),
    "full": (lambda: lax.full((2, 2), 7, np.float32), lambda: np.full((2, 2), 7, "f4")),
    "stop_gradient": (lambda: lax.stop_gradient(X), lambda: X),
}


@pytest.mark.parametrize("how", ["at once", "jit"])
@pytest.mark.parametrize("name", TABLE)
def test_lax_function_equals_numpy(name, how):
    fun, want = TABLE[name]
    got, w = np.asarray((jit(fun) if how == "jit" else fun)()), np.asarray(want())
    assert got.shape == w.shape and (got.dtype == w.dtype or w.dtype == np.float64)
    np.testing.assert_allclose(got, w, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("how", [lambda f: f, jit], ids=["at once", "jit"])
@pytest.mark.parametrize(("x", "number", "dtype"), [
    (np.float16(1), 2.5, "float16"), (np.int8(1), 2, "int8"), (np.float32(1), 2.0, "float32"),
    (np.complex64(1), 2.0, "complex64")])
def test_python_scalar_takes_dtype_of_other_operand(x, number, dtype, how):
    out = how(lambda v: lax.mul(v, number))(x)
    assert str(out.dtype) == dtype and complex(np.asarray(out)) == number


@pytest.mark.parametrize(("call", "error"), [
    (lambda: lax.add(X, I), TypeError), (lambda: lax.add(X, X[:, :2]), (TypeError, ValueError)),
    (lambda: lax.dot(X, X), (TypeError, ValueError)), (lambda: lax.reduce_sum(X, (2,)), (TypeError, ValueError)),
    (lambda: lax.reshape(X, (5,)), (TypeError, ValueError)), (lambda: lax.transpose(X, (0, 0)), (TypeError, ValueError)),
    (lambda: lax.sin("x"), TypeError), (lambda: lax.concatenate([X, V], 0), (TypeError, ValueError)),
    (lambda: lax.exp(I), TypeError), (lambda: lax.select(X, X, X), TypeError)], ids=range(10))
def test_wrong_arguments_are_rejected(call, error):
    for run in (call, jit(call)):
        with pytest.raises(error):
            run()


def test_results_do_not_share_memory_with_arguments():
    x = np.ones(3, np.float32)
    for y in (lax.reshape(x, (3,)), lax.stop_gradient(x), jit(lambda x: x)(x), lax.slice(x, (0,), (3,))):
        x[:] = 5
        np.testing.assert_array_equal(np.asarray(y), [1, 1, 1])
        x[:] = 1
