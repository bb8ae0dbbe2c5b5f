"""Checkpoints: exact round trips, also to other devices; mismatches and damage are reported; kills lose no complete step."""
import collections
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from lamina_ir import CallbackError, DTypeError, ShapeDtypeStruct, ShapeError, trees
from lamina_checkpoint import _stores as stores, _tree_metadata as tree_metadata, _zarr as zarr
from lamina_checkpoint._folder import CheckpointFolder
from lamina_checkpoint._save import undo_on_error
from lamina_checkpoint import CheckpointError, Checkpointer, latest, load, save, steps
from lamina_runtime import device_put, devices, transfer_guard
from lamina_runtime.extend import HostGather
from lamina_runtime._sharding.shardings import mapped_sharding, replicated_sharding
from lamina_tracing import enable_x64, jit, lax, pure_callback

Point = collections.namedtuple("Point", "x y")


@trees.register_pytree_node_class
class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b

    def tree_flatten(self):
        return (self.a, self.b), None

    @classmethod
    def tree_unflatten(cls, data, children):
        return cls(*children)


def is_same(a, b):
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


NAMES = ["bool", *[f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)], "float16", "float32", "float64", "complex64",
         "complex128", "int2", "int4", "uint2", "uint4", *[n for n in dir(ml_dtypes) if n.startswith(("bfloat", "float"))]]


def test_numpy_arrays_of_every_dtype_round_trip_exactly(tmp_path):
    rng = np.random.default_rng(0)
    state = {n: rng.integers(0, 2, (3, 5)).astype(getattr(ml_dtypes, n, n)) for n in NAMES}
    state |= {"nan": np.float32([np.nan, -0.0, np.inf]), "0d": np.array(3), "none": np.zeros((0, 3)), "scalar": np.float16(2),
              "backwards": np.arange(6)[::-2], "columns": np.arange(6.0).reshape(2, 3).T,
              "swapped": np.arange(3, dtype=">f4")}
    save(tmp_path, state)
    found = load(tmp_path)
    for name, value in state.items():
        native = value.astype(value.dtype.newbyteorder("=")) if name == "swapped" else value
        assert is_same(found[name], native) and type(found[name]) is type(value), name


def test_device_arrays_and_python_scalars_round_trip(tmp_path):
    numbers = {"i": -10 ** 30, "b": True, "f": float("nan"), "g": -0.0, "c": complex(1, -0.0), "h": 5e-324}
    arrays = {n: device_put(np.ones(3).astype(getattr(ml_dtypes, n, n)))
              for n in NAMES if n == "complex64" or not n.endswith(("64", "128")) and not n.startswith("float6_")}
    state = {"weak": device_put(1.5), "numbers": numbers, "arrays": arrays, "empty": device_put(np.zeros((0, 2), np.float32))}
    save(tmp_path, state)
    found = load(tmp_path)
    assert found["weak"].weak_type and not found["weak"]._committed
    assert all(type(found["numbers"][k]) is type(v) and repr(found["numbers"][k]) == repr(v) for k, v in numbers.items())
    assert all(type(found["arrays"][k]) is type(v) and is_same(found["arrays"][k], v) for k, v in arrays.items())
    assert found["empty"].shape == (0, 2)


def test_pytree_structures_round_trip(tmp_path):
    tree = {"list": [1, (2, None), []], "keys": {(1, "a"): 1, (2, "b"): 2}, "int": {3: 1, -1: 2}, "bytes": {b"x": {}},
            "bool": {False: 1, True: 2}, "o": collections.OrderedDict(z=1, a=2)}
    save(tmp_path, tree)
    found = load(tmp_path)
    assert found == tree and list(found["o"]) == ["z", "a"] and type(found["o"]) is collections.OrderedDict
    assert all(type(k) is bool for k in found["bool"])
    for value in (None, 7, [], np.arange(2)):
        save(tmp_path, value)
        assert value is None and load(tmp_path) is None or np.array_equal(load(tmp_path), value)


def test_registered_nodes_need_like(tmp_path):
    tree = {"p": Point(1, [np.arange(2)]), "q": Pair(2, 3), "d": collections.defaultdict(list, a=4)}
    save(tmp_path, tree)
    with pytest.raises(ValueError,
                       match=r"load: the checkpoint holds a defaultdict at tree\['d'\], which cannot .* pass like="):
        load(tmp_path)
    found = load(tmp_path, like={"p": Point(0, np.ndarray), "q": Pair(0, 0), "d": collections.defaultdict(list, a=0)})
    assert found["p"].x == 1 and is_same(found["p"].y[0], np.arange(2)) and found["q"].b == 3 and found["d"]["a"] == 4
    assert found["d"].default_factory is list
    save(tmp_path, {"k": {Point(1, 2): 1}})
    with pytest.raises(ValueError, match=r"a dict at tree\['k'\] with keys that are not text"):
        load(tmp_path)
    assert load(tmp_path, like={"k": {Point(1, 2): 0}}) == {"k": {Point(1, 2): 1}}


