"""Activations: values and derivatives at corners, far out and at what is no number, as JAX 0.4.30 gives them, frozen."""
import numpy as np
import pytest
from lamina_autodiff import grad
from lamina_batching import vmap
from lamina_ir import ShapeError, config, dtypes
from lamina_tracing import eval_shape

import lamina_nn as nn

inf, nan = np.inf, np.nan
POINTS = np.array([-inf, -20.0, -3.0, -1.0, 0.0, 0.5, 2.0, 6.0, 100.0, inf, nan], np.float32)
# name: (values, derivatives); derivatives at infinities of sparse_plus (NaN there) and log1mexp (-1), and squareplus
# at -inf are ours
ROWS = {
    "celu": ([-1.0, -1.0, -0.950213, -0.6321205, 0.0, 0.5, 2.0, 6.0, 100.0, inf, nan],
     [0.0, 0.0, 0.04978704, 0.3678795, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, nan]),
    "elu": ([-1.0, -1.0, -0.950213, -0.6321205, 0.0, 0.5, 2.0, 6.0, 100.0, inf, nan],
     [0.0, 0.0, 0.04978704, 0.3678795, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, nan]),
    "gelu": ([nan, -0.0, -0.003637344, -0.158808, 0.0, 0.345714, 1.954598, 6.0, 100.0, inf, nan],
     [nan, 0.0, -0.01158401, -0.08296407, 0.5, 0.8673699, 1.086099, 1.0, 1.0, nan, nan]),
    "hard_sigmoid": ([0.0, 0.0, 0.0, 0.3333333, 0.5, 0.5833334, 0.8333334, 1.0, 1.0, 1.0, nan],
     [0.0, 0.0, 0.0, 0.1666667, 0.1666667, 0.1666667, 0.1666667, 0.0, 0.0, 0.0, 0.0]),
    "hard_silu": ([nan, -0.0, -0.0, -0.3333333, 0.0, 0.2916667, 1.666667, 6.0, 100.0, inf, nan],
     [0.0, 0.0, 0.0, 0.1666667, 0.5, 0.6666667, 1.166667, 1.0, 1.0, 1.0, nan]),
    "hard_tanh": ([-1.0, -1.0, -1.0, -1.0, 0.0, 0.5, 1.0, 1.0, 1.0, 1.0, nan],
     [0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0]),
    "leaky_relu": ([-inf, -0.2, -0.03, -0.01, 0.0, 0.5, 2.0, 6.0, 100.0, inf, nan],
     [0.01, 0.01, 0.01, 0.01, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.01]),
    "log_sigmoid": ([-inf, -20.0, -3.048587, -1.313262, -0.6931472, -0.474077, -0.126928, -0.002475685, -0.0, -0.0, nan],
     [1.0, 1.0, 0.9525741, 0.7310585, 0.5, 0.3775407, 0.1192029, 0.002472623, 0.0, 0.0, nan]),
    "mish": ([nan, -4.122307e-08, -0.1456475, -0.3034014, 0.0, 0.3752452, 1.943959, 5.999927, 100.0, inf, nan],
     [nan, -3.916192e-08, -0.09339311, 0.05921676, 0.6, 0.8864244, 1.069318, 1.000133, 1.0, nan, nan]),
    "relu": ([0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 2.0, 6.0, 100.0, inf, nan],
     [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0]),
    "relu6": ([0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 2.0, 6.0, 6.0, 6.0, nan],
     [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]),
    "selu": ([-1.758099, -1.758099, -1.670569, -1.111331, 0.0, 0.5253505, 2.101402, 6.304206, 105.0701, inf, nan],
     [0.0, 0.0, 0.08753057, 0.6467686, 1.758099, 1.050701, 1.050701, 1.050701, 1.050701, 1.050701, nan]),
    "sigmoid": ([0.0, 2.061154e-09, 0.04742587, 0.2689414, 0.5, 0.6224594, 0.880797, 0.9975274, 1.0, 1.0, nan],
     [0.0, 2.061154e-09, 0.04517666, 0.1966119, 0.25, 0.2350037, 0.1049936, 0.002466466, 0.0, 0.0, nan]),
    "silu": ([nan, -4.122307e-08, -0.1422776, -0.2689414, 0.0, 0.3112297, 1.761594, 5.985165, 100.0, inf, nan],
     [nan, -3.916192e-08, -0.0881041, 0.07232949, 0.5, 0.7399612, 1.090784, 1.012326, 1.0, nan, nan]),
    "soft_sign": ([nan, -0.952381, -0.75, -0.5, 0.0, 0.3333333, 0.6666667, 0.8571429, 0.990099, nan, nan],
     [nan, 0.002267573, 0.0625, 0.25, 1.0, 0.4444445, 0.1111111, 0.02040817, 9.803008e-05, nan, nan]),
    "softplus": ([0.0, 2.061154e-09, 0.04858735, 0.3132617, 0.6931472, 0.974077, 2.126928, 6.002476, 100.0, inf, nan],
     [0.0, 2.061154e-09, 0.04742587, 0.2689414, 0.5, 0.6224594, 0.880797, 0.9975273, 1.0, 1.0, nan]),
    "sparse_plus": ([0.0, 0.0, 0.0, 0.0, 0.25, 0.5625, 2.0, 6.0, 100.0, inf, nan],
     [0.0, 0.0, 0.0, 0.0, 0.5, 0.75, 1.0, 1.0, 1.0, 1.0, nan]),
    "sparse_sigmoid": ([0.0, 0.0, 0.0, 0.0, 0.5, 0.75, 1.0, 1.0, 1.0, 1.0, nan],
     [0.0, 0.0, 0.0, 0.25, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0]),
    "squareplus": ([0.0, 0.04987562, 0.3027756, 0.618034, 1.0, 1.280776, 2.414214, 6.162278, 100.01, inf, nan],
     [nan, 0.002481371, 0.08397485, 0.2763932, 0.5, 0.6212678, 0.8535534, 0.9743416, 0.9999, nan, nan]),
    "tanh": ([-1.0, -1.0, -0.9950547, -0.7615942, 0.0, 0.4621172, 0.9640276, 0.9999876, 1.0, 1.0, nan],
     [0.0, 0.0, 0.009866101, 0.4199743, 1.0, 0.7864477, 0.07065082, 2.479538e-05, 0.0, 0.0, nan]),
    "log1mexp": ([nan, nan, nan, nan, -inf, -0.9327521, -0.1454135, -0.002481829, -0.0, -0.0, nan],
     [nan, -1.0, -1.052396, -1.581977, inf, 1.541494, 0.1565176, 0.002484912, 0.0, 0.0, nan]),
}
KEEP_INTEGERS = {"relu", "hard_tanh"}


