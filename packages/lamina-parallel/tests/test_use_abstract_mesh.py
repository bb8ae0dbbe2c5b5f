"""`use_abstract_mesh`: the mesh in scope with other types of axes."""
import numpy as np
import pytest
from lamina_parallel import AbstractMesh, AxisType, Mesh, get_abstract_mesh, get_mesh, set_mesh, use_abstract_mesh
from lamina_parallel.testing import fake_devices
from lamina_tracing import eval_shape, lax


def test_devices_stay_and_axis_types_change():
    mesh = Mesh(np.reshape(fake_devices(4), (2, 2)), ("x", "y"))
    other = AbstractMesh((2, 2), ("x", "y"), (AxisType.Explicit, AxisType.Auto))
    with set_mesh(mesh):
        with use_abstract_mesh(other):
            assert get_abstract_mesh() == other
            assert (get_mesh().devices == mesh.devices).all()
        assert get_mesh() == mesh


@pytest.mark.parametrize("given, error, message", [
    (AbstractMesh((4,), ("y",)), ValueError, "must have the axes of the mesh in scope"),
    (AbstractMesh((2,), ("x",)), ValueError, "must have the axes of the mesh in scope"),
    (Mesh(fake_devices(4), "x"), TypeError, "Use set_mesh for a Mesh"), (None, TypeError, "must be an AbstractMesh")])
def test_other_axes_are_refused(given, error, message):
    with set_mesh(Mesh(fake_devices(4), "x")), pytest.raises(error, match=message):
        with use_abstract_mesh(given):
            pass


def test_programs_are_traced_without_devices():
    mesh = AbstractMesh((4,), ("x",), AxisType.Explicit)
    with use_abstract_mesh(mesh):
        assert get_abstract_mesh() == mesh and get_mesh().is_abstract
        found = eval_shape(lambda: lax.full((8, 4), 1.0))
        assert found.shape == (8, 4) and found.sharding is None
    assert get_abstract_mesh().empty
