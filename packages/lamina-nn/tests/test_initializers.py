"""Initial weights: the numbers of JAX 0.10 on the classic stream, frozen; fans, names and refusals."""
import lamina_numpy as lnp
import lamina_random as random
import numpy as np
import pytest
from lamina_batching import vmap
from lamina_ir import DTypeError, ShapeError

from lamina_nn import initializers as init

KEY = random.PRNGKey(42)
VARIANCE = {(mode, kind): init.variance_scaling(2., mode, kind) for mode in ("fan_in", "fan_out", "fan_avg", "fan_geo_avg")
            for kind in ("normal", "uniform", "truncated_normal")}
# (initializer, shape, dtype, the first numbers that are not zero)
ROWS = [
    (init.glorot_normal(), (4, 6), "float32", [0.288502, 0.4997335, 0.8985768]),
    (init.glorot_uniform(), (4, 6), "float32", [0.3486256, 0.5472548, 0.748905]),
    (init.he_normal(), (4, 6), "float32", [0.4561618, 0.790148, 1.420775]),
    (init.he_uniform(), (4, 6), "float32", [0.5512255, 0.8652859, 1.184123]),
    (init.lecun_normal(), (4, 6), "float32", [0.3225551, 0.5587191, 1.00464]),
    (init.lecun_uniform(), (4, 6), "float32", [0.3897753, 0.6118495, 0.8373012]),
    (init.orthogonal(), (4, 6), "float32", [0.23826909, -0.73145396, 0.10389427]),
    (init.delta_orthogonal(), (3, 4, 6), "float32", [0.23826909, -0.73145396, 0.10389427]),
    (init.normal(2.), (4, 6), "float32", [1.19574153, 2.10096192, 4.26009369]),
    (init.uniform(3), (4, 6), "float32", [2.17511058, 2.55975437, 2.95024824]),
    (init.truncated_normal(1.), (4, 6), "float32", [0.56745553, 0.98292726, 1.76741338]),
    (init.truncated_normal(.5, lower=-1., upper=3.), (4, 6), "float32", [0.36561796, 0.57610375, 1.08137369]),
    (VARIANCE["fan_in", "normal"], (2, 4, 6), "float32", [-0.11019371, -0.43973479, -0.44723988]),
    (VARIANCE["fan_out", "uniform"], (2, 4, 6), "float32", [-0.12334106, -0.43900967, -0.44472408]),
    (VARIANCE["fan_avg", "truncated_normal"], (2, 4, 6), "float32", [-0.10687213, -0.42121321, -0.42818055]),
    (VARIANCE["fan_geo_avg", "uniform"], (2, 4, 6), "float32", [-0.13649933, -0.48584405, -0.49216813]),
    (VARIANCE["fan_in", "uniform"], (2, 4, 6), "complex64", [-0.41644993 + 0.2211398j, -0.17316243 + 0.60843426j]),
    (VARIANCE["fan_in", "truncated_normal"], (2, 4, 6), "complex64", [-0.35091487 + 0.18633991j, -0.17822336 + 0.62621665j]),
    (VARIANCE["fan_in", "normal"], (2, 4, 6), "complex64", [-0.04919609 - 0.06929307j, 0.29800656 - 0.19140016j]),
    (init.he_normal((0, 1), -1, (2,)), (3, 2, 4, 6), "float32", [-1.16561329, 0.13235661, 0.60777444]),
    (init.glorot_uniform(), (4, 6), "float16", [0.41748047, 0.22387695, 0.37963867]),
]


@pytest.mark.parametrize("make, shape, dtype, first", ROWS)
def test_frozen_numbers(make, shape, dtype, first):
    got = np.asarray(make(KEY, shape, dtype))
    assert got.shape == shape and got.dtype == dtype
    np.testing.assert_allclose(got[got != 0][:len(first)], first, rtol=2e-3 if dtype == "float16" else 2e-6)


def test_variances():
    shape = (3, 40, 60)  # fans: 120 in, 180 out
    fans = {"fan_in": 120, "fan_out": 180, "fan_avg": 150, "fan_geo_avg": np.sqrt(120 * 180)}
    for (mode, kind), make in VARIANCE.items():
        for dtype in ("float32", "complex64"):
            assert abs(np.asarray(make(KEY, shape, dtype)).var() * fans[mode] / 2 - 1) < 0.06, (mode, kind, dtype)


