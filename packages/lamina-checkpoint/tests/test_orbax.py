"""Checkpoints that orbax has written: its layouts, the trees of `like`, damage."""
import shutil
import zipfile
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
from lamina_checkpoint import CheckpointError, load, load_orbax, save
from lamina_checkpoint._stores import open_store
from lamina_ir import DTypeError, ShapeDtypeStruct, ShapeError
from lamina_runtime import devices
from lamina_tracing import enable_x64

State = namedtuple("State", "step params")
W = np.arange(48, dtype=np.float32).reshape(8, 6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("orbax")
    with zipfile.ZipFile(Path(__file__).parent / "orbax_format" / "checkpoints.zip") as file:
        file.extractall(path)
    return path


@pytest.mark.parametrize("name", ["database", "zarr3", "folders"])
def test_trees_are_read_as_orbax_returns_them(folder, name):
    tree = load_orbax(folder / name)
    assert sorted(tree) == ["empty", "four", "key", "name", "none", "rate", "slash/dot.", "state"]
    assert (tree["rate"], tree["name"], tree["none"], tree["empty"]) == (0.5, "run", None, {})
    assert tree["key"].shape == ()
    np.testing.assert_array_equal(tree["key"].key_data, [0, 3])
    np.testing.assert_array_equal(tree["slash/dot."], np.ones(2, np.complex64))
    assert type(tree["slash/dot."]) is np.ndarray and tree["four"].dtype.name == "int4"
    state = tree["state"]
    assert state["step"] == 7 and type(state["step"]) is int and [float(x) for x in state["params"][1]] == [*range(11)]
    params = state["params"][0]
    np.testing.assert_array_equal(params["w"], W)
    assert params["half"].dtype.name == "bfloat16" and params["half"].tolist() == [1, 2]
    assert type(params["host"]) is np.ndarray and params["host"].dtype == np.int64


def test_leaves_of_like_are_found_by_their_keys(folder):
    device = devices()[0]
    like = {"state": State(0, ({"w": ShapeDtypeStruct((8, 6), np.float32), "half": device, "host": np.ndarray}, np.ndarray)),
            "rate": 0.0, "name": "", "none": None, "empty": {}, "key": device, "slash/dot.": np.ndarray,
            "four": ShapeDtypeStruct((3,), "int4")}
    tree = load_orbax(folder / "database", like)
    state = tree["state"]
    assert type(state) is State and state.step == 7 and type(state.params) is tuple
    assert [type(x) for x in state.params[1]] == [np.ndarray] * 11  # np.ndarray stands for the whole list
    np.testing.assert_array_equal(state.params[0]["w"], W)
    assert load_orbax(folder / "database", np.ndarray)["state"]["step"] == 7


def test_other_trees_shapes_and_dtypes_are_refused(folder):
    with pytest.raises(ValueError, match=r"no leaf tree\['new'\]; `like` has no leaf tree\['four'\], tree\['key'\]"):
        load_orbax(folder / "database", {"new": np.ndarray, "state": np.ndarray})
    path, sharding = folder / "manager", devices()[0]
    with pytest.raises(ValueError, match=r"no leaf tree\['w'\]\[0\]"):
        load_orbax(path, {"w": [sharding]}, item="state")
    with pytest.raises(ShapeError, match=r"\['w'\] has shape \(8, 6\); like has \(6, 8\)"):
        load_orbax(path, {"w": np.zeros((6, 8), np.float32)}, item="state")
    with pytest.raises(DTypeError, match="float16"):
        load_orbax(path, {"w": np.zeros((8, 6), np.float16)}, item="state")
    with pytest.raises(DTypeError, match="enable_x64"):
        load_orbax(path, {"x": devices()[0]}, item="extra")
    with enable_x64():
        assert load_orbax(path, {"x": devices()[0]}, item="extra")["x"].dtype == np.float64


def test_steps_and_items_are_chosen(folder):
    path = folder / "manager"
    np.testing.assert_array_equal(load_orbax(path, item="state")["w"], W + 12)
    np.testing.assert_array_equal(load_orbax(path, step=3, item="state")["w"], W + 3)
    np.testing.assert_array_equal(load_orbax(path / "3" / "state")["w"], W + 3)
    with pytest.raises(ValueError, match=r"items \['extra', 'state'\]; pass item="):
        load_orbax(path)
    with pytest.raises(FileNotFoundError, match=r"no step 4 in .*\[3, 12\]"):
        load_orbax(path, step=4)
    with pytest.raises(FileNotFoundError, match=r"no tree 'about' in .*\['extra', 'state'\]"):
        load_orbax(path, item="about")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        load_orbax(folder / "nothing")
    with pytest.raises(TypeError, match="step must be a whole number"):
        load_orbax(path, step=1.5)
    with pytest.raises(TypeError, match="path must be the name of a folder"):
        load_orbax(3)


def test_damage_is_reported(folder, tmp_path):
    with pytest.raises(CheckpointError, match="not a checkpoint of orbax"):
        load_orbax(folder / "database" / "d")
    for name, damage, text in (("_METADATA", b"{", "_METADATA is damaged"),
                               ("_strings.json", b"[1]", "_strings.json is damaged"),
                               ("manifest.ocdbt", b"junk", "damaged or missing"),
                               ("_METADATA", None, "not a checkpoint of orbax")):
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder / "database", copy)
        (copy / name).unlink() if damage is None else (copy / name).write_bytes(damage)
        with pytest.raises(CheckpointError, match=text):
            load_orbax(copy)
    copy = tmp_path / "folders"
    shutil.copytree(folder / "folders", copy)
    (copy / "state.params.0.w" / "0.1").unlink()
    with pytest.raises(CheckpointError, match=r"tree\['state'\]\['params'\]\[0\]\['w'\] is damaged or missing"):
        load_orbax(copy)


def test_object_stores_are_read(folder):
    remote = open_store("load_orbax", "memory://orbax/")
    for path in (folder / "manager").rglob("*"):
        if path.is_file():
            remote.kv.write(str(path.relative_to(folder / "manager")), path.read_bytes()).result()
    np.testing.assert_array_equal(load_orbax("memory://orbax/", item="state")["w"], W + 12)


def test_a_tree_is_saved_again_as_a_checkpoint(folder, tmp_path):
    save(tmp_path, load_orbax(folder / "manager", item="state"))
    np.testing.assert_array_equal(load(tmp_path)["w"], W + 12)
