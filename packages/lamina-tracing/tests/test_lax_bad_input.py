"""Ill-formed calls of `lax`: TypeError or ValueError with function, argument and constraint, eager and staged."""
import numpy as np
import pytest

from lamina_tracing import jit, lax

X = np.ones((2, 3), np.float32)
IMAGE, KERNEL = np.ones((1, 1, 4), np.float32), np.ones((1, 1, 2), np.float32)
AT = np.zeros((1, 1), np.int32)
ROWS = lax.GatherDimensionNumbers((1,), (0,), (0,))

BAD = {
    "integer_pow": (lambda x: lax.integer_pow(x, 2.5), "y must be an integer; got float"),
    "reciprocal": (lambda x: lax.reciprocal(lax.convert_element_type(x, "int32")), "expected floats or complex"),
    "round": (lambda x: lax.round(x, 2), "rounding_method must be one of"),
    "reduce_precision": (lambda x: lax.reduce_precision(x, 8.0, 3), "exponent_bits must be an integer"),
    "select_n": (lambda x: lax.select_n(x, x, x), "which must be bool or integers"),
    "add": (lambda x: lax.add(x, x[:, :2]), "operands need one shape"),
    "reshape": (lambda x: lax.reshape(x, (3., 2)), "new_sizes must be a sequence of integers"),
    "broadcast_in_dim": (lambda x: lax.broadcast_in_dim(x, (2, 3), None), "broadcast_dimensions must be a sequence"),
    "transpose": (lambda x: lax.transpose(x, "ab"), "permutation must be a sequence of integers; got str"),
    "expand_dims": (lambda x: lax.expand_dims(x, None), "dimensions must be a sequence"),
    "slice": (lambda x: lax.slice(x, (0, 0), (2, 3), (1,)), "strides"),
    "pad": (lambda x: lax.pad(x, 0., None), "padding_config must be a sequence"),
    "concatenate": (lambda x: lax.concatenate(None, 0), "operands must be a sequence"),
    "collapse": (lambda x: lax.collapse(x, 0, 9), "stop_dimension 9 is out of range"),
    "index_in_dim": (lambda x: lax.index_in_dim(x, "a"), "index must be an integer"),
    "iota": (lambda x: lax.iota("int32", -1), "sizes must not be negative"),
    "reduce_sum": (lambda x: lax.reduce_sum(x, None), "axes must be a sequence"),
    "dot_general numbers": (lambda x: lax.dot_general(x, x, None), "dimension_numbers must be"),
    "dot_general axes": (lambda x: lax.dot_general(x, x, ((("a",), (0,)), ((), ()))), "dimension_numbers must be"),
    "precision": (lambda x: lax.dot(x, x[0], lax.Precision("best")), "not a valid Precision"),
    "gather numbers": (lambda x: lax.gather(x, AT, None, (1, 3)), "must be a lax.GatherDimensionNumbers"),
    "gather axes": (lambda x: lax.gather(x, AT, ROWS._replace(offset_dims=("a",)), (1, 3)), "offset_dims must be"),
    "gather fill": (lambda x: lax.gather(x, AT, ROWS, (1, 3), mode="fill", fill_value=(1., 2.)), "fill_value must be one"),
    "gather sizes": (lambda x: lax.gather(x, AT, ROWS, (1., 3)), "slice_sizes must be"),
    "scatter": (lambda x: lax.scatter_add(x, AT, x[:1], ROWS), "must be a lax.ScatterDimensionNumbers"),
    "index_take": (lambda x: lax.index_take(x, [np.zeros(1, np.float32)], (0,)), "indices must be integers"),
    "dynamic_slice": (lambda x: lax.dynamic_slice(x, (0, 0), (1., 2)), "slice_sizes must be"),
    "conv strides": (lambda x: lax.conv(IMAGE, KERNEL, "ab", "SAME"), "window_strides must be"),
    "conv groups": (lambda x: lax.conv_general_dilated(IMAGE, KERNEL, (1,), "SAME", feature_group_count=None),
                    "feature_group_count must be an integer"),
    "reduce start": (lambda x: lax.reduce(lax.convert_element_type(x, "int32"), 0.5, lax.add, (0,)),
                     r"initial value must be .* dtype; got float32\[\] for int32\[2,3\]"),
    "reduce_window start": (lambda x: lax.reduce_window(x, 1j, lax.add, (1, 2), (1, 1), "VALID"),
                            r"initial value must be .* dtype; got complex64\[\]"),
    "reduce_window": (lambda x: lax.reduce_window(x, 0., lax.add, (2., 2), (1, 1), "VALID"), "window_dimensions must be"),
    "top_k": (lambda x: lax.top_k(x, 2.), "k must be an integer"),
    "approx_max_k": (lambda x: lax.approx_max_k(x, None), "k must be an integer"),
    "fft": (lambda x: lax.fft(x, "FFT", (3.,)), "fft_lengths must be"),
    "rng_uniform": (lambda x: lax.rng_uniform(0., 1., (-1,)), "shape must not be negative"),
    "rng_bit_generator": (lambda x: lax.rng_bit_generator(np.zeros(4, np.uint32), ("a",)), "shape must be a sequence"),
    "masked": (lambda x: lax.sin(np.ma.masked_array([1., 2.], [0, 1])), "masked arrays are not supported"),
}


@pytest.mark.parametrize("name", BAD)
def test_ill_formed_calls_are_rejected_eagerly_and_staged(name):
    call, words = BAD[name]
    for run in (call, jit(call)):
        with pytest.raises((TypeError, ValueError), match=words):
            run(X)


def test_traced_values_cannot_be_sizes():
    for call in (lambda n: lax.iota("int32", n), lambda n: lax.top_k(X, n), lambda n: lax.reshape(X, (n, 2))):
        with pytest.raises(TypeError, match="traced"):
            jit(call)(3)
    with pytest.raises(TypeError, match="no known number"):
        jit(lambda n: {n: 1})(3)


@pytest.mark.parametrize(("call", "words"), [
    (lambda: lax.sin(None), "sin: x: expected an array or a number; got NoneType"),
    (lambda: lax.add(1., "a"), "add: y: expected an array"),
    (lambda: lax.reduce_sum([1.], (0,)), "reduce_sum: operand: expected an array"),
    (lambda: lax.sort({"a": 1}), "sort: operand: expected an array"),
    (lambda: lax.concatenate([X, None], 0), "concatenate: expected an array"),
    (lambda: lax.factorizations.qr(None), "qr: x: expected an array"),
    (lambda: lax.sin(np.array(["a"])), "sin: x: dtype <U1 is not an array element type"),
    (lambda: lax.iota("x", 4), "iota: dtype: expected a dtype; got 'x'"),
    (lambda: lax.convert_element_type(X, "x"), "convert_element_type: new_dtype: expected a dtype"),
    (lambda: lax.gather(X, AT, ROWS, (1, 3), mode="x"), "gather: mode: expected 'clip'"),
    (lambda: lax.conv(IMAGE, KERNEL, (1,), "FULL"), "conv: padding: expected 'SAME'"),
    (lambda: lax.rng_bit_generator(np.zeros(4, np.uint32), (1,), algorithm="x"), "rng_bit_generator: algorithm must be"),
    (lambda: lax.cumlogsumexp(np.arange(3)), "cumlogsumexp: expected floats"),
    (lambda: lax.while_loop(lambda x: True, lambda x: x, "a"), "^while_loop: init_val: expected an array"),
])
def test_errors_begin_with_function_and_argument(call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call()
