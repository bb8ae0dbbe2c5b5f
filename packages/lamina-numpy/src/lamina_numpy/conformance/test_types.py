"""Dtype promotion, weak types, results of `array`, and 64-bit mode."""
from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from lamina_ir import config, dtypes
from lamina_ir.testing import assert_close

import lamina_numpy as lnp

STRONG = ["bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "bfloat16", "float16", "float32", "complex64"]
WEAK: list[Any] = [1, 1.5, 1j]


def kind(x: Any) -> tuple[np.dtype, bool]:
    """Return (dtype, weak type) of an example."""
    if isinstance(x, str):
        return dtypes.as_dtype(x), False
    return {int: dtypes.canonical_int(), float: dtypes.canonical_float(), complex: dtypes.canonical_complex()}[type(x)], True


def value(x: Any) -> Any:
    return lnp.ones(3, x) if isinstance(x, str) else x


@pytest.mark.parametrize("wide", [False, True], ids=["32 bits", "64 bits"])
def test_promotion_of_two_values(wide: bool) -> None:
    with config.enable_x64(wide):
        for a, b in itertools.product([*STRONG, *(["int64", "float64"] if wide else []), *WEAK], repeat=2):
            dtype, weak = dtypes.promote(kind(a), kind(b))
            if dtypes.is_bool(dtype):
                continue
            out = lnp.multiply(value(a), value(b))
            assert (out.dtype, out.weak_type) == (dtype, weak), (a, b)
            assert lnp.result_type(value(a), value(b)) == dtype, (a, b)
            if isinstance(a, str) and isinstance(b, str):
                assert lnp.promote_types(a, b) == dtype, (a, b)
                assert lnp.concatenate([value(a), value(b)]).dtype == dtype, (a, b)
                assert lnp.where(np.ones(3, bool), value(a), value(b)).dtype == dtype, (a, b)


@pytest.mark.parametrize("given, dtype, weak", [
    (1, "int32", True), (1.5, "float32", True), (True, "bool", False), (1j, "complex64", True), ([1, 2], "int32", False),
    ([1, 2.5], "float32", False), ([], "float32", False), (np.arange(3), "int32", False), (np.ones(2), "float32", False),
    (np.float16(1), "float16", False), ([[1], [2]], "int32", False)], ids=str)
def test_array_and_asarray_of_python_and_numpy_values(given: Any, dtype: str, weak: bool) -> None:
    for make in (lnp.asarray, lnp.array):
        x = make(given)
        assert isinstance(x, lnp.ndarray) and (x.dtype, x.weak_type) == (dtypes.as_dtype(dtype), weak)
        assert_close(x, np.asarray(given, dtype))


@pytest.mark.parametrize("name", ["sin", "abs", "negative", "square", "exp2"])
def test_python_scalars_stay_weak(name: str) -> None:
    assert getattr(lnp, name)(2.0).weak_type and not getattr(lnp, name)(lnp.float32(2)).weak_type


@pytest.mark.parametrize("name, given, dtype", [
    ("sin", "int8", "float32"), ("sin", "bfloat16", "bfloat16"), ("abs", "complex64", "float32"), ("sum", "int8", "int32"),
    ("sum", "bool", "int32"), ("mean", "int32", "float32"), ("mean", "float16", "float16"), ("max", "int8", "int8"),
    ("argmax", "float32", "int32"), ("any", "float32", "bool"), ("sqrt", "int32", "float32"), ("var", "complex64", "float32")])
def test_result_dtypes_of_unary_functions(name: str, given: str, dtype: str) -> None:
    out = getattr(lnp, name)(lnp.ones(2, given))
    assert (out.dtype, out.weak_type) == (dtypes.as_dtype(dtype), False)


def test_64_bit_dtypes_with_enable_x64() -> None:
    assert lnp.arange(3).dtype == np.int32
    assert lnp.zeros(2).dtype == lnp.asarray(np.float64(1)).dtype == np.float32
    with config.enable_x64(True):
        assert lnp.arange(3).dtype == np.int64 and lnp.zeros(2).dtype == np.float64
        assert_close(lnp.sin(np.float64(1)), np.sin(1.0))
        assert lnp.zeros(2, "float32").dtype == np.float32


def test_arrays_do_not_share_memory() -> None:
    n = np.zeros(3, np.float32)
    made = [lnp.asarray(n), lnp.array(n), lnp.reshape(n, (3,)), lnp.ravel(n)]
    n += 1
    assert all(x.tolist() == [0, 0, 0] for x in made)
    a = b = lnp.zeros(3)
    b += 1
    assert a.tolist() == [0, 0, 0] and b.tolist() == [1, 1, 1]
