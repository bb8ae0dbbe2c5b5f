"""Arrays and trees written through the interface of JAX's array serialization."""
import asyncio
import os

import ml_dtypes
import numpy as np
import pytest
from lamina_checkpoint import CheckpointError
from lamina_checkpoint.array_serialization import pytree_serialization, serialization, tensorstore_impl
from lamina_ir import ShapeDtypeStruct
from lamina_runtime import SingleDeviceSharding, device_put, devices
from lamina_runtime._sharding.shardings import mapped_sharding, replicated_sharding

X = np.arange(64, dtype=np.float32).reshape(8, 8)


def shardings():
    d = tuple(devices())
    return [SingleDeviceSharding(d[3]), mapped_sharding(d, 2, ((0, 8),)), mapped_sharding(d, 2, ((0, 2), (1, 4))),
            replicated_sharding(d[:4])]


@pytest.mark.parametrize("ocdbt", [False, True])
@pytest.mark.parametrize("driver", ["zarr", "zarr3"])
def test_arrays_are_read_with_any_sharding(tmp_path, driver, ocdbt):
    specs = [tensorstore_impl.get_tensorstore_spec(tmp_path / f"x{i}", ocdbt, driver=driver) for i in range(4)]
    arrays = [device_put(X, s) for s in shardings()]
    serialization.run_serialization(arrays, specs)
    found = serialization.run_deserialization(shardings()[::-1], specs)
    assert all(np.array_equal(y, X) and y.sharding == s for y, s in zip(found, shardings()[::-1]))
    one, = serialization.run_deserialization(shardings()[1:2], specs[:1], [(16, 4)], [np.int32])
    assert one.dtype == np.int32 and np.array_equal(one, np.pad(X[:, :4], ((0, 8), (0, 0))))
    like = ShapeDtypeStruct((8, 8), "float16", sharding=shardings()[2])
    assert asyncio.run(serialization.async_deserialize(like, specs[0])).dtype == np.float16


def test_dtypes_and_scalars(tmp_path):
    values = [np.float32(3), np.zeros(3, ml_dtypes.bfloat16), np.ones((0, 2), np.float32), np.arange(5)]
    specs = [tensorstore_impl.get_tensorstore_spec(str(tmp_path / str(i)), False) for i in range(4)]
    serialization.run_serialization([device_put(v) for v in values[:3]] + values[3:], specs)
    found = serialization.run_deserialization([devices()[0]] * 4, specs)
    assert [y.dtype for y in found] == ["float32", "bfloat16", "float32", "int32"]
    assert all(np.array_equal(np.asarray(y, np.float32), np.asarray(v, np.float32)) for y, v in zip(found, values))


def test_manager_writes_in_another_thread(tmp_path):
    manager, committed = serialization.GlobalAsyncCheckpointManager(), []
    x = device_put(X, shardings()[1])
    manager.serialize_with_paths([x], [str(tmp_path / "x")], on_commit_callback=lambda: committed.append(1))
    x.delete()
    manager.wait_until_finished()
    assert committed == [1] and os.path.exists(tmp_path / "x" / ".zarray")
    assert np.array_equal(manager.deserialize_with_paths(shardings()[2:3], [str(tmp_path / "x")])[0], X)

    def fails():
        raise OSError("no commit")

    manager.serialize([device_put(X)], [serialization.get_tensorstore_spec(str(tmp_path / "y"))], on_commit_callback=fails)
    with pytest.raises(OSError, match="no commit"):
        manager.wait_until_finished()
    manager.check_for_errors()
    with pytest.raises(ValueError, match="NOT_FOUND"):
        manager.deserialize_with_paths(shardings()[:1], [str(tmp_path / "nowhere")])
    os.unlink(tmp_path / "x" / "3.0")  # writers may leave out chunks of zeros
    spec = {**serialization.get_tensorstore_spec(str(tmp_path / "x")), "fill_missing_data_reads": False}
    assert not np.any(manager.deserialize_with_paths(shardings()[:1], [str(tmp_path / "x")])[0][3])
    with pytest.raises(ValueError, match="NOT_FOUND"):
        manager.deserialize(shardings()[:1], [spec])


def test_specifications():
    get = tensorstore_impl.get_tensorstore_spec
    assert get("/tmp/x/y") == {"driver": "zarr3", "kvstore": {
        "driver": "ocdbt", "base": {"driver": "file", "path": "/tmp/x"}, "path": "y"}}
    assert get("/tmp/x/y", process_idx=3)["kvstore"]["base"]["path"] == "/tmp/x/process_3"
    assert get("gs://bucket/a/b", False)["kvstore"] == {"driver": "gcs", "bucket": "bucket", "path": "a/b"}
    assert get("/tmp/y", False, arr=X)["dtype"] == "float32"
    with pytest.raises(ValueError, match="must be absolute with ocdbt=True; got 'relative/x'"):
        get("relative/x")
    assert serialization.is_remote_storage({"driver": "zarr", "kvstore": {"driver": "ocdbt", "base": "s3://a"}})
    assert serialization.is_remote_storage(get("gs://bucket/a/b")) and not serialization.is_remote_storage(get("/tmp/x/y"))


def test_array_from_coroutines():
    async def part(index, device):
        return device_put(X[index], device)
    y = asyncio.run(serialization.create_async_array_from_callback((8, 8), shardings()[2], part))
    assert np.array_equal(y, X) and y.sharding == shardings()[2]


def test_runs_inside_an_event_loop(tmp_path):
    async def main():
        serialization.run_serialization([device_put(X)], [serialization.get_tensorstore_spec(str(tmp_path / "x"))])
    asyncio.run(main())
    assert os.path.exists(tmp_path / "x" / ".zarray")


def test_trees(tmp_path):
    data = {"w": device_put(X, shardings()[1]), "n": [1, np.arange(3)]}
    pytree_serialization.save(data, tmp_path)
    places = {"w": shardings()[2], "n": [0, np.ndarray]}
    found = pytree_serialization.load(tmp_path, places)
    assert np.array_equal(found["w"], X) and found["n"][0] == 1 and found["w"].sharding == shardings()[2]
    assert pytree_serialization.load(tmp_path, places, mask={"w": False, "n": True})["w"] is None
    with pytest.raises(ValueError, match="load: mask: "):
        pytree_serialization.load(tmp_path, places, mask={"v": True})
    types = pytree_serialization.load_pytreedef(tmp_path)
    assert types["w"].shape == (8, 8) and types["n"][0] == 1
    with pytest.raises(ValueError, match="holds a tree already; pass overwrite=True"):
        pytree_serialization.save(data, tmp_path, overwrite=False)
    with pytest.raises(NotImplementedError, match="ts_specs is not supported"):
        pytree_serialization.save(data, tmp_path, ts_specs={})
    with pytest.raises(FileNotFoundError, match="load_pytreedef: no tree"):
        pytree_serialization.load_pytreedef(tmp_path / "nowhere")
    future = pytree_serialization.nonblocking_save({"w": data["w"]}, tmp_path)
    data["w"].delete()
    assert future.result(60) is None and future.done()
    assert np.array_equal(pytree_serialization.nonblocking_load(tmp_path, {"w": devices()[0]}).result(60)["w"], X)
    future = pytree_serialization.nonblocking_load(tmp_path, {"v": devices()[0]})
    with pytest.raises(ValueError, match=r"nonblocking_load: tree: compared with `like`, the checkpoint lacks the keys"):
        future.result(60)
    assert issubclass(CheckpointError, ValueError)
