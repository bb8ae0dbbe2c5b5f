import numpy as np
import pytest
from lamina_ir import dtypes
from lamina_runtime import (block_until_ready, device_get, device_put, device_put_replicated, device_put_sharded,
                            devices, from_dlpack, local_devices)
from lamina_runtime._sharding.shardings import mapped_sharding, replicated_sharding
from lamina_tracing import jit, lax

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_trees_and_commitment():
    out = device_put({"a": X, "b": (1, None)})
    assert out["a"].shape == (2, 3) and out["b"][1] is None and not out["a"]._committed
    there = device_put(X, devices()[3])
    assert there._committed and there.devices() == {devices()[3]}
    assert device_put(there) is there and device_put(there, devices()[3]) is there
    np.testing.assert_array_equal(device_put(there, devices()[5]), X)


def test_shardings_as_targets():
    s = mapped_sharding(tuple(devices()), 2, ((0, 8),))
    x = device_put(np.arange(16.0).reshape(8, 2), s)
    assert x.sharding is s
    np.testing.assert_array_equal(device_put(x, devices()[2]), np.arange(16.0).reshape(8, 2))
    r = device_put(X, replicated_sharding(tuple(devices())))
    np.testing.assert_array_equal(r, X)
    np.testing.assert_array_equal(device_put(r, devices()[6]), X)
    with pytest.raises(ValueError, match="cannot be split over 8"):
        device_put(X, s)


def test_pytree_of_devices():
    a, b = device_put((X, [X, X]), (devices()[1], devices()[2]))
    assert a.devices() == {devices()[1]} and b[1].devices() == {devices()[2]}


@pytest.mark.parametrize("value", ["text", object(), np.array(["a"]), np.array([object()])])
def test_other_values_are_refused(value):
    with pytest.raises(TypeError, match="device_put: expected an array"):
        device_put(value)


def test_float0_is_refused():
    with pytest.raises(TypeError, match="float0"):
        device_put(np.zeros((), dtypes.float0))


def test_device_put_sharded_stacks_the_shards():
    out = device_put_sharded([{"x": X + i} for i in range(8)], devices())
    assert out["x"].shape == (8, 2, 3)
    np.testing.assert_array_equal(out["x"], np.stack([X + i for i in range(8)]))


@pytest.mark.parametrize("shards, where, message", [
    ([X], slice(0, 2), "1 shards and 2 devices"), ([X, X[0]], slice(0, 2), "float32\\[3\\]"),
    ([{"a": X}, [X]], slice(0, 2), "one tree structure"), ([], slice(0, 0), "at least one device"),
    (X[0, 0], slice(0, 1), "sequence of trees"), ([X, X.astype(np.int32)], slice(0, 2), "int32")])
def test_device_put_sharded_errors(shards, where, message):
    with pytest.raises(ValueError, match=message):
        device_put_sharded(shards, devices()[where])


def test_device_put_replicated():
    out = device_put_replicated({"x": X, "n": 2}, devices()[:4])
    assert out["x"].shape == (4, 2, 3) and out["n"].shape == (4,)
    np.testing.assert_array_equal(out["x"][3], X)
    with pytest.raises(ValueError, match="devices"):
        device_put_replicated(X, devices()[0])
    with pytest.raises(ValueError, match="twice"):
        device_put_replicated(X, [devices()[0]] * 2)


def test_device_get_leaves_other_values():
    out = device_get({"a": device_put(X), "s": "text", "n": 3})
    assert type(out["a"]) is np.ndarray and out["s"] == "text" and out["n"] == 3


def test_block_until_ready_returns_the_tree():
    tree = {"a": device_put(X), "n": 3, "b": device_put(X)}
    assert block_until_ready(tree) is tree


def test_donated_source_is_deleted():
    x = device_put(X, devices()[0])
    y = device_put(x, devices()[1], donate=True)
    assert x.is_deleted() and not y.is_deleted()


def test_from_dlpack():
    np.testing.assert_array_equal(from_dlpack(X.copy()), X)
    assert from_dlpack(X.copy(), devices()[2]).devices() == {devices()[2]}


def test_arrays_are_created_with_a_sharding():
    rows = mapped_sharding(tuple(devices()), 2, ((0, 8),))
    assert lax.full((8, 2), 1.0, sharding=rows).sharding == rows
    assert lax.full_like(np.ones((8, 2)), 1.0, sharding=rows).sharding == rows
    np.testing.assert_array_equal(jit(lambda x: x + lax.full((8, 2), 1.0, sharding=rows))(np.zeros((8, 2))), np.ones((8, 2)))
    assert device_put(X, devices()[1], src=devices()[0], may_alias=False).devices() == {devices()[1]}
    assert local_devices(host_id=0) == local_devices(0)
    with pytest.raises(TypeError, match="the same argument"):
        local_devices(0, host_id=0)