class Named:
    """A node whose children have names."""

    def __init__(self, **values):
        self.values = values


trees.register_pytree_node(Named, lambda n: (tuple(n.values.values()), tuple(n.values)), lambda k, c: Named(**dict(zip(k, c))))


class Keyed(Named):
    pass


trees.register_pytree_with_keys(Keyed, lambda n: ([(trees.DictKey(k), v) for k, v in n.values.items()], len),
                                lambda data, children: Keyed(a=children[0], b=None))


def test_children_of_registered_classes_are_matched_by_name(tmp_path):
    save(tmp_path, Named(a=1, b={"x": 2}))
    assert load(tmp_path, like=Named(a=0, b={"x": 0})).values == {"a": 1, "b": {"x": 2}}
    with pytest.raises(ValueError, match=r"holds a node Named of 2 children with data \('a', 'b'\); `like` .* \('a', 'c'\)"):
        load(tmp_path, like=Named(a=0, c={"x": 0}))
    with pytest.raises(ValueError, match=r"tree\[<flat index 1>\]\['x'\] holds a leaf"):
        load(tmp_path, like=Named(a=0, b={"x": [0]}))
    save(tmp_path, Keyed(a=1, b=None))
    assert load(tmp_path, like=Keyed(a=0, b=None)).values == {"a": 1, "b": None}
    with pytest.raises(ValueError, match=r"holds a node Keyed of 2 children, \['a'\], \['b'\]; `like` has .*\['c'\]"):
        load(tmp_path, like=Keyed(a=0, c=None))
    with pytest.raises(DTypeError, match=r"load: tree\['a'\] is a Python int"):
        load(tmp_path, like=Keyed(a=0.0, b=None))


def shardings_by_name(ndim=2):
    d = tuple(devices())
    return {"one": d[3], "rows": mapped_sharding(d, ndim, ((0, 8),)), "columns": mapped_sharding(d[::-1], ndim, ((1, 8),)),
            "copies": replicated_sharding(d[:4]), "both": mapped_sharding(d, ndim, ((0, 2), (1, 4))),
            "some": mapped_sharding(d[2:4], ndim, ((0, 2),), 1),
            "twice": mapped_sharding(d, ndim, ((1, 4),), 2)}


def test_every_sharding_is_loaded_into_every_other(tmp_path, monkeypatch):
    monkeypatch.setattr(zarr, "_MAX_CHUNK_BYTES", 1000)
    x = np.random.default_rng(0).normal(size=(32, 24)).astype(np.float32)
    save(tmp_path, {k: device_put(x, p) for k, p in shardings_by_name().items()})
    for p in shardings_by_name().values():
        for y in load(tmp_path, like=p).values():
            assert is_same(y, x)
            assert y.sharding == device_put(x, p).sharding and y._committed
            assert is_same(jit(lambda a: lax.add(a, a), donate_argnums=0)(y), 2 * x) and y.is_deleted()
    like = {k: ShapeDtypeStruct((32, 24), "float32", sharding=mapped_sharding(tuple(devices()), 2, ((0, 8),)))
            for k in shardings_by_name()}
    assert all(y.sharding == s.sharding for y, s in zip(load(tmp_path, like).values(), like.values()))
    there = device_put(x, shardings_by_name()["columns"])
    found = load(tmp_path, dict.fromkeys(shardings_by_name(), there))
    assert all(y.sharding == there.sharding for y in found.values())
    there.delete()  # its sharding is still known
    assert is_same(load(tmp_path, dict.fromkeys(shardings_by_name(), there))["rows"], x)


def data_size(folder):
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file() and p.name not in ("zarr.json", "0.json"))


def test_replicated_values_are_written_once(tmp_path):
    x = np.zeros((64, 1000), np.float32)
    d = tuple(devices())
    save(tmp_path, {"a": device_put(x, replicated_sharding(d)), "b": device_put(x, mapped_sharding(d, 2, ((0, 2),), 4))})
    assert 2 * x.nbytes < data_size(tmp_path) < 2.01 * x.nbytes


def test_arrays_have_zarr_format(tmp_path):
    save(tmp_path, [np.arange(5), np.ones(3, ml_dtypes.bfloat16), np.zeros(2, ml_dtypes.int4)])
    [pieces] = [p for p in tmp_path.iterdir() if p.is_dir()]
    metadata = [json.loads((pieces / str(n) / "zarr.json").read_text()) for n in range(3)]
    assert [m["data_type"] for m in metadata] == ["int64", "bfloat16", "uint8"]
    assert {m["zarr_format"] for m in metadata} == {3} and metadata[0]["codecs"][-1] == {"name": "crc32c"}
    raw = (pieces / "0" / "c" / "0").read_bytes()
    assert is_same(np.frombuffer(raw[:-4], "<i8"), np.arange(5))


