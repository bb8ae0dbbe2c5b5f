"""The examples of the page of `jax.experimental.maps.xmap`, with the numbers it prints."""
import lamina as jax
import lamina.numpy as jnp
import numpy as np
from lamina.experimental.maps import Mesh, xmap


def test_vdot_of_rows_and_columns_is_a_matrix_product():
    x = jnp.arange(10).reshape((2, 5))
    found = xmap(jnp.vdot,
                 in_axes=({0: 'left'}, {1: 'right'}),
                 out_axes=['left', 'right', ...])(x, x.T)
    assert repr(found) == "Array([[ 30,  80],\n       [ 80, 255]], dtype=int32)"


def test_distributed_product_of_matrices():
    x = jnp.arange(10).reshape((2, 5))
    devices = np.array(jax.devices())[:4].reshape((2, 2))
    with Mesh(devices, ('x', 'y')):  # declare a 2D mesh with axes 'x' and 'y'
        distributed_out = xmap(
            jnp.vdot,
            in_axes=({0: 'left'}, {1: 'right'}),
            out_axes=['left', 'right', ...],
            axis_resources={'left': 'x', 'right': 'y'})(x, x.T)
    assert np.array_equal(distributed_out, [[30, 80], [80, 255]])
    assert {s.device: np.asarray(s.data).tolist() for s in distributed_out.addressable_shards} == {
        devices[0, 0]: [[30]], devices[0, 1]: [[80]], devices[1, 0]: [[80]], devices[1, 1]: [[255]]}


def test_linear_regression():
    def regression_loss(x, y, w, b):
        # Contract over in_features. Batch and out_features are present in both inputs and output, so they don't need to
        # be mentioned
        y_pred = jnp.einsum('{in_features},{in_features}->{}', x, w) + b
        error = jnp.sum((y - y_pred) ** 2, axis='out_features')
        return jnp.mean(error, axis='batch')

    named = xmap(regression_loss,
                 in_axes=(['batch', 'in_features', ...],
                          ['batch', 'out_features', ...],
                          ['in_features', 'out_features', ...],
                          ['out_features', ...]),
                 out_axes={})  # Loss is reduced over all axes, including batch!

    def positional(x, y, w, b):
        return jnp.mean(jnp.sum((y - (x @ w + b)) ** 2, 1))

    x, y, w, b = [jnp.arange(np.prod(s), dtype=np.float32).reshape(s) % 5 for s in ((8, 4), (8, 2), (4, 2), (2,))]
    assert named(x, y, w, b) == positional(x, y, w, b)
    for a, e in zip(jax.grad(named, (0, 1, 2, 3))(x, y, w, b), jax.grad(positional, (0, 1, 2, 3))(x, y, w, b)):
        assert np.array_equal(a, e)
