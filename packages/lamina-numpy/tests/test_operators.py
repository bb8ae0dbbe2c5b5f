"""Operators, methods and properties of arrays and of traced values."""
from __future__ import annotations

import math
import operator
from typing import Any

import lamina_numpy as lnp
import numpy as np
import pytest
from lamina_tracing import jit, make_jaxpr

X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
Y = np.array([[2, 3, 4], [5, 6, 7]], np.float32)
I = np.array([[1, 2, 3], [4, 5, 6]], np.int32)  # noqa: E741
BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge", "eq", "ne"]
BITS = ["and_", "or_", "xor", "lshift", "rshift"]


@pytest.mark.parametrize("name", BINARY)
def test_binary_operators(name: str) -> None:
    op = getattr(operator, name)
    for y in (Y, 2.0, 2):
        for run in (lambda f: f, jit):
            np.testing.assert_allclose(run(lambda a, y=y: op(a, y))(lnp.asarray(X)), op(X, y), rtol=1e-6)
            if np.isscalar(y):
                np.testing.assert_allclose(run(lambda a, y=y: op(y, a))(lnp.asarray(X)), op(y, X), rtol=1e-6)


@pytest.mark.parametrize("name", BITS)
def test_bit_operators(name: str) -> None:
    op = getattr(operator, name)
    for run in (lambda f: f, jit):
        np.testing.assert_array_equal(run(lambda a: op(a, 2))(lnp.asarray(I)), op(I, 2))
        np.testing.assert_array_equal(run(lambda a: op(2, a))(lnp.asarray(I)), op(2, I))


METHODS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("sum", (), {}), ("sum", (1,), {}), ("sum", (), {"axis": 0, "keepdims": True}), ("mean", (0,), {}), ("max", (), {}),
    ("min", (1,), {}), ("prod", (), {}), ("std", (), {}), ("var", (0,), {}), ("all", (), {}), ("any", (1,), {}),
    ("argmax", (), {}),
    ("argmin", (1,), {}), ("argsort", (), {}), ("cumsum", (1,), {}), ("cumprod", (), {}), ("reshape", (3, 2), {}),
    ("reshape", ((3, -1),), {}), ("reshape", (6,), {"order": "F"}), ("ravel", (), {}), ("flatten", (), {}),
    ("transpose", (), {}), ("transpose", (1, 0), {}), ("transpose", ((1, 0),), {}), ("squeeze", (), {}),
    ("swapaxes", (0, 1), {}),
    ("round", (1,), {}), ("clip", (2, 4), {}), ("conj", (), {}), ("diagonal", (), {}), ("trace", (), {}), ("dot", (Y.T,), {}),
    ("repeat", (2,), {"axis": 0}), ("take", (1,), {"axis": 1}), ("astype", ("int32",), {}), ("copy", (), {})]


@pytest.mark.parametrize(("name", "args", "kwargs"), METHODS)
def test_methods_match_numpy_eager_and_compiled(name: str, args: Any, kwargs: Any) -> None:
    want = getattr(X, name)(*args, **kwargs)
    for run in (lambda f: f, jit):
        got = run(lambda a: getattr(a, name)(*args, **kwargs))(lnp.asarray(X))
        assert isinstance(got, lnp.ndarray)
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_sort_gives_a_sorted_copy() -> None:
    np.testing.assert_array_equal(lnp.array([3, 1, 2]).sort(), [1, 2, 3])


def test_properties_match_numpy_eager_and_compiled() -> None:
    c = lnp.asarray(X + 2j * X)
    for run in (lambda f: f, jit):
        np.testing.assert_array_equal(run(lambda a: a.T)(lnp.asarray(X)), X.T)
        np.testing.assert_array_equal(run(lambda a: a.mT)(lnp.asarray(X)), X.mT)
        np.testing.assert_array_equal(run(lambda a: a.real)(c), X)
        np.testing.assert_array_equal(run(lambda a: a.imag)(c), 2 * X)
        np.testing.assert_array_equal(run(lambda a: a.at[0].set(9.0))(lnp.asarray(X))[0], [9, 9, 9])


def test_unary_operators() -> None:
    x = lnp.asarray(X)
    np.testing.assert_array_equal(-x, -X)
    np.testing.assert_array_equal(abs(-x), X)
    np.testing.assert_array_equal(+x, X)
    np.testing.assert_array_equal(~lnp.asarray(I), ~I)
    np.testing.assert_allclose(round(x / 3, 1), np.round(X / 3, 1), rtol=1e-6)
    q, r = divmod(lnp.asarray(I), 4)
    np.testing.assert_array_equal(q * 4 + r, I)


