"""Parameters that later releases of JAX added to functions of lax."""
import lamina.numpy as jnp
import numpy as np
from lamina import lax

X = np.arange(12.).reshape(3, 4)


def test_negative_indices_are_allowed_or_moved():
    assert lax.dynamic_index_in_dim(X, -1, keepdims=False).tolist() == X[-1].tolist()
    assert lax.dynamic_index_in_dim(X, -1, keepdims=False, allow_negative_indices=False).tolist() == X[0].tolist()
    assert lax.dynamic_slice_in_dim(X, -1, 1, 1, allow_negative_indices=False).tolist() == X[:, :1].tolist()
    ones = jnp.ones((3, 1))
    for negative, column in ((True, 3), (False, 0)):
        for f, part in ((lax.dynamic_update_slice_in_dim, ones), (lax.dynamic_update_index_in_dim, ones[:, 0])):
            got = f(jnp.zeros((3, 4)), part, -1, 1, allow_negative_indices=negative)
            assert got.sum(0).tolist() == [3. * (i == column) for i in range(4)]


def test_dot_takes_dimension_numbers():
    np.testing.assert_array_equal(lax.dot(X, X, dimension_numbers=(((0, 1), (0, 1)), ((), ()))), (X * X).sum())


def test_top_k_is_stable():
    for is_stable in (True, False):
        assert lax.top_k(np.float32([1, 1, 0]), 2, is_stable=is_stable)[1].tolist() == [0, 1]
