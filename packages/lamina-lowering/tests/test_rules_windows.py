"""The gradient of pooled maxima: by position on CPUs, with the numbers of the common form."""
from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from lamina_ir import aval_of, prims
from lamina_ir.prims import window_count
from lamina_lowering import lower
from lamina_lowering.testing import check_lowering, single_eqn_program

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
