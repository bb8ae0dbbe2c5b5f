"""The examples of pmap's reference page, as written there."""
from functools import partial

import lamina as jax
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import pmap


def test_map_along_a_leading_axis():
    out = pmap(lambda x: x ** 2)(jnp.arange(8))
    assert str(out) == "[ 0  1  4  9 16 25 36 49]"


def test_fewer_slices_than_devices():
    x = jnp.arange(3 * 2 * 2.).reshape((3, 2, 2))
    y = jnp.arange(3 * 2 * 2.).reshape((3, 2, 2)) ** 2
    out = pmap(jnp.dot)(x, y)
    np.testing.assert_array_equal(np.asarray(out), [[[4, 9], [12, 29]], [[244, 345], [348, 493]],
                                                    [[1412, 1737], [1740, 2141]]])


def test_more_slices_than_devices():
    with pytest.raises(ValueError, match="requires 9 .*but only 8 XLA devices are available"):
        pmap(lambda x: x ** 2)(jnp.arange(9))


def test_none_broadcasts():
    x, y = jnp.arange(2.), 4.
    a, b = pmap(lambda x, y: (x + y, y * 2.), in_axes=(0, None))(x, y)
    assert a.tolist() == [4, 5] and b.tolist() == [8, 8]


def test_collectives_by_name():
    f = lambda x: x / jax.lax.psum(x, axis_name='i')
    out = pmap(f, axis_name='i')(jnp.arange(4.))
    np.testing.assert_allclose(np.asarray(out), [0, 1 / 6, 2 / 6, 0.5], rtol=1e-6)
    np.testing.assert_allclose(float(out.sum()), 1.0, rtol=1e-6)


def test_nested_axes():
    @partial(pmap, axis_name='rows')
    @partial(pmap, axis_name='cols')
    def normalize(x):
        row_normed = x / jax.lax.psum(x, 'rows')
        col_normed = x / jax.lax.psum(x, 'cols')
        doubly_normed = x / jax.lax.psum(x, ('rows', 'cols'))
        return row_normed, col_normed, doubly_normed

    x = jnp.arange(8.).reshape((4, 2))
    row_normed, col_normed, doubly_normed = normalize(x)
    np.testing.assert_allclose(np.asarray(row_normed.sum(0)), [1, 1], rtol=1e-6)
    np.testing.assert_allclose(np.asarray(col_normed.sum(1)), [1, 1, 1, 1], rtol=1e-6)
    np.testing.assert_allclose(float(doubly_normed.sum((0, 1))), 1.0, rtol=1e-6)


def test_devices_argument():
    @partial(pmap, axis_name='i', devices=jax.devices()[:6])
    def f1(x):
        return x / jax.lax.psum(x, axis_name='i')

    @partial(pmap, axis_name='i', devices=jax.devices()[-2:])
    def f2(x):
        return jax.lax.psum(x ** 2, axis_name='i')

    np.testing.assert_allclose(np.asarray(f1(jnp.arange(6.))), np.arange(6) / 15, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(f2(jnp.array([2., 3.]))), [13, 13])
