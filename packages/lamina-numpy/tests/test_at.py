"""Changed copies: every method against NumPy's in-place meaning; positions outside; derivatives; errors."""
from __future__ import annotations

import warnings

import lamina_numpy as jnp
import numpy as np
import pytest
from lamina_autodiff import grad, jvp
from lamina_batching import vmap
from lamina_ir._evaluate.evaluator import evaluate
from lamina_tracing import jit, make_jaxpr

HOST = (np.arange(24, dtype=np.float32).reshape(2, 3, 4) + 1) / 4
WHERE = np.array([0, 1])
ROWS = np.array([True, False, True])
INDICES = [0, -1, (1, 2), (0, 1, -1), slice(None), slice(1, 2), (slice(None), slice(None, None, -1)), (Ellipsis, 0),
           (slice(None), slice(0, 3, 2), slice(1, 4)), (1, slice(2, None, -2), slice(None, None, 3)), None,
           (None, 1, None), WHERE, (slice(None), WHERE), (WHERE, slice(None), WHERE), (WHERE, slice(0, 2)),
           (slice(None), np.array([[2], [0]]), slice(None, None, 2)), (WHERE[:, None], ROWS), (slice(None), ROWS), True,
           False, (slice(None), 1, WHERE), (0, slice(None), WHERE), slice(0, 0), (np.int32(1), np.array(2)), (),
           (np.array([[0], [1]]), np.array([[0, 2]]), slice(None, None, -1))]
REPEATED = [np.array([0, 0, 1]), (slice(None), np.array([2, 2])), (slice(None, None, -1), np.array([1, 1]), 0)]
IN_PLACE = {"set": None, "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
            "power": np.power, "min": np.minimum, "max": np.maximum}


def want(op, index, values):
    out = HOST.copy()
    if op == "set":
        out[index] = values
    else:
        IN_PLACE[op].at(out, index, values)
    return out


@pytest.mark.parametrize("op", IN_PLACE)
def test_methods_when_compared_with_numpy(op):
    x, rng = jnp.asarray(HOST), np.random.default_rng(4)
    for index in INDICES + (REPEATED if op not in ("set", "divide", "power") else []):
        shape = HOST[index].shape
        for values in (rng.uniform(0.5, 1.5, size=shape).astype(np.float32), np.float32(1.25), 2.0):
            got = np.asarray(getattr(x.at[index], op)(values))
            np.testing.assert_allclose(got, want(op, index, values), rtol=1e-5, err_msg=f"{index}")
            assert got.dtype == np.float32


def test_methods_when_staged():
    rng = np.random.default_rng(4)
    for index in INDICES:
        values = rng.normal(size=HOST[index].shape).astype(np.float32)
        program = make_jaxpr(lambda x, v, index=index: x.at[index].set(v))(HOST, values)
        got = np.asarray(evaluate(program, HOST, values)[0])
        np.testing.assert_allclose(got, want("set", index, values), err_msg=f"{index}")


def test_set_when_values_broadcast():
    x = jnp.zeros((2, 3))
    for index, values in ((slice(None), np.arange(3.0)), (0, np.ones((1, 3))), ((slice(None), 0), 5), (1, [1, 2, 3])):
        expected = np.zeros((2, 3), np.float32)
        expected[index] = values
        np.testing.assert_array_equal(np.asarray(x.at[index].set(values)), expected)


def test_set_when_positions_are_traced():
    x = jnp.zeros(4)
    put = jit(lambda x, i, v: x.at[i].set(v))
    assert np.asarray(put(x, 1, 5.0)).tolist() == [0, 5, 0, 0]
    assert np.asarray(put(x, -1, 5.0)).tolist() == [0, 0, 0, 5]
    assert np.asarray(put(x, 4, 5.0)).tolist() == [0, 0, 0, 0]
    assert np.asarray(put(x, np.array([-5, 0]), 5.0)).tolist() == [5, 0, 0, 0]


