"""Window primitives: number of windows, padding and dilation are skipped, errors of the type rules."""
import numpy as np
import pytest
from lamina_ir import DTypeError, ShapeError, aval_of, prims
from lamina_ir.prims import dilated_length, window_count


def params(**changes):
    return dict(base_dilation=(1,), padding=((0, 0),), window_dilation=(1,), window_dimensions=(2,),
                window_strides=(1,)) | changes


def test_window_counts_with_padding_strides_and_dilation():
    assert [dilated_length(n, 3) for n in (0, 1, 4)] == [0, 1, 10]
    assert window_count(10, 3, 2) == 4
    assert window_count(2, 3) == 0
    assert window_count(4, 2, 1, (-1, -1)) == 1
    assert window_count(3, 2, 1, (0, 0), 2, 3) == 2


def test_sum_skips_dilation_and_padding():
    x = np.float32([1, 2, 3])
    out = prims.reduce_window_sum_p.numpy(x, **params(base_dilation=(2,), padding=((1, -1),)))
    np.testing.assert_array_equal(out, [1, 1, 2, 2])


def test_maximum_of_only_padding_is_lowest_value():
    out = prims.reduce_window_max_p.numpy(np.int32([5]), **params(padding=((2, 0),)))
    np.testing.assert_array_equal(out, [np.iinfo(np.int32).min, 5])


def test_select_and_gather_and_scatter_choose_first_of_equal_values():
    x, t = np.float32([1, 1, 0, 2]), np.float32([10, 20, 30, 40])
    np.testing.assert_array_equal(prims.select_and_gather_add_p.numpy(t, x, select="ge", **params()), [10, 20, 40])
    out = prims.select_and_scatter_add_p.numpy(np.float32([1, 2, 4]), x, select="ge", padding=((0, 0),),
                                               window_dimensions=(2,), window_strides=(1,))
    np.testing.assert_array_equal(out, [1, 2, 0, 4])


@pytest.mark.parametrize("changes, words", [
    (dict(window_dimensions=(2, 2)), "window_dimensions needs one entry"), (dict(window_dimensions=(0,)), "positive"),
    (dict(window_strides=(0,)), "window_strides must be positive"), (dict(base_dilation=()), "base_dilation needs"),
    (dict(padding=((1,),)), "pair")])
def test_wrong_shapes_are_rejected(changes, words):
    with pytest.raises(ShapeError, match=words):
        prims.reduce_window_sum_p.infer(aval_of(np.float32([1, 2])), **params(**changes))


def test_wrong_dtypes_and_sources_are_rejected():
    with pytest.raises(DTypeError, match="reduce_window_max"):
        prims.reduce_window_max_p.infer(aval_of(np.complex64([1])), **params())
    with pytest.raises(DTypeError, match="reduce_window_sum"):
        prims.reduce_window_sum_p.infer(aval_of(np.array([True])), **params())
    with pytest.raises(ShapeError, match="one element per window"):
        prims.select_and_scatter_add_p.infer(aval_of(np.float32([1])), aval_of(np.float32([1, 2, 3])), select="ge",
                                             padding=((0, 0),), window_dimensions=(2,), window_strides=(1,))
    with pytest.raises(ValueError, match="'ge'"):
        prims.select_and_gather_add_p.infer(*[aval_of(np.float32([1, 2]))] * 2, select="max", **params())
