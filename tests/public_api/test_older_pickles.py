"""Pickles written before the modules were grouped in folders still load."""
import pickle
from pathlib import Path

import numpy as np
import pytest

import lamina

PICKLES = sorted((Path(__file__).parent / "pickles").glob("*.pkl"))


def load(name):
    return pickle.loads((Path(__file__).parent / "pickles" / f"{name}.pkl").read_bytes())


@pytest.mark.parametrize("path", PICKLES, ids=lambda path: path.stem)
def test_older_pickle_loads(path):
    lamina.devices()
    pickle.loads(path.read_bytes())


def test_arrays_and_shardings_have_their_former_values():
    np.testing.assert_array_equal(load("array"), np.ones(3))
    assert load("weak").weak_type and load("spec") == lamina.sharding.PartitionSpec("x", None)
    assert load("placed").sharding == load("named") and load("mesh").axis_names == ("x", "y")


def test_unpickled_functions_and_programs_run():
    np.testing.assert_allclose(load("jit")(np.float32(0.5)), np.sin(0.5), rtol=1e-6)
    assert str(load("jaxpr")).startswith("{ lambda ; a:f32[]")
    np.testing.assert_allclose(load("exported").call(1.5), 3.0)
