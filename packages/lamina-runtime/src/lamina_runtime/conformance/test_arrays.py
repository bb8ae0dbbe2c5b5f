"""Arrays: immutable typed values that convert to and from NumPy; methods, devices, deletion."""
from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from lamina_ir import dtypes, trees
from lamina_ir.testing import assert_close
from lamina_tracing import jit, lax
from lamina_tracing import Array as AnyArray
from lamina_tracing.extend import typeof

from lamina_runtime import Array, block_until_ready, device_get, device_put, devices

X = np.arange(6, dtype=np.float32).reshape(2, 3)
DTYPES = ["bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float16", "float32", "complex64", "bfloat16",
          "float8_e4m3fn", "float8_e5m2", "int4"]


@pytest.mark.parametrize("name", DTYPES)
def test_values_of_every_dtype_round_trip(name: str) -> None:
    dtype = dtypes.as_dtype(name)
    value = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    for x in (device_put(value), jit(lambda x: x)(value), lax.transpose(device_put(value.T), (1, 0))):
        assert np.asarray(x).dtype == dtype and x.dtype == dtype
        np.testing.assert_array_equal(np.asarray(x).astype(np.complex64), value.astype(np.complex64))


@pytest.mark.parametrize("shape", [(), (0,), (1, 1), (3, 0, 2), (2, 3, 4)], ids=str)
def test_arrays_of_every_shape_round_trip(shape: tuple[int, ...]) -> None:
    value = np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)
    x = device_put(value)
    assert (x.shape, x.ndim, x.size, x.itemsize, x.nbytes) == (shape, len(shape), value.size, 4, value.nbytes)
    np.testing.assert_array_equal(np.asarray(x), value)
    assert x.tolist() == value.tolist()


def test_non_contiguous_memory_is_read_correctly() -> None:
    wide = np.arange(24, dtype=np.float32).reshape(4, 6)
    for value in (wide.T, wide[::2, ::-1], np.asfortranarray(wide), wide[1]):
        assert_close(device_put(value), value)
        assert_close(jit(lambda x: x + 0)(value), value)
    assert_close(device_put(wide.astype(">f4")), wide)


def test_arrays_are_immutable_copies() -> None:
    value = np.zeros(3, np.float32)
    x, y = device_put(value), jit(lambda v: v)(value)
    value += 1
    assert np.asarray(x).tolist() == np.asarray(y).tolist() == [0, 0, 0]
    with pytest.raises(TypeError):
        x[0] = 1.0
    view = np.asarray(x)
    with pytest.raises(ValueError):
        view[0] = 1
    z = x
    z += 1
    assert np.asarray(x).tolist() == [0, 0, 0] and np.asarray(z).tolist() == [1, 1, 1]


def test_arrays_report_their_types() -> None:
    x = device_put(X)
    assert isinstance(x, Array) and isinstance(x, AnyArray) and not isinstance(X, Array)
    assert not x.weak_type and device_put(2.0).weak_type
    assert (typeof(x).shape, typeof(x).dtype) == (X.shape, X.dtype)
    assert x.aval == typeof(x)


def test_arrays_convert_to_python_numbers() -> None:
    assert float(device_put(2.5)) == 2.5 and int(device_put(3)) == 3 and complex(device_put(1.0)) == 1
    assert bool(device_put(True)) and [10, 20, 30][device_put(1)] == 20
    assert device_put(np.float32([7])).item() == 7.0 and f"{device_put(1.5):.2f}" == "1.50"
    assert len(device_put(X)) == 2 and [np.asarray(row).tolist() for row in device_put(X)] == X.tolist()
    for use, kind in ((float, TypeError), (bool, ValueError), (hash, TypeError), (lambda x: [1][x], TypeError),
                      (lambda x: len(device_put(1.0)), TypeError)):
        with pytest.raises(kind):
            use(device_put(X))


def test_operators_and_methods_return_arrays() -> None:
    x, y = device_put(X), device_put(X + 1)
    for got, wanted in ((x + y, X + X + 1), (x - 1, X - 1), (2 * x, 2 * X), (x / y, X / (X + 1)), (-x, -X),
                        (x < 3, X < 3), (x == y, X == X + 1), (x[1], X[1]), (x.reshape(3, 2), X.reshape(3, 2)),
                        (x.sum(), X.sum()), (x.astype(np.int32), X.astype(np.int32)), (x.T, X.T)):
        assert isinstance(got, Array)
        assert_close(got, wanted)


def test_printing_shows_values_and_type() -> None:
    assert repr(device_put(np.float32([1, 2]))) == "Array([1., 2.], dtype=float32)"
    assert repr(device_put(3.0)) == "Array(3., dtype=float32, weak_type=True)"
    assert str(device_put(np.float32([1, 2]))) == "[1. 2.]"


def test_copies_and_pickles() -> None:
    x = device_put(X)
    for y in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert isinstance(y, Array)
        assert_close(y, X)
    weak = pickle.loads(pickle.dumps(device_put(2.0)))
    assert weak.weak_type and float(weak) == 2


@pytest.mark.cost
def test_use_of_deleted_array_is_rejected() -> None:
    x = device_put(X)
    assert not x.is_deleted()
    x.delete()
    assert x.is_deleted() and "deleted" in repr(x)
    for use in (np.asarray, lax.sin, lambda a: jit(lambda v: v + 1)(a)):
        with pytest.raises(RuntimeError, match="deleted"):
            use(x)


def test_device_put_and_device_get_of_trees() -> None:
    tree = {"a": X, "b": [1.0, (np.int32(2), None)], "c": device_put(X)}
    there = device_put(tree)
    assert all(isinstance(leaf, Array) for leaf in trees.tree_leaves(there))
    assert trees.tree_structure(there) == trees.tree_structure(tree)
    back = device_get(there)
    assert all(isinstance(leaf, (np.ndarray, np.generic)) for leaf in trees.tree_leaves(back))
    assert_close(back["a"], X)
    assert device_get("text") == "text"
    assert block_until_ready(there) is there or trees.tree_structure(block_until_ready(there)) == trees.tree_structure(there)
    assert there["a"].block_until_ready() is there["a"]


def test_other_values_are_rejected() -> None:
    for value in ("text", object(), [object()], np.array(["a"])):
        with pytest.raises(TypeError):
            device_put(value)


def test_arrays_report_their_devices() -> None:
    first = devices()[0]
    x = device_put(X)
    assert x.devices() == {first} and x.is_fully_addressable and x.is_fully_replicated
    assert device_put(X, first).sharding.device_set == {first}
    part, = x.addressable_shards
    assert part.device == first
    assert_close(part.data, X)


@pytest.mark.cost
def test_device_put_to_same_device_does_not_copy() -> None:
    x = device_put(X, devices()[0])
    y: Any = device_put(x, devices()[0])
    assert y is x or y.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