def test_modes_when_outside():
    x = jnp.arange(3.0)
    for index in (3, -4, np.array([3]), np.array([-4])):
        assert np.asarray(x.at[index].set(9.0)).tolist() == [0, 1, 2]
        assert np.asarray(x.at[index].add(9.0, mode="drop")).tolist() == [0, 1, 2]
        at = 2 if np.sum(index) > 0 else 0
        assert np.asarray(x.at[index].set(9.0, mode="clip"))[at] == 9
        assert np.asarray(x.at[index].get()).ravel().tolist() == [at]
        assert np.asarray(x.at[index].get(mode="fill", fill_value=-1)).ravel().tolist() == [-1]
        assert np.isnan(np.asarray(x.at[index].get(mode="fill"))).all()
    assert np.asarray(x.at[-1].set(9.0, wrap_negative_indices=False)).tolist() == [0, 1, 2]
    assert float(x.at[-1].get(mode="fill", fill_value=7, wrap_negative_indices=False)) == 7
    assert np.asarray(x.at[np.array([-1, 0])].get(mode="fill", wrap_negative_indices=False, fill_value=7)).tolist() == \
        [7, 0]
    with pytest.raises(ValueError, match="mode"):
        x.at[0].set(1.0, mode="elsewhere")


def test_mask_when_value_is_one_number():
    x, mask = jnp.arange(4.0), jnp.arange(4.0) > 1
    assert np.asarray(x.at[mask].set(0.0)).tolist() == [0, 1, 0, 0]
    assert np.asarray(jit(lambda x, m: x.at[m].add(1.0))(x, mask)).tolist() == [0, 1, 3, 4]
    rows = jnp.asarray(HOST).at[np.array([True, False])].multiply(2)
    np.testing.assert_allclose(np.asarray(rows), HOST * [[[2]], [[1]]])
    assert np.asarray(x.at[mask].set(jnp.array([7.0, 8.0]))).tolist() == [0, 1, 7, 8]


def test_apply_changes_the_indexed_elements():
    x = jnp.asarray(HOST)
    got = x.at[:, WHERE].apply(jnp.sqrt)
    expected = HOST.copy()
    expected[:, WHERE] = np.sqrt(HOST[:, WHERE])
    np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-6)


def test_apply_goes_once_for_each_time_a_position_is_named():
    x = jnp.array([1., 2., 3.])
    assert x.at[jnp.array([0, 0, -3, 2, 9])].apply(lambda x: x * 10).tolist() == [1000, 2, 30]
    assert jit(lambda x, i: x.at[i].apply(jnp.square))(x, jnp.array([1, 1])).tolist() == [1, 16, 3]
    assert x.at[jnp.array([0, 1])].apply(jnp.square, unique_indices=True).tolist() == [1, 4, 3]
    assert x.at[np.array([], int)].apply(jnp.square).tolist() == [1, 2, 3]
    assert x.at[jnp.array([0, 0]), None].apply(lambda x: x + 1).tolist() == [3, 2, 3]


