"""Convolution functions: padding and layout strings, transposed convolutions, patches, errors."""
import numpy as np
import pytest
from lamina_ir import ShapeError
from lamina_tracing import lax

rng = np.random.default_rng(0)


def floats(*shape):
    return rng.normal(size=shape).astype(np.float32)


def test_padding_strings():
    assert lax.padtype_to_pads((10, 7), (3, 4), (2, 1), "same") == [(0, 1), (1, 2)]
    assert lax.padtype_to_pads((10, 7), (3, 4), (2, 1), "SAME_LOWER") == [(1, 0), (2, 1)]
    assert lax.padtype_to_pads((10,), (3,), (2,), "VALID") == [(0, 0)]
    for stride in (1, 2, 3):
        assert lax.conv(floats(1, 2, 10), floats(3, 2, 4), (stride,), "SAME").shape == (1, 3, -(-10 // stride))


def test_layouts_agree():
    x, w = floats(2, 9, 8, 3), floats(3, 2, 3, 4)
    first = lax.conv_general_dilated(x, w, (2, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    # The order of strides follows the second layout string, where H is before W too.
    again = lax.conv_general_dilated(x.transpose(3, 2, 1, 0), w.transpose(2, 0, 3, 1), (2, 1), "SAME",
                                     dimension_numbers=("CWHN", "IHOW", "NCHW"))
    np.testing.assert_allclose(np.transpose(first, (0, 3, 1, 2)), again, rtol=1e-5, atol=1e-5)
    numbers = lax.conv_dimension_numbers(x.shape, w.shape, ("NHWC", "HWIO", "NHWC"))
    assert numbers == lax.ConvDimensionNumbers((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    assert lax.conv_general_shape_tuple(x.shape, w.shape, (2, 1), "SAME", numbers) == first.shape


@pytest.mark.parametrize("k, s", [(1, 2), (2, 1), (3, 2), (2, 3), (5, 4)])
def test_conv_transpose_is_linear_transpose(k, s):
    """With `transpose_kernel` and SAME it is the linear transpose of the strided SAME convolution."""
    n = 6 * s
    x, w, y = floats(1, n, 2), floats(k, 2, 3), floats(1, 6, 3)
    down = lax.conv_general_dilated(x, w, (s,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))
    up = lax.conv_transpose(y, w, (s,), "SAME", transpose_kernel=True)
    words = "NWC", "WIO", "NWC"
    assert up.shape == x.shape == lax.conv_transpose_shape_tuple(y.shape, (k, 3, 2), (s,), "SAME", words)
    if k >= s:  # below, the padding strings differ
        np.testing.assert_allclose(np.vdot(down, y), np.vdot(x, up), rtol=1e-3, atol=1e-4)
    assert lax.conv_transpose(y, w.transpose(0, 2, 1), (s,), "VALID").shape == (1, 6 * s + max(k - s, 0), 2)


def test_patches_and_local_convolution():
    x = floats(2, 3, 6, 5)
    patches = lax.conv_general_dilated_patches(x, (2, 3), (2, 1), "VALID")
    assert patches.shape == (2, 18, 3, 3)
    np.testing.assert_allclose(patches[1, 6 + 4, 2, 1], x[1, 1, 2 * 2 + 1, 1 + 1], rtol=1e-6)
    kernel = floats(4, 3, 2, 3)
    plain = lax.conv(x, kernel, (2, 1), "VALID")
    shared = np.broadcast_to(kernel.reshape(4, 18, 1, 1), (4, 18, 3, 3))
    local = lax.conv_general_dilated_local(x, shared, (2, 1), "VALID", (2, 3))
    np.testing.assert_allclose(local, plain, rtol=1e-4, atol=1e-5)
    with pytest.raises(ShapeError, match="conv_general_dilated_local: rhs needs"):
        lax.conv_general_dilated_local(x, shared[:, :6], (2, 1), "VALID", (2, 3))


@pytest.mark.parametrize("changes, error, words", [
    (dict(padding="FOO"), ValueError, "'SAME'"), (dict(padding=3), ValueError, "pair"),
    (dict(padding="SAME", lhs_dilation=(2,)), ValueError, "lax.conv_transpose"),
    (dict(window_strides=(1, 1)), ShapeError, "one entry for each of 1 spatial axes"),
    (dict(dimension_numbers=("NCH", "OIH")), TypeError, "three words"),
    (dict(dimension_numbers=("NCHW", "OIHW", "NCHW")), ShapeError, "one letter for each of 3 axes"),
    (dict(dimension_numbers=("NCH", "OIW", "NCH")), ValueError, "same letters"),
    (dict(feature_group_count=2), ShapeError, "feature_group_count times")])
def test_ill_formed_convolutions_are_rejected(changes, error, words):
    given = dict(window_strides=(1,), padding="SAME") | changes
    with pytest.raises(error, match=words):
        lax.conv_general_dilated(floats(2, 3, 5), floats(4, 3, 3), **given)


def test_boolean_convolution_is_any_of_products():
    x, k = np.array([[[1, 0, 1, 1, 0]]], bool), np.array([[[1, 1]]], bool)
    out = lax.conv(x, k, (1,), "VALID")
    assert out.dtype == bool and out.tolist() == [[[True, True, True, True]]]
    counts = lax.conv_general_dilated(x, k, (1,), "VALID", preferred_element_type="int32")
    assert counts.dtype == np.int32 and counts.tolist() == [[[1, 1, 2, 1]]]