def test_64_bit_arrays_need_x64(tmp_path):
    save(tmp_path, {"a": np.arange(3)})
    assert load(tmp_path)["a"].dtype == np.int64
    with pytest.raises(DTypeError, match=r"load: tree\['a'\] has dtype int64.*enable_x64"):
        load(tmp_path, like=devices()[0])
    with enable_x64():
        assert load(tmp_path, like=devices()[0])["a"].dtype == np.int64
        save(tmp_path, {"a": device_put(np.arange(3))})
    with pytest.raises(DTypeError, match="load it as a NumPy array"):
        load(tmp_path)
    assert is_same(load(tmp_path, like=np.ndarray)["a"], np.arange(3))


def test_step_numbers_and_keep(tmp_path):
    folder = tmp_path / "deep" / "er"
    assert steps(folder) == [] and latest(folder) is None
    for s in (5, 1, 3):
        save(folder, s, s)
    assert steps(folder) == [1, 3, 5] and latest(folder) == 5 and load(folder) == 5 and load(folder, step=1) == 1
    save(folder, 33, 3, keep=2)
    assert steps(folder) == [3, 5] and load(folder, step=3) == 33
    save(folder, 0, 0, keep=1)  # the saved step is never deleted
    assert steps(folder) == [0, 5]
    assert len(os.listdir(folder)) == 5
    for s in (10, 20, 21, 22):
        save(folder, s, s, keep=2, keep_every=10)
    assert steps(folder) == [0, 10, 20, 21, 22]
    save(folder, 5, 5, keep=1)
    save(folder, 0, 0, keep=2)
    for s in (10, 20, 21, 22):
        os.path.exists(folder / f"{s}.json") and os.unlink(folder / f"{s}.json")
    save(folder, 5, 5)
    assert steps(folder) == [0, 5]
    with pytest.raises(FileNotFoundError, match=r"no checkpoint 4 in .*; there are \[0, 5\]"):
        load(folder, step=4)
    with pytest.raises(FileNotFoundError, match="which does not exist"):
        load(tmp_path / "nowhere")
    lock = stores.open_store("save", str(folder)).lock("save", "")
    with pytest.raises(RuntimeError, match="another process or thread is saving"):
        save(folder, 1, 9)
    lock.close()
    (folder / "7-0123abcd").mkdir()  # left by a killed save
    (folder / "7-0123abcd" / "0.npys").touch()
    (folder / ".7.json.0123abcd").touch()
    (folder / "mine").mkdir()
    save(folder, 1, 9)
    assert not [n for n in os.listdir(folder) if "0123abcd" in n] and (folder / "mine").is_dir()
    assert steps(folder) == [0, 5, 9]


@pytest.mark.parametrize("arguments, kind, message", [
    (("",), TypeError, "path must be the name of a folder"), ((3,), TypeError, "path must be"),
    (("nowhere://x",), ValueError, "TensorStore cannot open 'nowhere://x'"),
    ((".", 1, 1.5), TypeError, "step must be a whole number"), ((".", 1, True), TypeError, "step must be"),
    ((".", 1, -1), ValueError, "step must be at least 0")])
def test_invalid_arguments_are_refused(arguments, kind, message):
    with pytest.raises(kind, match=f"save: {message}"):
        save(*(arguments if len(arguments) > 1 else (*arguments, 1)))


@pytest.mark.parametrize("value", ["text", object(), np.array(["x"]), np.array([None]), np.ma.array([1]),
                                   np.zeros(2, [("float0", np.void, 0)]), np.datetime64("2020-01-01"), np.longdouble(1)])
def test_unsupported_leaf_error_names_it(tmp_path, value):
    with pytest.raises(TypeError, match=r"save: tree\['a'\]\[1\] "):
        save(tmp_path, {"a": [1, value]})
    assert not os.listdir(tmp_path)


def test_save_of_failed_result_and_under_transfer_guard(tmp_path):
    def fails(x):
        raise RuntimeError("no value")
    x = jit(lambda x: pure_callback(fails, x, x))
    with pytest.raises(CallbackError, match=r"no value"):
        save(tmp_path, {"a": x(np.float32(1))})
    y = device_put(np.ones(3, np.float32))
    with transfer_guard("disallow"):
        save(tmp_path, y)
        assert is_same(load(tmp_path), y) and is_same(load(tmp_path, mapped_sharding(tuple(devices()[:3]), 1, ((0, 3),))), y)


