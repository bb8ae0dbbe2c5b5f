"""Abstract values."""
import pickle

import numpy as np
import pytest

from lamina_ir import ShapeDtypeStruct, ShapedArray, UnboundAxisError, aval_of, config, dtypes, register_aval, shaped
from lamina_ir._types import avals
from lamina_ir.extend import set_axis_size_reader

F32 = dtypes.as_dtype("float32")


def test_equality_texts_and_hash():
    a, b = shaped((8, 3), F32), ShapedArray((8, 3), F32)
    assert a == b and hash(a) == hash(b) and a != ShapedArray((8, 3), F32, True)
    assert (a.str_short(), a.str_long(), repr(a)) == ("f32[8,3]", "float32[8,3]", "ShapedArray(float32[8,3])")
    assert a.same_type(shaped((8, 3), F32, True)) and shaped((), F32, True).strip_weak_type() == shaped((), F32)
    assert (a.ndim, a.size, shaped((), F32).size) == (2, 24, 1)
    assert pickle.loads(pickle.dumps(a)) == a


@pytest.mark.parametrize(("value", "text", "weak"), [
    (True, "bool[]", False), (1, "int32[]", True), (1.0, "float32[]", True), (1j, "complex64[]", True),
    (np.float64(1), "float32[]", False), (np.ones(3), "float32[3]", False), (np.ones(2, np.int8), "int8[2]", False)])
def test_avals_of_values(value, text, weak):
    aval = aval_of(value)
    assert (aval.str_long(), aval.weak_type) == (text, weak)


def test_dtype_widths_follow_enable_x64():
    with config.enable_x64(True):
        assert aval_of(1.0).str_long() == "float64[]" and aval_of(np.ones(2)).str_long() == "float64[2]"


@pytest.mark.parametrize("value", ["text", None, [1, 2], object()])
def test_values_without_aval_are_rejected(value):
    with pytest.raises(TypeError, match="expected an array or a number"):
        aval_of(value)


def test_unsupported_values_are_rejected():
    with pytest.raises(OverflowError):
        aval_of(2**40)
    with pytest.raises(TypeError):
        aval_of(np.array(["a"]))


def test_registered_type_covers_subclasses():
    class Mine:
        pass

    class Sub(Mine):
        pass
    register_aval(Mine, lambda x: shaped((5,), F32))
    assert aval_of(Mine()) == aval_of(Sub()) == shaped((5,), F32)


def test_shape_dtype_struct():
    s = ShapeDtypeStruct([2, 3], "bfloat16")
    assert (s.shape, s.ndim, s.size, s.dtype) == ((2, 3), 2, 6, dtypes.bfloat16)
    assert s == ShapeDtypeStruct((2, 3), dtypes.bfloat16) and s != ShapeDtypeStruct((2,), "bfloat16")
    assert len({s, ShapeDtypeStruct((2, 3), "bfloat16")}) == 1
    weak = ShapeDtypeStruct((2, 3), "bfloat16", weak_type=True)
    assert weak == s and repr(weak) == repr(s) and hash(weak) == hash(s)


def test_masked_arrays_are_rejected():
    with pytest.raises(ValueError, match="masked"):
        aval_of(np.ma.masked_array([1.0], [True]))


def test_shaped_accepts_dtype_names_and_numpy_sizes():
    assert shaped((3,), "float32") == shaped((3,), F32) and type(shaped((3,), "float32").dtype) is type(F32)
    assert all(type(n) is int for n in shaped((np.int64(7), 9), F32).shape)
    with pytest.raises(TypeError):
        shaped((1.5,), F32)


def test_named_axis_sizes_come_from_scope():
    kept = avals._axis_sizes
    named = shaped((3,), F32).with_varying_axes(frozenset(["b", "c"]))
    assert shaped((3,), F32).named_shape == {}
    try:
        set_axis_size_reader(lambda: [("c", 2), ("z", 5), ("b", 8)])
        assert [*named.named_shape.items()] == [("c", 2), ("b", 8)]
        assert repr(named) == "ShapedArray(float32[3]{b:8,c:2})" and named.str_short() == "f32[3]{b,c}"
        set_axis_size_reader(lambda: [("c", 2)])
        assert repr(named) == "ShapedArray(float32[3]{b,c:2})"
        with pytest.raises(UnboundAxisError, match=r"named_shape of f32\[3\]{b,c}: the axis 'b' is not bound here"):
            _ = named.named_shape
    finally:
        set_axis_size_reader(kept)


def test_shape_dtype_struct_keeps_named_shape():
    s = ShapeDtypeStruct((3,), F32, named_shape={"b": 8})
    assert s.named_shape == {"b": 8} and s != ShapeDtypeStruct((3,), F32)
    assert s == ShapeDtypeStruct((3,), F32, named_shape={"b": 8})
    assert repr(s) == "ShapeDtypeStruct(shape=(3,), dtype=float32, named_shape={'b': 8})"
    assert pickle.loads(pickle.dumps(s)) == s
