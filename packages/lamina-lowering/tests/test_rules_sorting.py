"""Compiled sorts follow NumPy's order, in every form."""
from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from lamina_ir import aval_of, prims
from lamina_lowering import lower
from lamina_lowering.rules import top_k
from lamina_lowering.testing import check_lowering, single_eqn_program

RNG = np.random.default_rng(0)
DTYPES = [np.dtype(getattr(ml_dtypes, name, name)) for name in (
    "float32", "float64", "float16", "bfloat16", "float8_e5m2", "int8", "uint16", "int32", "uint32", "bool", "int64", "uint64")]


def sort(*xs, dimension=0, num_keys=1):
    check_lowering(prims.sort_p, xs, dict(dimension=dimension, is_stable=True, num_keys=num_keys))


@pytest.mark.parametrize("width", [20, 50])  # short sorts use another comparator
@pytest.mark.parametrize("dimension", [0, 1])
def test_single_float_operand_sorts_as_numpy(dimension, width):
    x = RNG.normal(size=(6, width)).astype(np.float32)
    x[2, [3, 7, 9]], x[2, [1, 2]], x[3], x[5, :9], x[5, 3:6] = np.nan, np.inf, np.nan, -0.0, 0.0
    sort(x, dimension=dimension)


def test_float_keys_with_other_operands_sort_as_numpy():
    x = np.array([np.nan, 1, -0.0, np.inf, 0.0, -np.inf, np.nan, 1], np.float32)
    sort(x, np.arange(8, dtype=np.int32))
    sort(x, x[::-1].copy(), np.arange(8, dtype=np.int32), num_keys=2)


def test_other_dtypes_sort_as_numpy():
    z = np.array([1 + 2j, complex(np.nan, 1), 1 + 1j, complex(1, np.nan), complex(np.nan, np.nan), -1j], np.complex64)
    sort(z)
    sort(RNG.normal(size=40).astype(ml_dtypes.bfloat16))
    sort(RNG.integers(0, 200, 40).astype(np.uint8))
    sort(RNG.integers(0, 2, 9) == 1)


def numbers(shape, dtype):
    """Return an array with equal numbers, the extremes of the dtype, and NaNs and zeros of both signs."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        x = RNG.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        x.flat[::3], x.flat[1::7], x.flat[2::7] = x.flat[0], limits.min, limits.max
        return x
    x = RNG.normal(size=shape).round(1)
    x.flat[::9], x.flat[3::9], x.flat[5::50], x.flat[6::50] = 0.0, -0.0, np.nan, -np.float64(np.nan)
    x.flat[7::60], x.flat[8::60] = np.inf, -np.inf
    return x > 0.5 if dtype.kind == "b" else x.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape, dimension", [((301,), 0), ((5, 7, 11), 1)])
def test_keys_are_sorted_as_integers(dtype, shape, dimension):
    x, y = numbers(shape, dtype), RNG.normal(size=shape).astype(np.complex64)
    positions = np.indices(shape, np.int32)[dimension]
    sort(x, positions, y, dimension=dimension)
    if dtype.itemsize <= 4:
        sort(x, numbers(shape, np.dtype("float32")), y, dimension=dimension, num_keys=2)


def comparisons(keys, platform="cpu", size=400):
    """Return the number of comparisons in a lowered sort by float32 keys."""
    avals = [aval_of(np.zeros(size, np.float32))] * (keys + 1)
    program = single_eqn_program(prims.sort_p, avals, dict(dimension=0, is_stable=True, num_keys=keys))
    text = str(lower(program, platform=platform).module)
    return text.count("stablehlo.sort"), "stablehlo.gather" in text


def test_at_most_two_sorts_of_integers_replace_a_comparator():
    assert [comparisons(keys) for keys in (1, 2, 3)] == [(1, True), (2, True), (1, False)]
    assert comparisons(1, "cuda") == comparisons(1, size=200) == (1, False)


def test_empty_sorts():
    sort(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.int32))
    check_lowering(prims.top_k_p, (np.zeros((0, 5000), np.float32),), dict(axis=1, k=3))
    check_lowering(prims.top_k_p, (np.zeros((9, 5000), np.float32),), dict(axis=1, k=0))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape, axis", [((9, 20_001), 1), ((20_001, 9), 0)])
def test_top_k_of_all_dtypes_matches_numpy_order(dtype, shape, axis):
    x = numbers(shape, dtype)
    for k in (1, 40):
        check_lowering(prims.top_k_p, (x,), dict(axis=axis, k=k))


def test_top_k_of_equal_elements_keeps_the_first():
    for x in (np.full((2, 70_000), -np.inf, np.float32), np.full((2, 70_000), np.nan, np.float32),
              np.full((2, 70_000), -2**31, np.int32)):
        check_lowering(prims.top_k_p, (x,), dict(axis=1, k=5))


def test_pieces_have_about_as_many_elements_as_there_are_pieces():
    assert top_k._choose_piece(1_000_000, 10) == 512 and top_k._choose_piece(8192, 1000) == 64


@pytest.mark.parametrize("shape", [(9, 5000), (3, 20_000), (70_001,), (2, 270_000)])  # rows per iteration: several, one, less
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_top_k_of_long_axes_matches_numpy_order(shape, dtype):
    if np.prod(shape) * np.dtype(dtype).itemsize < 1 << 17:
        shape = (shape[0] * 4, *shape[1:])
    x = RNG.integers(-3, 3, shape).astype(np.float32)
    flat = x.reshape(-1)
    flat[RNG.integers(0, flat.size, 9)], flat[flat == 1] = np.nan, -0.0
    flat[flat.size // 3::5000] = -np.float32(np.nan)
    for k in (1, 40):
        check_lowering(prims.top_k_p, (x.astype(dtype),), dict(axis=len(shape) - 1, k=k))
