"""Indexing under `vmap`: every choice of batched operands compared with a loop."""
from __future__ import annotations

import itertools

import lamina_batching as lb
import numpy as np
import pytest
from lamina_ir import config, prims
from lamina_ir.testing.samples import samples_of
from lamina_tracing import lax, make_jaxpr
from lamina_tracing.extend import bind

OPS = (prims.dynamic_slice_p, prims.dynamic_update_slice_p, prims.gather_p, prims.scatter_p, prims.scatter_add_p,
       prims.scatter_mul_p, prims.scatter_min_p, prims.scatter_max_p)
ROWS = [s for p in OPS for s in samples_of(p)]
SIZE = 3


def variants(array, rng):
    """Stack variants of `array` along a new axis, which is not always the first."""
    if array.dtype.kind in "iu":
        many = np.stack([array, *(rng.permuted(array.ravel()).reshape(array.shape) for _ in range(SIZE - 1))])
    else:
        many = np.stack([array, *(rng.permuted(array.ravel()).reshape(array.shape) for _ in range(SIZE - 1))])
    at = rng.integers(array.ndim + 1)
    return np.moveaxis(many, 0, at), int(at)


@pytest.mark.parametrize("row", ROWS, ids=lambda s: s.id)
def test_vmap_equals_loop(row):
    rng = np.random.default_rng(3)
    fun = lambda *args: bind(row.prim, *args, **row.params)
    for batched in itertools.product((False, True), repeat=len(row.args)):
        if not any(batched):
            continue
        args, axes = list(row.args), [None] * len(row.args)
        for i, b in enumerate(batched):
            clash = row.prim is prims.scatter_p and i == 1  # permuted positions may coincide: result unspecified
            if b and not clash:
                args[i], axes[i] = variants(row.args[i], rng)
            elif b:
                args[i], axes[i] = np.stack([row.args[i]] * SIZE), 0
        got = lb.vmap(fun, in_axes=tuple(axes))(*args)
        for k in range(SIZE):
            one = [np.take(a, k, axis) if axis is not None else a for a, axis in zip(args, axes, strict=True)]
            np.testing.assert_allclose(np.asarray(got)[k], np.asarray(fun(*one)), rtol=1e-5)


def test_dynamic_slice_with_unbatched_starts_stays_one_slice():
    text = str(make_jaxpr(lb.vmap(lambda x: lax.dynamic_slice(x, (1,), (2,))))(np.zeros((3, 4), np.float32)))
    assert "dynamic_slice" in text
    assert "gather" not in text


def test_gather_with_batched_operands_uses_batching_axes():
    pick = lambda x, i: lax.dynamic_slice(x, (i,), (1,))
    text = str(make_jaxpr(lb.vmap(pick))(np.zeros((3, 4), np.float32), np.zeros(3, np.int32)))
    assert "operand_batching_dims=(0,)" in text
    assert "iota" not in text


def test_empty_batch():
    x, at = np.zeros((0, 4), np.float32), np.zeros((0,), np.int32)
    assert lb.vmap(lambda x, i: lax.dynamic_slice(x, (i,), (2,)))(x, at).shape == (0, 2)
    assert lb.vmap(lambda x, i: lax.dynamic_index_in_dim(x, i, 0, False))(x, at).shape == (0,)


@pytest.mark.parametrize("kinds", [("uint64", "uint64"), ("uint64", "int64"), ("uint8", "int8"), ("uint32", "int32")])
def test_start_indices_of_any_integer_dtype(kinds):
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    top = np.iinfo(kinds[0]).max
    with config.enable_x64(True):
        rows, columns = np.array([0, 1, top], kinds[0]), np.array([3, 1, 0], kinds[1])
        cut = lb.vmap(lambda i, j: lax.dynamic_slice(x, (i, j), (1, 2)))(rows, columns)
        put = lb.vmap(lambda i, j: lax.dynamic_update_slice(x, x[:1, :2] - 1, (i, j)))(rows, columns)
    np.testing.assert_array_equal(cut, [[[2, 3]], [[5, 6]], [[8, 9]]])
    for k, (i, j) in enumerate(((0, 2), (1, 1), (2, 0))):
        np.testing.assert_array_equal(put[k][i, j:j + 2], [-1, 0])
