"""safetensors files: the published layout byte by byte, round trips, and damaged files."""
import json

import ml_dtypes
import numpy as np
import pytest
from lamina_checkpoint import CheckpointError, load_safetensors, save_safetensors
from lamina_ir import DTypeError
from lamina_runtime import device_put, devices
from lamina_runtime._sharding.shardings import mapped_sharding

NAMES = ["bool", *[f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)], "float16", "float32", "float64", "complex64",
         "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"]


def test_file_has_the_published_layout(tmp_path):
    save_safetensors(tmp_path / "x", {"b": np.array([True]), "a": np.float32([[1, 2]])}, metadata={"format": "np"})
    raw = (tmp_path / "x").read_bytes()
    size = int.from_bytes(raw[:8], "little")
    assert size % 8 == 0 and json.loads(raw[8:8 + size]) == {
        "__metadata__": {"format": "np"}, "a": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]},
        "b": {"dtype": "BOOL", "shape": [1], "data_offsets": [8, 9]}}
    assert raw[8 + size:] == np.float32([1, 2]).tobytes() + b"\1"
    header = b'{"x":{"dtype":"I16","shape":[2],"data_offsets":[0,4]}}'
    (tmp_path / "y").write_bytes(len(header).to_bytes(8, "little") + header + b"\1\0\2\0")
    found = load_safetensors(tmp_path / "y")["x"]
    assert found.tolist() == [1, 2] and found.dtype == np.int16 and not found.flags.writeable


def test_every_dtype_round_trips(tmp_path):
    arrays = {n: np.arange(6).reshape(2, 3).astype(getattr(ml_dtypes, n, n)) for n in NAMES}
    arrays |= {"0d": np.array(3.0), "empty": np.zeros((0, 2), np.int8), "columns": np.arange(6.0).reshape(2, 3).T,
               "swapped": np.arange(3, dtype=">f4")}
    shards = device_put(np.arange(16, dtype=np.float32), mapped_sharding(tuple(devices()), 1, ((0, 8),)))
    save_safetensors(tmp_path / "x", {**arrays, "shards": shards})
    found = load_safetensors(tmp_path / "x")
    assert set(found) == {*arrays, "shards"} and np.array_equal(found["shards"], np.arange(16))
    for name, x in arrays.items():
        assert found[name].shape == x.shape and found[name].dtype == x.dtype.newbyteorder("="), name
        assert np.array_equal(found[name].astype(complex), x.astype(complex), equal_nan=True), name
    save_safetensors(tmp_path / "none", {})
    assert load_safetensors(tmp_path / "none") == {} and len(list(tmp_path.iterdir())) == 2


def test_errors(tmp_path):
    for arrays, kind, message in (({"a": np.zeros(1, ml_dtypes.int4)}, DTypeError, "'a' has dtype int4, for which"),
                                  ({3: np.zeros(1)}, TypeError, "names must be strings; got int: 3"),
                                  ({"a": 1}, TypeError, "'a' must be an array; got int: 1"),
                                  ({"__metadata__": np.zeros(1)}, ValueError, "is reserved")):
        with pytest.raises(kind, match=f"save_safetensors: .*{message}"):
            save_safetensors(tmp_path / "x", arrays)
    with pytest.raises(TypeError, match="metadata must be strings"):
        save_safetensors(tmp_path / "x", {}, metadata={"a": 1})
    assert not list(tmp_path.iterdir())
    with pytest.raises(FileNotFoundError):
        load_safetensors(tmp_path / "x")
    save_safetensors(tmp_path / "x", {"a": np.arange(9)})
    raw = (tmp_path / "x").read_bytes()
    for text, message in ((raw[:5], "is truncated, or not"), (raw[:40], "is truncated, or not"),
                          (raw[:-1], "'a' .* is truncated"),
                          (raw[:9] + b"}" + raw[10:], "header of .* is damaged"),
                          (raw.replace(b"I64", b"I63"), "has dtype 'I63', which is not supported")):
        (tmp_path / "x").write_bytes(text)
        with pytest.raises(CheckpointError, match=f"load_safetensors: .*{message}"):
            load_safetensors(tmp_path / "x")
