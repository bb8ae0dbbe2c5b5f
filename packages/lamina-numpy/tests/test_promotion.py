"""dtypes and weakness of results, and what `array` and its relatives make of values."""
from __future__ import annotations

from typing import Any

import lamina_numpy as lnp
import numpy as np
import pytest
from lamina_ir import config

# left, right, result dtype, weak. Strings are strong arrays of that dtype
BINARY = [
    ("int8", "int8", "int8", False), ("int8", "uint8", "int16", False), ("int32", "uint32", "int32", False),
    ("int32", "float32", "float32", False), ("int8", "bfloat16", "bfloat16", False),
    ("float16", "bfloat16", "float32", False), ("float32", "complex64", "complex64", False),
    ("bool", "int8", "int8", False), ("bool", "bool", "bool", False), ("uint8", "float16", "float16", False),
    ("float32", 1, "float32", False), ("float32", 1.5, "float32", False), ("bfloat16", 1.5, "bfloat16", False),
    ("int8", 1, "int8", False), ("int8", 1.5, "float32", True), ("int32", 2.0, "float32", True),
    ("int32", 1j, "complex64", True), ("float32", 1j, "complex64", False), ("bool", 1, "int32", True),
    (1, 2, "int32", True), (1, 2.5, "float32", True), (True, 1, "int32", True), ("float16", True, "float16", False)]


def value(x: Any) -> Any:
    return lnp.ones(3, x) if isinstance(x, str) else x


@pytest.mark.parametrize(("x", "y", "dtype", "weak"), BINARY)
def test_binary_results(x: Any, y: Any, dtype: str, weak: bool) -> None:
    for a, b in ((x, y), (y, x)):
        out = lnp.multiply(value(a), value(b))
        assert out.dtype == dtype and out.weak_type == weak
        assert lnp.result_type(value(a), value(b)) == dtype


UNARY = [("sin", "int8", "float32"), ("sin", "bool", "float32"), ("sin", "bfloat16", "bfloat16"),
         ("abs", "complex64", "float32"),
         ("sum", "int8", "int32"), ("sum", "bool", "int32"), ("prod", "uint8", "uint32"), ("mean", "int32", "float32"),
         ("mean", "bfloat16", "bfloat16"), ("cumsum", "int8", "int8"), ("cumsum", "bool", "int32"), ("floor", "int32", "int32"),
         ("sqrt", "int32", "float32"), ("var", "int32", "float32"), ("var", "complex64", "float32"),
         ("argmax", "float32", "int32"),
         ("median", "int32", "float32"), ("square", "int8", "int8"), ("sign", "float16", "float16"),
         ("exp2", "int32", "float32"),
         ("max", "int8", "int8"), ("any", "float32", "bool"), ("isnan", "float32", "bool"), ("angle", "complex64", "float32")]


@pytest.mark.parametrize(("name", "dtype", "result"), UNARY)
def test_unary_results(name: str, dtype: str, result: str) -> None:
    out = getattr(lnp, name)(lnp.ones((2,), dtype))
    assert out.dtype == result and not out.weak_type


@pytest.mark.parametrize("name", ["sin", "abs", "negative", "square", "floor", "exp2", "round", "sign"])
def test_python_numbers_stay_weak(name: str) -> None:
    assert getattr(lnp, name)(2.0).weak_type


MADE = [(1, "int32", True), (1.5, "float32", True), (True, "bool", False), (1j, "complex64", True), ([1, 2], "int32", False),
        ([1, 2.5], "float32", False), ([True], "bool", False), (np.arange(3), "int32", False), (np.ones(2), "float32", False),
        (np.float16(1), "float16", False), ([], "float32", False), ([[1], [2]], "int32", False)]


@pytest.mark.parametrize(("x", "dtype", "weak"), MADE)
def test_asarray_chooses_dtype_and_weakness(x: Any, dtype: str, weak: bool) -> None:
    out = lnp.asarray(x)
    assert out.dtype == dtype and out.weak_type == weak and isinstance(out, lnp.ndarray)
    assert not lnp.asarray(x, dtype="complex64").weak_type


@pytest.mark.parametrize(("x", "dtype", "error"), [(1j, "float32", TypeError), (np.nan, "int32", ValueError),
                                                   ([1, np.inf], "int32", (ValueError, OverflowError)),
                                                   (np.ma.masked_array([1, 2], [0, 1]), None, ValueError)])
def test_values_without_a_place_in_the_dtype(x: Any, dtype: Any, error: Any) -> None:
    with pytest.raises(error):
        lnp.asarray(x, dtype)


def test_full_converts_as_astype_does() -> None:
    assert lnp.full(2, np.nan, "int32").tolist() == [0, 0] and lnp.full(2, 1e9, "int8").tolist() == [127, 127]


