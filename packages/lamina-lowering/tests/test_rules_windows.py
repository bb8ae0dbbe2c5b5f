"""Reductions of windows and gradients of pooled maxima: other forms on CPUs, with the numbers of the common form."""
from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Var, aval_of, evaluate_primitive, prims, shaped
from lamina_ir.prims import window_count
from lamina_lowering import lower
from lamina_lowering.rules.windows import shifted_windows
from lamina_lowering.testing import check_lowering, run_lowered, single_eqn_program

SCATTER = prims.select_and_scatter_add_p


def draw(seed, shape, window, strides, padding, dtype="float32", select="ge"):
    rng = np.random.default_rng(seed)
    x = rng.integers(-3, 4, shape).astype(np.dtype(dtype))  # many equal elements
    counts = [window_count(n, w, s, p) for n, w, s, p in zip(shape, window, strides, padding)]
    source = rng.integers(-9, 10, counts).astype(np.float32)
    return source, x, dict(padding=padding, select=select, window_dimensions=window, window_strides=strides)


def text(source, x, params, platform="cpu"):
    return str(lower(single_eqn_program(SCATTER, [aval_of(source), aval_of(x)], params), platform=platform).module)


NONE, ONE = (0, 0), (1, 1)
CASES = {
    "2x2": ((2, 6, 7, 3), (1, 2, 2, 1), (1, 2, 2, 1), (NONE,) * 4),
    "3x3": ((2, 6, 7, 3), (1, 3, 3, 1), (1, 2, 2, 1), (NONE, ONE, (0, 1), NONE)),
    "overlapping": ((2, 6, 7, 3), (1, 3, 3, 1), (1, 1, 1, 1), (NONE, ONE, ONE, NONE)),
    "only padding": ((2, 4), (1, 2), (1, 1), (NONE, (2, 3))),
    "gaps": ((2, 9), (1, 2), (1, 3), (NONE, NONE)),
    "negative padding": ((2, 9), (1, 3), (1, 2), (NONE, (-2, 1))),
    "of examples": ((4, 4), (2, 2), (2, 1), (NONE, ONE)),
    "strided examples": ((7, 9), (1, 9), (3, 1), (NONE, NONE)),
    "padded examples": ((3, 9), (1, 9), (1, 1), (ONE, NONE)),
    "long steps": ((2, 11), (1, 3), (1, 5), (NONE, (1, 1))),
    "remainders": ((2, 7, 8), (1, 3, 2), (1, 2, 3), (NONE, (2, 1), (0, 2))),
}


@pytest.mark.parametrize("select", ["ge", "le"])
@pytest.mark.parametrize("name", CASES)
def test_sources_are_added_where_numpy_adds_them(name, select):
    for dtype in ("float32", "int32", "bfloat16"):
        source, x, params = draw(0, *CASES[name], dtype, select)
        check_lowering(SCATTER, (source, x), params)


