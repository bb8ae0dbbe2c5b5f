"""Segments and images, compared with NumPy and with recorded results of another implementation."""
import lamina_numpy as lnp
import numpy as np
import pytest
from lamina_autodiff import grad
from lamina_autodiff.testing import check_grads
from lamina_ir import ConcretizationError
from lamina_numpy import image, ops
from lamina_tracing import jit

X = np.arange(12, dtype=np.float32).reshape(3, 4)
# rows 0 and 1 of the result, of `resize(X, (2, 6), method)` with and without antialias: first three and last
SIZES = {
    ("linear", True): ([1.5, 2.0, 2.66667, 4.5], 9.5), ("linear", False): ([1.0, 1.5, 2.16667, 4.0], 10.0),
    ("cubic", True): ([1.17338, 1.65093, 2.40583, 4.30495], 9.82662),
    ("cubic", False): ([0.60574, 1.0833, 1.8382, 3.73732], 10.39426),
    ("lanczos3", True): ([1.03221, 1.46744, 2.28914, 4.1594], 9.96779),
    ("lanczos3", False): ([0.42926, 0.86449, 1.68619, 3.55645], 10.57074),
    ("lanczos5", True): ([0.93419, 1.47562, 2.21653, 4.13968], 10.06582),
    ("lanczos5", False): ([0.19563, 0.73707, 1.47797, 3.40113], 10.80437),
    ("nearest", True): ([0, 1, 1, 3], 11)}


@pytest.mark.parametrize("name, start, theirs", [("sum", 0, np.add), ("prod", 1, np.multiply), ("max", -np.inf, np.maximum),
                                                 ("min", np.inf, np.minimum)])
def test_segments_are_numpys_at(name, start, theirs):
    rng = np.random.default_rng(0)
    data, ids = rng.normal(size=(50, 2)).astype(np.float32), rng.integers(-2, 9, 50)
    wanted = np.full((7, 2), start, np.float32)
    inside = (ids >= 0) & (ids < 7)
    theirs.at(wanted, ids[inside], data[inside])
    segment = getattr(ops, f"segment_{name}")
    staged = jit(lambda d, i: segment(d, i, 7))(data, ids)
    for got in (segment(data, ids, 7), segment(data, ids, num_segments=7, bucket_size=8), staged):
        np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-5)
    assert segment(np.array([1, 2], np.int8), np.array([3, 3])).shape == (4,)
    with pytest.raises(ConcretizationError, match=f"segment_{name}.*num_segments="):
        jit(segment)(data, ids)
    for bad, error in ((ids * 1.0, TypeError), (ids[:3], ValueError)):
        with pytest.raises(error, match=f"segment_{name}: segment_ids"):
            segment(data, bad, 3)
    check_grads(lambda d: segment(d, np.abs(ids), 9), (data,), order=1, rtol=2e-2)


def test_segments_of_truth_values_clipped_and_sorted():
    truth, ids = np.array([True, False, True]), np.array([0, 1, 4])
    assert ops.segment_max(truth, ids, 4).tolist() == [True, False, False, False]
    assert ops.segment_min(truth, ids, 3, mode="clip").tolist() == [True, False, True]
    assert ops.segment_sum(np.ones(3), ids, 5, indices_are_sorted=True, unique_indices=True).tolist() == [1, 1, 0, 0, 1]
    assert ops.segment_min(np.array([7], np.int32), np.array([1])).tolist() == [np.iinfo(np.int32).max, 7]


@pytest.mark.parametrize("method, antialias", SIZES)
def test_images_of_another_size(method, antialias):
    first, last = SIZES[method, antialias]
    got = np.asarray(image.resize(X, (2, 6), method, antialias))
    np.testing.assert_allclose(got[0, [0, 1, 2, 5]], first, atol=2e-5)
    np.testing.assert_allclose(got[1, 5], last, atol=2e-5)
    if method != "nearest":
        np.testing.assert_allclose(np.asarray(jit(lambda x: image.resize(x, (2, 6), method, antialias))(X)), got, rtol=1e-6)
        assert abs(np.asarray(image.resize(np.ones((5, 3), np.float32), (2, 7), method, antialias)) - 1).max() < 1e-6


def test_images_stretched_and_moved():
    got = image.scale_and_translate(X, (3, 5), (0, 1), np.array([1.5, 0.7]), np.array([0.3, -0.2]), "linear")
    np.testing.assert_allclose(np.asarray(got), [[0.5, 1.93548, 2.9375, 0, 0], [1.7, 3.13548, 4.1375, 0, 0],
                                                 [4.36667, 5.80215, 6.80417, 0, 0]], atol=2e-5)
    cubic = image.ResizeMethod.CUBIC
    got = image.scale_and_translate(X, (3, 5), (-1,), np.array([1.7]), np.array([-0.2]), cubic, antialias=False)
    np.testing.assert_allclose(np.asarray(got)[0], [-0.03881, 0.41176, 1.08824, 1.67647, 2.30829], atol=2e-5)
    moved = grad(lambda t: image.scale_and_translate(X[0], (4,), (0,), lnp.ones(1), t, "linear")[1])(lnp.full(1, 0.25))
    np.testing.assert_allclose(np.asarray(moved), [-1], rtol=1e-5)
    small = image.resize(X.astype(np.int32).astype("bfloat16"), (6, 4), "linear")
    assert small.dtype == "bfloat16" and image.resize(X.astype(int), (6, 4), "cubic").dtype == np.float32
    assert image.resize(X.astype(np.int32), (6, 4), "nearest").dtype == np.int32
    check_grads(lambda x: image.resize(x, (2, 6), "lanczos3"), (X,), order=1, rtol=1e-2)


@pytest.mark.parametrize("use, words", [
    (lambda: image.resize(X, (2,), "linear"), "resize: shape must have one size for each axis"),
    (lambda: image.resize(X, (2, 3), "soft"), "no method 'soft'; expected one of nearest"),
    (lambda: image.resize(X, (-2, 3), "linear"), "negative"), (lambda: image.resize(X[:0], (2, 4), "linear"), "cannot grow"),
    (lambda: image.scale_and_translate(X, (3, 4), (0,), np.ones(1), np.ones(1), "nearest"), "nearest"),
    (lambda: image.scale_and_translate(X, (4, 5), (0,), np.ones(1), np.ones(1), "linear"), "axis 1 is not in spatial_dims"),
    (lambda: image.scale_and_translate(X, (3, 5), (1,), np.ones(2), np.ones(1), "linear"), "scale must have one real number")])
def test_bad_sizes_are_refused(use, words):
    with pytest.raises(ValueError, match=words):
        use()