def assert_close(got, want, rtol=3e-6, atol=1e-9):
    np.testing.assert_allclose(np.asarray(got, np.float64), want, rtol=rtol, atol=atol)


@pytest.mark.parametrize("name", ROWS)
def test_values_and_derivatives(name):
    values, derivatives = ROWS[name]
    assert_close(getattr(nn, name)(POINTS), values, 3e-5 if name == "gelu" else 3e-6)  # 1 + tanh loses digits
    assert_close(vmap(grad(getattr(nn, name)))(POINTS), derivatives, 1e-4, 3e-7)


@pytest.mark.parametrize("name", ROWS)
def test_derivatives_of_higher_order_are_those_of_the_derivative(name):
    x = np.array([-2.2, -0.7, 0.4, 2.6], np.float32)  # between corners
    derivative, h = grad(getattr(nn, name)), np.float32(1e-2)
    assert_close(vmap(grad(derivative))(x), (vmap(derivative)(x + h) - vmap(derivative)(x - h)) / (2 * h), 2e-3
                 if name != "log1mexp" else 2e-2)


def test_second_derivatives_of_smooth_functions_at_zero():
    rows = (("softplus", 0.25, 0.0), ("log_sigmoid", -0.25, 0.0), ("mish", 0.64, -0.096), ("sigmoid", 0.0, -0.125))
    for name, second, third in rows:
        f = getattr(nn, name)
        assert abs(grad(grad(f))(0.0) - second) < 1e-6 and abs(grad(grad(grad(f)))(0.0) - third) < 1e-6, name


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "uint8", "bool"])
def test_dtypes(name, dtype):
    import ml_dtypes
    x = np.array([0, 1, 3]).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    y = getattr(nn, name)(x)
    whole = x.dtype.kind in "biu"
    assert str(y.dtype) == ("float32" if whole and name not in KEEP_INTEGERS else "int32" if dtype == "bool" else dtype)
    if not whole:
        assert_close(y, np.asarray(getattr(nn, name)(x.astype(np.float32))), 2e-2)