def test_dtype_is_that_of_the_array():
    x = jnp.arange(3)
    assert x.at[0].set(True).dtype == np.int32
    assert x.at[0].divide(2).dtype == np.float32
    with pytest.warns(FutureWarning, match="float32 lose something as int32"):
        assert np.asarray(x.at[0].set(2.5)).tolist() == [2, 1, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert jnp.ones(2).at[0].set(2).dtype == np.float32
    assert np.asarray(jnp.array([True, False]).at[1].set(True)).tolist() == [True, True]


def test_ill_formed_updates_are_refused():
    x = jnp.ones((2, 3))
    with pytest.raises(ValueError, match=r"broadcast to the indexed shape \[3\]; got float32\[2\]"):
        x.at[0].set(jnp.ones(2))
    with pytest.raises(TypeError, match="list"):
        x.at[[0, 1]].set(1.0)
    with pytest.raises(IndexError, match="too many indices"):
        x.at[0, 0, 0].set(1.0)


@pytest.mark.parametrize("index", [i for i in INDICES if not isinstance(i, bool)], ids=str)
@pytest.mark.parametrize("op", ["set", "add", "multiply", "max", "divide"])
def test_updates_have_correct_gradients(op, index):
    x, rng = jnp.asarray(HOST), np.random.default_rng(8)
    v = jnp.asarray(rng.uniform(0.4, 5.0, size=HOST[index].shape).astype(np.float32))
    weight = rng.normal(size=HOST.shape).astype(np.float32)
    fun = lambda x, v: getattr(x.at[index], op)(v)
    gx, gv = grad(lambda x, v: (fun(x, v) * weight).sum(), argnums=(0, 1))(x, v)
    tx, tv = rng.normal(size=HOST.shape).astype(np.float32), rng.normal(size=v.shape).astype(np.float32)
    _, tangent = jvp(fun, (x, v), (tx, tv))
    forward = np.vdot(np.asarray(tangent), weight)
    backward = np.vdot(np.asarray(gx), tx) + np.vdot(np.asarray(gv), tv)
    np.testing.assert_allclose(forward, backward, rtol=1e-3, atol=1e-3)
    h = 1e-2
    up, down = (np.asarray(fun(x + s * h * tx, v + s * h * tv)) for s in (1, -1))
    np.testing.assert_allclose(np.asarray(tangent), (up - down) / (2 * h), rtol=5e-2, atol=5e-2)


def test_set_gradient_when_known_is_cheap():
    text = str(make_jaxpr(grad(lambda x: (x.at[1].set(2.0) ** 2).sum()))(np.ones(3, np.float32)))
    assert "scatter" not in text


def test_under_vmap():
    x, k = jnp.zeros((3, 4)), np.array([0, 3, 9])
    got = np.asarray(vmap(lambda r, i: r.at[i].set(1.0))(x, k))
    assert got.tolist() == [[1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]]
    got = np.asarray(vmap(lambda i: jnp.zeros(4).at[i].add(2.0))(k))
    assert got.tolist() == [[2, 0, 0, 0], [0, 0, 0, 2], [0, 0, 0, 0]]


def test_repr_names_the_reference():
    assert "AtReference" in repr(jnp.zeros(2).at[0])


def test_what_reductions_leave_out_has_no_derivative():
    x = np.array([1.0, np.nan, 3.0], np.float32)
    np.testing.assert_allclose(grad(jnp.nanstd)(x), [-0.5, 0.0, 0.5])
    np.testing.assert_allclose(grad(lambda x: jnp.var(x, where=~jnp.isnan(x)))(x), [-1.0, 0.0, 1.0])


class Places:
    def __jax_array__(self):
        return jnp.arange(2)


def test_objects_that_give_an_array_are_values_and_positions():
    x = jnp.array(HOST)
    np.testing.assert_array_equal(x[Places()], HOST[:2])
    np.testing.assert_array_equal(jnp.zeros(3).at[Places()].set(Places(), mode="clip"), [0, 1, 0])
    np.testing.assert_array_equal(jnp.stack([Places(), Places()]) + Places(), [[0, 2], [0, 2]])
    assert jnp.sum(Places()) == 1 and jnp.shape(Places()) == (2,) and jnp.where(True, Places(), 0).shape == (2,)


@pytest.mark.parametrize("index, inside", [
    (7, 1), (-5, 1), (np.array([3, -4]), [1, 0]), ((0, 5), (0, 2)), ((Ellipsis, -9), (Ellipsis, 3)),
    ((None, 1, slice(None), np.array([9])), (None, 1, slice(None), [1])), ((slice(None), ROWS, 6), (slice(None), ROWS, 2)),
    (np.array([200, 255], np.uint8), [0, 1]), (np.int8(-127), 1)])
def test_wrapped_positions_are_taken_modulo_the_length(index, inside):
    x, want = jnp.array(HOST), HOST.copy()
    want[inside] += 1
    np.testing.assert_array_equal(x.at[index].get(mode="wrap"), HOST[inside])
    np.testing.assert_array_equal(x.at[index].add(1, mode="wrap"), want)
    np.testing.assert_array_equal(x.at[index].apply(lambda v: v + 1, mode="wrap"), want)
    if isinstance(index, (int, np.generic, np.ndarray)):
        np.testing.assert_array_equal(jit(lambda i: x.at[i].get(mode="wrap"))(jnp.array(index)), HOST[inside])


@pytest.mark.parametrize("mode", ["raise", "wrong"])
def test_unknown_modes_are_refused(mode):
    with pytest.raises(ValueError, match="mode: expected 'clip'"):
        jnp.arange(3).at[0].get(mode=mode)