@pytest.mark.parametrize("name", ["2x2", "3x3", "overlapping"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_special_values_are_selected_as_by_numpy(name, value):
    source, x, params = draw(1, *CASES[name])
    x = np.where(np.abs(x) > 1, np.float32(value), x)
    check_lowering(SCATTER, (source, x), params)
    check_lowering(SCATTER, (source, np.full_like(x, value)), params)
    check_lowering(SCATTER, (np.where(source > 5, np.float32(value), 1), x), params)


def test_narrow_sources_are_added_in_float32():
    source, x, params = draw(2, *CASES["overlapping"])
    check_lowering(SCATTER, ((source + 1 / 3).astype(ml_dtypes.bfloat16), x), params)


def test_only_cpus_select_by_position():
    for name in ("2x2", "overlapping"):
        case = draw(0, *CASES[name])
        assert "select_and_scatter" not in text(*case)
        assert "select_and_scatter" in text(*case, platform="cuda")
    large = draw(0, (2, 9, 9, 1), (1, 5, 5, 1), (1, 1, 1, 1), (NONE,) * 4)
    assert "select_and_scatter" in text(*large)
    assert "select_and_scatter" in text(*draw(0, (2, 40), (1, 2), (1, 20), (NONE,) * 2))  # remainders


SUM, PRODUCT = prims.reduce_window_sum_p, prims.reduce_window_prod_p
LARGEST, SMALLEST = prims.reduce_window_max_p, prims.reduce_window_min_p


def window_params(window, strides, padding, base_dilation=None, window_dilation=None):
    ones = (1,) * len(window)
    return dict(base_dilation=base_dilation or ones, padding=padding, window_dilation=window_dilation or ones,
                window_dimensions=window, window_strides=strides)


def reduction_text(prim, x, params, platform="cpu"):
    return str(lower(single_eqn_program(prim, [aval_of(x)], params), platform=platform).module)


WINDOWS = {
    "apart": window_params((1, 2, 2, 1), (1, 2, 2, 1), (NONE,) * 4),
    "overlapping": window_params((1, 3, 3, 1), (1, 2, 1, 1), (NONE, ONE, (0, 2), NONE)),
    "dilated": window_params((1, 2, 3, 1), (1, 1, 2, 1), (NONE, (2, 1), ONE, NONE), (1, 2, 1, 1), (1, 2, 3, 1)),
    "negative padding": window_params((1, 3, 2, 1), (1, 1, 1, 1), (NONE, (-1, 1), NONE, NONE)),
}


@pytest.mark.parametrize("prim", [SUM, PRODUCT, LARGEST, SMALLEST])
@pytest.mark.parametrize("name", WINDOWS)
def test_windows_are_reduced_as_by_numpy(name, prim, monkeypatch):
    monkeypatch.setattr(shifted_windows, "_WORK", 0)
    x = np.random.default_rng(3).integers(-3, 4, (2, 6, 7, 3))
    for dtype in ("float32", "bfloat16", "int32"):
        check_lowering(prim, (x.astype(np.dtype(dtype)),), WINDOWS[name])
    special = np.where(x > 2, np.nan, np.where(x < -2, np.inf, x)).astype(np.float32)
    program = single_eqn_program(prim, [aval_of(special)], WINDOWS[name])
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(run_lowered(lower(program), special)[0],
                                      evaluate_primitive(prim, (special,), WINDOWS[name]))


def test_sums_of_negative_zeros_are_those_of_a_sum_from_zero(monkeypatch):
    monkeypatch.setattr(shifted_windows, "_WORK", 0)
    x = np.full((1, 6, 7, 1), -0.0, np.float32)
    for params in (WINDOWS["apart"], WINDOWS["overlapping"]):
        program = single_eqn_program(SUM, [aval_of(x)], params)
        assert not np.signbit(run_lowered(lower(program), x)[0]).any()


def test_small_overlapping_and_large_windows_keep_the_common_form():
    x = np.zeros((2, 6, 7, 3), np.float32)
    assert "reduce_window" not in reduction_text(SUM, x, WINDOWS["apart"])
    assert "reduce_window" in reduction_text(SUM, x, WINDOWS["apart"], platform="cuda")
    assert "reduce_window" in reduction_text(SUM, x, WINDOWS["overlapping"])
    x = np.zeros((2, 64, 64, 3), np.float32)
    assert "reduce_window" not in reduction_text(SUM, x, WINDOWS["overlapping"])
    assert "reduce_window" in reduction_text(SUM, x, window_params((1, 6, 6, 1), (1, 6, 6, 1), (NONE,) * 4))


def test_two_poolings_of_one_program_and_their_gradient_compile(monkeypatch):
    monkeypatch.setattr(shifted_windows, "_WORK", 0)
    params = window_params((1, 3, 3, 1), (1, 1, 1, 1), (NONE, ONE, ONE, NONE))
    scatter = dict(padding=params["padding"], select="ge", window_dimensions=(1, 3, 3, 1), window_strides=(1,) * 4)
    x, a, b, g, h = (Var(shaped((2, 6, 7, 3), np.dtype("float32"))) for _ in range(5))
    eqns = [Eqn(LARGEST, [x], [a], params), Eqn(LARGEST, [a], [b], params), Eqn(SCATTER, [b, a], [g], scatter),
            Eqn(SCATTER, [g, x], [h], scatter)]
    program = ClosedJaxpr(Jaxpr([], [x], eqns, [b, h]))
    value = np.random.default_rng(4).integers(-9, 9, (2, 6, 7, 3)).astype(np.float32)
    first = evaluate_primitive(LARGEST, (value,), params)
    second = evaluate_primitive(LARGEST, (first,), params)
    back = evaluate_primitive(SCATTER, (evaluate_primitive(SCATTER, (second, first), scatter), value), scatter)
    made = run_lowered(lower(program), value)
    np.testing.assert_array_equal(made[0], second)
    np.testing.assert_array_equal(made[1], back)
