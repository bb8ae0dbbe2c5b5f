"""Checkpoints: exact round trips, also to other devices; mismatches and damage are reported; kills lose no complete step."""
import collections
import json
import os
import subprocess
import sys
import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from lamina_ir import CallbackError, DTypeError, ShapeDtypeStruct, ShapeError, trees
from lamina_runtime import device_put, devices, transfer_guard
from lamina_runtime.checkpointing import _storage as storage, _tree_metadata as tree_metadata
from lamina_runtime.checkpointing import CheckpointError, latest, load, save, steps
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
    monkeypatch.setattr(storage.split_into_tiles, "__defaults__", (1000,))
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


@pytest.mark.parametrize("dim", [0, 1])
def test_only_needed_tiles_are_read(tmp_path, monkeypatch, dim):
    x = np.arange(1 << 20, dtype=np.float32).reshape(1024, 1024)
    monkeypatch.setattr(storage.split_into_tiles, "__defaults__", (1 << 16,))
    save(tmp_path, device_put(x, mapped_sharding(tuple(devices()), 2, ((0, 8),))))
    folder = storage.CheckpointFolder(str(tmp_path))
    reader = storage.Reader("load", folder, folder.read("load", 0)[0])
    start, shape = ((256, 0), (128, 1024)) if dim == 0 else ((0, 256), (1024, 128))
    needed = [t for t in reader.tiles[0] if storage.find_overlap(start, shape, t)]
    assert sum(t.length for t in needed) < 1.01 * x.nbytes / 8
    assert sum(np.prod(t.shape) for t in reader.tiles[0]) == x.size


def test_replicated_values_are_written_once(tmp_path):
    x = np.zeros((64, 1000), np.float32)
    d = tuple(devices())
    save(tmp_path, {"a": device_put(x, replicated_sharding(d)), "b": device_put(x, mapped_sharding(d, 2, ((0, 2),), 4))})
    [pieces] = [p for p in tmp_path.iterdir() if p.is_dir()]
    assert (pieces / "0.npys").stat().st_size < 2.01 * x.nbytes


def test_records_have_numpy_format(tmp_path):
    save(tmp_path, [np.arange(5), np.ones(3, ml_dtypes.bfloat16)])
    [pieces] = [p for p in tmp_path.iterdir() if p.is_dir()]
    (_, _, _, at, _, _), (_, _, _, there, _, _) = json.loads((pieces / "0.json").read_text())
    with open(pieces / "0.npys", "rb") as f:
        assert at % 64 == there % 64 == 0
        f.seek(at)
        assert is_same(np.load(f, allow_pickle=False), np.arange(5))
        f.seek(there)
        assert is_same(np.load(f, allow_pickle=False).view(ml_dtypes.bfloat16), np.ones(3, ml_dtypes.bfloat16))


def test_large_array_is_copied_in_parts(tmp_path):
    x = np.ones((1 << 12, 1 << 12), np.float32)  # 64 MiB
    tracemalloc.start()
    try:
        save(tmp_path, {"x": x.T})
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
        tracemalloc.reset_peak()
        found = load(tmp_path, like=devices()[0])
        assert tracemalloc.get_traced_memory()[1] < (64 + 40) << 20
    finally:
        tracemalloc.stop()
    assert is_same(found["x"], x)


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
    with pytest.raises(FileNotFoundError, match=r"no checkpoint 4 in .*; there are \[0, 5\]"):
        load(folder, step=4)
    with pytest.raises(FileNotFoundError, match="which does not exist"):
        load(tmp_path / "nowhere")
    lock = storage.FolderLock("save", str(folder))
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
    (("s3://x",), ValueError, "path must be a folder of a mounted file system"),
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
    path.write_text(path.read_text().replace('"format":1', '"format":2'))


