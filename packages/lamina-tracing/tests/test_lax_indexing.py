"""Functions on dynamic slices, gather and scatter: negative starts, traced starts, errors."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_ir import DTypeError, ShapeError
from lamina_tracing import jit, lax, make_jaxpr

X = np.arange(12.0, dtype=np.float32).reshape(3, 4)


def assert_equal(got, want):
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


@pytest.mark.parametrize("starts", [(1, 2), (-2, -2), np.array([1, 2]), (np.int8(-2), 2)], ids=str)
def test_dynamic_slice_accepts_several_forms_of_starts(starts):
    assert_equal(lax.dynamic_slice(X, starts, (2, 2)), X[1:3, 2:4])
    assert_equal(jit(lambda x, s: lax.dynamic_slice(x, s, (2, 2)))(X, starts), X[1:3, 2:4])


def test_dynamic_slice_rejects_negative_starts_if_disallowed():
    assert_equal(lax.dynamic_slice(X, (-1, 0), (1, 4), allow_negative_indices=False), X[:1])
    assert_equal(lax.dynamic_slice(X, (-1, -1), (1, 1), allow_negative_indices=(True, False)), X[2:, :1])
    text = str(make_jaxpr(lambda x, i: lax.dynamic_slice(x, (i, 0), (1, 4), allow_negative_indices=False))(X, 0))
    assert "select" not in text


def test_dynamic_slice_with_narrow_start_dtype():
    x = np.arange(300)
    assert_equal(jit(lambda x, i: lax.dynamic_slice(x, (i,), (1,)))(x, np.int8(-1)), [299])
    assert_equal(jit(lambda x, i: lax.dynamic_slice(x, (i,), (1,)))(x, np.uint8(255)), [255])


def test_in_dim_functions():
    assert_equal(lax.dynamic_slice_in_dim(X, 1, 2, axis=-1), X[:, 1:3])
    assert_equal(lax.dynamic_index_in_dim(X, -1), X[2:])
    assert_equal(lax.dynamic_index_in_dim(X, 1, axis=1, keepdims=False), X[:, 1])
    want = X.copy()
    want[:, 2] = 7
    assert_equal(lax.dynamic_update_slice_in_dim(X, np.full((3, 1), 7, np.float32), 2, axis=1), want)
    assert_equal(lax.dynamic_update_index_in_dim(X, np.full(3, 7, np.float32), 2, axis=1), want)
    assert_equal(lax.dynamic_update_index_in_dim(X, np.full((3, 1), 7, np.float32), 2, axis=1), want)


def test_index_take():
    assert_equal(lax.index_take(X, (np.array([0, -1]), np.array([1, 6])), (0, 1)), X[[0, 2], [1, 2]])
    assert_equal(lax.index_take(X, (np.array([3, 1]),), (1,)), X[:, [3, 1]].T)


def test_gather_and_scatter_round_trip():
    dims = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    put = lax.ScatterDimensionNumbers((1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    where = np.array([[2], [0]])
    rows = lax.gather(X, where, dims, (1, 4), mode="clip")
    assert_equal(rows, X[[2, 0]])
    assert_equal(lax.scatter(np.zeros_like(X), where, rows, put), X * [[1], [0], [1]])
    assert_equal(lax.scatter_sub(X, where, rows, put), X * [[0], [1], [0]])


def test_ill_formed_slices_and_indices_are_rejected():
    with pytest.raises(ShapeError, match="one start index for each of 2 axes; got 1"):
        lax.dynamic_slice(X, (0,), (1, 1))
    with pytest.raises(DTypeError, match=r"integer scalars; got float32\[\]"):
        lax.dynamic_slice(X, (0.5, 0), (1, 1))
    with pytest.raises(ShapeError, match="rank-1 array"):
        lax.dynamic_slice(X, np.zeros((1, 2), int), (1, 1))
    with pytest.raises(ShapeError, match="rank 2, or one axis less"):
        lax.dynamic_update_index_in_dim(X, np.float32(1), 0, 0)
    with pytest.raises(ValueError, match="mode"):
        lax.gather(X, np.array([[0]]), lax.GatherDimensionNumbers((1,), (0,), (0,)), (1, 4), mode="nearest")


ROWS = lax.ScatterDimensionNumbers((1,), (0,), (0,))


@pytest.mark.parametrize("mode,times", [(None, [2, 0, 1]), ("clip", [2, 0, 2])])
def test_scatter_apply_runs_once_per_window(mode, times):
    x = np.arange(12, dtype=np.float32).reshape(3, 4) / 8
    at = np.array([[0], [7], [2], [0]])
    out = lax.scatter_apply(x, at, lambda v: v * v + 1, ROWS, update_shape=(4, 4), mode=mode)
    wanted = x.copy()
    for row, n in enumerate(times):
        for _ in range(n):
            wanted[row] = wanted[row] ** 2 + 1
    np.testing.assert_allclose(out, wanted, rtol=1e-6)


def test_scatter_apply_with_unique_indices():
    x = np.arange(4, dtype=np.float32)
    point = lax.ScatterDimensionNumbers((), (0,), (0,))
    at = np.array([[3], [1]])
    plain, promised = (lax.scatter_apply(x, at, lax.neg, point, update_shape=(2,), unique_indices=u) for u in (False, True))
    np.testing.assert_array_equal(plain, [0, -1, 2, -3])
    np.testing.assert_array_equal(promised, plain)
    none = lax.scatter_apply(x, np.zeros((0, 1), np.int32), lax.neg, point, update_shape=(0,))
    np.testing.assert_array_equal(none, x)
    windows = lax.ScatterDimensionNumbers((1,), (), (0,))  # that overlap partly: element 1 is in both
    out = lax.scatter_apply(x, np.array([[0], [1]]), lambda v: v * 10, windows, update_shape=(2, 2))
    np.testing.assert_array_equal(out, [0, 100, 20, 3])


def test_scatter_apply_errors():
    x, at = np.ones((3, 4), np.float32), np.array([[0], [1]])
    with pytest.raises(ShapeError, match=r"update_shape must hold.*got \(\)"):
        lax.scatter_apply(x, at, lax.neg, ROWS)
    with pytest.raises(ShapeError, match=r"must keep shape and dtype, float32\[2,4\]; got int32"):
        lax.scatter_apply(x, at, lambda v: v.astype("int32"), ROWS, update_shape=(2, 4))


def test_gather_clips_by_default():
    rows = lax.GatherDimensionNumbers((), (0,), (0,))
    assert lax.gather(np.arange(3), np.array([[-1], [7]]), rows, (1,)).tolist() == [0, 2]
