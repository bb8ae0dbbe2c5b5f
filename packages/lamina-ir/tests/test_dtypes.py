"""The promotion lattice against the table users of jax-style systems know, names, and canonical widths."""
import itertools

import ml_dtypes
import numpy as np
import pytest

from lamina_ir import DTypeError, config, dtypes

# Promotion of row with column in 64-bit mode. Digits are bytes; i*, f* and c* are weak, like Python scalars.
TABLE = """\
    b1  u1  u2  u4  u8  i1  i2  i4  i8  bf  f2  f4  f8  c8  c16 i*  f*  c*
b1  b1  u1  u2  u4  u8  i1  i2  i4  i8  bf  f2  f4  f8  c8  c16 i*  f*  c*
u1  u1  u1  u2  u4  u8  i2  i2  i4  i8  bf  f2  f4  f8  c8  c16 u1  f*  c*
u2  u2  u2  u2  u4  u8  i4  i4  i4  i8  bf  f2  f4  f8  c8  c16 u2  f*  c*
u4  u4  u4  u4  u4  u8  i8  i8  i8  i8  bf  f2  f4  f8  c8  c16 u4  f*  c*
u8  u8  u8  u8  u8  u8  f*  f*  f*  f*  bf  f2  f4  f8  c8  c16 u8  f*  c*
i1  i1  i2  i4  i8  f*  i1  i2  i4  i8  bf  f2  f4  f8  c8  c16 i1  f*  c*
i2  i2  i2  i4  i8  f*  i2  i2  i4  i8  bf  f2  f4  f8  c8  c16 i2  f*  c*
i4  i4  i4  i4  i8  f*  i4  i4  i4  i8  bf  f2  f4  f8  c8  c16 i4  f*  c*
i8  i8  i8  i8  i8  f*  i8  i8  i8  i8  bf  f2  f4  f8  c8  c16 i8  f*  c*
bf  bf  bf  bf  bf  bf  bf  bf  bf  bf  bf  f4  f4  f8  c8  c16 bf  bf  c8
f2  f2  f2  f2  f2  f2  f2  f2  f2  f2  f4  f2  f4  f8  c8  c16 f2  f2  c8
f4  f4  f4  f4  f4  f4  f4  f4  f4  f4  f4  f4  f4  f8  c8  c16 f4  f4  c8
f8  f8  f8  f8  f8  f8  f8  f8  f8  f8  f8  f8  f8  f8  c16 c16 f8  f8  c16
c8  c8  c8  c8  c8  c8  c8  c8  c8  c8  c8  c8  c8  c16 c8  c16 c8  c8  c8
c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16
i*  i*  u1  u2  u4  u8  i1  i2  i4  i8  bf  f2  f4  f8  c8  c16 i*  f*  c*
f*  f*  f*  f*  f*  f*  f*  f*  f*  f*  bf  f2  f4  f8  c8  c16 f*  f*  c*
c*  c*  c*  c*  c*  c*  c*  c*  c*  c*  c8  c8  c8  c16 c8  c16 c*  c*  c*
"""
FULL = {"b1": "bool", "bf": "bfloat16", "i*": "int64", "f*": "float64", "c*": "complex128",
        **{f"{k}{n}": f"{name}{8 * n}" for k, name in (("u", "uint"), ("i", "int"), ("f", "float"), ("c", "complex"))
           for n in (1, 2, 4, 8, 16)}}


def node(name):
    return dtypes.canonicalize(FULL[name]), name.endswith("*")


def rows():
    head, *lines = TABLE.strip("\n").split("\n")
    names = head.split()
    for line in lines:
        first, *cells = line.split()
        for second, cell in zip(names, cells, strict=True):
            yield first, second, cell


def test_promotion_in_64_bit_mode():
    with config.enable_x64(True):
        wrong = [(a, b, want) for a, b, want in rows() if dtypes.promote(node(a), node(b)) != node(want)]
    assert not wrong


def test_promotion_in_32_bit_mode_is_the_same_table_narrowed():
    narrow = {"i8", "u8", "f8", "c16"}
    wrong = [(a, b, want) for a, b, want in rows() if not {a, b} & narrow
             and dtypes.promote(node(a), node(b)) != node(want)]
    assert not wrong


def test_promotion_is_symmetric_and_idempotent():
    names = TABLE.split("\n")[0].split()
    for a, b in itertools.product(names, names):
        assert dtypes.promote(node(a), node(b)) == dtypes.promote(node(b), node(a))
    for a in names:
        assert dtypes.promote(node(a)) == dtypes.promote(node(a), node(a)) == node(a)


def test_small_floats_need_explicit_promotion():
    with pytest.raises(DTypeError, match="no implicit promotion"):
        dtypes.promote((dtypes.as_dtype("float8_e4m3fn"), False), (dtypes.as_dtype("float32"), False))
    assert dtypes.promote((dtypes.as_dtype("float8_e4m3fn"), False), node("f*"))[0].name == "float8_e4m3fn"


