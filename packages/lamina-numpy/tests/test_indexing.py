"""Reading by index: a broad set of expressions against NumPy, eager and staged; errors; derivatives; programs."""
from __future__ import annotations

import itertools

import lamina_numpy as jnp
import numpy as np
import pytest
from lamina_autodiff import grad, jvp
from lamina_batching import vmap
from lamina_ir import TracerIndexError
from lamina_ir._evaluate.evaluator import evaluate
from lamina_tracing import jit, make_jaxpr

HOST = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)
WHERE = np.array([0, 1])
PAIRS = np.array([[2], [0]])
ROWS = np.array([True, False, True])
BLOCK = np.random.default_rng(5).random((3, 4)) > 0.5
ATOMS = {"0": 0, "-1": -1, "np1": np.int64(1), "a1": np.array(1), ":": slice(None), "1:3": slice(1, 3),
         "::-1": slice(None, None, -1), "3:0:-2": slice(3, 0, -2), "::2": slice(None, None, 2), "0:0": slice(0, 0),
         "9:": slice(9, None), "None": None, "...": Ellipsis, "where": WHERE, "pairs": PAIRS, "rows": ROWS,
         "block": BLOCK, "True": True, "False": False, "[0,1]": [0, 1]}


def expressions():
    """Every atom, every pair of atoms, and a seeded choice of triples and quadruples that NumPy accepts in bounds."""
    rng = np.random.default_rng(11)
    names = list(ATOMS)
    tuples = [(n,) for n in names] + list(itertools.product(names, repeat=2))
    for length, many in ((3, 500), (4, 200)):
        tuples += [tuple(rng.choice(names, length)) for _ in range(many)]
    for chosen in tuples:
        index = tuple(ATOMS[n] for n in chosen)
        try:
            HOST[index]
        except (IndexError, ValueError, DeprecationWarning):  # older NumPys only warn where the result has no elements
            continue
        yield chosen, index


EXPRESSIONS = list(expressions())


def test_getitem_when_compared_with_numpy():
    x = jnp.asarray(HOST)
    for names, index in EXPRESSIONS:
        got = np.asarray(x[index])
        np.testing.assert_array_equal(got, HOST[index], err_msg=", ".join(names))
        assert got.shape == HOST[index].shape, names


def test_getitem_when_staged():
    for names, index in EXPRESSIONS[::3]:
        program = make_jaxpr(lambda x, index=index: x[index])(HOST)
        np.testing.assert_array_equal(np.asarray(evaluate(program, HOST)[0]), HOST[index], err_msg=", ".join(names))


@pytest.mark.parametrize("index", [0, -1, slice(1, 2), slice(None, None, -1), None, Ellipsis, WHERE, True, (), (0, 0)],
                         ids=str)
def test_getitem_when_index_is_no_tuple(index):
    got = np.asarray(jnp.asarray(HOST)[index])
    np.testing.assert_array_equal(got, HOST[index])


def test_getitem_when_positions_are_traced():
    x = jnp.asarray(HOST)
    for i in (0, 1, -1, -2):
        np.testing.assert_array_equal(np.asarray(jit(lambda x, i: x[i])(x, i)), HOST[i])
        np.testing.assert_array_equal(np.asarray(jit(lambda x, i: x[:, 1, i, ::2])(x, i)), HOST[:, 1, i, ::2])
    where = np.array([1, -1, 0])
    np.testing.assert_array_equal(np.asarray(jit(lambda x, w: x[w, ..., w])(x, where)), HOST[where, ..., where])
    for dtype in (np.uint8, np.int16, np.uint32):
        np.testing.assert_array_equal(np.asarray(x[np.array([1, 0], dtype)]), HOST[[1, 0]])


def test_getitem_when_outside_reads_the_nearest():
    x = jnp.arange(4)
    assert int(x[9]) == 3
    assert int(x[-9]) == 0
    assert np.asarray(x[np.array([-9, 9, -1])]).tolist() == [0, 3, 3]
    assert int(jit(lambda x, i: x[i])(x, 9)) == 3


def test_getitem_under_vmap():
    x, k = jnp.asarray(HOST), np.array([2, 0])
    want = np.stack([HOST[0][2], HOST[1][0]])
    np.testing.assert_array_equal(np.asarray(vmap(lambda a, i: a[i])(x, k)), want)
    want = np.stack([HOST[0][[2, 1]], HOST[1][[0, 1]]])
    got = vmap(lambda a, i: a[jnp.stack([i, 1 + 0 * i])])(x, k)
    np.testing.assert_array_equal(np.asarray(got), want)


@pytest.mark.parametrize("index", [1, (0, -1), slice(None, None, -2), (Ellipsis, 2), WHERE, (slice(None), PAIRS, 0),
                                   (WHERE, slice(0, 2), WHERE), (None, 1, ROWS), np.array([0, 0, 1])], ids=str)
