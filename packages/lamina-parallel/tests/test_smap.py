"""`smap` over one axis of the mesh in scope, on fake devices: programs and mistakes."""
import numpy as np
import pytest
from lamina_parallel import Mesh, PartitionSpec as P, set_mesh, shard_map, smap
from lamina_parallel.testing import fake_devices
from lamina_tracing import lax, make_jaxpr

MESH = Mesh(np.array(fake_devices(8), object).reshape(4, 2), ("x", "y"))
X = np.ones((4, 6), np.float32)


@pytest.fixture(autouse=True)
def mesh_in_scope():
    with MESH:
        yield


@pytest.mark.parametrize("in_axes, in_specs", [
    (0, P("x")), (1, P(None, "x")), (-1, P(None, "x")), (-2, P("x")), (None, P()), ((0,), P("x")), ([None], P())])
def test_programs_are_those_of_shard_map(in_axes, in_specs):
    double = lambda x: lax.add(lax.mul(x, np.float32(2)), lax.convert_element_type(lax.axis_index("x"), np.float32))  # noqa: E731
    x = np.ones((4, 4), np.float32)
    mapped = smap(double, in_axes=in_axes, out_axes=0, axis_name="x")
    wanted = shard_map(double, MESH, in_specs, P("x"), axis_names={"x"})
    assert str(make_jaxpr(mapped)(x)) == str(make_jaxpr(wanted)(x))


def test_axes_of_trees():
    @smap(in_axes=({"a": 0, "b": None}, 1), out_axes=(0, None), axis_name="y")
    def f(tree, z):
        return lax.mul(tree["a"], z.shape[1] * 1.0), lax.psum(lax.reduce_sum(z, (0, 1)), "y")

    out = make_jaxpr(f)({"a": X, "b": X}, X).out_avals
    assert [a.shape for a in out] == [(4, 6), ()]


@pytest.mark.parametrize("call, error, message", [
    (lambda: smap(3, in_axes=0, out_axes=0, axis_name="x"), TypeError, "smap: expected a function; got int"),
    (lambda: smap(lax.sin, in_axes=0, axis_name="x"), TypeError, "smap: give both in_axes and out_axes"),
    (lambda: smap(lax.sin, in_axes=0, out_axes=-1, axis_name="x"), ValueError, "out_axes: expected an axis counted from the"),
    (lambda: smap(lax.sin, in_axes=0, out_axes="x", axis_name="x"), TypeError, "out_axes: expected an int or None; got str"),
    (lambda: smap(lax.sin, in_axes=2, out_axes=0, axis_name="x")(X), ValueError, "in_axes: axis 2 is out of range"),
    (lambda: smap(lax.sin, in_axes=True, out_axes=0, axis_name="x")(X), TypeError, "expected an int or None; got bool"),
    (lambda: smap(lax.sin, in_axes=(0, 1), out_axes=0, axis_name="x")(X), ValueError, "in_axes: the prefix does not match"),
    (lambda: smap(lax.sin, in_axes=0, out_axes=0, axis_name="z")(X), ValueError, "axis_names names the axis 'z', which"),
    (lambda: smap(lax.sin, in_axes=1, out_axes=0, axis_name="x")(X), ValueError, "shard_map of `sin`")])
def test_mistakes_are_explained(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_mesh_must_be_in_scope():
    with set_mesh(None), pytest.raises(ValueError, match="no mesh is given, and none is in scope"):
        smap(lax.sin, in_axes=0, out_axes=0, axis_name="x")(X)