def test_deleted_traced_and_invalid_values_are_refused(tmp_path):
    gone = device_put(1.0)
    gone.delete()
    with pytest.raises(RuntimeError, match=r"save: tree\['a'\] has been deleted"):
        save(tmp_path, {"a": gone})
    with pytest.raises(TypeError, match=r"save: tree\['a'\] is a traced value"):
        jit(lambda x: save(tmp_path, {"a": x}))(1.0)
    with pytest.raises(ValueError, match="save: rows: the prefix does not match"):
        save(tmp_path, {"a": 1}, rows={"b": True})
    with pytest.raises(ShapeError, match=r"tree\['a'\] is a float64 array of shape \(\), which has no rows"):
        save(tmp_path, {"a": np.array(1.0)}, rows={"a": True})
    assert not steps(tmp_path)


LIKES = {
    "shape": (lambda t: {**t, "w": np.zeros((3, 2), np.float32)}, ShapeError, r"\['w'\] has shape \(2, 3\); like has \(3, 2\)"),
    "dtype": (lambda t: {**t, "w": np.zeros((2, 3), np.int32)}, DTypeError, r"tree\['w'\] has dtype float32; like has int32"),
    "lacks": (lambda t: {"w": t["w"]}, ValueError,
              r"tree: compared with `like`, the checkpoint has the extra keys \['n', 'o'\]"),
    "more": (lambda t: {**t, "v": 1}, ValueError, r"the checkpoint lacks the keys \['v'\]"),
    "number": (lambda t: {**t, "n": 1.0}, DTypeError, r"tree\['n'\] is a Python int; like has a Python float"),
    "number for array": (lambda t: {**t, "w": 1.0}, TypeError, r"\['w'\] is a float32 array of shape \(2, 3\); like must have"),
    "array for number": (lambda t: {**t, "n": np.zeros(())}, DTypeError, r"\['n'\] is a Python int; like has an array of"),
    "kind of node": (lambda t: {**t, "o": (1, 2)}, ValueError, r"tree\['o'\] holds a list of 2 children; `like` has a tuple"),
    "length": (lambda t: {**t, "o": [1]}, ValueError, r"tree\['o'\] holds a list of 2 children; `like` has a list of 1"),
    "leaf for node": (lambda t: {**t, "o": 1}, ValueError, r"\['o'\] holds a list of 2 children; `like` has a int there"),
    "None": (lambda t: {**t, "o": None}, ValueError, r"tree\['o'\] holds a list of 2 children; `like` has None"),
    "uneven": (lambda t: {**t, "w": mapped_sharding(tuple(devices()[:4]), 2, ((1, 4),))}, ValueError,
               r"tree\['w'\]: dimension 1 of"),
    "rank": (lambda t: {**t, "w": mapped_sharding(tuple(devices()[:2]), 1, ((0, 2),))}, ValueError,
             r"load: tree\['w'\]: .* of 1 dim"),
}


@pytest.mark.parametrize("name", LIKES)
def test_mismatched_like_error_names_the_leaf(tmp_path, name):
    tree = {"w": np.zeros((2, 3), np.float32), "n": 1, "o": [1, 2]}
    change, kind, message = LIKES[name]
    save(tmp_path, tree)
    with pytest.raises(kind, match=message):
        load(tmp_path, like=change(tree))


def _flip(path, at=-9):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def _later(path):
    path.write_text(path.read_text().replace('"format":2', '"format":3'))


