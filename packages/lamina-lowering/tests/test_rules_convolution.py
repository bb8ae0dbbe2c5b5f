"""Convolutions in groups: other forms on CPUs, with the numbers of the common form."""
from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from lamina_ir import aval_of, evaluate_primitive, prims
from lamina_ir.prims import ConvDimensionNumbers, dilated_length
from lamina_lowering import lower, lowering_rules, platform_rules
from lamina_lowering.rules.windows import grouped_convolution
from lamina_lowering.testing import check_lowering, run_lowered, single_eqn_program



@pytest.fixture(autouse=True)
def _no_least_work(request, monkeypatch):
    """Use the other forms for small convolutions, too."""
    if "keep" not in request.node.name:
        monkeypatch.setattr(grouped_convolution, "_WORK", 0)


CONV = prims.conv_general_dilated_p
SHIFTED, ROWS, GROUPS = "multiply", "rows", "groups"
PRODUCTS, SWAPPED, FOLDED = "products", "swapped", "folded"


def conv_params(numbers, padding, features=1, batches=1, strides=None, lhs_dilation=None, rhs_dilation=None):
    ones = (1,) * len(padding)
    return dict(batch_group_count=batches, dimension_numbers=ConvDimensionNumbers(*numbers), feature_group_count=features,
                lhs_dilation=lhs_dilation or ones, padding=padding, precision=None, preferred_element_type=None,
                rhs_dilation=rhs_dilation or ones, window_strides=strides or ones)


def channels_last(ndim):
    space = tuple(range(1, ndim - 1))
    return (0, ndim - 1, *space), (ndim - 1, ndim - 2, *range(ndim - 2)), (0, ndim - 1, *space)


def kernel_gradient(ndim):
    """Return the numbers of the gradient in the kernels of a convolution with channels last."""
    space = tuple(range(1, ndim - 1))
    return (ndim - 1, 0, *space), (ndim - 1, 0, *space), (ndim - 2, ndim - 1, *range(ndim - 2))


def form(x, y, params, platform="cpu"):
    text = str(lower(single_eqn_program(CONV, [aval_of(x), aval_of(y)], params), platform=platform).module)
    if "stablehlo.if" in text:
        return SWAPPED
    if "stablehlo.while" in text:
        return GROUPS if "stablehlo.convolution" in text else PRODUCTS if "dot_general" in text else ROWS
    if x.ndim == 5 and "[b, 0, 1, f]" in text:
        return FOLDED
    return "common" if "stablehlo.convolution" in text else SHIFTED


def normals(*shape, dtype=np.float32):
    return np.random.default_rng(len(shape)).normal(size=shape).astype(dtype)


DEPTHWISE = normals(2, 6, 7, 4), normals(3, 3, 1, 8), conv_params(channels_last(4), ((1, 1), (1, 1)), 4)
IN_KERNEL = normals(3, 6, 7, 4), normals(3, 6, 7, 8), conv_params(kernel_gradient(4), ((1, 1), (1, 1)), 1, 4)
IN_GROUPS = normals(2, 6, 7, 16), normals(3, 3, 8, 12), conv_params(channels_last(4), ((1, 1), (1, 1)), 2)
IN_BATCHES = normals(3, 6, 7, 6), normals(3, 6, 7, 8), conv_params(kernel_gradient(4), ((1, 1), (1, 1)), 1, 2)
IN_PAIRS = normals(3, 6, 7, 4), normals(3, 6, 7, 8), conv_params(kernel_gradient(4), ((1, 1), (1, 1)), 1, 2)
FIRST = (0, 1, 2, 3)
PAIRS_FIRST = (normals(4, 3, 6, 7), normals(8, 3, 6, 7),
               conv_params((FIRST, FIRST, FIRST), ((1, 1), (1, 1)), 1, 2))
VOLUME = normals(2, 4, 5, 6, 3), normals(2, 4, 5, 6, 4), conv_params(kernel_gradient(5), ((1, 1), (1, 1), (1, 0)))
DILATED = (normals(2, 4, 5, 3), normals(2, 8, 10, 4),
           conv_params(kernel_gradient(4), ((1, 2), (1, 2)), lhs_dilation=(2, 2)))
DILATED_VOLUME = (normals(2, 3, 4, 5, 3), normals(2, 6, 8, 10, 4),
                  conv_params(kernel_gradient(5), ((1, 2), (1, 2), (1, 2)), lhs_dilation=(2, 2, 2)))
FORMS = [(DEPTHWISE, SHIFTED), (IN_KERNEL, ROWS), (IN_GROUPS, GROUPS), (IN_BATCHES, ROWS), (IN_PAIRS, ROWS),
         (PAIRS_FIRST, ROWS), (VOLUME, FOLDED), (DILATED, SWAPPED), (DILATED_VOLUME, PRODUCTS)]
ONE_OF_EACH = [pair for pair in FORMS if pair[0] is not IN_PAIRS and pair[0] is not PAIRS_FIRST]


