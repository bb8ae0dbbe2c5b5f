"""Lists of traced numbers passed to NumPy: arrays of Python objects, which become traced arrays where they are used."""
import numpy as np
import pytest
from lamina_ir import errors
from lamina_tracing import jit, lax, make_jaxpr
from lamina_tracing.extend import Tracer, is_object_array, read_jax_array, stack_object_arrays, typeof

X = np.float32([0.5, 1.5, 2.5])


class Table:
    """An object of another library that holds a traced value."""

    def __init__(self, value):
        self.value = value

    def __jax_array__(self):
        return self.value


@pytest.mark.parametrize("make", [
    lambda x: np.array([x[0] * 2, x[1]]), lambda x: np.asarray((x[0] * 2, x[1])), lambda x: np.asanyarray([x[0] * 2, x[1]]),
    lambda x: np.array([x[0] * 2, x[1]], dtype=object), lambda x: np.array([x[0] * 2, np.float32(1.5)])])
def test_array_of_a_list_is_a_result(make):
    np.testing.assert_array_equal(jit(make)(X), [1, 1.5])
    assert make_jaxpr(make)(X).out_avals[0].str_long() == "float32[2]"


def test_matrices_and_mixed_numbers():
    def turn(x):
        c, s = np.cos(x[0]), np.sin(x[0])
        return np.array([[c, -s, 0], [s, c, 0]]) @ x

    c, s = np.cos(X[0]), np.sin(X[0])
    np.testing.assert_allclose(jit(turn)(X), np.array([[c, -s, 0], [s, c, 0]]) @ X, rtol=1e-6)


@pytest.mark.parametrize("call", [
    lambda x: np.sum([x[0], x[1]]), lambda x: np.prod([x[0], x[1]]), lambda x: np.dot([x[0], x[1]], [1.0, 2.0]),
    lambda x: np.sin([x[0], x[1]]), lambda x: np.add([x[0], x[1]], x[:2]),
    lambda x: np.array([x[0], x[1]]) * x[:2], lambda x: x[:2] - np.array([x[0], 1.0]), lambda x: np.full(2, x[0]),
    lambda x: np.where([True, False], [x[0], x[1]], 0.0), lambda x: np.outer([x[0], x[1]], [1.0, 2.0]),
    lambda x: np.cumsum([x[0], x[1]]), lambda x: np.polyval([x[0], x[1]], 2.0), lambda x: np.vectorize(lambda t: t * t)(x),
    lambda x: np.vectorize(lambda t, u: np.sin(t) + u)(x, 1.0), lambda x: np.linalg.norm([x[0], x[1]]),
    lambda x: [np.array([x[0], x[1]])[1], {"a": np.array([[x[0]]])}]])
def test_numpy_functions_of_lists(call):
    got, wanted = jit(call)(X), call(X)
    if isinstance(got, list):
        got, wanted = [got[0], got[1]["a"]], [wanted[0], wanted[1]["a"]]
        np.testing.assert_array_equal(got[1], wanted[1])
        got, wanted = got[0], wanted[0]
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


@pytest.mark.parametrize("use", [
    lambda a, x: lax.mul(x[:2], a), lambda a, x: lax.mul(a, x[:2]), lambda a, x: lax.sin(a), lambda a, x: jit(lax.neg)(a),
    lambda a, x: lax.fori_loop(0, 2, lambda i, c: lax.mul(c, c), a), lambda a, x: lax.scan(lambda c, y: (c, y + c), 0.0, a)[1],
    lambda a, x: lax.cond(True, lax.neg, lax.neg, a), lambda a, x: np.maximum(a, x[:2])])
def test_lax_functions_take_object_arrays(use):
    got = jit(lambda x: use(np.array([x[0], x[1]]), x))(X)
    np.testing.assert_allclose(got, use(X[:2], X), rtol=1e-6)


@pytest.mark.parametrize("convert", [
    lambda x: np.array(x[0]), lambda x: np.asarray(x[0]), lambda x: np.asarray(x), lambda x: np.array([x[0]], np.float32),
    lambda x: np.array([x, x]), lambda x: np.mean([x[0], x[1]]), lambda x: x[0].__array__(), lambda x: np.float32(x[0])])
def test_other_conversions_are_errors(convert):
    with pytest.raises(errors.TracerArrayError, match="numpy.|Use"):
        jit(convert)(X)


def test_conditions_of_object_arrays_need_known_numbers():
    with pytest.raises(errors.TracerBoolError, match="np.max"):
        jit(lambda x: np.max([x[0], x[1]]))(X)


def test_object_arrays_without_traced_values_stay_errors():
    with pytest.raises(TypeError):
        lax.sin(np.array([1.0, None]))
    assert not is_object_array(np.array([1.0, None])) and not is_object_array([1.0])


def test_unknown_attributes_stay_errors():
    def f(x):
        assert not hasattr(x, "unknown")
        with pytest.raises(AttributeError, match="has no attribute 'unknown'"):
            x.unknown  # noqa: B018
        return x

    jit(f)(X)


@pytest.mark.parametrize("use", [lambda t, x: lax.mul(x, t), lambda t, x: lax.mul(t, x), lambda t, x: lax.mul(t, t)])
def test_objects_that_hold_traced_values_of_the_same_trace(use):
    np.testing.assert_allclose(jit(lambda x: use(Table(x), x))(X), X * X)


def test_conversions_of_objects():
    def f(x):
        made = read_jax_array(np.array([x[0], x[1]]))
        assert isinstance(made, Tracer) and typeof(np.array([x[0], x[1]])) == made.aval
        assert stack_object_arrays([x, np.array([x[0]])])[1].aval.shape == (1,)
        return made

    jit(f)(X)
    np.testing.assert_array_equal(read_jax_array(Table(X)), X)
