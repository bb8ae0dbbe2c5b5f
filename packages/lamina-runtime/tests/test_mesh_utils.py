"""Functions that arrange devices in meshes."""
import numpy as np
import pytest
from lamina_parallel import Mesh
from lamina_runtime import devices, make_mesh
from lamina_runtime.mesh_utils import create_device_mesh, create_hybrid_device_mesh

ALL = devices()


def test_device_mesh_is_row_major():
    grid = create_device_mesh((4, 2))
    assert grid.shape == (4, 2) and grid.reshape(-1).tolist() == ALL and Mesh(grid, ("x", "y")).size == 8
    assert create_device_mesh([3], ALL[5:], contiguous_submeshes=True).tolist() == ALL[5:]
    assert create_device_mesh((2, 2), np.array(ALL[:4]).reshape(4, 1)).tolist() == [ALL[:2], ALL[2:4]]
    assert make_mesh((2, 4), ("x", "y")) == Mesh(np.reshape(ALL, (2, 4)), ("x", "y"))
    assert make_mesh((3,), "i") == make_mesh((3,), ("i",), devices=ALL[:3]) == Mesh(ALL[:3], "i")
    assert create_hybrid_device_mesh((4, 2), (1, 1)).tolist() == create_device_mesh((4, 2)).tolist()


def test_hybrid_mesh_groups_by_slice(monkeypatch):
    class Slow:
        def __init__(self, number, group):
            self.id, self.slice_index, self.process_index = number, group, 0

        def __repr__(self):
            return str(self.id)

    monkeypatch.setattr("lamina_runtime._backend.backends.check_devices", lambda call, given: tuple(given))
    made = [Slow(i, 1 - i // 4) for i in range(8)]  # the second group comes first
    ids = np.vectorize(lambda d: d.id)
    np.testing.assert_array_equal(ids(create_hybrid_device_mesh((2, 2), (2, 1), made)), [[4, 5], [6, 7], [0, 1], [2, 3]])
    np.testing.assert_array_equal(ids(create_hybrid_device_mesh((2, 2), (1, 2), made, should_sort_granules_by_key=False)),
                                  [[0, 1, 4, 5], [2, 3, 6, 7]])
    with pytest.raises(ValueError, match="needs 2 devices; group 0 has 4"):
        create_hybrid_device_mesh((2, 1), (2, 1), made)


@pytest.mark.parametrize("call, error, message", [
    (lambda: create_device_mesh((3, 2)), ValueError, r"create_device_mesh: mesh_shape: \(3, 2\) needs 6 devices; there are 8"),
    (lambda: create_device_mesh((4, -2)), ValueError, "whole numbers from 1"),
    (lambda: create_device_mesh((2.0,)), ValueError, "whole numbers from 1"),
    (lambda: create_device_mesh((2,), [ALL[0], 3]), TypeError, "must be a device"),
    (lambda: create_hybrid_device_mesh((4, 2), (1,)), ValueError, "must have the same length"),
    (lambda: create_hybrid_device_mesh((2, 2), (2, 1)), ValueError, r"\(2, 1\) needs 2 groups; the devices have 1"),
    (lambda: make_mesh((4, 4), ("x", "y")), ValueError, "needs 16 devices; there are 8"),
    (lambda: make_mesh((2,), ("x",), devices=ALL), ValueError, "needs 2 devices; devices has 8"),
    (lambda: make_mesh((4, 2), ("x",)), ValueError, "a name for each axis"),
])
def test_invalid_mesh_shapes_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