@pytest.mark.parametrize(("case", "expected"), FORMS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "int8"])
def test_each_form_matches_numpy(case, expected, dtype):
    x, y, params = case
    x, y = (np.rint(v * 20).astype(dtype) if dtype == "int8" else v.astype(np.dtype(dtype)) for v in (x, y))
    check_lowering(CONV, (x, y), params)
    if dtype in ("float32", "bfloat16"):
        assert form(x, y, params) == expected


@pytest.mark.parametrize(("case", "expected"), FORMS)
def test_other_platforms_have_the_common_form(case, expected):
    assert form(*case) == expected
    assert all(form(*case, platform=name) == "common" for name in ("cuda", "tpu"))


def test_groups_of_many_elements_have_convolutions_of_their_own():
    assert form(normals(3, 6, 7, 10), normals(3, 6, 7, 8), IN_BATCHES[2]) == GROUPS  # five elements
    three = normals(6, 3, 6, 7), normals(8, 3, 6, 7), PAIRS_FIRST[2]  # not along the last axis
    assert form(*three) == GROUPS
    many = normals(17, 6, 7, 6), normals(17, 6, 7, 8), IN_BATCHES[2]  # input features
    assert form(*many) == GROUPS


def test_large_kernels_and_small_convolutions_keep_the_common_form():
    x, params = normals(1, 40, 40, 16), conv_params(channels_last(4), ((4, 3), (4, 3)), 16)
    assert form(x, normals(8, 8, 1, 16), params) == "common"
    assert form(x, normals(7, 7, 1, 16), params) == SHIFTED
    assert form(*DEPTHWISE) == "common"


def draw(seed):
    """Return operands and params of a convolution in groups."""
    rng = np.random.default_rng(seed)
    ndim = int(rng.integers(1, 4))
    batches = bool(rng.integers(2))
    groups, inputs, outputs, batch = (int(n) for n in rng.integers((2, 1, 1, 1), (5, 10, 4, 4)))
    window, strides, gaps, dilation = (rng.integers(1, 4, ndim) for _ in range(4))
    padding = rng.integers(-1, 3, (ndim, 2))
    extents = np.array([dilated_length(int(k), int(g)) for k, g in zip(window, gaps)])
    lengths = -(-(extents - padding.sum(1)).clip(1) // dilation) + rng.integers(1, 5, ndim)
    specs = [tuple(map(int, rng.permutation(ndim + 2))) for _ in range(3)]
    if rng.integers(2):
        specs[2] = specs[0]

    def operand(spec, sizes):
        return rng.normal(size=[n for _, n in sorted(zip(spec, sizes))]).astype(np.float32)

    x = operand(specs[0], (batch * (groups if batches else 1), inputs * (1 if batches else groups), *lengths))
    y = operand(specs[1], (groups * outputs, inputs, *window))
    if seed % 4 == 0:  # without groups
        x, y = operand(specs[0], (batch, inputs, *lengths)), operand(specs[1], (outputs, inputs, *window))
        groups = 1
    return x, y, conv_params(specs, tuple((int(a), int(b)) for a, b in padding), 1 if batches else groups,
                             groups if batches else 1, *[tuple(map(int, v)) for v in (strides, dilation, gaps)])


@pytest.mark.parametrize("seed", range(24))
def test_drawn_convolutions_match_numpy(seed):
    x, y, params = draw(seed)
    check_lowering(CONV, (x, y), params)


def run_both(x, y, params):
    program = single_eqn_program(CONV, [aval_of(x), aval_of(y)], params)
    own = run_lowered(lower(program), x, y)[0]
    with platform_rules("cpu").override(CONV, lowering_rules[CONV]):
        return own, run_lowered(lower(program), x, y)[0]


@pytest.mark.parametrize(("case", "expected"), ONE_OF_EACH)
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, -0.0])
def test_special_values_are_those_of_numpy(case, expected, value):
    x, y, params = case
    for a, b in ((np.full_like(x, value), abs(y)), (abs(x), np.where(y > 1, np.float32(value), abs(y)))):
        own = run_lowered(lower(single_eqn_program(CONV, [aval_of(a), aval_of(b)], params)), a, b)[0]
        with np.errstate(invalid="ignore"):
            wanted = evaluate_primitive(CONV, (a, b), params)
        np.testing.assert_array_equal(np.isnan(own), np.isnan(wanted))
        np.testing.assert_array_equal(np.isinf(own), np.isinf(wanted))
        np.testing.assert_array_equal(np.signbit(own)[~np.isnan(own)], np.signbit(wanted)[~np.isnan(own)])


@pytest.mark.parametrize(("case", "expected"), ONE_OF_EACH)
def test_integers_are_those_of_the_common_form(case, expected):
    x, y, params = case
    own, common = run_both(*(np.rint(v * 40).astype(np.int8) for v in (x, y)), params)
    np.testing.assert_array_equal(own, common)


def test_narrow_floats_are_summed_in_float32():
    x = np.full((1, 300, 2), 1 / 256, ml_dtypes.bfloat16)
    y = np.ones((49, 1, 2), ml_dtypes.bfloat16)
    own, common = run_both(x, y, conv_params(channels_last(3), ((0, 0),), 2))
    np.testing.assert_array_equal(own.astype(np.float32), common.astype(np.float32))
