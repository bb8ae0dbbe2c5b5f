"""`multihost_utils` in one process; `tests/multi_process` runs it in several."""
import numpy as np
import pytest
from lamina_parallel import Mesh, PartitionSpec as P
from lamina_runtime import devices

from lamina_distributed import multihost_utils


def test_local_arrays_become_global_and_back():
    mesh, x = Mesh(np.reshape(devices(), (4, 2)), ("x", "y")), np.arange(64, dtype=np.float32).reshape(8, 8)
    made = multihost_utils.host_local_array_to_global_array(x, mesh, P("x", "y"))
    assert made.sharding.spec == P("x", "y") and made.sharding.mesh.axis_names == ("x", "y")
    np.testing.assert_array_equal(made, x)
    np.testing.assert_array_equal(multihost_utils.global_array_to_host_local_array(made, mesh, P("x", "y")), x)
    with pytest.raises(ValueError, match="has the sharding"):
        multihost_utils.global_array_to_host_local_array(made, mesh, P("x"))


def test_functions_of_one_process():
    assert multihost_utils.process_allgather(np.arange(2)).tolist() == [[0, 1]]
    multihost_utils.sync_global_devices("a barrier")
    multihost_utils.assert_equal({"step": 3})
    with pytest.raises(ValueError, match="one process must be the source"):
        multihost_utils.broadcast_one_to_all(1, is_source=False)
