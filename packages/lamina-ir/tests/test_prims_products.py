"""Types and evaluation of dot_general."""
from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from lamina_ir import DTypeError, ShapeError, check, dumps, evaluate_primitive, loads, parse, prims, shaped
from lamina_ir.prims import DotAlgorithm, DotAlgorithmPreset, Precision, as_dot_precision, as_precision

F32 = np.dtype("float32")


def infer(xs, ys, numbers, preferred=None, dtypes=(F32, F32)):
    return prims.dot_general_p.infer(shaped(xs, dtypes[0]), shaped(ys, dtypes[1]), dimension_numbers=numbers,
                                     precision=None, preferred_element_type=preferred)


def test_result_axes_are_batch_then_free():
    assert infer((7, 3, 4), (4, 5, 7), (((2,), (0,)), ((0,), (2,)))).shape == (7, 3, 5)


def test_contracted_axes_must_have_equal_sizes():
    with pytest.raises(ShapeError, match=r"contracted.*lhs float32\[8,3\] axis 1 \(3\), rhs .* axis 0 \(4\)"):
        infer((8, 3), (4, 5), (((1,), (0,)), ((), ())))


@pytest.mark.parametrize("numbers", [(((1,), (0,)), ((), ())), (((0,), (1,)), ((), ())), (((0, 1), (0, 1)), ((), ()))])
def test_product_of_infinity_and_zero_is_nan_without_a_warning(numbers):
    x = np.array([[np.inf, 0], [0, 1]], np.float32)
    found = evaluate_primitive(prims.dot_general_p, (x, np.zeros_like(x)), {
        "dimension_numbers": numbers, "precision": None, "preferred_element_type": None})
    assert np.isnan(found).any()


def test_axes_are_used_once():
    with pytest.raises(ShapeError, match="distinct"):
        infer((3, 3), (3, 3), (((1,), (0,)), ((1,), (1,))))


def test_mixed_dtypes_need_preferred_element_type():
    mixed = (F32, np.dtype("float16"))
    with pytest.raises(DTypeError, match="preferred_element_type"):
        infer((2, 3), (3, 2), (((1,), (0,)), ((), ())), dtypes=mixed)
    assert infer((2, 3), (3, 2), (((1,), (0,)), ((), ())), preferred=F32, dtypes=mixed).dtype == F32


def test_precision_names():
    assert as_precision("highest") == (Precision.HIGHEST, Precision.HIGHEST)
    assert as_precision((None, "high")) == (Precision.DEFAULT, Precision.HIGH)
    assert as_precision(None) is None
    with pytest.raises(ValueError, match="'best'"):
        as_precision("best")


def test_names_of_algorithms():
    assert as_dot_precision("F32_F32_F32") is DotAlgorithmPreset.F32_F32_F32
    assert as_dot_precision(DotAlgorithmPreset.DEFAULT) is None and as_dot_precision("default") == as_precision("default")
    assert as_dot_precision(DotAlgorithm(np.float16, "float16", np.float32)) is DotAlgorithmPreset.F16_F16_F32
    assert as_dot_precision(DotAlgorithm("tf32", "tf32", F32, 1, 1, 3)) is DotAlgorithmPreset.TF32_TF32_F32_X3
    f8 = ml_dtypes.float8_e4m3fn
    assert as_dot_precision(DotAlgorithm(f8, f8, F32)) is DotAlgorithmPreset.ANY_F8_ANY_F8_F32
    with pytest.raises(ValueError, match="must be one of the algorithms of lax.DotAlgorithmPreset; got DotAlgorithm"):
        as_dot_precision(DotAlgorithm(np.float32, np.float16, F32))
    with pytest.raises(ValueError, match="a lax.DotAlgorithmPreset, one of .*; got 'BF17'"):
        as_dot_precision("BF17")


@pytest.mark.parametrize("name, rounded, error", [
    ("F16_F16_F16", np.float16, 5e-3), ("F16_F16_F32", np.float16, 1e-6), ("BF16_BF16_F32", ml_dtypes.bfloat16, 1e-6),
    ("BF16_BF16_BF16", ml_dtypes.bfloat16, 2e-2), ("BF16_BF16_F32_X6", np.float32, 1e-6), ("F32_F32_F32", np.float32, 1e-6),
    ("F64_F64_F64", np.float64, 1e-7)])
def test_algorithms_round_the_operands(name, rounded, error):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(5, 16)).astype(np.float32), rng.normal(size=(16, 7)).astype(np.float32)
    got = evaluate_primitive(prims.dot_general_p, (x, y), {
        "dimension_numbers": (((1,), (0,)), ((), ())), "precision": DotAlgorithmPreset[name], "preferred_element_type": None})
    assert got.dtype == np.float32
    want = x.astype(rounded).astype(np.float64) @ y.astype(rounded).astype(np.float64)
    np.testing.assert_allclose(got, want, error, 10 * error)


def test_tf32_keeps_ten_bits():
    params = {"dimension_numbers": (((0,), (0,)), ((), ())), "precision": DotAlgorithmPreset.TF32_TF32_F32,
              "preferred_element_type": None}
    x, one = np.float32([1 + 2.0 ** -10, 1 + 2.0 ** -12]), np.float32([1, 1])
    assert evaluate_primitive(prims.dot_general_p, (x, one), params) == np.float32(2 + 2.0 ** -10)


def test_algorithms_need_floats():
    params = {"dimension_numbers": (((0,), (0,)), ((), ())), "preferred_element_type": None}
    with pytest.raises(DTypeError, match=r"precision F32_F32_F32 needs operands of a float dtype; got int32\[2\]"):
        prims.dot_general_p.infer(*[shaped((2,), np.dtype("int32"))] * 2, precision=DotAlgorithmPreset.F32_F32_F32, **params)
    with pytest.raises(DTypeError, match=r"needs operands of an 8-bit float dtype; got float64\[2\]"):
        prims.dot_general_p.infer(*[shaped((2,), np.dtype("float64"))] * 2, precision=DotAlgorithmPreset.ANY_F8_ANY_F8_F32,
                                  **params)


def test_algorithms_are_printed_and_parsed():
    text = ("{ lambda ; a:f32[2]. let b:f32[] = dot_general[dimension_numbers=(((0,), (0,)), ((), ())) "
            "precision=DotAlgorithmPreset.BF16_BF16_F32 preferred_element_type=None] a a in (b,) }")
    closed = parse(text)
    check(closed)
    assert closed.eqns[0].params["precision"] is DotAlgorithmPreset.BF16_BF16_F32
    assert "precision=DotAlgorithmPreset.BF16_BF16_F32" in str(closed)
    assert str(loads(dumps(closed))) == str(closed)
