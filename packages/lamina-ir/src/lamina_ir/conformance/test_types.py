"""Types of arrays and scalars: promotion, and combinations that are rejected."""
from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from lamina_ir import (DTypeError, ShapedArray, ShapeDtypeStruct, aval_of, config, dtypes, evaluate_primitive, prims,
                       result_type, shaped)
from lamina_ir.testing.samples import samples_of

F32 = np.dtype("float32")


@pytest.mark.parametrize(("value", "shape", "dtype", "weak"), [
    (np.zeros((2, 3), np.float32), (2, 3), "float32", False), (np.int8(3), (), "int8", False), (2.0, (), "float32", True),
    (3, (), "int32", True), (True, (), "bool", None), (1j, (), "complex64", True), (np.zeros(3), (3,), "float32", False),
    (np.zeros(2, ml_dtypes.bfloat16), (2,), "bfloat16", False)])
def test_avals_of_values(value, shape, dtype, weak):
    aval = aval_of(value)
    assert (aval.shape, str(aval.dtype)) == (shape, dtype) and (weak is None or aval.weak_type is weak)


def test_64_bit_dtypes_depend_on_enable_x64():
    with config.enable_x64(True):
        assert str(aval_of(np.zeros(3)).dtype) == "float64" and str(aval_of(2.0).dtype) == "float64"
    assert str(aval_of(np.zeros(3)).dtype) == "float32"


@pytest.mark.parametrize(("xs", "dtype"), [
    ((np.float32(1), np.float16(1)), "float32"), ((np.int32(1), np.float16(1)), "float16"), ((np.float16(1), 2.5), "float16"),
    ((np.int8(1), 300), "int8"), ((np.int32(1), 2.5), "float32"), ((np.bool_(1), np.int8(1)), "int8"),
    ((np.float32(1), 1j), "complex64"), ((ml_dtypes.bfloat16(1), np.float16(1)), "float32"),
    ((np.uint8(1), np.int8(1)), "int16"),
    ((1, 2.0), "float32"), ((np.uint8(1), np.int32(1)), "int32")])
def test_result_type_promotes(xs, dtype):
    assert str(result_type(*xs)) == dtype and str(result_type(*xs[::-1])) == dtype


def test_avals_compare_and_hash_by_value():
    a = shaped((2, 3), F32)
    assert a == ShapedArray((2, 3), F32) and hash(a) == hash(shaped((2, 3), F32)) and a != shaped((3, 2), F32)
    assert (a.ndim, a.size) == (2, 6) and shaped((), F32,
                                                 True).weak_type and shaped((), F32, True).strip_weak_type() == shaped((), F32)
    s = ShapeDtypeStruct((2,), "float32")
    assert s.shape == (2,) and s.dtype == F32 and s == ShapeDtypeStruct((2,), np.float32)


def test_short_dtype_names_round_trip():
    for name in dtypes.SHORT_NAMES:
        assert dtypes.SHORT_NAMES[name] if isinstance(dtypes.SHORT_NAMES, dict) else True
        d = dtypes.from_short_name(name)
        assert dtypes.as_dtype(d) == d


@pytest.mark.parametrize("prim", [p for p in prims.ALL if p.elementwise and p.family == "elementwise"
                                  and len(samples_of(p)[0].args) == 2], ids=lambda p: p.name)
def test_elementwise_primitives_need_equal_shapes(prim):
    sample = samples_of(prim)[0]
    a, b = (shaped((2, 3), x.dtype) for x in sample.args)
    assert prim.infer(a, b, **sample.params).shape == (2, 3)
    with pytest.raises(ValueError, match=prim.name):
        prim.infer(a, shaped((3, 2), b.dtype), **sample.params)


@pytest.mark.parametrize(("name", "dtypes_", "words"), [
    ("add", ("float32", "int32"), "add"), ("sin", ("int32",), "sin"), ("and", ("float32", "float32"), "and"),
    ("mul", ("float32", "float16"), "mul")])
def test_wrong_dtypes_are_rejected(name, dtypes_, words):
    with pytest.raises((DTypeError, TypeError), match=words):
        getattr(prims, f"{name}_p").infer(*[shaped((3,), np.dtype(d)) for d in dtypes_])


# Rounding is linear only up to rounding errors; primitives with regions are tested with the passes.
LINEAR = [s for p in prims.ALL if p.linear_in and p.region_signature is None and not p.axis_params
          and p.name != "reduce_precision"
          for s in samples_of(p) if all(s.args[i].dtype == np.float32 for i in p.linear_in if i < len(s.args))]


@pytest.mark.parametrize("sample", LINEAR, ids=lambda s: s.id)
def test_primitives_declared_linear_are_linear(sample):
    """Twice the operands give twice the result; transformations rely on this fact."""
    prim = sample.prim
    twice = [a * np.float32(2) if i in prim.linear_in else a for i, a in enumerate(sample.args)]
    one, two = (evaluate_primitive(prim, args, sample.params) for args in (sample.args, twice))
    for a, b in zip(one if prim.multiple else (one,), two if prim.multiple else (two,), strict=True):
        if np.asarray(a).dtype.kind in "fc":
            np.testing.assert_allclose(np.asarray(b), 2 * np.asarray(a), rtol=1e-4, atol=1e-5)
