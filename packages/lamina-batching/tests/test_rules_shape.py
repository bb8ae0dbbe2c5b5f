"""Position of the batch axis, and batched padding values."""
from __future__ import annotations

import numpy as np
from lamina_batching import vmap
from lamina_tracing import lax, make_jaxpr

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def test_batched_transpose_is_one_transpose():
    eqns = make_jaxpr(vmap(lambda x: lax.transpose(x, (1, 0)), in_axes=1))(X).jaxpr.eqns
    assert [e.primitive.name for e in eqns] == ["transpose"]


def test_squeeze_and_expand_dims_around_the_batch_axis():
    x = X[:, :1]
    for at in range(3):
        moved = np.moveaxis(x, 2, at)
        np.testing.assert_array_equal(np.asarray(vmap(lambda x: lax.squeeze(x, (1,)), in_axes=at)(moved)), x[:, 0].T)
        out = vmap(lambda x: lax.expand_dims(x, (0, 2)), in_axes=at)(moved)
        np.testing.assert_array_equal(np.asarray(out), np.moveaxis(x, 2, 0)[:, None, :, None])


def test_batched_padding_value():
    out = vmap(lambda v: lax.pad(X[0, 0], v, [(1, 0, 1)]))(np.array([7, 8], np.float32))
    np.testing.assert_array_equal(np.asarray(out)[1], [8, 0, 8, 1, 8, 2, 8, 3])


def test_concatenate_broadcasts_unbatched_operands():
    out = vmap(lambda x: lax.concatenate([x, X[0, 0]], 0), in_axes=1)(X[0].T)
    assert out.shape == (3, 8)
    np.testing.assert_array_equal(np.asarray(out)[2], [8, 9, 10, 11, 0, 1, 2, 3])
