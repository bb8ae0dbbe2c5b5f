"""Functions of lax that are written with others: high words, logarithms, stacking, products of groups, updates of factors."""
import ml_dtypes
import numpy as np
import pytest
from lamina_ir import DTypeError, ShapeError, config
from lamina_tracing import lax, make_jaxpr, primitives
from lamina_tracing.lax import factorizations as linalg

RNG = np.random.default_rng(0)
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def floats(*shape):
    return RNG.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("name", ["int4", "uint4", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_high_words_of_products(name):
    dtype = np.dtype(getattr(ml_dtypes, name) if name.endswith("int4") else name)
    info = ml_dtypes.iinfo(dtype) if name.endswith("int4") else np.iinfo(dtype)
    low, high, wide = int(info.min), int(info.max), np.uint64 if low_is_zero(name) else np.int64
    numbers = [low, high, 0, 1, 3, high // 3, *(int(v) for v in RNG.integers(low, min(high, 2 ** 63 - 1), 20))]
    pairs = [(a, b) for a in numbers for b in numbers]
    x, y = (np.array(column, wide).astype(dtype) for column in zip(*pairs))
    with config.enable_x64(True):
        got = np.asarray(lax.mulhi(x, y))
    assert got.dtype == dtype
    assert [int(v) for v in got] == [a * b >> info.bits for a, b in pairs]


def low_is_zero(name):
    return name.startswith("u")


def test_high_words_of_python_numbers_and_errors():
    assert lax.mulhi(2 ** 30, 8) == 2
    np.testing.assert_array_equal(lax.mulhi(np.int32([2 ** 30]), 8), [2])
    with pytest.raises(DTypeError, match=r"mulhi: expected integers; got float32\[2,3\]"):
        lax.mulhi(X, X)


def test_logarithm_to_base_2_and_one_minus_square():
    np.testing.assert_allclose(lax.log2(np.float32([1, 8, 0.5, 0, np.inf])), [0, 3, -1, -np.inf, np.inf])
    np.testing.assert_allclose(lax.log2(np.complex64(-1)), np.pi / np.log(2) * 1j, 1e-6)
    x = np.float32([0, 0.9999999, -3, np.inf])
    np.testing.assert_allclose(lax.one_minus_square(x), 1 - x.astype(np.float64) ** 2, 1e-6)
    assert lax.one_minus_square(np.complex64(1j)) == 2


def test_stack_and_unstack():
    for axis in (0, 1, 2, -1):
        both = lax.stack([X, X + 1], axis)
        np.testing.assert_array_equal(both, np.stack([X, X + 1], axis))
        for got, want in zip(lax.unstack(both, axis), (X, X + 1), strict=True):
            np.testing.assert_array_equal(got, want)
    for call, error, words in ((lambda: lax.stack([]), ShapeError, "stack: expected at least one operand"),
                               (lambda: lax.stack([X, X[0]]), ShapeError, "stack: operands must have one shape"),
                               (lambda: lax.stack([X, X.astype(int)]), DTypeError, "stack: operands must have one dtype"),
                               (lambda: lax.unstack(np.float32(1)), ShapeError, "unstack"),
                               (lambda: lax.stack(3), TypeError, "stack: operands must be a sequence")):
        with pytest.raises(error, match=words):
            call()


def test_tile_and_broadcast_like():
    for reps in ((1, 1), (2, 3), (0, 2)):
        np.testing.assert_array_equal(lax.tile(X, reps), np.tile(X, reps))
    with pytest.raises(ShapeError, match="tile: reps must have one number for each axis"):
        lax.tile(X, (2,))
    with pytest.raises(ValueError, match="tile: reps must not be negative"):
        lax.tile(X, (2, -1))
    for arr in (np.int32(1), np.int32([1, 2, 3]), np.int32([[1], [2]])):
        got = lax.broadcast_like(arr, X)
        np.testing.assert_array_equal(got, np.broadcast_to(arr, X.shape))
        assert got.dtype == np.int32
    with pytest.raises(ShapeError, match=r"broadcast_like: float32\[2,3\] does not broadcast to the shape of float32\[3\]"):
        lax.broadcast_like(X, X[0])


def test_new_arrays_and_staged_values():
    assert lax.empty((2, 3), np.int8).shape == (2, 3) and lax.empty(2, "float32").dtype == np.float32
    np.testing.assert_array_equal(lax.shape_as_value((2, 3)), [2, 3])
    assert lax.shape_as_value(()).shape == (0,) and lax.shape_as_value(()).dtype == np.int32
    assert lax.stage(2.0) == 2 and make_jaxpr(lambda: lax.stage(2.0))().out_avals[0].weak_type


@pytest.mark.parametrize("name, operands, params", [
    ("log2", (X + 1,), {}), ("mulhi", (np.int32(3), np.int32(4)), {}), ("one_minus_square", (X,), {}), ("stage", (X,), {}),
    ("split", (X,), {"sizes": (1, 2), "axis": 1}), ("tile", (X,), {"reps": (2, 1)}), ("unstack", (X,), {"axis": 0}),
    ("cholesky_update", (np.eye(2, dtype=np.float32), X[0, :2]), {}),
    ("ormqr", (X[:, :2], X[0, :2], X), {"left": True, "transpose": False}),
    ("symmetric_product", (X, X[:, :2]), {"alpha": 1.0, "beta": 0.0, "symmetrize_output": False})])
def test_composite_primitives_are_the_functions(name, operands, params):
    function = getattr(lax, name, None) or getattr(linalg, name)
    got, want = getattr(primitives, f"{name}_p").bind(*operands, **params), function(*operands, **params)
    for a, b in zip(*((v if isinstance(v, (list, tuple)) else [v]) for v in (got, want)), strict=True):
        np.testing.assert_array_equal(a, b)
    assert set(getattr(primitives, f"{name}_p").params) == set(params)


def test_stack_and_scatter_sub_primitives():
    np.testing.assert_array_equal(primitives.stack_p.bind(X, X, axis=1), np.stack([X, X], 1))
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    args = X[0], np.int32([[1]]), np.float32([5])
    params = {"indices_are_sorted": False, "unique_indices": False, "mode": lax.GatherScatterMode.CLIP}
    got = primitives.scatter_sub_p.bind(*args, dimension_numbers=numbers, **params)
    np.testing.assert_array_equal(got, lax.scatter_sub(*args, numbers, **params))


# --- products of groups -------------------------------------------------------------------------------------------
def ragged(lhs, rhs, sizes, numbers, ragged_axis, group_axes):
    return lax.ragged_dot_general(lhs, rhs, np.int32(sizes), lax.RaggedDotDimensionNumbers(numbers, [ragged_axis], group_axes))


def test_rows_of_groups():
    x, w = floats(7, 4), floats(3, 4, 5)
    got = ragged(x, w, [2, 0, 4], (((1,), (1,)), ((), ())), 0, [0])
    np.testing.assert_allclose(got, lax.ragged_dot(x, w, np.int32([2, 0, 4])), 1e-5, 1e-6)
    np.testing.assert_array_equal(got[6], np.zeros(5))


def test_rows_of_groups_that_differ_along_batch_axes():
    x, w, sizes = floats(2, 7, 4), floats(3, 2, 4, 5), [[2, 1, 4], [3, 3, 1]]
    got = ragged(x, w, sizes, (((2,), (2,)), ((0,), (1,))), 1, [0])
    want = np.stack([lax.ragged_dot(x[b], w[:, b], np.int32(sizes[b])) for b in range(2)])
    np.testing.assert_allclose(got, want, 1e-5, 1e-6)


def test_rows_of_groups_that_differ_along_axes_before():
    x, w, sizes = floats(3, 7, 4), floats(2, 4, 5), [[2, 1], [3, 3], [7, 0]]
    got = ragged(x, w, sizes, (((2,), (1,)), ((), ())), 1, [0])
    want = np.stack([lax.ragged_dot(x[b], w, np.int32(sizes[b])) for b in range(3)])
    np.testing.assert_allclose(got, want, 1e-5, 1e-6)


def test_groups_of_contracted_axes():
    x, y = floats(2, 7, 4), floats(2, 7, 5)
    got = ragged(x, y, [2, 1, 3], (((1,), (1,)), ((0,), (0,))), 1, [])
    want = np.stack([np.einsum("bkm,bkn->bmn", x[:, a:b], y[:, a:b]) for a, b in ((0, 2), (2, 3), (3, 6))])
    np.testing.assert_allclose(got, want, 1e-5, 1e-5)


def test_groups_of_batch_axes_have_no_effect():
    x, y = floats(6, 4, 3), floats(6, 3, 5)
    np.testing.assert_allclose(ragged(x, y, [2, 1, 3], (((2,), (1,)), ((0,), (0,))), 0, []), x @ y, 1e-5, 1e-6)


@pytest.mark.parametrize("call, error, words", [
    (lambda: ragged(X, X, [1, 1], (((1,), (1,)), ((), ())), 0, []), ValueError, "rhs_group_dimensions must name 1 axes"),
    (lambda: ragged(X, X, [1, 1], (((1,), (1,)), ((), ())), 5, []), ValueError, "lhs_ragged_dimensions must name one axis"),
    (lambda: ragged(X, X[None], [[1, 1]], (((1,), (2,)), ((), ())), 0, [0]), ShapeError, r"group_sizes must be integers \[g\]"),
    (lambda: lax.ragged_dot_general(X, X, np.int32([1]), None), TypeError, "must be a RaggedDotDimensionNumbers")])
def test_errors_of_products_of_groups(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_products_of_blocks_with_scales():
    a, b, s, t = floats(2, 6, 8), floats(2, 8, 5), np.abs(floats(2, 6, 2)), np.abs(floats(2, 4, 5))
    got = lax.scaled_dot(a, b, lhs_scale=s, rhs_scale=t, preferred_element_type=np.float32)
    np.testing.assert_allclose(got, (a * np.repeat(s, 4, 2)) @ (b * np.repeat(t, 2, 1)), 1e-5, 1e-5)
    narrow = a[0].astype(ml_dtypes.float8_e4m3fn)
    assert lax.scaled_dot(narrow, narrow.T).dtype == ml_dtypes.bfloat16
    np.testing.assert_allclose(lax.scaled_dot(a, b, preferred_element_type=np.float32), a @ b, 1e-5, 1e-5)
    with pytest.raises(ShapeError, match="scaled_dot: lhs_scale must have the axes of lhs"):
        lax.scaled_dot(a, b, lhs_scale=s[..., :1, :])
    with pytest.raises(DTypeError, match="scaled_dot: expected float operands"):
        lax.scaled_dot(X.astype(int), X.T)


# --- updates of factors -------------------------------------------------------------------------------------------
def test_cholesky_factors_after_a_change_of_rank_one():
    a = np.cov(RNG.normal(size=(4, 20)))
    r, w = np.linalg.cholesky(a).T.astype(np.float32), floats(4)
    new = np.asarray(linalg.cholesky_update(r, w))
    np.testing.assert_allclose(new.T @ new, r.T @ r + np.outer(w, w), 1e-5, 1e-6)
    assert not np.tril(new, -1).any()
    stack = linalg.cholesky_update(np.stack([r, 2 * r]), np.stack([w, w]))
    np.testing.assert_allclose(stack[1], linalg.cholesky_update(2 * r, w), 1e-6)
    np.testing.assert_allclose(linalg.cholesky_update(np.float32([[1e30]]), np.float32([1e30])), [[2 ** 0.5 * 1e30]], 1e-6)
    with pytest.raises(ShapeError, match="cholesky_update: expected r_matrix"):
        linalg.cholesky_update(r, w[:3])
    with pytest.raises(DTypeError, match="cholesky_update: expected two arrays of one float dtype"):
        linalg.cholesky_update(r * 1j, w * 1j)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 4)])
@pytest.mark.parametrize("kind", [0, 1j])
def test_products_with_q(shape, kind):
    a = (floats(*shape) + kind * floats(*shape)).astype(np.complex64 if kind else np.float32)
    h, taus = linalg.geqrf(a)
    q = np.asarray(linalg.qr(a)[0])
    c = floats(*shape[:-2], shape[-2], 2).astype(a.dtype)
    for transpose in (False, True):
        p = np.conj(np.swapaxes(q, -1, -2)) if transpose else q
        np.testing.assert_allclose(linalg.ormqr(h, taus, c, transpose=transpose), p @ c, 1e-4, 1e-5)
        d = np.swapaxes(c, -1, -2)
        np.testing.assert_allclose(linalg.ormqr(h, taus, d, left=False, transpose=transpose), d @ p, 1e-4, 1e-5)
    with pytest.raises(ShapeError, match="ormqr: expected a"):
        linalg.ormqr(h, taus, c[..., :1, :])


def test_symmetric_products():
    a, c = floats(2, 3, 4), floats(2, 3, 3)
    want = 2 * a @ np.swapaxes(a, 1, 2) + 3 * c
    got = linalg.symmetric_product(a, c, alpha=2.0, beta=3.0)
    np.testing.assert_allclose(got, want, 1e-5, 1e-5)
    same = np.asarray(linalg.symmetric_product(a, c, alpha=2.0, beta=3.0, symmetrize_output=True))
    np.testing.assert_allclose(same, np.tril(want) + np.swapaxes(np.tril(want, -1), 1, 2), 1e-5, 1e-5)
    with pytest.raises(ShapeError, match="symmetric_product: expected a_matrix"):
        linalg.symmetric_product(a, c[:, :2])
