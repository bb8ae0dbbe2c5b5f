import copy
import doctest
import pickle

import ml_dtypes
import numpy as np
import pytest
from lamina_ir import ExecutionError
from lamina_runtime import _jaxlib, device_put, device_put_sharded, devices
from lamina_runtime._array import arrays
from lamina_runtime._backend import backends, waiting
from lamina_runtime._sharding.shardings import replicated_sharding
from lamina_tracing import jit, lax

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def mapped():
    return device_put_sharded(list(np.arange(24, dtype=np.float32).reshape(8, 3)), devices())


def test_class_docstring_example_runs():
    example = doctest.DocTestParser().get_doctest(arrays.Array.__doc__, {}, "Array", None, 0)
    assert example.examples and not doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example).failed


def test_attributes_show_the_type():
    x = device_put(X)
    assert (x.shape, x.dtype, x.ndim, x.size, x.itemsize, x.nbytes) == ((2, 3), np.float32, 2, 6, 4, 24)
    assert not x.weak_type and device_put(2.0).weak_type
    assert x.devices() == {devices()[0]} and x.device == devices()[0] and x.is_fully_addressable
    assert len(x) == 2 and x.on_device_size_in_bytes() >= 24


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "float16", "float32", "complex64", "bfloat16",
                                   "float8_e4m3fn", "int4"])
def test_values_round_trip_in_every_dtype(dtype):
    dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))
    value = np.array([0, 1, 1, 0]).astype(dtype)
    x = device_put(value)
    assert np.asarray(x).dtype == dtype
    np.testing.assert_array_equal(np.asarray(x).astype(np.complex64), value.astype(np.complex64))


def test_sharded_array_is_gathered():
    np.testing.assert_array_equal(np.asarray(mapped()), np.arange(24).reshape(8, 3))
    assert np.asarray(mapped(), dtype=np.int32).dtype == np.int32


def test_repr_and_str():
    assert repr(device_put(np.float32([1, 2]))) == "Array([1., 2.], dtype=float32)"
    assert repr(device_put(3.0)) == "Array(3., dtype=float32, weak_type=True)"
    assert repr(device_put(np.zeros((0, 3), np.float32))) == "Array([], shape=(0, 3), dtype=float32)"
    assert str(device_put(np.float32([1, 2]))) == "[1. 2.]"
    assert f"{device_put(1.5):.2f}" == "1.50"


def test_python_numbers():
    assert float(device_put(2.5)) == 2.5 and int(device_put(3)) == 3 and complex(device_put(1.0)) == 1
    assert bool(device_put(True)) and [10, 20, 30][device_put(1)] == 20
    assert device_put(np.float32([7])).item() == 7.0 and device_put(X).tolist() == X.tolist()
    assert 3.0 in device_put(X) and 30.0 not in device_put(X)


@pytest.mark.parametrize("use, kind, message", [
    (float, TypeError, "one element"), (bool, ValueError, "ambiguous"), (hash, TypeError, "not hashable"),
    (lambda x: [1][x], TypeError, "index"), (lambda x: len(device_put(1.0)), TypeError, "rank-0"),
    (lambda x: x.__setitem__(0, 1), TypeError, "immutable")])
def test_misuse_raises_clear_errors(use, kind, message):
    with pytest.raises(kind, match=message):
        use(device_put(X))


def test_use_of_deleted_array_raises():
    x = device_put(X)
    x.delete()
    assert x.is_deleted()
    for use in (np.asarray, float, lambda a: a.copy_to_host_async(), copy.copy):
        with pytest.raises((RuntimeError, TypeError), match="deleted|one element"):
            use(x)
    assert "deleted" in repr(x)


def test_waiting_for_a_failed_result_raises_execution_error(monkeypatch):
    def fail(x):
        raise _jaxlib.JaxRuntimeError("INTERNAL: out of paper")
    monkeypatch.setattr(waiting, "wait_for", fail)
    x = device_put(np.zeros(3, "float32"))
    with pytest.raises(ExecutionError, match=r"block_until_ready of float32\[3\]: .*out of paper") as caught:
        x.block_until_ready()
    assert isinstance(caught.value, RuntimeError) and isinstance(caught.value.__cause__, _jaxlib.JaxRuntimeError)
    x.delete()
    with pytest.raises(RuntimeError, match=r"deleted or donated: float32\[3\]"):
        x.block_until_ready()


def test_copies_are_separate():
    x = device_put(X)
    for y in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert y is not x and y.aval == x.aval
        np.testing.assert_array_equal(y, X)
    weak = pickle.loads(pickle.dumps(device_put(2.0)))
    assert weak.weak_type


def test_pickle_keeps_sharding_and_committed(monkeypatch):
    x = mapped()
    on_two = replicated_sharding(tuple(devices()[:2]))
    for y in (x, lax.rev(x, (0,)), device_put(X, devices()[3]), device_put(X, on_two), jit(lambda: 2.0)()):
        again = pickle.loads(pickle.dumps(y))
        assert again.sharding == y.sharding and again.committed == y.committed and again.aval == y.aval
        np.testing.assert_array_equal(again, y)
        assert pickle.loads(pickle.dumps(y.sharding)) is y.sharding
    data, placement, first = pickle.dumps(x), pickle.dumps(x.sharding), devices()[:1]
    monkeypatch.setattr(backends, "devices", lambda *_: first)
    again = pickle.loads(data)
    np.testing.assert_array_equal(again, x)
    assert again.devices() == {first[0]} and not again.committed
    with pytest.raises(RuntimeError, match="names device 1 of platform 'cpu'; here the numbers are \\[0\\]"):
        pickle.loads(placement)


def test_elements_of_a_mapped_array_stay_on_their_devices():
    x = mapped()
    for i, row in enumerate(x):
        assert row.devices() == {devices()[i]}
        np.testing.assert_array_equal(row, np.arange(3) + 3 * i)
    assert x[-1].devices() == {devices()[7]} and x[5].shape == (3,)


def test_iteration_over_an_array_on_one_device():
    rows = list(device_put(X))
    assert [r.shape for r in rows] == [(3,), (3,)]
    np.testing.assert_array_equal(rows[1], X[1])


def test_addressable_shards():
    shards = mapped().addressable_shards
    assert [s.device for s in shards] == devices() and shards[2].index[0] == slice(2, 3)
    np.testing.assert_array_equal(shards[2].data, [[6, 7, 8]])
    whole, = device_put(X).addressable_shards
    assert whole.replica_id == 0 and whole.data.shape == (2, 3)


def test_dlpack_shares_an_array_on_one_device():
    np.testing.assert_array_equal(np.from_dlpack(device_put(X)), X)
    with pytest.raises(BufferError, match="several devices"):
        mapped().__dlpack__()


def test_host_memory_is_copied():
    value = np.zeros(1 << 16, np.float32)
    x = device_put(value)
    value += 1
    assert float(np.asarray(x).max()) == 0.0


def test_host_view_is_read_only():
    with pytest.raises(ValueError):
        np.asarray(mapped())[0, 0] = 1
    with pytest.raises(ValueError):
        np.asarray(device_put(X))[0, 0] = 1