class Other:
    """Not an array, with operators of its own."""

    def __radd__(self, left: Any) -> str:
        return "mine"

    def __rmatmul__(self, left: Any) -> str:
        return "mine"


def test_other_types_get_their_turn() -> None:
    x = lnp.asarray(X)
    assert x + Other() == "mine" and x @ Other() == "mine"
    assert jit(lambda a: a * (a + Other() == "mine"))(x).shape == (2, 3)
    assert (x == None) is False and (x != "a") is True  # noqa: E711
    for bad in (None, "a", [1, 2, 3]):
        with pytest.raises(TypeError, match="unsupported operand"):
            x + bad


def test_numpy_arrays_on_the_left_give_ours() -> None:
    assert isinstance(X + lnp.asarray(X), lnp.ndarray)
    assert isinstance(X @ lnp.asarray(X).T, lnp.ndarray)


@pytest.mark.parametrize(("fun", "equations"), [
    (lambda x: x + 1, 1), (lambda x: x * x, 1), (lambda x: 2.0 / x, 1), (lambda x: x ** 2, 1), (lambda x: x @ x.T, 2),
    (lambda x: x.sum(), 1), (lambda x: x.mean(), 2), (lnp.sin, 1), (lambda x: x > 0, 1),
    (lambda x: lnp.where(x > 0, x, 0.0), 2),
    (lambda x: x.T, 1), (lambda x: x.reshape(2, 3), 0), (lambda x: x.astype("float32"), 0), (lambda x: lnp.clip(x, 0, 1), 2),
    (lambda x: x + x[0], 4), (lambda x: lnp.sqrt(x) * np.float32(2), 2), (lambda x: lnp.zeros(3) + x, 3)])
def test_programs_have_no_needless_equations(fun: Any, equations: int) -> None:
    assert len(make_jaxpr(fun)(X).jaxpr.eqns) == equations


def test_vdot_prints_as_one_dot_general() -> None:
    line = "dimension_numbers=(((0,), (0,)), ((), ()))"
    text = str(make_jaxpr(lnp.vdot)(X[0], X[0]))
    assert line in text and "reshape" not in text
    text = str(make_jaxpr(lnp.vdot)(X, X))
    assert line in text and text.count("reshape[dimensions=None new_sizes=(6,)]") == 2


@pytest.mark.parametrize("op", [operator.add, operator.mul, operator.eq, operator.lt])
def test_lists_and_tuples_are_no_operands(op: Any) -> None:
    n = lnp.asarray(3)
    for bad in ([1, 2], (1, 2)):
        with pytest.raises(TypeError, match="unsupported operand.*numpy.asarray"):
            op(n, bad)
        with pytest.raises(TypeError, match="unsupported operand.*numpy.asarray"):
            op(bad, n)
        with pytest.raises(TypeError, match="unsupported operand.*numpy.asarray"):
            jit(lambda a, bad=bad: op(bad, a))(n)


def test_round_gives_integers_unless_digits_are_asked_for() -> None:
    for fun in (lambda f: f, jit):
        whole, kept = fun(lambda x: round(x))(lnp.float32(2.6)), fun(lambda x: round(x, 1))(lnp.float32(2.66))
        assert whole.dtype == np.int32 and whole == 3
        assert kept.dtype == np.float32 and np.allclose(kept, 2.7)


@pytest.mark.parametrize(("dtype", "to"), [
    ("float32", "int32"), ("float32", "int16"), ("int16", "float32"), ("complex64", "float32"), ("complex64", "uint8"),
    ("float32", "complex64"), ("uint8", "complex64"), ("bool", "uint8"), ("bool", "int16"), ("uint8", "bool"),
    ("float32", "bool")])
@pytest.mark.parametrize("shape", [(8,), (2, 3, 8), (2, 0)])
def test_view_reads_bytes_as_numpy_does(dtype: str, to: str, shape: tuple[int, ...]) -> None:
    x = (np.arange(math.prod(shape)).reshape(shape) % 2).astype(dtype)
    want = x.view("uint8").astype(bool) if to == "bool" else x.view(to)
    for fun in (lambda a: a.view(to), jit(lambda a: a.view(to))):
        got = fun(lnp.asarray(x))
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def test_view_names_what_does_not_fit() -> None:
    assert lnp.float32(1).view("int32") == 0x3F800000
    with pytest.raises(ValueError, match="view: .*whole number of elements of int32; got int16\\[3\\]: 6 bytes"):
        lnp.arange(3, dtype="int16").view("int32")
    with pytest.raises(ValueError, match="no axis, so only equal widths fit"):
        lnp.float32(1).view("int16")
