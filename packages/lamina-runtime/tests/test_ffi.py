"""Foreign functions: lowering rules that call them, and their registration."""
import lamina_runtime  # noqa: F401
import numpy as np
import pytest
from lamina_ir import Primitive, parse, prims, shaped
from lamina_lowering import lower
from lamina_lowering.extend import ffi_lowering, lowering_rules
from lamina_runtime import ffi
from lamina_tracing import jit
from lamina_tracing.extend import bind

PROGRAM = parse("{ lambda ; a:f32[2,3] b:f32[]. let c:f32[2,3] = mul a b in (c,) }")
X = np.array([[4, 2], [2, 5]], np.float32)


def text(**options):
    with lowering_rules.override(prims.mul_p, ffi_lowering("kernel", **options)):
        return lower(PROGRAM).as_text()


@pytest.mark.parametrize("value, attribute", [
    (True, "true"), (3, "3 : i64"), (2.5, "2.5"), (np.float32(0.1), "1.000000e-01 : f32"), (np.int8(-3), "-3 : i8"),
    (np.uint16(7), "7 : ui16"), (float("nan"), "0x7FF8000000000000 : f64"), (np.float32("inf"), "0x7F800000 : f32"),
    ('a "quoted"\n', r'"a \22quoted\22\0A"'), (np.array([1, 2], np.int32), "array<i32: 1, 2>"), (np.array([], np.int64),
                                                                                                 "array<i64>"),
    (np.array([0.5]), "array<f64: 5.000000e-01>")])
def test_backend_config_attributes(value, attribute):
    assert f"backend_config = {{it = {attribute}" in text(backend_config={"it": value})


@pytest.mark.parametrize("value", [None, [1], {"a": 1}, 1j, np.zeros((2, 2)), np.array(["a"])])
def test_invalid_attribute_is_refused(value):
    with pytest.raises(TypeError, match="the attribute 'it' of `kernel` must be"):
        text(backend_config={"it": value})


def test_layouts_and_aliases():
    assert "operand_layouts = [dense<[1, 0]> : tensor<2xindex>, dense<[1, 0]> : tensor<2xindex>]" in text()
    assert "result_layouts = [dense<[0, 1]>" in text(result_layouts=[[0, 1]])
    assert "operand_index = 0" in text(operand_output_aliases={0: 0}) and "has_side_effect = true" in text(has_side_effect=True)
    with pytest.raises(ValueError, match="layouts must have the axes of each"):
        text(result_layouts=[[0, 2]])
    with pytest.raises(TypeError, match="expected the name"):
        ffi_lowering(3)


def test_third_party_primitive_calls_a_library():
    """Calls LAPACK's factorization, registered under another name."""
    from jaxlib import lapack
    jit(lambda x: x + 1)(X)
    _, capsule, _ = next(t for t in lapack.registrations()["cpu"] if t[0] == "lapack_spotrf_ffi")
    lapack._lapack.initialize()
    ffi.register_ffi_target("test_of_ours", capsule)
    op = Primitive("test_factor", params=("uplo",), multiple=True, family="test",
                   infer=lambda a, *, uplo: (a, shaped((), "int32")))
    lowering_rules.define(op, ffi_lowering("test_of_ours", operand_layouts=[[0, 1]], result_layouts=[[0, 1], []]))
    found, status = jit(lambda x: bind(op, x, uplo=np.uint8(ord("L"))))(X)
    assert int(status) == 0
    np.testing.assert_allclose(np.tril(found), np.linalg.cholesky(X), rtol=1e-6)
    with pytest.raises(ValueError, match="cannot be registered|registered"):
        _, other, _ = next(t for t in lapack.registrations()["cpu"] if t[0] == "lapack_sgetrf_ffi")
        ffi.register_ffi_target("test_of_ours", other)


def test_invalid_registration_is_refused():
    for wrong, kind in ((("k", len), TypeError), ((3, {}), TypeError), (("k", {}, "xpu"), ValueError)):
        with pytest.raises(kind, match="register_ffi_target"):
            ffi.register_ffi_target(*wrong)