def test_x64_mode_is_wide() -> None:
    with config.enable_x64(True):
        assert lnp.asarray(np.ones(2)).dtype == np.float64
        assert lnp.arange(3).dtype == np.int64
        assert (lnp.ones(2, "float32") * 2.0).dtype == np.float32
        assert lnp.sum(lnp.ones(2, "int32")).dtype == np.int64
        assert lnp.sin(1).dtype == np.float64
        assert lnp.array([]).dtype == lnp.asarray([[]]).dtype == np.float64
        for narrow in ("bool", "int8", "uint16", "int32"):  # 64-bit integers alone become float64
            x = lnp.ones(3, narrow)
            for fun in (lnp.sin, lnp.mean, lnp.median, lambda x: x / x, lambda x: lnp.linspace(x[0], x[1], 3)):
                assert fun(x).dtype == np.float32
        wide = lnp.ones(3, "int64")
        for other in ("int32", "int64", "uint64"):
            assert (wide / lnp.ones(3, other)).dtype == lnp.arctan2(wide, lnp.ones(3, other)).dtype == np.float64
        for out in (lnp.asarray(7) // 2, lnp.asarray(7) % 2, lnp.asarray(7.5) // 2, lnp.asarray(7.5) % 2):
            assert out.weak_type and out.dtype.itemsize == 8


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_x64_mode_makes_floats_of_the_width_of_integers(dtype: str) -> None:
    with config.enable_x64(True):
        x = lnp.ones(2, dtype)
        want = "float64" if dtype.endswith("64") else "float32"
        for out in (lnp.sin(x), x / x, lnp.mean(x), lnp.var(x), lnp.median(x), lnp.linspace(x, x, 3), lnp.arctan2(x, x),
                    lnp.interp(x, x, x), lnp.linalg.norm(x), lnp.trapezoid(x), lnp.fft.fft(x).real):
            assert out.dtype == want
        assert lnp.rint(x).dtype == (x + 1.0).dtype == np.float64  # as wide as a float is in this mode


def test_arrays_of_lists_are_strong() -> None:
    weak = lnp.asarray(1.5)
    assert weak.weak_type and not any(lnp.array(x).weak_type for x in ([weak], [weak, 2.0], [[weak], [1]], [np.int32(1), weak]))


@pytest.mark.parametrize("name", ["int8", "float32", "complex64", "bfloat16", "bool_"])
def test_scalar_types_equal_their_dtype_from_both_sides(name: str) -> None:
    kind = getattr(lnp, name)
    dtype = lnp.zeros(1, kind).dtype
    assert kind == dtype and dtype == kind and dtype in (kind,) and kind in [dtype] and not kind != dtype
    assert kind != np.dtype("uint16") and kind is not None and kind != "float"


def test_strict_promotion_refuses_mixtures() -> None:
    with config.numpy_dtype_promotion("strict"), pytest.raises(TypeError, match="strict"):
        lnp.ones(2, "float32") + lnp.ones(2, "int32")
    with config.numpy_dtype_promotion("strict"):
        assert (lnp.ones(2, "float32") + 1).dtype == np.float32


def test_rank_promotion_can_be_refused() -> None:
    with config.numpy_rank_promotion("raise"), pytest.raises(ValueError, match="rank promotion"):
        lnp.ones((2, 3)) + lnp.ones(3)


@pytest.mark.parametrize(("bad", "words"), [("abc", "<U3"), (object(), "object"), (None, "None"), ([1, None], "object"),
                                            (np.array(["a"]), "<U1"), ([[1, 2], [3]], "equal lengths")])
def test_values_that_are_no_numbers(bad: Any, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        lnp.array(bad)


def test_large_integers_overflow() -> None:
    with pytest.raises(OverflowError):
        lnp.array([2 ** 40])
    with pytest.raises(OverflowError):
        lnp.asarray(2 ** 40)


def test_can_cast_and_isdtype() -> None:
    assert lnp.can_cast("int8", "float32") and not lnp.can_cast("float32", "int8")
    assert lnp.isdtype("int8", "integral") and lnp.isdtype(lnp.bfloat16, "real floating")
    assert lnp.promote_types("int8", "bfloat16") == lnp.bfloat16
    assert lnp.issubdtype(lnp.bfloat16, lnp.floating) and lnp.finfo(lnp.bfloat16).bits == 16


def test_negative_numbers_keep_their_sign_with_unsigned_arrays():
    x = np.array([4, 2], np.uint8)
    np.testing.assert_allclose(np.asarray(lnp.true_divide(x, -1)), [-4.0, -2.0])
    np.testing.assert_allclose(np.asarray(lnp.float_power(x, -1)), [0.25, 0.5])
    np.testing.assert_allclose(np.asarray(lnp.arctan2(x, -1)), np.arctan2([4.0, 2.0], -1.0), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(lnp.copysign(x, -1)), [-4.0, -2.0])
    assert lnp.true_divide(x, -1).dtype == np.float32


def test_truth_values_count_as_numbers_in_powers_and_remainders():
    b = np.array([True, False])
    for out in (lnp.square(b), lnp.power(b, b), lnp.fmod(True, np.array([True, True]))):
        assert out.dtype == np.int32
    assert lnp.power(b, np.array([False, False])).tolist() == [1, 1]


@pytest.mark.parametrize("name", ["remainder", "fmod"])
@pytest.mark.parametrize("dtype", ["int32", "uint8"])
def test_the_remainder_of_an_integer_by_zero_is_zero(name, dtype):
    assert getattr(lnp, name)(np.array([5, 7], dtype), np.array([0, 4], dtype)).tolist() == [0, 3]


def test_hypot_of_infinity_and_nan_is_infinite():
    assert lnp.hypot(np.float32(np.inf), np.float32(np.nan)) == np.inf
    assert np.isnan(lnp.hypot(np.float32(1), np.float32(np.nan)))


def test_shapes_that_do_not_broadcast_are_value_and_type_errors():
    for kind in (TypeError, ValueError):
        with pytest.raises(kind, match=r"\(3,\), \(2,\)"):
            lnp.add(np.ones(3), np.ones(2))


def test_full_of_a_fitting_array_is_an_array_of_ours():
    assert isinstance(lnp.full((2,), np.array([True, False])), type(lnp.asarray(1)))


@pytest.mark.parametrize("call", [lambda: lnp.argmax(np.ones((2, 3)), axis=(0, 1)),
                                  lambda: lnp.frexp(np.array([1j], np.complex64))])
def test_an_axis_or_dtype_that_cannot_be_is_a_type_error(call):
    with pytest.raises(TypeError):
        call()


def test_logarithms_of_complex_sums() -> None:
    x, y = np.complex64([1 + 2j, -1j]), np.complex64([2 - 3j, 3])
    np.testing.assert_allclose(np.exp(np.asarray(lnp.logaddexp(x, y))), np.exp(x) + np.exp(y), rtol=1e-4)
    np.testing.assert_allclose(np.exp2(np.asarray(lnp.logaddexp2(x, y))), np.exp2(x) + np.exp2(y), rtol=1e-4)
    np.testing.assert_allclose(np.tan(np.asarray(lnp.arctan2(x, y))), x / y, rtol=1e-4)
    with pytest.raises(TypeError, match="hypot: expected real numbers"):
        lnp.hypot(x, y)


def test_which_functions_of_python_numbers_are_strong() -> None:
    assert not lnp.log2(0.5).weak_type and not lnp.log10(2).weak_type and not lnp.rint(2).weak_type
    assert lnp.rint(0.5).weak_type and lnp.convolve(np.array([True]), np.array([2])).dtype == np.float32


@pytest.mark.parametrize("call", [
    lambda: lnp.zeros(2, "float64"), lambda: lnp.ones(2, np.int64), lambda: lnp.full(2, 1, "complex128"),
    lambda: lnp.arange(3, dtype="int64"), lambda: lnp.ones(2).astype("float64"), lambda: lnp.astype(lnp.ones(2), "float64"),
    lambda: lnp.array([1.0], np.float64), lambda: lnp.asarray([1], "uint64"), lambda: lnp.zeros_like(lnp.ones(2), "float64"),
    lambda: lnp.linspace(0, 1, 3, dtype="float64"), lambda: lnp.float64(1), lambda: lnp.eye(2, dtype="float64"),
    lambda: lnp.sum(lnp.ones(5), dtype="float64"), lambda: lnp.cumsum(lnp.ones(5), dtype="float64"),
    lambda: lnp.concatenate([lnp.ones(5)], dtype="float64"), lambda: lnp.mean(lnp.ones(5), dtype="float64")])
def test_unavailable_dtypes_warn(call: Any) -> None:
    with config.enable_x64(True):
        call()  # warnings are errors here
    with pytest.warns(UserWarning, match="was requested, but 64 bits are off") as warned:
        assert call().dtype.itemsize in (4, 8)
    assert {w.filename for w in warned} == {__file__}


@pytest.mark.parametrize("call", [
    lambda: lnp.array(np.ones(2)), lambda: lnp.asarray(np.arange(2)), lambda: lnp.sin(np.ones(2)), lambda: lnp.zeros(2, float),
    lambda: lnp.ones(2).astype(int), lambda: lnp.zeros_like(np.ones(2)), lambda: lnp.array(np.float64(1)),
    lambda: lnp.array([1.0], dtype=float), lambda: lnp.full(2, np.float64(1)), lambda: lnp.linalg.norm(np.ones(2))])
def test_data_and_python_types_become_narrow_without_a_word(call: Any) -> None:
    assert call().dtype.itemsize == 4


def test_a_dtype_that_was_asked_for_or_brought_along_is_not_weak() -> None:
    weak = lnp.asarray(2j)
    assert weak.weak_type and lnp.arange(2).__add__(1j).weak_type
    for real in (weak.astype("float32"), lnp.asarray(weak, "float32"), lnp.array(weak, dtype="float32"),
                 lnp.copysign(2.5, lnp.float32(-1))):
        assert not real.weak_type and (real + lnp.float16(1)).dtype == "float32"
    assert lnp.real(weak).weak_type and lnp.copysign(2.5, lnp.asarray(-1.0)).weak_type
