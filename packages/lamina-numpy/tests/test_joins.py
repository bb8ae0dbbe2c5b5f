"""Joining many arrays at once, and vectors of whole trees."""
from __future__ import annotations

import lamina_numpy as jnp
import numpy as np
import pytest
from lamina_autodiff import grad
from lamina_numpy.flatten_util import ravel_pytree
from lamina_tracing import jit

MANY = [np.full((2, i % 4 + 1), i, np.float32) for i in range(150)]


@pytest.mark.parametrize("how", [lambda f: f, jit], ids=["eager", "jit"])
def test_many_arrays_are_joined_in_order(how):
    np.testing.assert_array_equal(np.asarray(how(lambda xs: jnp.concatenate(xs, axis=1))(MANY)), np.concatenate(MANY, 1))
    np.testing.assert_array_equal(np.asarray(how(lambda xs: jnp.concatenate(xs, None))(MANY)), np.concatenate(MANY, None))
    columns = [x[:, 0] for x in MANY]
    np.testing.assert_array_equal(np.asarray(how(lambda xs: jnp.stack(xs, axis=1))(columns)), np.stack(columns, 1))
    assert how(lambda xs: jnp.stack(xs, dtype="int32"))(columns).dtype == np.int32


@pytest.mark.parametrize("name", ["vstack", "hstack", "dstack", "column_stack", "stack"])
def test_numbers_of_a_range_and_many_columns_are_joined(name):
    """A range is a sequence of numbers, as a list is."""
    for given in (range(3), [x[:, 0] for x in MANY]):
        np.testing.assert_array_equal(np.asarray(getattr(jnp, name)(given)), getattr(np, name)([*given]))


def test_derivative_of_many_joined():
    x = np.float32([1, 2])
    np.testing.assert_array_equal(np.asarray(grad(lambda x: (jnp.concatenate([x] * 70) ** 2).sum())(x)), 140 * x)


def test_a_large_tree_as_a_vector_and_back():
    tree = {f"{i:03}": x for i, x in enumerate(MANY)} | {"n": np.int32(7)}
    vector, unravel = ravel_pytree(tree)
    wanted = np.concatenate([np.ravel(tree[k]).astype(np.float32) for k in sorted(tree)])
    np.testing.assert_array_equal(np.asarray(vector), wanted)
    for back in (unravel(vector), jit(unravel)(vector), unravel(wanted)):
        assert back.keys() == tree.keys() and back["n"].dtype == np.int32
        for k, x in tree.items():
            np.testing.assert_array_equal(np.asarray(back[k]), x)
    np.testing.assert_array_equal(np.asarray(grad(lambda v: (unravel(v)["005"] ** 2).sum())(vector)),
                                  np.where(wanted == 5, 10, 0))


def test_a_vector_of_another_dtype_is_unravelled_where_all_leaves_have_one():
    _, unravel = ravel_pytree({"a": np.ones(2, np.float32), "b": np.float32(3)})
    assert [str(unravel(np.arange(3, dtype=np.int32))[k].dtype) for k in "ab"] == ["int32", "int32"]
    _, unravel = ravel_pytree({"a": np.ones(2, np.float32), "b": np.int32(3)})
    with pytest.raises(TypeError, match="unravel: expected a vector of dtype float32"):
        unravel(np.arange(3, dtype=np.int32))