DAMAGE = {
    "a byte of the numbers": (lambda top, p: _flip(p / "0.npys"), r"load: tree\['b'\]: .*0.npys is damaged: bytes \d+ to"),
    "a header": (lambda top, p: _flip(p / "0.npys", 3), r"load: tree\['a'\]: .* is damaged"),
    "cut off": (lambda top, p: os.truncate(p / "0.npys", 130), r"load: tree\['a'\]: .* is truncated"),
    "no pieces": (lambda top, p: os.unlink(p / "0.npys"), r"load: tree\['a'\]: .*0.npys is missing"),
    "no list of pieces": (lambda top, p: os.unlink(p / "0.json"), r"0.json is missing"),
    "a list of pieces": (lambda top, p: _flip(p / "0.json"), r"0.json is damaged"),
    "the list": (lambda top, p: _flip(top / "0.json"), r"0.json is damaged.*There is no other step"),
    "half of the list": (lambda top, p: os.truncate(top / "0.json", 100), r"0.json is damaged"),
    "a later format": (lambda top, p: _later(top / "0.json"), r"was written in format 2; this version .* reads format 1"),
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
    assert load(tmp_path) == 1 and pieces.is_dir()


def test_files_of_a_failed_save_are_removed(tmp_path, monkeypatch):
    save(tmp_path, 1)
    def full(*args):
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(storage.Writer, "write", full)
    with pytest.raises(OSError, match="No space left"):
        save(tmp_path, {"a": np.arange(3)})
    assert load(tmp_path) == 1 and len(os.listdir(tmp_path)) == 3


def test_tiles_cover_a_block_once():
    for shape, size in (((1000, 3), 8), ((7, 11, 13), 4), ((1 << 13, 1 << 10), 4), ((), 4), ((5,), 1), ((3, 0), 4)):
        seen = np.zeros(shape, int)
        for start, part in storage.split_into_tiles(shape, size, 1 << 10):
            seen[tuple([slice(a, a + n) for a, n in zip(start, part)])] += 1
            assert np.prod(part) * size <= max(1 << 10, size)
        assert (seen == 1).all()


def test_tree_structure_as_json():
    structure, leaves, shardings_by_name = tree_metadata.encode_tree({"a": [1, Point(2, None)], "b": Pair(3, {})})
    assert leaves == [1, 2, 3] and shardings_by_name == ["tree['a'][0]", "tree['a'][1].x", "tree['b'][<flat index 0>]"]
    assert json.loads(json.dumps(structure)) == structure


KILLED = """
import os, random, signal, sys, time
import numpy as np
from lamina_runtime import checkpointing
from lamina_runtime.checkpointing import _storage as storage
folder, seed = sys.argv[1], int(sys.argv[2])

def state(step):
    return {"a": np.full((300, 1000), step), "b": [np.full(3, step), step]}

def saves(first):
    for step in range(first, first + 1000):
        checkpointing.save(folder, state(step), step % 7 if step % 5 == 0 else step, keep=3)

def check(least):
    found_steps = checkpointing.steps(folder)
    for s in found_steps:
        found = checkpointing.load(folder, step=s)
        step = found["b"][1]
        assert step in (s, *range(s, 10000, 7)) and (found["a"] == step).all() and (found["b"][0] == step).all(), (s, found)
    assert not found_steps or found_steps[-1] >= least, (found_steps, least)
    return found_steps[-1] if found_steps else 0

def child(act):
    pid = os.fork()
    if pid == 0:
        try:
            act()
        finally:
            os._exit(1)
    return pid

# Kill at random times.
draw, last = random.Random(seed), 0
for _ in range(12):
    pid = child(lambda: saves(last + 1))
    time.sleep(draw.uniform(0.005, 0.12))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    last = check(last)

# Kill before each system call that changes files.
names = ["open", "mkdir", "fsync", "replace", "unlink", "rmdir", "pwritev"]
def dying(n):
    left = [n]
    for name in names:
        def call(*args, usual=getattr(os, name), **more):
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return usual(*args, **more)
        setattr(os, name, call)
    checkpointing.save(folder, state(last + 1), last + 1, keep=2)
    os._exit(0)
deaths = 0
for n in range(200):
    status = os.waitpid(child(lambda: dying(n)), 0)[1]
    found = check(last)
    if status == 0:
        break
    deaths += 1
    if found > last:
        last = found
checkpointing.save(folder, state(last + 1), last + 1, keep=1)
assert status == 0 and deaths > 15 and len(os.listdir(folder)) == 3, (deaths, os.listdir(folder))
print("whole", last, deaths)
"""


@pytest.mark.slow
def test_last_complete_checkpoint_loads_after_a_kill(tmp_path):
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), "5"], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and "whole" in done.stdout, done.stdout + done.stderr
