"""Rolling, tiling, turning and resizing where the amounts are arrays, no integers, or nothing is left."""
from __future__ import annotations

import lamina_numpy as jnp
import numpy as np
import pytest
from lamina_tracing import jit


@pytest.mark.parametrize("how", [lambda f: f, jit], ids=["eager", "jit"])
@pytest.mark.parametrize("shift", [np.uint8(1), np.int8(-2), np.array([1, 2], np.uint8), np.int8(127)])
def test_roll_takes_narrow_and_unsigned_shifts(how, shift):
    x = np.arange(6)
    shift = np.asarray(shift)
    axis = 0 if shift.shape else None
    got = how(lambda x, s: jnp.roll(x, s, axis))(x, shift)
    np.testing.assert_array_equal(np.asarray(got), np.roll(x, shift.astype(int).sum()))


def test_resize_of_nothing_is_zeros():
    np.testing.assert_array_equal(np.asarray(jnp.resize(jnp.zeros(0), (2, 2))), np.zeros((2, 2)))
    assert jnp.resize(jnp.ones(3), (0, 2)).shape == (0, 2)


def test_arrays_in_a_list_have_one_shape():
    with pytest.raises(ValueError, match="must have one shape"):
        jnp.array([jnp.ones(2), 1.0])


def test_amounts_may_be_known_arrays():
    x = np.arange(4)
    np.testing.assert_array_equal(np.asarray(jnp.tile(x, jnp.array([2, 1]))), np.tile(x, (2, 1)))
    np.testing.assert_array_equal(np.asarray(jnp.tile(x, np.array(2))), np.tile(x, 2))
    assert [p.shape[0] for p in jnp.split(x, jnp.array([1, 3]))] == [1, 2, 1]
    assert [p.shape[0] for p in jnp.split(x, jnp.array(2))] == [2, 2]


@pytest.mark.parametrize("fun, error, says", [
    (lambda x: jnp.rot90(x, 1.5), TypeError, "rot90: k must be an integer"),
    (lambda x: jnp.rot90(x, axes=(0,)), ValueError, "rot90: expected two axes"),
    (lambda x: jnp.roll(x, 1.5), TypeError, "roll: shift must be an integer"),
    (lambda x: jnp.roll(x, np.array([[1, 2]]), 0), TypeError, "roll: shift must be an integer"),
    (lambda x: jnp.tile(x, 1.5), TypeError, "tile: reps must be a sequence of integers"),
    (lambda x: jnp.tile(x, -1), ValueError, "tile: reps must not have negative sizes"),
    (lambda x: jnp.split(x, 1.5), TypeError, "split: indices_or_sections"),
    (lambda x: jnp.reshape(x, 2.0), TypeError, "reshape: a shape must be a sequence of integers"),
    (lambda x: jnp.reshape(x), TypeError, "reshape: a shape must be a sequence of integers"),
    (lambda x: jnp.broadcast_shapes((-2,)), ValueError, "broadcast_shapes: a shape must not have negative sizes"),
    (lambda x: jnp.unpackbits(np.uint8([5]), count=-9), ValueError, "unpackbits: count -9"),
    (lambda x: jnp.packbits(np.uint8([5]), bitorder="x"), ValueError, "packbits: bitorder"),
    (lambda x: jnp.block([[1], 2]), ValueError, "block: blocks must be nested equally deep"),
    (lambda x: jnp.block([]), ValueError, "block: a list of blocks is empty")])
def test_amounts_that_are_refused(fun, error, says):
    with pytest.raises(error, match=says):
        fun(np.ones((2, 2)))
