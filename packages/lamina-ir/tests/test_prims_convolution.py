"""conv_general_dilated: evaluation compared with an explicit sum, and errors of the type rule."""
from itertools import product

import numpy as np
import pytest
from lamina_ir import DTypeError, ShapeError, aval_of, prims
from lamina_ir.prims import ConvDimensionNumbers

PLAIN = ConvDimensionNumbers((0, 1, 2), (0, 1, 2), (0, 1, 2))


def params(**changes):
    return dict(batch_group_count=1, dimension_numbers=PLAIN, feature_group_count=1, lhs_dilation=(1,),
                padding=((0, 0),), precision=None, preferred_element_type=None, rhs_dilation=(1,),
                window_strides=(1,)) | changes


def infer(x, y, **changes):
    return prims.conv_general_dilated_p.infer(aval_of(x), aval_of(y), **params(**changes))


@pytest.mark.parametrize("stride, low, spread, gap", list(product((1, 2), (-1, 0, 2), (1, 3), (1, 2))))
def test_evaluation_equals_sum_of_definition(stride, low, spread, gap):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 3, 6)), rng.normal(size=(4, 3, 3))
    p = params(window_strides=(stride,), padding=((low, 1),), lhs_dilation=(spread,), rhs_dilation=(gap,))
    out = prims.conv_general_dilated_p.numpy(x, y, **p)
    wanted = np.zeros(infer(x.astype(np.float32), y.astype(np.float32), **p).shape)
    for place, k, i in product(range(wanted.shape[2]), range(3), range(6)):
        if place * stride + k * gap == low + i * spread:
            wanted[:, :, place] += x[:, :, i] @ y[:, :, k].T
    np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-5)


def test_groups_are_independent_convolutions():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 4, 5)), rng.normal(size=(6, 2, 3))
    one = prims.conv_general_dilated_p.numpy
    parts = [one(x[:, 2 * g:2 * g + 2], y[3 * g:3 * g + 3], **params()) for g in (0, 1)]
    np.testing.assert_allclose(one(x, y, **params(feature_group_count=2)), np.concatenate(parts, 1), rtol=1e-5)
    x = rng.normal(size=(4, 2, 5))
    parts = [one(x[2 * g:2 * g + 2], y[3 * g:3 * g + 3], **params()) for g in (0, 1)]
    np.testing.assert_allclose(one(x, y, **params(batch_group_count=2)), np.concatenate(parts, 1), rtol=1e-5)


X, Y = np.zeros((2, 3, 5), np.float32), np.zeros((4, 3, 3), np.float32)


@pytest.mark.parametrize("x, y, changes, error, words", [
    (X, np.zeros((4, 3), np.float32), {}, ShapeError, "equally many axes"),
    (X, Y, dict(dimension_numbers=PLAIN._replace(rhs_spec=(0, 0, 2))), ShapeError, "name every axis once"),
    (X, Y, dict(window_strides=(1, 1)), ShapeError, "window_strides needs one entry"),
    (X, Y, dict(window_strides=(0,)), ShapeError, "window_strides must be positive"),
    (X, Y, dict(padding=((0,),)), ShapeError, "padding needs a pair"),
    (X, Y, dict(lhs_dilation=(0,)), ShapeError, "lhs_dilation must be positive"),
    (X, Y, dict(feature_group_count=0), ShapeError, "group counts must be positive"),
    (X, Y, dict(feature_group_count=3), ShapeError, "must be feature_group_count times"),
    (X, Y, dict(batch_group_count=3), ShapeError, "must divide the batch size 2"),
    (np.zeros((3, 3, 5), np.float32), Y, dict(batch_group_count=3), ShapeError, "divide the 4 output features"),
    (X, Y, dict(feature_group_count=2, batch_group_count=2), ShapeError, "only one of"),
    (X, Y.astype(np.int32), {}, DTypeError, "one dtype"),
    (X, Y, dict(preferred_element_type=np.dtype("int32")), DTypeError, "able to hold"),
    (X.astype(bool), Y.astype(bool), {}, DTypeError, "Convert them first")])
def test_ill_formed_convolutions_are_rejected(x, y, changes, error, words):
    with pytest.raises(error, match=words):
        infer(x, y, **changes)
