"""The elementwise functions: Python scalars take the dtype of the other operand, and composite functions."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_ir import DTypeError, dtypes
from lamina_tracing import lax, make_jaxpr

X = np.array([1.0, 2.0, 3.0], np.float32)
N = np.array([1, 2, 3], np.int32)


@pytest.mark.parametrize(("x", "y", "dtype"), [
    (X, 2.0, "float32"), (X, 2, "float32"), (N, 2, "int32"), (2, N, "int32"),
    (X.astype(dtypes.bfloat16), 2.0, "bfloat16"), (X.astype(np.complex64), 2.0, "complex64"),
    (N.astype(np.uint8), 2, "uint8")])
def test_python_scalar_takes_dtype_of_other_operand(x, y, dtype):
    out = lax.mul(x, y)
    assert out.dtype == dtype and not out.weak_type


def test_float_with_integer_array_is_rejected():
    with pytest.raises(DTypeError, match=r"mul: operands need one dtype; got int32\[3\] and float32\[\]"):
        lax.mul(N, 2.5)


def test_python_scalar_is_a_literal():
    program = make_jaxpr(lambda x: lax.add(lax.mul(x, 2.0), 1))(X)
    assert str(program).split() == ("{ lambda ; a:f32[3]. let b:f32[3] = mul a 2.0:f32[] "
                                    "c:f32[3] = add b 1.0:f32[] in (c,) }").split()


def test_select_n():
    assert lax.select_n(np.array([True, False, True]), X, -X).tolist() == [-1, 2, -3]
    assert lax.select_n(np.array([0, 2, 1], np.int32), X, 10 * X, 100 * X).tolist() == [1, 200, 30]
    with pytest.raises(ValueError, match="two cases"):
        lax.select_n(np.array(True), X, X, X)


def test_clamp_accepts_python_scalars():
    assert lax.clamp(1.5, X, 2.5).tolist() == [1.5, 2.0, 2.5]
    assert lax.clamp(0, N, 2).tolist() == [1, 2, 2]


def test_integer_pow():
    assert lax.integer_pow(X, -2).tolist() == [1.0, 0.25, np.float32(1 / 9)]
    assert lax.integer_pow(N, 0).tolist() == [1, 1, 1]
    with pytest.raises(DTypeError, match="negative power"):
        lax.integer_pow(N, -1)


def test_convert_element_type_canonicalizes_and_skips_equal_dtypes():
    with pytest.warns(UserWarning, match="float64 was requested, but 64 bits are off, so this is float32.*enable_x64"):
        y = lax.convert_element_type(X, "float64")
    assert y.dtype == np.float32
    assert lax.convert_element_type(y, np.float32) is y
    assert lax.convert_element_type(np.array([1 + 2j, 0], np.complex64), bool).tolist() == [True, False]
    assert not lax.convert_element_type(2.0, np.float32).weak_type


def test_stop_gradient_accepts_trees():
    out = lax.stop_gradient({"a": X, "b": (N, 3)})
    assert out["a"].tolist() == X.tolist() and out["b"][0].tolist() == N.tolist()


def test_conj_of_real_array_is_complex():
    assert lax.conj(X).dtype == np.complex64
    assert lax.conj(np.array([1 + 2j], np.complex64)).tolist() == [1 - 2j]


def test_rounding_of_halves():
    x = np.array([0.5, 1.5, -0.5], np.float32)
    assert lax.round(x).tolist() == [1, 2, -1]
    assert lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN).tolist() == [0, 2, 0]


def test_axes_of_length_1_are_broadcast():
    row, column = np.float32([[1, 2, 3]]), np.float32([[10], [20]])
    assert lax.add(row, column).tolist() == [[11, 12, 13], [21, 22, 23]]
    assert lax.lt(np.zeros((1, 0)), np.ones((2, 1))).shape == (2, 0)
    with pytest.raises(ValueError, match="one shape"):
        lax.add(row, column[:, 0])


def test_angle_of_complex_numbers():
    y, x = np.complex64([1 + 2j, 0.5j]), np.complex64([2 + 1j, 3])
    np.testing.assert_allclose(np.tan(np.asarray(lax.atan2(y, x))), y / x, rtol=1e-5)


def test_power_is_weak_if_both_operands_are_weak():
    assert not lax.pow(2.5, np.int32([1, 2])).weak_type and lax.pow(2.5, 2.5).weak_type


@pytest.mark.parametrize(("x", "y", "wanted"), [(1, 2.5, "float32"), (2.5, 1j, "complex64"), (1j, 2, "complex64")])
def test_python_scalars_of_different_kinds_are_promoted(x, y, wanted):
    assert lax.add(x, y) == lax.add(y, x) == x + y and lax.add(x, y).dtype == wanted
    assert not lax.eq(x, y)