def test_getitem_gradient(index):
    x = jnp.asarray(HOST)
    weight = np.random.default_rng(0).normal(size=HOST[index].shape).astype(np.float32)
    want = np.zeros_like(HOST)
    np.add.at(want, index, weight)
    got = grad(lambda x: (x[index] * weight).sum())(x)
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5)
    tangent = np.asarray(jvp(lambda x: x[index], (x,), (x * 2,))[1])
    np.testing.assert_allclose(tangent, 2 * HOST[index])


def test_programs_when_positions_are_known():
    text = str(make_jaxpr(lambda x: x[0])(np.zeros((3, 4), np.float32)))
    assert "slice[limit_indices=(1, 4)" in text
    assert "squeeze" in text
    assert "gather" not in text
    assert "gather" in str(make_jaxpr(lambda x: x[np.array([0, 1])])(np.zeros((3, 4), np.float32)))


@pytest.mark.parametrize(("index", "error", "words"), [
    ([0, 1], TypeError, "list"),
    (1.0, TypeError, "float"),
    ("a", TypeError, "'a'"),
    (np.array([0.5]), TypeError, "float64"),
    (slice(0, 1.5), TypeError, "slice bounds"),
    ((0, 0, 0), IndexError, "too many indices"),
    ((Ellipsis, Ellipsis), IndexError, "one Ellipsis"),
    (np.zeros(5, bool), IndexError, "boolean mask"),
    ((np.array([0, 1, 2]), np.array([0, 1])), IndexError, "broadcast"),
], ids=str)
def test_ill_formed_indices_are_refused(index, error, words):
    with pytest.raises(error, match=words):
        jnp.ones((3, 4))[index]


def test_errors_when_traced():
    x = jnp.ones((3, 4))
    with pytest.raises(TracerIndexError, match=r"got int32\[\]:int32\[\]\. Use .*dynamic_slice"):
        jit(lambda x, i: x[i:i + 2])(x, 0)
    with pytest.raises(TracerIndexError, match=r"got :int32\[\]\."):
        jit(lambda x, i: x[:i])(x, 0)
    with pytest.raises(TracerIndexError, match="boolean mask"):
        jit(lambda x, m: x[m])(x, np.array([True, False, True]))
    with pytest.raises(TypeError, match=r"x\.at\[i\]\.set"):
        x[0] = 1.0
    with pytest.raises(TypeError, match=r"x\.at\[i\]\.set"):
        jit(lambda x: x.__setitem__(0, 1.0))(x)


# --- take --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("where", [1, np.array([0, -1]), np.array([[1], [0]])], ids=str)
def test_take_when_compared_with_numpy(axis, where):
    a = HOST[0, :, :, 0]
    np.testing.assert_array_equal(np.asarray(jnp.take(a, where, axis=axis)), np.take(a, where, axis=axis))


def test_take_when_outside():
    a, where = jnp.arange(4.0), jnp.array([-5, -1, 4, 9])
    np.testing.assert_array_equal(np.asarray(jnp.take(a, where)), [np.nan, 3, np.nan, np.nan])
    np.testing.assert_array_equal(np.asarray(jnp.take(a, where, fill_value=7)), [7, 3, 7, 7])
    np.testing.assert_array_equal(np.asarray(jnp.take(a, where, mode="clip")), [0, 0, 3, 3])
    np.testing.assert_array_equal(np.asarray(jnp.take(a, where, mode="wrap")), [3, 3, 0, 1])
    assert int(jnp.take(jnp.arange(4), 9)) == np.iinfo(np.int32).min


@pytest.mark.parametrize(("shape", "places", "axis"), [
    ((3, 4), (3, 2), 1), ((3, 4), (2, 4), 0), ((3, 4), (1, 2), 1), ((1, 4), (3, 2), 1), ((2, 3, 4), (2, 1, 5), -1),
    ((2, 1, 4), (1, 3, 2), 2), ((6,), (3,), 0)], ids=str)
def test_take_along_axis_when_compared_with_numpy(shape, places, axis):
    rng = np.random.default_rng(2)
    a = rng.normal(size=shape).astype(np.float32)
    n = shape[axis]
    where = rng.integers(-n, n, size=places)
    np.testing.assert_array_equal(np.asarray(jnp.take_along_axis(jnp.asarray(a), jnp.asarray(where), axis)),
                                  np.take_along_axis(a, where, axis))


def test_put_along_axis_when_compared_with_numpy():
    a, where = np.arange(12.0, dtype=np.float32).reshape(3, 4), np.array([[1, 0], [3, 2], [-1, 0]])
    want = a.copy()
    np.put_along_axis(want, where, 9.0, 1)
    np.testing.assert_array_equal(np.asarray(jnp.put_along_axis(jnp.asarray(a), where, 9.0, 1, inplace=False)), want)
    with pytest.raises(ValueError, match="inplace=False"):
        jnp.put_along_axis(jnp.asarray(a), where, 9.0, 1)


def test_take_along_axis_gradient():
    a, where = jnp.arange(6.0).reshape(2, 3), jnp.array([[0, 0], [2, 1]])
    got = grad(lambda a: jnp.take_along_axis(a, where, 1).sum())(a)
    np.testing.assert_array_equal(np.asarray(got), [[2, 0, 0], [0, 1, 1]])
