"""Every implementation of reductions: short and long axes, NaN, ties, blocked running sums."""
from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Var, aval_of, evaluate_primitive, prims, shaped
from lamina_lowering import lower
from lamina_lowering.extend import lowering_rules, platform_rules
from lamina_lowering.testing import check_lowering, run_lowered, single_eqn_program

RNG = np.random.default_rng(0)
I32 = np.dtype("int32")


def floats(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def test_short_axes_are_unrolled_on_cpus_only():
    a = Var(shaped((5000, 3), np.dtype("float32")))
    b = Var(shaped((5000,), np.dtype("float32")))
    program = ClosedJaxpr(Jaxpr([], [a], [Eqn(prims.reduce_sum_p, [a], [b], dict(axes=(1,)))], [b]))
    assert "stablehlo.reduce" not in str(lower(program, platform="cpu").module)
    assert "stablehlo.reduce" in str(lower(program, platform="cuda").module)


@pytest.mark.parametrize("prim", [prims.reduce_sum_p, prims.reduce_prod_p, prims.reduce_max_p, prims.reduce_min_p])
def test_reductions_over_short_axes(prim):
    x = floats(2, 3000, 3)
    x[0, 5, 1] = np.nan
    check_lowering(prim, (x,), dict(axes=(0, 2)))
    check_lowering(prim, (x,), dict(axes=(0,)))


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("prim", [prims.reduce_max_p, prims.reduce_min_p])
@pytest.mark.parametrize("axis", [0, 1])
def test_max_and_min_propagate_nan_from_any_position(prim, axis):
    x = floats(200, 300)
    x[[0, 30, 199], [299, 7, 0]] = np.nan
    check_lowering(prim, (x,), dict(axes=(axis,)))
    check_lowering(prim, (x,), dict(axes=(0, 1)))


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("prim", [prims.reduce_max_p, prims.reduce_min_p])
@pytest.mark.parametrize("shape, axes", [pytest.param((5000,), (0,), marks=pytest.mark.slow), ((3, 40, 50), (0, 2)),
                                         pytest.param((70, 64), (0, 1), marks=pytest.mark.slow), ((7, 700), (1,))])
def test_long_axes_are_reduced_in_lanes(prim, shape, axes):
    x = floats(*shape)
    check_lowering(prim, (x,), dict(axes=axes))
    check_lowering(prim, ((x * 1000).astype(np.int32),), dict(axes=axes))
    for position in (0, x.size // 2, x.size - 1):
        for nan in (np.nan, -np.nan):
            y = x.copy()
            y.flat[position] = nan
            check_lowering(prim, (y,), dict(axes=axes))


@pytest.mark.parametrize("prim", [prims.argmax_p, prims.argmin_p])
@pytest.mark.parametrize("n", [10, 100])
def test_argmax_and_argmin_match_numpy(prim, n):
    x = floats(6, n)
    x[1, [3, 7]], x[2], x[3], x[4, [2, 9]] = np.nan, -np.inf, np.inf, 9
    x[5, [2, 9]] = -9
    for y in (x, (x > 0), RNG.integers(-2, 2, x.shape).astype(np.int32), (np.sign(floats(6, n)) + 1j).astype("c8")):
        check_lowering(prim, (y,), dict(axes=(1,), index_dtype=I32))


@pytest.mark.parametrize("prim", [prims.cumsum_p, prims.cumprod_p, prims.cummax_p, prims.cummin_p])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", [0, 1, 16, 17, 300])
def test_blocked_cumulative_reductions(prim, reverse, n):
    x = (1 + 0.01 * RNG.normal(size=(2, n))).astype(np.float32)
    check_lowering(prim, (x,), dict(axis=1, reverse=reverse))
    check_lowering(prim, (x.T.copy(),), dict(axis=0, reverse=reverse))


def test_complex_maximum_is_lexicographic():
    x = np.array([1 + 2j, 1 + 3j, 0 + 9j], np.complex64)
    check_lowering(prims.reduce_max_p, (x,), dict(axes=(0,)))
    check_lowering(prims.cummin_p, (x,), dict(axis=0, reverse=False))


# --- cumulative sums as products ----------------------------------------------------------------------------------------
def cumulative_text(shape, dtype="float32", axis=None, platform="cpu"):
    aval = shaped(shape, np.dtype(dtype))
    params = dict(axis=len(shape) - 1 if axis is None else axis, reverse=False)
    return str(lower(single_eqn_program(prims.cumsum_p, [aval], params), platform=platform).module)


def test_long_cumulative_sums_of_floats_are_products_on_cpus():
    assert "dot_general" in cumulative_text((20_000,)) and "dot_general" in cumulative_text((300, 64), "bfloat16")
    for other in (cumulative_text((4000,)), cumulative_text((20_000,), "int32"), cumulative_text((300, 60)),
                  cumulative_text((300, 64), axis=0), cumulative_text((20_000,), platform="cuda")):
        assert "dot_general" not in other


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:overflow")
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(3, 7, 1000), (2, 20_001)])
def test_cumulative_sums_match_numpy(shape, dtype, reverse):
    x = floats(*shape).astype(getattr(ml_dtypes, dtype, dtype))
    params = dict(axis=len(shape) - 1, reverse=reverse)
    near = (1e-2, 0.5) if x.dtype.itemsize == 2 else (1e-4, 1e-3)
    lowered = lower(single_eqn_program(prims.cumsum_p, [aval_of(x)], params))
    for bad in (None, np.nan, np.inf, "both"):
        y = x.copy()
        if bad is not None:
            y.flat[x.size // 3] = np.inf if bad == "both" else bad
            y.flat[x.size // 2] = -np.inf if bad == "both" else 0
        wanted = evaluate_primitive(prims.cumsum_p, [y], params)
        got, = run_lowered(lowered, y)
        np.testing.assert_allclose(got.astype(np.float64), wanted.astype(np.float64), *near)


@pytest.mark.filterwarnings("ignore:overflow")
def test_cumulative_sum_that_overflows_is_infinite_from_there_on():
    x = np.full(20_000, 1e36, np.float32)
    got, = run_lowered(lower(single_eqn_program(prims.cumsum_p, [aval_of(x)], dict(axis=0, reverse=False))), x)
    assert np.isfinite(got[:300]).all() and (got[400:] == np.inf).all()


# --- cumulative operations as loops -------------------------------------------------------------------------------------
@pytest.mark.parametrize("prim,dtype,shape,axis,reverse", [
    (prims.cumprod_p, "float32", (40, 50), 1, False), (prims.cumprod_p, "bfloat16", (5, 30, 9), 1, True),
    (prims.cumprod_p, "int32", (50, 40), 0, True), (prims.cumprod_p, "complex64", (3, 2000), 1, True),
    (prims.cummax_p, "float32", (2500,), 0, False), (prims.cummax_p, "bfloat16", (40, 50), 1, True),
    (prims.cummin_p, "float32", (3, 2000), 1, True), (prims.cummin_p, "int32", (5, 30, 9), 1, False),
    (prims.cumsum_p, "int8", (50, 40), 0, False), (prims.cumsum_p, "int32", (1, 2500), 1, True)])
def test_cumulative_loops_match_the_common_rule(prim, dtype, shape, axis, reverse):
    rng = np.random.default_rng(3)
    x = rng.integers(-3, 4, shape) if dtype.startswith("int") else np.exp(0.1 * rng.standard_normal(shape))
    x = x.astype(getattr(ml_dtypes, dtype, dtype))
    if prim is not prims.cumprod_p and dtype == "float32":
        x.flat[7], x.flat[300], x.flat[900] = np.nan, np.inf, -np.inf
    params = dict(axis=axis, reverse=reverse)
    program = single_eqn_program(prim, [aval_of(x)], params)
    made = lower(program)
    assert "stablehlo.while" in str(made.module) and "stablehlo.while" not in str(lower(program, platform="cuda").module)
    with platform_rules("cpu").override(prim, lowering_rules[prim]):
        wanted, = run_lowered(lower(program), x)
    got, = run_lowered(made, x)
    assert got.dtype == wanted.dtype
    if prim is prims.cumprod_p and dtype != "int32":
        f = np.complex64 if dtype == "complex64" else np.float32
        np.testing.assert_allclose(got.astype(f), wanted.astype(f), rtol=1e-2 if dtype == "bfloat16" else 3e-5)
    else:
        np.testing.assert_array_equal(got, wanted)


def test_short_or_small_cumulative_products_are_no_loops():
    for shape, axis in (((10_000, 16), 1), ((30, 30), 1)):
        aval = shaped(shape, np.dtype("float32"))
        text = str(lower(single_eqn_program(prims.cumprod_p, [aval], dict(axis=axis, reverse=False))).module)
        assert "while" not in text and "reduce_window" in text
