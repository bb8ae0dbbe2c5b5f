"""lax functions that move elements."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_ir import config, dtypes, ShapeError
from lamina_tracing import Array, lax, make_jaxpr


def assert_equal(got, wanted):
    np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), rtol=1e-5, atol=1e-5)


X = np.arange(6, dtype=np.float32).reshape(2, 3)


def eqns(fun, *args):
    return [e.primitive.name for e in make_jaxpr(fun)(*args).jaxpr.eqns]


@pytest.mark.parametrize("fun", [
    lambda x: lax.reshape(x, (2, 3)), lambda x: lax.transpose(x, (0, 1)), lambda x: lax.squeeze(x, ()),
    lambda x: lax.broadcast_in_dim(x, (2, 3), (0, 1)), lambda x: lax.broadcast(x, ()), lambda x: lax.rev(x, ()),
    lambda x: lax.concatenate([x], 0), lambda x: lax.expand_dims(x, ())])
def test_identity_operations_are_not_recorded(fun):
    assert eqns(fun, X) == []


def test_reshape_prints_both_params():
    text = str(make_jaxpr(lambda x: lax.reshape(x, (6,)))(X))
    assert "b:f32[6] = reshape[dimensions=None new_sizes=(6,)] a" in text


def test_slices_by_axis():
    assert_equal(lax.slice_in_dim(X, 0, None, 2, axis=-1), X[:, ::2])
    assert_equal(lax.index_in_dim(X, -1, axis=1, keepdims=False), X[:, -1])
    with pytest.raises(ShapeError, match=r"index 3.*float32\[2,3\]"):
        lax.index_in_dim(X, 3, axis=1)


def test_split_collapse_and_broadcast_shapes():
    a, b = lax.split(X, (1, 2), axis=1)
    assert_equal(lax.concatenate([a, b], 1), X)
    assert lax.collapse(X, 0).shape == (6,)
    assert lax.broadcast_to_rank(X, 4).shape == (1, 1, 2, 3)
    assert lax.broadcast_shapes((2, 1), (3,), ()) == (2, 3)
    with pytest.raises(ShapeError, match="lengths 2 and 3"):
        lax.broadcast_shapes((2,), (3,))


def test_full_keeps_or_sets_the_dtype():
    assert lax.full((2,), 1.0).weak_type and not lax.full((2,), 1.0, np.float32).weak_type
    assert lax.full_like(X, 1, np.int32).dtype == np.int32
    assert lax.full((), 2, np.int32).shape == ()
    with pytest.raises(ShapeError, match="scalar"):
        lax.full((2,), X)


def test_collapse_axes_work_like_a_slice():
    x = np.ones((2, 3, 4), np.float32)
    assert lax.collapse(x, 0, -1).shape == (6, 4) and lax.collapse(x, -2).shape == (2, 12)


def test_full_saturates_and_keeps_weak_type():
    assert lax.full((2,), np.nan, "int32").tolist() == [0, 0]
    assert lax.full_like(1, 2).weak_type and not lax.full_like(np.ones(2), 2).weak_type


def test_full_accepts_sharding_none():
    assert lax.full((2,), 1.0, sharding=None).shape == lax.full_like(1.0, 2.0, sharding=None).shape + (2,)


GIVEN_BACK = {
    "broadcast": lambda x: lax.broadcast(x, ()), "broadcast_in_dim": lambda x: lax.broadcast_in_dim(x, (3,), (0,)),
    "broadcast_to_rank": lambda x: lax.broadcast_to_rank(x, 1), "concatenate": lambda x: lax.concatenate([x], 0),
    "psum": lambda x: lax.psum(x, ()), "expand_dims": lambda x: lax.expand_dims(x, ()),
    "reshape": lambda x: lax.reshape(x, (3,)),
    "rev": lambda x: lax.rev(x, ()), "select_n": lambda x: lax.select_n(np.int32(0), x),
    "squeeze": lambda x: lax.squeeze(x, ()), "transpose": lambda x: lax.transpose(x, (0,))}


@pytest.mark.parametrize("name", GIVEN_BACK)
def test_identity_operation_copies_numpy_operand(name):
    """Returned unchanged, a NumPy array would change when its owner writes to it, and keep an unsupported dtype."""
    x = np.ones(3)
    out = GIVEN_BACK[name](x)
    x[0] = 7
    assert isinstance(out, Array) and out.dtype == np.float32 and out.tolist() == [1, 1, 1]
    assert GIVEN_BACK[name](out) is out
    assert eqns(GIVEN_BACK[name], x) == []


def test_float0_is_returned_unchanged():
    zeros = np.zeros(3, dtypes.float0)
    assert lax.reshape(zeros, (3,)) is zeros


@pytest.mark.parametrize("call", [
    lambda: lax.full((2,), 1.0, "float64"), lambda: lax.iota("int64", 2), lambda: lax.zeros_like_array(X).astype(np.int64),
    lambda: lax.full_like(X, 1, "complex128"), lambda: lax.convert_element_type(X, np.uint64)])
def test_unavailable_dtype_warns_at_line_of_caller(call):
    with pytest.warns(UserWarning, match="was requested, but 64 bits are off") as caught:
        assert call().dtype.itemsize in (4, 8)
    assert {w.filename for w in caught} == {__file__}
    with config.enable_x64(True):
        call()  # warnings are errors here


@pytest.mark.parametrize("call", [
    lambda: lax.sin(np.ones(2)), lambda: lax.full_like(np.ones(2), 1), lambda: lax.full((2,), np.float64(1)),
    lambda: lax.convert_element_type(X, float), lambda: lax.iota(int, 2), lambda: lax.zeros_like_array(np.arange(2))])
def test_data_and_python_types_are_narrowed_without_warning(call):
    assert call().dtype.itemsize == 4