def test_strict_promotion_rejects_mixed_dtypes():
    with config.numpy_dtype_promotion("strict"):
        assert dtypes.promote(node("f4"), node("f*")) == node("f4")
        with pytest.raises(DTypeError, match="strict dtype promotion refuses to mix float32, int32"):
            dtypes.promote(node("f4"), node("i4"))
        assert dtypes.promote(node("i*"), node("f*")) == node("f*")
        with pytest.raises(DTypeError, match="refuses to mix float32\\*, int32"):
            dtypes.promote(node("i4"), node("f*"))


@pytest.mark.parametrize("name", sorted(dtypes.SHORT_NAMES))
def test_short_names_are_a_bijection(name):
    assert dtypes.short_name(dtypes.from_short_name(name)) == name


@pytest.mark.parametrize(("spec", "name"), [(bool, "bool"), (int, "int64"), (float, "float64"),
                                            ("bfloat16", "bfloat16"), (np.float16, "float16"),
                                            (ml_dtypes.int4, "int4"), (">f4", "float32")])
def test_as_dtype(spec, name):
    assert dtypes.as_dtype(spec).name == name


@pytest.mark.parametrize("spec", [object, "datetime64[s]", "U3", "nonsense", 3])
def test_as_dtype_rejects_other_values(spec):
    with pytest.raises(TypeError):
        dtypes.as_dtype(spec)


@pytest.mark.parametrize("spec, name", [
    ("bf16", "bfloat16"), ("f32", "float32"), ("fp16", "float16"), ("f16", "float16"), ("i32", "int32"), ("u16", "uint16"),
    ("c64", "complex64"), ("f8_e5m2", "float8_e5m2"), ("fp8_e5m2", "float8_e5m2"), ("bfloat", "bfloat16"),
    ("Float32", "float32"), ("flot32", "float32")])
def test_error_suggests_the_dtype(spec, name):
    with pytest.raises(DTypeError, match=rf"; did you mean '{name}'\?\n"):
        dtypes.as_dtype(spec)


def test_error_suggests_all_dtypes_that_begin_like_the_name():
    with pytest.raises(DTypeError, match="did you mean 'float8_.*' or 'float8_"):
        dtypes.as_dtype("fp8")


@pytest.mark.parametrize("spec", ["tf32", "text", "", "f4,,", ["f32"], None.__class__, "U3"])
def test_error_suggests_no_dtype_without_a_similar_name(spec):
    with pytest.raises(DTypeError) as caught:
        dtypes.as_dtype(spec)
    assert "did you mean" not in str(caught.value)


def test_canonical_widths_follow_enable_x64():
    assert dtypes.canonicalize("float64").name == "float32" and dtypes.canonicalize(complex).name == "complex64"
    with config.enable_x64(True):
        assert dtypes.canonicalize("float64").name == "float64" and dtypes.canonical_int().name == "int64"


def test_int_overflow_error_names_the_fix():
    assert dtypes.dtype_of_int(2**31 - 1).name == "int32"
    with pytest.raises(OverflowError, match="config.enable_x64"):
        dtypes.dtype_of_int(2**31)


def test_tangent_dtypes():
    assert dtypes.tangent_dtype(dtypes.as_dtype("int32")) == dtypes.float0
    assert dtypes.tangent_dtype(dtypes.bfloat16) == dtypes.bfloat16


@pytest.mark.parametrize(("a", "b", "want"), [
    ("bfloat16", np.floating, True), ("bfloat16", np.inexact, True), ("bfloat16", np.integer, False),
    ("int4", np.signedinteger, True), ("uint4", np.unsignedinteger, True), ("uint4", np.signedinteger, False),
    ("float32", np.floating, True), ("float32", "float32", True), ("float32", "float64", False),
    (np.floating, np.inexact, True), ("bool", np.bool_, True), ("int4", np.number, True)])
def test_issubdtype_supports_extended_floats(a, b, want):
    assert dtypes.issubdtype(a, b) is want


def test_finfo_and_iinfo_support_small_dtypes():
    assert float(dtypes.finfo("bfloat16").max) == pytest.approx(3.39e38, rel=1e-2)
    assert dtypes.iinfo("int4").max == 7 and dtypes.finfo("float32").bits == 32


@pytest.mark.parametrize("name, bits", [("bool", 8), ("int4", 4), ("uint2", 2), ("int64", 64), ("bfloat16", 16),
                                        ("complex64", 64), ("float8_e4m3fn", 8), ("float4_e2m1fn", 4), ("float6_e2m3fn", 6)])
def test_bits_of_an_element(name, bits):
    assert dtypes.itemsize_bits(name) == bits


def test_bits_of_keys_are_not_defined():
    with pytest.raises(ValueError, match="itemsize_bits: the size of keys is not defined; got key<fry>"):
        dtypes.itemsize_bits(dtypes.key_type("fry"))