DAMAGE = {
    "a byte of the numbers": (lambda top, p: _flip(p / "1/c/0"), r"load: tree\['b'\]: .*1 is damaged.*Digest mismatch"),
    "metadata": (lambda top, p: _flip(p / "0/zarr.json", 3), r"load: tree\['a'\]: .*0 is damaged"),
    "cut off": (lambda top, p: os.truncate(p / "0/c/0", 130), r"load: tree\['a'\]: .* is damaged"),
    "no chunk": (lambda top, p: os.unlink(p / "0/c/0"), r"load: tree\['a'\]: .*0 is missing"),
    "no metadata": (lambda top, p: os.unlink(p / "0/zarr.json"), r"load: tree\['a'\]: .*0 is missing"),
    "no data": (lambda top, p: shutil.rmtree(p), r"load: tree\['a'\]: .* is missing"),
    "the index": (lambda top, p: _flip(top / "0.json"), r"0.json is damaged.*There is no other step"),
    "half of the index": (lambda top, p: os.truncate(top / "0.json", 100), r"0.json is damaged"),
    "a later format": (lambda top, p: _later(top / "0.json"),
                       r"was written in format 3; this version .* reads formats 1 and 2"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_files_raise_checkpoint_error(tmp_path, name):
    save(tmp_path, {"a": np.arange(1000), "b": np.arange(9)})
    do, message = DAMAGE[name]
    [pieces] = [p for p in tmp_path.iterdir() if p.is_dir()]
    do(tmp_path, pieces)
    with pytest.raises(CheckpointError, match=message):
        load(tmp_path)
    save(tmp_path, 1, 1)  # saving works and does not change the damaged files
    assert load(tmp_path) == 1 and (pieces.is_dir() or name == "no data")


def test_files_of_a_failed_save_are_removed(tmp_path, monkeypatch):
    save(tmp_path, 1)

    class Full:
        def __getitem__(self, index):
            return self

        def write(self, data, **more):
            raise ValueError("RESOURCE_EXHAUSTED: Failed to write: No space left on device")

    monkeypatch.setattr(zarr.Writer, "open", lambda *args: Full())
    with pytest.raises(OSError, match="save: .*no space left"):
        save(tmp_path, {"a": np.arange(3)})
    assert load(tmp_path) == 1 and len(os.listdir(tmp_path)) == 3
    with Checkpointer(tmp_path) as checkpointer:
        checkpointer.save(1, {"a": np.arange(3)})
        with pytest.raises(OSError, match="save: .*no space left"):
            checkpointer.wait()
        checkpointer.wait()  # an error is raised once
    assert steps(tmp_path) == [0]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_without_permission(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError):
        save(tmp_path / "folder", 1)


def test_errors_of_tensorstore_become_errors_of_the_system():
    for text, kind in (("PERMISSION_DENIED: no", PermissionError), ("UNAVAILABLE: off", OSError),
                       ("RESOURCE_EXHAUSTED: full", OSError), ("INVALID_ARGUMENT: bad", ValueError)):
        with pytest.raises(kind, match=text):
            with stores.storage_errors("save: place"):
                raise ValueError(text)


def test_chunks_cover_a_block_once():
    for shape, size in (((1000, 3), 8), ((7, 11, 13), 4), ((1 << 13, 1 << 10), 4), ((), 4), ((5,), 1), ((3, 0), 4)):
        seen = np.zeros(shape, int)
        chunk = zarr.chunk_shape(shape, size, 1 << 10)
        assert all(n % c == 0 for n, c in zip(shape, chunk)) and np.prod(chunk) * size <= max(1 << 10, size)
        for index in zarr.split_into_chunks(shape, chunk):
            seen[index] += 1
        assert (seen == 1).all()
    assert zarr.chunk_shape((50257, 768), 4) == (1733, 768)
    assert zarr.chunk_shape((1009, 1013), 8, 1 << 10) == (1009, 1013)  # primes: one chunk


def test_tree_structure_as_json():
    structure, leaves, shardings_by_name = tree_metadata.encode_tree({"a": [1, Point(2, None)], "b": Pair(3, {})})
    assert leaves == [1, 2, 3] and shardings_by_name == ["tree['a'][0]", "tree['a'][1].x", "tree['b'][<flat index 0>]"]
    assert json.loads(json.dumps(structure)) == structure


OLD = Path(__file__).parent / "old_format"  # written by lamina-runtime before this package


def test_former_format_loads(tmp_path):
    shutil.copytree(OLD, tmp_path, dirs_exist_ok=True)
    assert steps(tmp_path) == [3, 4]
    found = load(tmp_path, step=3)
    assert is_same(found["w"], np.arange(24, dtype=np.float32).reshape(4, 6)) and found["n"] == [1, 2.5, None, True]
    assert is_same(found["bf"], np.arange(3).astype(ml_dtypes.bfloat16)) and is_same(found["np"], np.arange(5))
    assert is_same(found["i4"], np.arange(4).astype(ml_dtypes.int4)) and found["s"] == 2 and found["weak"].weak_type
    assert is_same(found["f8"], np.arange(3).astype(ml_dtypes.float8_e4m3fn)) and "key" in str(found["key"].dtype)
    rows = mapped_sharding(tuple(devices()[:4]), 2, ((0, 4),))
    assert is_same(load(tmp_path, like={"w": rows})["w"], found["w"])
    save(tmp_path, {"w": 1}, 5, keep=2)
    assert steps(tmp_path) == [4, 5] and len(list(tmp_path.iterdir())) == 5
    [pieces] = tmp_path.glob("4-*")
    _flip(pieces / "0.npys")
    with pytest.raises(CheckpointError, match=r"load: tree\['w'\]: .*0.npys is damaged: bytes \d+ to"):
        load(tmp_path, step=4)
    os.truncate(pieces / "0.npys", 130)
    with pytest.raises(CheckpointError, match="is truncated"):
        load(tmp_path, step=4)
    os.unlink(pieces / "0.npys")
    with pytest.raises(CheckpointError, match="0.npys is missing"):
        load(tmp_path, step=4)
    _flip(pieces / "0.json")
    with pytest.raises(CheckpointError, match="0.json is damaged"):
        load(tmp_path, step=4)
    os.unlink(pieces / "0.json")
    with pytest.raises(CheckpointError, match="0.json is missing"):
        load(tmp_path, step=4)


def test_former_names_in_the_runtime_warn():
    from lamina_runtime import checkpointing
    with pytest.warns(DeprecationWarning, match="use lamina_checkpoint.save"):
        assert checkpointing.save is save
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        checkpointing.nothing
    code = ("import sys\nsys.modules['lamina_checkpoint'] = None\nfrom lamina_runtime import checkpointing\n"
            "try:\n    checkpointing.save\nexcept ImportError as e:\n    print(e)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "has moved to the package lamina-checkpoint" in done.stdout


# --- Checkpointer -------------------------------------------------------------------------------------------------
def test_arrays_may_be_donated_and_changed_during_a_save(tmp_path, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()
    finish = zarr.Writer.finish

    def waiting(self):
        begun.set()
        assert go_on.wait(60)
        finish(self)

    monkeypatch.setattr(zarr.Writer, "finish", waiting)
    x, host = device_put(np.arange(1 << 16, dtype=np.float32)), np.arange(5)
    sharded = device_put(np.ones((8, 3), np.float32), mapped_sharding(tuple(devices()), 2, ((0, 8),)))
    with Checkpointer(tmp_path) as checkpointer:
        checkpointer.save(1, {"x": x, "host": host, "sharded": sharded})
        assert begun.wait(60) and checkpointer.all_steps() == [] and checkpointer.latest_step() is None
        with pytest.raises(RuntimeError, match="another process or thread is saving"):
            save(tmp_path, 1, 2)
        y = jit(lambda a: lax.mul(a, np.float32(0)), donate_argnums=0)(x)
        assert x.is_deleted() and np.asarray(y).sum() == 0
        host[:] = 0
        sharded.delete()
        go_on.set()
        found = checkpointer.restore(like=np.ndarray)
        assert checkpointer.all_steps() == [1] and checkpointer.latest_step() == 1
    assert is_same(found["x"], np.arange(1 << 16, dtype=np.float32)) and is_same(found["host"], np.arange(5))
    assert found["sharded"].sum() == 24


def test_checkpointer_retains_and_waits(tmp_path):
    with Checkpointer(tmp_path, keep=2, keep_every=4) as checkpointer:
        for s in range(11):
            checkpointer.save(s, {"s": np.full(3, s)})
        checkpointer.close()
        assert checkpointer.all_steps() == [0, 4, 8, 9, 10]
        assert is_same(checkpointer.restore(4)["s"], np.full(3, 4))
        with pytest.raises(FileNotFoundError, match=r"restore: no checkpoint 3 in .*; there are \[0, 4, 8, 9, 10\]"):
            checkpointer.restore(3)
        with pytest.raises(TypeError, match=r"save: tree must be an array"):
            checkpointer.save(11, "text")
        with pytest.raises(ValueError, match=r"restore: tree: compared with `like`, the checkpoint lacks the keys \['t'\]"):
            checkpointer.restore(like={"s": np.ndarray, "t": 0})
    assert not [t for t in threading.enumerate() if t.name.startswith("lamina-checkpoint")]
    for arguments, kind, message in (({"keep": 0}, ValueError, "keep must be at least 1"),
                                     ({"keep_every": 2}, ValueError, "keep_every=2 needs keep="),
                                     ({"keep": 1, "keep_every": 1.5}, TypeError, "keep_every must be a whole number")):
        with pytest.raises(kind, match=f"Checkpointer: {message}"):
            Checkpointer(tmp_path, **arguments)


def test_last_save_is_complete_after_the_interpreter_ends(tmp_path):
    code = ("import sys, numpy as np\nfrom lamina_checkpoint import Checkpointer\n"
            "Checkpointer(sys.argv[1]).save(1, {'a': np.ones((1000, 1000))})")
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=100)
    assert steps(tmp_path) == [1] and load(tmp_path)["a"].sum() == 1e6


def test_object_store_by_url():
    url = "memory://test_object_store/run"
    assert steps(url) == []
    with pytest.raises(FileNotFoundError, match="no checkpoint in memory://test_object_store/run/, which does not exist"):
        load(url)
    x = device_put(np.arange(32.0, dtype=np.float32).reshape(8, 4), mapped_sharding(tuple(devices()), 2, ((0, 8),)))
    with Checkpointer(url, keep=2) as checkpointer:
        for s in range(4):
            checkpointer.save(s, {"x": x, "s": s, "empty": np.zeros((0, 2)), "one": np.float32(2)})
    assert steps(url) == [2, 3] and latest(url + "/") == 3
    found = load(url, step=2)
    assert is_same(found["x"], x) and found["s"] == 2 and found["empty"].shape == (0, 2) and found["one"] == 2
    columns = mapped_sharding(tuple(devices()[:2]), 2, ((1, 2),))
    assert is_same(load(url, like={**found, "x": columns})["x"], x)
    assert len(stores.open_store("save", url).names()) == 5  # two checkpoints and the mark of the writer


def test_stored_values_do_not_share_memory_with_the_tree():
    host, url = np.arange(5), "memory://test_sharing"
    save(url, {"a": host})
    with Checkpointer(url) as checkpointer:
        for s in range(1, 4):
            checkpointer.save(s, {"a": host, "b": np.full(5, s)})
            host += 1
        host[:] = 0
        assert [checkpointer.restore(s)["a"].tolist() for s in range(4)] == [list(range(a, a + 5)) for a in (0, 0, 1, 2)]
        assert checkpointer.restore(1)["b"].tolist() == [1] * 5


def test_earlier_of_two_writers_to_an_object_store_is_refused(monkeypatch):
    url, finish, others = "memory://two_writers", zarr.Writer.finish, [2]

    def meanwhile(self):
        if others:
            save(url, {"a": np.zeros(3)}, others.pop())
        finish(self)

    monkeypatch.setattr(zarr.Writer, "finish", meanwhile)
    with pytest.raises(RuntimeError, match="save: another process or thread has begun to save to memory://two_writers/"):
        save(url, {"a": np.ones(3)}, 1)
    assert steps(url) == [2] and is_same(load(url)["a"], np.zeros(3))


def test_all_differences_from_like_are_named(tmp_path):
    save(tmp_path, {"a": {"x": np.zeros(2), "y": 1}, "b": [1, 2], "c": np.zeros(3)})
    with pytest.raises(ValueError) as e:
        load(tmp_path, like={"a": {"x": np.zeros(2), "z": 1}, "b": [1], "d": 0})
    for text in ("lacks the keys ['d'] and has the extra keys ['c']", "tree['a']: compared", "tree['b'] holds a list of 2"):
        assert text in str(e.value)
    with pytest.raises(ShapeError, match=r"load: tree\['a'\]\['x'\] has shape \(2,\).*; tree\['c'\] has dtype float64"):
        load(tmp_path, like={"a": {"x": np.zeros(3), "y": 1}, "b": [1, 2], "c": np.zeros(3, np.int32)})


def test_forked_process_is_refused(tmp_path):
    code = ("import os, sys, numpy as np\nfrom lamina_checkpoint import save\nsave(sys.argv[1], np.ones(3))\n"
            "pid = os.fork()\nif not pid:\n    try:\n        save(sys.argv[1], np.ones(3), 1)\n"
            "    except RuntimeError as e:\n        print(e, flush=True)\n    os._exit(0)\nos.waitpid(pid, 0)")
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code, str(tmp_path)], capture_output=True, text=True,
                          check=True, timeout=100)
    assert "was forked from one that has saved or loaded checkpoints" in done.stdout and steps(tmp_path) == [0]


# --- kills --------------------------------------------------------------------------------------------------------
KILLED = """
import os, random, signal, sys, time
import numpy as np
from lamina_checkpoint import Checkpointer, load, steps
folder, seed, kills = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

def state(step):
    return {"a": np.full((300, 1000), step), "b": [np.full(3, step), step]}

def saves(first, count=1000):
    with Checkpointer(folder, keep=3) as checkpointer:
        for step in range(first, first + count):
            checkpointer.save(step % 7 if step % 5 == 0 else step, state(step))

def check(least):
    found_steps = steps(folder)
    for s in found_steps:
        found = load(folder, step=s)
        step = found["b"][1]
        assert step in (s, *range(s, 100000, 7)) and (found["a"] == step).all() and (found["b"][0] == step).all(), (s, found)
    assert not found_steps or found_steps[-1] >= least, (found_steps, least)
    return found_steps[-1] if found_steps else 0

def child(act):  # this process uses no threads of TensorStore, so it may fork
    pid = os.fork()
    if pid == 0:
        try:
            act()
            os._exit(0)
        except BaseException as e:
            print(repr(e), flush=True)
        os._exit(1)
    return pid

def checked(least):
    read, write = os.pipe()
    status = os.waitpid(child(lambda: os.write(write, str(check(least)).encode())), 0)[1]
    assert status == 0, status
    os.close(write)
    with os.fdopen(read) as f:
        return int(f.read())

begin = time.monotonic()
assert os.waitpid(child(lambda: saves(1, 4)), 0)[1] == 0
draw, last, in_save, usual = random.Random(seed), checked(1), 0, time.monotonic() - begin
for _ in range(kills):
    pid = child(lambda: saves(last + 1))
    time.sleep(draw.uniform(0.05, 1) * usual)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    in_save += any("-" in name and name.split("-")[0] + ".json" not in os.listdir(folder)
                   for name in os.listdir(folder)) if os.path.isdir(folder) else 0
    last = checked(last)
print("whole", last, in_save)
"""


@pytest.mark.parametrize("kills", [8, pytest.param(60, marks=pytest.mark.slow)])
def test_last_complete_checkpoint_loads_after_a_kill(tmp_path, kills):
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", KILLED, str(tmp_path / "run"), "5", str(kills)],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "whole" in done.stdout, done.stdout + done.stderr
    _, last, in_save = done.stdout.split()
    assert kills < 60 or int(last) > 10 and int(in_save) > 10  # saves were complete, and many were killed
    save(tmp_path / "run", 1, 10 ** 6, keep=1)
    assert len(os.listdir(tmp_path / "run")) == 3  # leftovers of the killed saves are removed


def test_save_that_begins_during_a_sweep_keeps_its_data(monkeypatch):
    url, commit, second = "memory://begun_meanwhile", CheckpointFolder.commit, Checkpointer("memory://begun_meanwhile")
    is_blocked, begun = threading.Event(), []
    finish = zarr.Writer.finish

    def wait_in_second(self):
        finish(self)
        if threading.current_thread() is not threading.main_thread():
            assert is_blocked.wait(60)

    def commit_first(self, *args):
        if not begun:  # the first writer has checked that the mark is its own
            begun.append(1)
            second.save(2, {"a": np.full(3, 2.0)})
            for _ in range(1000):
                if any(name.startswith("2-") for name in self.store.names()):
                    break
                time.sleep(0.01)
        commit(self, *args)

    monkeypatch.setattr(zarr.Writer, "finish", wait_in_second)
    monkeypatch.setattr(CheckpointFolder, "commit", commit_first)
    save(url, {"a": np.full(3, 1.0)}, 1)  # at its end it removes data without an index
    is_blocked.set()
    second.close()
    assert steps(url) == [1, 2]
    assert [load(url, step=s)["a"].tolist() for s in (1, 2)] == [[1.0] * 3, [2.0] * 3]


@pytest.mark.parametrize("place", ["check", "claim"])
def test_save_replaced_just_before_its_commit_is_refused_or_whole(monkeypatch, place):
    url, others = f"memory://replaced_{place}", [2]

    def intrude():
        if others:
            save(url, {"a": np.full(3, 2.0)}, others.pop())

    check, claim = stores._Lease.check, stores.RemoteStore.claim_commit
    if place == "check":
        monkeypatch.setattr(stores._Lease, "check", lambda self: (check(self), intrude()))
        with pytest.raises(RuntimeError, match="meanwhile and removed the data of this save, so it was not committed"):
            save(url, {"a": np.full(3, 1.0)}, 1)
        assert steps(url) == [2]
    else:
        monkeypatch.setattr(stores.RemoteStore, "claim_commit", lambda self, *a: (claim(self, *a), intrude()))
        save(url, {"a": np.full(3, 1.0)}, 1)
        assert steps(url) == [1, 2] and load(url, step=1)["a"].tolist() == [1.0] * 3
    assert load(url, step=2)["a"].tolist() == [2.0] * 3
    save(url, {"a": np.zeros(1)}, 3, keep=1)
    assert steps(url) == [3] and len(stores.open_store("save", url).names()) == 3  # nothing is left of the others


def test_full_disk_is_an_os_error_with_the_path(tmp_path):
    program = """
import resource, sys
import numpy as np
import lamina_checkpoint
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, -1))
for tree in (np.ones(100_000), {f"leaf {i}": i for i in range(5000)}):  # in an array; in the index
    try:
        lamina_checkpoint.save(sys.argv[1], tree)
    except OSError as e:
        assert e.errno == 27 and sys.argv[1] in str(e), e
    else:
        raise SystemExit("no error")
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=100)
    assert steps(tmp_path) == []
    save(tmp_path, 1, 7)  # removes the data of a save whose commit failed
    assert sorted(name.split("-")[0] for name in os.listdir(tmp_path)) == [".lock", "7", "7.json"]


def test_data_that_other_processes_removed_are_a_lost_process():
    class Meeting(HostGather):
        rank, count, notices = 1, 2, 0

        def raise_if_lost(self):
            self.notices += 1
            if self.notices == 2:  # the notice comes a little later than the error
                raise TimeoutError("process 1 was lost")

        def __exit__(self, *error):
            pass

    meeting = Meeting()
    with pytest.raises(TimeoutError, match="process 1"), undo_on_error(meeting, []):
        raise FileNotFoundError("a file of the save")
    assert meeting.notices == 2
