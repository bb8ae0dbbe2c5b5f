"""Types and NumPy evaluation of the elementwise primitives."""
from __future__ import annotations

import math

import numpy as np
import pytest
from lamina_ir import DTypeError, ShapeError, dtypes, prims, shaped

F32, F64, I32, U8, BOOL, C64 = map(np.dtype, ("float32", "float64", "int32", "uint8", "bool", "complex64"))
V, W, S = shaped((3,), F32), shaped((3,), F32, True), shaped((), F32)


def test_type_rules_return_the_operand_aval_object():
    for prim in (prims.sin_p, prims.neg_p, prims.floor_p, prims.stop_gradient_p):
        assert prim.infer(V) is V
    assert prims.add_p.infer(V, V) is V
    assert prims.mul_p.infer(V, S) is V and prims.mul_p.infer(S, V) is V
    assert prims.select_p.infer(shaped((3,), BOOL), V, V) is V


def test_result_is_weak_only_if_all_operands_are_weak():
    assert prims.add_p.infer(W, W) is W
    assert prims.add_p.infer(W, V) is V
    assert prims.add_p.infer(shaped((), F32, True), V) is V


def test_comparisons_return_booleans():
    assert prims.lt_p.infer(V, S) == shaped((3,), BOOL)
    assert prims.is_finite_p.infer(V) == shaped((3,), BOOL)


def test_complex_real_and_imag():
    assert prims.complex_p.infer(V, S) == shaped((3,), C64)
    assert prims.abs_p.infer(shaped((3,), C64)) == V
    assert prims.imag_p.infer(shaped((3,), C64)) == V


@pytest.mark.parametrize(("prim", "avals", "params", "error", "words"), [
    (prims.add_p, (V, shaped((3,), I32)), {}, DTypeError,
     r"add: operands need one dtype; got float32\[3\] and int32\[3\]"),
    (prims.add_p, (V, shaped((4,), F32)), {}, ShapeError, r"add: operands need one shape.*float32\[3\], float32\[4\]"),
    (prims.sin_p, (shaped((3,), I32),), {}, DTypeError, r"sin: expected float or complex numbers; got int32\[3\]"),
    (prims.lt_p, (shaped((), C64),) * 2, {}, DTypeError, "real numbers"),
    (prims.and_p, (V, V), {}, DTypeError, "integers or truth values"),
    (prims.select_p, (V, V, V), {}, DTypeError, "pred must be bool"),
    (prims.complex_p, (shaped((), dtypes.bfloat16),) * 2, {}, DTypeError, "float32 or float64"),
    (prims.bitcast_convert_type_p, (shaped((3,), U8),), dict(new_dtype=I32), ShapeError, "last axis"),
    (prims.bitcast_convert_type_p, (shaped((3,), BOOL),), dict(new_dtype=I32), DTypeError, "bool"),
])
def test_ill_formed_operands_are_rejected(prim, avals, params, error, words):
    with pytest.raises(error, match=words):
        prim.infer(*avals, **params)


def test_bitcast_changes_last_axis():
    assert prims.bitcast_convert_type_p.infer(V, new_dtype=U8) == shaped((3, 4), U8)
    assert prims.bitcast_convert_type_p.infer(shaped((3, 4), U8), new_dtype=F32) == V


def test_integer_division_truncates_and_handles_zero():
    x, y = np.array([7, -7, 5, -2**31], np.int32), np.array([2, 2, 0, -1], np.int32)
    assert prims.div_p.numpy(x, y).tolist() == [3, -3, -1, -2**31]
    assert prims.rem_p.numpy(x, y).tolist() == [1, -1, 5, 0]


def test_shifts_by_the_width_or_more_move_every_bit_out():
    x, y = np.array([-8, -8, 8], np.int32), np.array([2, 40, -1], np.int32)
    assert prims.shift_right_arithmetic_p.numpy(x, y).tolist() == [-2, -1, 0]
    assert prims.shift_left_p.numpy(x, y).tolist() == [-32, 0, 0]


def test_float_to_integer_conversion_saturates():
    x = np.array([1e20, -1e20, np.nan, 3.7, -3.7], np.float32)
    convert = prims.convert_element_type_p.numpy
    assert convert(x, new_dtype=I32, weak_type=False).tolist() == [2**31 - 1, -2**31, 0, 3, -3]
    assert convert(x, new_dtype=U8, weak_type=False).tolist() == [255, 0, 0, 3, 0]
    assert convert(x[2:], new_dtype=BOOL, weak_type=False).tolist() == [True, True, True]


def test_bit_counts():
    x = np.array([0, 1, 255, 16], np.uint8)
    assert prims.population_count_p.numpy(x).tolist() == [0, 1, 8, 1]
    assert prims.clz_p.numpy(x).tolist() == [8, 7, 0, 3]


# --- special functions, against identities and known values ----------------------------------------------------------

def close(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=2e-12, atol=1e-14)


def test_erf_inv_inverts_erf():
    y = np.array([-1 + 1e-9, -0.97, -0.5, 1e-9, 0.3, 0.8999, 0.9001, 1 - 1e-9])
    x = prims.erf_inv_p.numpy(y)
    np.testing.assert_allclose([math.erf(v) for v in x], y, rtol=1e-15, atol=0)
    np.testing.assert_allclose(math.erfc(x[-1]), 1e-9, rtol=1e-6)
    assert prims.erf_inv_p.numpy(np.array([1.0, -1.0])).tolist() == [math.inf, -math.inf]


def test_digamma_obeys_its_recurrence_and_reflection():
    x = np.array([0.1, 0.7, 1.5, 3.0, 20.0, -0.5, -3.3])
    digamma = prims.digamma_p.numpy
    close(digamma(x + 1), digamma(x) + 1 / x)
    close(digamma(np.array(1.0)), -0.57721566490153286)
    assert np.isnan(digamma(np.array([0.0, -2.0]))).all()


def test_zeta_and_polygamma_at_known_values():
    zeta, polygamma = prims.zeta_p.numpy, prims.polygamma_p.numpy
    two, four, one = np.array(2.0), np.array(4.0), np.array(1.0)
    close(zeta(two, one), math.pi**2 / 6)
    close(zeta(four, one), math.pi**4 / 90)
    close(zeta(np.array(3.5), np.array(2.5)) - zeta(np.array(3.5), np.array(3.5)), 2.5**-3.5)
    close(polygamma(one, one), math.pi**2 / 6)
    close(polygamma(two, one), -2 * 1.2020569031595943)
    assert np.isnan(zeta(np.array(0.5), one)) and np.isinf(zeta(one, two))


def test_bessel_i1e_is_odd_and_continuous_between_series():
    i1e = prims.bessel_i1e_p.numpy
    x = np.array([0.0, 0.5, 1.0, 30.0, 30.000001, 300.0])
    close(i1e(-x), -i1e(x))
    close(i1e(np.array(1.0)), 0.56515910399248503 / math.e)
    np.testing.assert_allclose(i1e(x)[3], i1e(x)[4], rtol=1e-7)
