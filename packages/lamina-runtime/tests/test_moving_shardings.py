"""`reshard`, the mesh in scope of `set_mesh`, and copies to the host that start early."""
import pickle

import numpy as np
import pytest
from lamina_parallel import AxisType, Mesh, PartitionSpec as P, set_mesh, shard_map, smap
from lamina_runtime import (NamedSharding, SingleDeviceSharding, copy_to_host_async, device_put, devices, make_mesh,
                            make_single_device_sharding, reshard)
from lamina_tracing import jit, lax, make_jaxpr

MESH = Mesh(np.array(devices()[:8], object).reshape(4, 2), ("x", "y"))
X = np.arange(16, dtype=np.float32).reshape(4, 4)


def test_reshard_moves_arrays():
    x = device_put(X, NamedSharding(MESH, P("x")))
    y = reshard({"a": x, "b": [X]}, {"a": NamedSharding(MESH, P(None, "y")), "b": make_single_device_sharding(devices()[3])})
    assert y["a"].sharding.spec == P(None, "y") and y["b"][0].devices() == {devices()[3]}
    np.testing.assert_array_equal(y["a"], X)
    np.testing.assert_array_equal(y["b"][0], X)


def test_reshard_constrains_traced_arrays():
    f = jit(lambda x: reshard(x * 2, NamedSharding(MESH, P("y"))))
    assert f(X).sharding.spec == P("y") and "sharding_constraint" in str(make_jaxpr(f)(X))


def test_specs_are_of_the_mesh_in_scope():
    with set_mesh(MESH):
        assert reshard(X, P("x")).sharding.spec == P("x")
        assert jit(lambda x: reshard(x, P("x", "y")))(X).sharding.spec == P("x", "y")
        assert jit(lambda x: lax.with_sharding_constraint(x, P("y")))(X).sharding.spec == P("y")
    set_mesh(MESH)
    try:
        assert device_put(X, P("x")).sharding.spec == P("x")
    finally:
        set_mesh(None)
    with pytest.raises(ValueError, match="no mesh is in scope"):
        reshard(X, P("x"))


def test_shard_map_over_an_abstract_mesh():
    f = shard_map(lambda x: x + lax.axis_index("x"), MESH.abstract_mesh, P("x"), P("x"))
    with MESH:
        np.testing.assert_array_equal(f(X), X + np.arange(4)[:, None])


@pytest.mark.parametrize("target", [None, "x", devices()[0]])
def test_reshard_refuses_other_targets(target):
    with pytest.raises(TypeError, match="reshard: out_shardings: expected shardings.*got "):
        reshard(X, target)


def test_reshard_refuses_trees_that_do_not_match():
    with pytest.raises(ValueError, match="reshard: out_shardings: the prefix does not match"):
        reshard((X, X), (NamedSharding(MESH, P()),))


def test_types_of_axes():
    assert make_mesh((4, 2), ("x", "y"), (AxisType.Auto, AxisType.Auto)) == MESH
    explicit = make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit, AxisType.Auto))
    assert explicit != MESH and explicit.axis_types == (AxisType.Explicit, AxisType.Auto)
    assert pickle.loads(pickle.dumps(explicit)) == explicit


def test_sharding_of_one_device():
    made = make_single_device_sharding(devices()[2], memory_kind="device")
    assert made == SingleDeviceSharding(devices()[2]) and isinstance(made, SingleDeviceSharding)
    with pytest.raises(TypeError, match="SingleDeviceSharding: expected a device; got int"):
        make_single_device_sharding(3)


def test_copies_start_and_the_tree_is_returned():
    tree = {"a": device_put(X), "b": 3, "c": [X, "text"]}
    assert copy_to_host_async(tree) is tree
    np.testing.assert_array_equal(tree["a"], X)


def test_smap_over_one_axis():
    f = smap(lambda x: x + lax.psum(x.sum(), "x"), in_axes=1, out_axes=1, axis_name="x")
    both = smap(lambda x: smap(lambda y: y * 2 + lax.axis_index("y"), in_axes=1, out_axes=1, axis_name="y")(x),
                in_axes=0, out_axes=0, axis_name="x")
    with set_mesh(MESH):
        np.testing.assert_allclose(f(X), X + X.sum())
        np.testing.assert_allclose(jit(f)(X), X + X.sum())
        np.testing.assert_allclose(both(X), X * 2 + [0, 0, 1, 1])
        assert f(X).sharding.spec == P(None, "x")
