"""dot_general: a dot where a library call is faster, else loops; both give the same numbers."""
from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from lamina_ir import aval_of, prims
from lamina_lowering import lower
from lamina_lowering.testing import check_lowering, single_eqn_program

RNG = np.random.default_rng(0)
PAIRS = (((1,), (1,)), ((0,), (0,)))
MATMUL = (((1,), (0,)), ((), ()))


def floats(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def params(numbers, preferred=None):
    return dict(dimension_numbers=numbers, precision=None, preferred_element_type=preferred)


def text(x, y, numbers, platform="cpu", preferred=None):
    program = single_eqn_program(prims.dot_general_p, [aval_of(x), aval_of(y)], params(numbers, preferred))
    return str(lower(program, platform=platform).module)


def test_matrix_products_stay_dots():
    assert "dot_general" in text(floats(64, 64), floats(64, 64), MATMUL)
    assert "dot_general" in text(floats(64, 16, 16), floats(64, 16, 16), (((2,), (1,)), ((0,), (0,))))


def test_many_short_dots_are_unrolled_on_cpus():
    x = floats(5000, 3)
    assert "dot_general" not in text(x, x, PAIRS) and "stablehlo.reduce" not in text(x, x, PAIRS)
    assert "dot_general" in text(x, x, PAIRS, "cuda")


def test_preferred_element_type_keeps_the_dot():
    x, y = floats(5000, 3), floats(3, 3)
    assert "dot_general" not in text(x, y, MATMUL) and "dot_general" in text(x, y, MATMUL, preferred=np.dtype("float32"))


@pytest.mark.parametrize(("xs", "ys", "numbers"), [
    ((512, 600), (600,), MATMUL), ((600, 512), (600,), (((0,), (0,)), ((), ()))),
    ((600,), (600, 512), (((0,), (0,)), ((), ()))), ((600,), (512, 600), (((0,), (1,)), ((), ())))])
def test_large_bfloat16_matrix_times_vector_is_one_loop(xs, ys, numbers):
    x, y = (floats(*s).astype(ml_dtypes.bfloat16) for s in (xs, ys))
    assert "dot_general" not in text(x, y, numbers) and "dot_general" in text(x, y, numbers, "cuda")
    assert "dot_general" in text(x.astype(np.float16), y.astype(np.float16), numbers)
    matrix, vector = (x, y) if x.ndim == 2 else (y, x)
    matrix.flat[5], vector[7] = np.nan, -np.inf
    for preferred in (None, np.dtype("float32"), x.dtype):
        check_lowering(prims.dot_general_p, (x, y), params(numbers, preferred))


def test_dot_without_free_axes_is_a_product_and_a_sum():
    assert "stablehlo.reduce" in text(floats(100), floats(100), (((0,), (0,)), ((), ())))


@pytest.mark.parametrize(("xs", "ys", "numbers"), [
    ((5000, 3), (5000, 3), PAIRS), ((3, 5000), (5000, 3), (((0,), (1,)), ((1,), (0,)))),
    ((2, 5000, 3), (3, 5000, 4), (((2,), (0,)), ((1,), (1,)))), ((5000, 3), (3, 4), MATMUL),
    ((50, 2, 100, 2), (2, 100, 2, 50), (((1, 3), (2, 0)), ((2, 0), (1, 3)))), ((5, 0), (0, 3), MATMUL),
    ((6, 40), (6, 40), (((0, 1), (0, 1)), ((), ())))])
def test_dot_general_matches_numpy(xs, ys, numbers):
    x, y = floats(*xs) / 2, floats(*ys) / 2
    check_lowering(prims.dot_general_p, (x, y), params(numbers))
    half = x.astype(ml_dtypes.bfloat16), y.astype(ml_dtypes.bfloat16)
    check_lowering(prims.dot_general_p, half, params(numbers, np.dtype("float32")))


def test_boolean_dot_is_any_of_ands():
    check_lowering(prims.dot_general_p, (floats(5, 4) > 1, floats(4, 3) > 1), params(MATMUL))


def lower_algorithm(name, platform, *operands):
    program = single_eqn_program(prims.dot_general_p, [aval_of(x) for x in operands],
                                 {**params(MATMUL), "precision": prims.DotAlgorithmPreset[name]})
    return str(lower(program, platform=platform).module)


@pytest.mark.parametrize("name", [p.name for p in prims.DotAlgorithmPreset if p.value])
def test_every_algorithm_on_cpus(name):
    kind = ml_dtypes.float8_e4m3fn if name.startswith("ANY_F8") else np.float32
    x, y = floats(5, 16).astype(kind), floats(16, 7).astype(kind)
    preset = prims.DotAlgorithmPreset[name]
    check_lowering(prims.dot_general_p, (x, y), {**params(MATMUL), "precision": preset})
    check_lowering(prims.dot_general_p, (x[0], y[:, 0]), {**params((((0,), (0,)), ((), ()))), "precision": preset})


@pytest.mark.parametrize("name", [p.name for p in prims.DotAlgorithmPreset if p.value])
def test_every_algorithm_is_an_attribute_on_gpus(name):
    f8 = name.startswith("ANY_F8")
    x, y = (v.astype(ml_dtypes.float8_e4m3fn if f8 else np.float32) for v in (floats(5, 16), floats(16, 7)))
    if name.startswith("ANY_F8_ANY_F8_ANY"):
        with pytest.raises(NotImplementedError, match="preferred_element_type must be float16, bfloat16, float32 or float64"):
            lower_algorithm(name, "cuda", x, y)
        return
    made = lower_algorithm(name, "cuda", x, y)
    kind = "f8E4M3FN" if f8 else name.split("_")[0].lower()
    assert f"algorithm = <lhs_precision_type = {kind}, rhs_precision_type = {kind}," in made
    count = name.rpartition("_X")[2] if "_X" in name else 1
    assert f"num_primitive_operations = {count}, allow_imprecise_accumulation = {str('FAST' in name).lower()}>" in made