def test_python_numbers_stay_weak():
    for name in ROWS:
        out = eval_shape(lambda: getattr(nn, name)(0.7))  # noqa: B023  # called at once
        assert out.weak_type == (name != "gelu") and out.dtype == np.float32, name


def test_64_bits():
    with config.enable_x64(True):
        assert nn.softplus(np.zeros(2)).dtype == np.float64
        assert abs(nn.gelu(1.0, approximate=False) - 0.8413447460685429) < 1e-15
        assert nn.elu(np.float32(-1.0)).dtype == np.float32


def test_parameters():
    assert_close(nn.elu(np.array([-1., 2.]), 2.0), [-1.264241, 2.0])
    assert_close(nn.elu(np.array([-1., -1.]), np.array([2., 1.])), [-1.264241, -0.6321206])
    assert_close(nn.celu(np.array([-1., 2.]), 2.0), [-0.7869387, 2.0])
    assert_close(nn.leaky_relu(np.array([-1., 2.]), 0.2), [-0.2, 2.0])
    assert_close(nn.squareplus(np.array([-1., 0., 2.]), 0), [0., 0., 2.])
    assert_close(nn.gelu(np.array([-20., -5., -3., 2.]), approximate=False),
                 [0.0, -1.433258e-6, -4.049694e-3, 1.9544997], 1e-5)
    for name, other in (nn.swish, nn.silu), (nn.hard_swish, nn.hard_silu):  # errors of each in its own name
        assert_close(name(np.array([-1., 0., 2.])), other(np.array([-1., 0., 2.])))
    assert nn.swish.__name__ == "swish"


def test_glu_halves_an_axis():
    x = np.arange(24, dtype=np.float32).reshape(2, 6, 2)
    assert_close(nn.glu(x, 1), x[:, :3] / (1 + np.exp(-x[:, 3:])))
    assert_close(nn.glu(x), x[..., :1] / (1 + np.exp(-x[..., 1:])))
    with pytest.raises(ShapeError, match=r"glu: axis 0 must have an even length, to be halved; got float32\[3\]"):
        nn.glu(np.zeros(3, np.float32), 0)
    with pytest.raises(ShapeError, match="glu: axis 3 is out of range for an array with 3 axes"):
        nn.glu(x, 3)


@pytest.mark.parametrize("name", [*ROWS, "glu", "softmax", "log_softmax", "standardize", "logmeanexp", "logsumexp", "identity"])
def test_a_word_is_refused(name):
    with pytest.raises(TypeError, match=rf"{name}: .*got str"):
        getattr(nn, name)("a")


@pytest.mark.parametrize("name", "celu elu hard_sigmoid hard_silu leaky_relu relu6 selu sparse_plus sparse_sigmoid".split())
def test_whole_numbers_give_way_to_other_widths(name):
    """As with the Python floats in the formula: the sum of a bfloat16 and the result is a bfloat16."""
    f = getattr(nn, name)
    for x in (np.int32([1, -2]), np.array([True, False]), np.int8(3), 2, 2.0):
        y = f(x)
        assert y.dtype == np.float32 and y.weak_type
    assert not f(np.float32(1)).weak_type


def test_which_others_are_weak():
    for f in (nn.mish, nn.softplus, nn.soft_sign):
        assert f(np.array(True)).weak_type and f(2.0).weak_type and not f(np.int32(2)).weak_type
    for approximate in (True, False):
        assert not nn.gelu(2.0, approximate).weak_type and not nn.gelu(2, approximate).weak_type


def test_half_precision_neither_overflows_nor_loses_its_digits():
    x = np.array([-12.4, 300], np.float16)
    for name, want in (("sigmoid", [4.117e-6, 1]), ("silu", [-5.105e-5, 300]), ("squareplus", [.08013, 300.003])):
        got = getattr(nn, name)(x)
        assert got.dtype == np.float16
        np.testing.assert_allclose(got, want, rtol=2e-3, atol=6e-8)
    np.testing.assert_allclose(nn.squareplus(np.float32(-3000)), 3.3333329629630452e-4, rtol=3e-7)
    shares = nn.softmax(np.array([9.0625, -6.96875], dtypes.bfloat16)).astype(np.float32)
    np.testing.assert_allclose(shares, [1, 1.0907e-7], rtol=4e-3)
    np.testing.assert_allclose(nn.standardize(np.array([201, 203], dtypes.bfloat16)).astype(np.float32), [-1, 1], rtol=4e-3)
