"""Rolling and resizing where the amounts are arrays or nothing is left."""
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