def test_the_dtype_is_the_calls_or_the_makers_or_the_default():
    make = init.he_normal(dtype="float16")
    assert make(KEY, (2, 2)).dtype == "float16" and make(KEY, (2, 2), "float32").dtype == "float32"
    assert init.zeros(KEY, 3).dtype == "float32"
    assert init.constant(np.arange(2.), "int32")(KEY, (3, 2)).tolist() == [[0, 1]] * 3
    assert init.orthogonal()(KEY, (3, 3), "float16").dtype == "float16" and init.ones(KEY, (2,), "int8").tolist() == [1, 1]
    assert init.xavier_normal is init.glorot_normal and init.kaiming_uniform is init.he_uniform


def test_orthogonal_matrices_and_kernels():
    for axis, shape in ((-1, (6, 4)), (0, (2, 5, 4)), (1, (3, 4, 2))):
        w = np.moveaxis(np.asarray(init.orthogonal(2., axis)(KEY, shape)), axis, -1).reshape(-1, shape[axis])
        small = w.T @ w if w.shape[0] >= w.shape[1] else w @ w.T
        np.testing.assert_allclose(small, 4 * np.eye(len(small)), atol=2e-6)
    kernel = np.asarray(init.delta_orthogonal()(KEY, (3, 4, 5, 6)))
    np.testing.assert_allclose(kernel[1, 1] @ kernel[1, 1].T, np.eye(5), atol=2e-6)
    assert np.count_nonzero(kernel) == 30


def test_each_position_of_a_named_axis_has_weights_of_its_own():
    make = init.he_normal(in_axis="inputs", out_axis=0)
    shape = random.NamedShape(6, inputs=4)
    got = vmap(lambda k: make(KEY, shape), axis_name="inputs")(np.arange(4))
    want = np.stack([random.truncated_normal(random.fold_in(KEY, k), -2., 2., (6,)) for k in range(4)])
    np.testing.assert_allclose(got, want * np.sqrt(2 / 4) / 0.87962566, rtol=2e-6)
    each = vmap(lambda k: init.orthogonal()(KEY, random.NamedShape(3, 3, inputs=4)), axis_name="inputs")(np.arange(4))
    np.testing.assert_allclose(lnp.matmul(each, lnp.matrix_transpose(each)), np.stack([np.eye(3)] * 4), atol=2e-6)
    assert len(np.unique(np.asarray(each)[:, 0, 0])) == 4


def test_refusals():
    rows = (
        (lambda: init.he_normal()(KEY, (4,)), ValueError, r"he_normal: the shape must have at least two axes.*\(4,\)"),
        (lambda: init.he_normal(in_axis=3)(KEY, (4, 2)), ShapeError, "he_normal: in_axis 3 is out of range|he_normal: axis 3"),
        (lambda: init.he_normal(in_axis="i")(KEY, (4, 2)), ShapeError, "he_normal: in_axis names 'i', which the shape"),
        (lambda: init.variance_scaling(1., "fan", "normal"), ValueError, "variance_scaling: mode must be one of 'fan_in'"),
        (lambda: init.variance_scaling(1., "fan_in", "n"), ValueError, "variance_scaling: distribution must be"),
        (lambda: init.orthogonal()(KEY, (4,)), ValueError, "orthogonal: the shape must have at least two axes"),
        (lambda: init.delta_orthogonal()(KEY, (4, 4)), ValueError, "delta_orthogonal: the shape must have three to five axes"),
        (lambda: init.delta_orthogonal()(KEY, (3, 5, 4)), ValueError, "delta_orthogonal: .* at most as many inputs"),
        (lambda: init.normal()(KEY, (3,), "int32"), DTypeError, "normal: dtype must be a float or complex dtype; got int32"))
    for call, error, words in rows:
        with pytest.raises(error, match=words):
            call()


def test_bits_of_rounded_variances():
    """JAX's bits: the variance is rounded to the dtype before its root is taken."""
    weights = np.asarray(init.variance_scaling(1e-3, "fan_in", "uniform")(random.PRNGKey(3), (4, 3), np.float32))
    assert weights[0].view(np.uint32).tolist() == [1017275127, 1001579216, 1021073237]
    with pytest.raises(ValueError, match="variance_scaling: scale"):
        init.variance_scaling(-1.0, "fan_in", "normal")
