"""BCSR, COO, CSR and CSC, conversions from SciPy, creation, pytrees, and errors."""
import re

import lamina_numpy as lnp
import lamina_random as random
import lamina_sparse as sparse
import numpy as np
import pytest
import scipy.sparse
from lamina_batching import vmap
from lamina_ir import ShapeError, trees
from lamina_sparse import BCOO, BCSR, COO, CSC, CSR
from lamina_tracing import jit, lax

X = np.array([[0, 1, 0, 2], [3, 0, 0, 0], [0, 0, 0, 4]], np.float32)
Y = np.arange(8, dtype=np.float32).reshape(4, 2)
FORMATS = [BCOO, BCSR, COO, CSR, CSC]


@pytest.fixture(params=FORMATS, ids=lambda c: c.__name__)
def cls(request):
    return request.param


def test_every_format_has_the_operators(cls):
    mat = cls.fromdense(X)
    assert np.array_equal(mat.todense(), X) and (mat.nse, mat.shape, mat.size, mat.ndim) == (4, (3, 4), 12, 2)
    assert repr(mat) == f"{cls.__name__}(float32[3, 4], nse=4)" and len(mat) == 3
    padded = cls.fromdense(X, nse=7)
    for m in (mat, padded, jit(lambda m: m)(padded)):
        for got, want in [(m @ Y, X @ Y), (m @ Y[:, 0], X @ Y[:, 0]), (Y.T @ m.T, (X @ Y).T), (m.T, X.T), (m * 2, X * 2),
                          (m + m, X + X), (m - X, 0 * X), (X - m, 0 * X), (-m, -X), (m.sum(0), X.sum(0)), (m.sum(), X.sum()),
                          (m[1], X[1]), (m.reshape(4, 3), X.reshape(4, 3)), (m @ m.T, X @ X.T), (m / 2, X / 2),
                          (m * X, X * X), (m.astype("int32"), X), (m ** 2, X ** 2), (+m, X), (m.T.T, X), (m.to_bcoo(), X)]:
            assert np.allclose(sparse.todense(got), want)
    assert sum(float(row.sum()) for row in mat) == X.sum() and mat.block_until_ready() is mat
    assert (mat * 2).__class__ is (-mat).__class__ is cls and mat.astype("int32").dtype == np.int32


def test_formats_from_scipy(cls):
    for kind in (scipy.sparse.coo_matrix, scipy.sparse.csr_matrix, scipy.sparse.csc_array):
        mat = cls.from_scipy_sparse(kind(X))
        assert isinstance(mat, cls) and np.array_equal(mat.todense(), X)
    with pytest.raises(TypeError, match=re.escape("mat must be a sparse matrix or array of SciPy; got ndarray")):
        cls.from_scipy_sparse(X)


def test_products_agree_with_scipy():
    a = scipy.sparse.random(30, 40, 0.1, random_state=0, dtype=np.float32)
    b = scipy.sparse.random(40, 20, 0.1, random_state=1, dtype=np.float32)
    p, q = BCOO.from_scipy_sparse(a), BCOO.from_scipy_sparse(b)
    assert np.allclose((p @ q).todense(), (a @ b).toarray(), atol=1e-6)
    assert (p @ q).nse < p.nse * q.nse
    assert (p @ q).sum_duplicates().nse == (a @ b).nnz
    assert np.allclose((p * p).todense(), a.multiply(a).toarray())
    assert np.allclose((p.T @ p).todense(), (a.T @ a).toarray(), atol=1e-6)


def test_arrays_of_compressed_formats_are_those_of_scipy():
    rows, columns = scipy.sparse.csr_matrix(X), scipy.sparse.csc_matrix(X)
    for mat, want in ((CSR.fromdense(X), rows), (BCSR.fromdense(X), rows), (CSC.fromdense(X), columns)):
        assert np.array_equal(mat.indices, want.indices) and np.array_equal(mat.indptr, want.indptr)
        assert np.array_equal(mat.data, want.data)
    assert isinstance(CSR.fromdense(X).T, CSC) and isinstance(CSC.fromdense(X).T, CSR)


@pytest.mark.parametrize("shape, b, d", [((2, 3, 4), 1, 0), ((2, 3, 4), 0, 1), ((2, 1, 3, 4), 2, 0), ((2, 3, 4, 2), 1, 1)])
def test_bcsr_with_batch_and_dense_dimensions(shape, b, d):
    x = np.random.RandomState(0).randint(0, 3, shape).astype(np.float32)
    mat = BCSR.fromdense(x, n_batch=b, n_dense=d)
    assert (mat.n_batch, mat.n_dense) == (b, d) and np.array_equal(mat.todense(), x)
    assert np.array_equal(mat.sum_duplicates(nse=mat.nse + 2).todense(), x)
    if b:
        assert np.array_equal(vmap(lambda m: m.todense())(mat), x)
        both = sparse.bcsr_concatenate([mat, mat], dimension=0)
        assert np.array_equal(both.todense(), np.concatenate([x, x]))
    wide = sparse.bcsr_broadcast_in_dim(mat, shape=(3, *shape), broadcast_dimensions=range(1, len(shape) + 1))
    assert np.array_equal(wide.todense(), np.broadcast_to(x, (3, *shape)))


def test_functions_of_matrices():
    for f, m, v, mm in ((COO, sparse.coo_todense, sparse.coo_matvec, sparse.coo_matmat),
                        (CSR, sparse.csr_todense, sparse.csr_matvec, sparse.csr_matmat)):
        mat = f.fromdense(X)
        assert np.array_equal(m(mat), X) and np.allclose(v(mat, Y[:, 0]), X @ Y[:, 0]) and np.allclose(mm(mat, Y), X @ Y)
        assert np.allclose(v(mat, np.ones(3), transpose=True), X.sum(0))
        with pytest.raises(ValueError, match="must have 1 dimensions"):
            v(mat, Y)
        with pytest.raises(TypeError, match="must be a"):
            m(X)
    data = sparse.bcsr_extract(BCSR.fromdense(X).indices, BCSR.fromdense(X).indptr, X * 10)
    assert np.array_equal(data, [10, 20, 30, 40])
    got = sparse.bcsr_dot_general(BCSR.fromdense(X), Y, dimension_numbers=(((1,), (0,)), ((), ())))
    assert np.allclose(got, X @ Y)


def test_creation():
    for name, kind in zip(("bcoo", "bcsr", "coo", "csr", "csc"), FORMATS):
        assert isinstance(sparse.empty((3, 4), sparse_format=name), kind)
        for n, m, k in ((3, 3, 0), (3, 5, 1), (3, 5, -2), (2, 2, 7)):
            mat = sparse.eye(n, m, k, sparse_format=name, dtype="int32")
            assert isinstance(mat, kind) and np.array_equal(mat.todense(), np.eye(n, m, k)) and mat.dtype == np.int32
    assert np.array_equal(sparse.eye(3, n_batch=1).todense(), np.eye(3)) and sparse.eye(3, n_batch=1).n_batch == 1
    empty = sparse.empty((2, 3, 4), n_batch=1, n_dense=1, nse=2)
    assert (empty.nse, empty.n_batch, empty.n_dense) == (2, 1, 1) and not np.asarray(empty.todense()).any()
    for shape, b, d in (((4, 5), 0, 0), ((2, 4, 5), 1, 0), ((4, 5, 2), 0, 1), ((3, 2), 2, 0)):
        mat = sparse.random_bcoo(random.PRNGKey(0), shape, n_batch=b, n_dense=d, nse=0.5, sorted_indices=True)
        assert np.all(np.isin(np.asarray(mat.todense()), np.asarray(mat.data)) | (np.asarray(mat.todense()) == 0))
        assert mat.sum_duplicates().nse == mat.nse
    assert sparse.random_bcoo(random.PRNGKey(0), (9, 9), nse=7, unique_indices=False, dtype="float16").dtype == np.float16


def test_sparse_arrays_are_pytrees():
    mat = BCOO.fromdense(np.stack([X, X]), n_batch=1)
    assert len(trees.tree_leaves(mat)) == 2
    assert trees.tree_map(lambda x: None, mat).data is None
    total, rows = lax.scan(lambda c, m: (c + m @ Y, m * 2), lnp.zeros((3, 2)), mat)
    assert np.allclose(total, 2 * (X @ Y)) and rows.shape == (2, 3, 4) and np.allclose(rows.todense(), 2 * np.stack([X, X]))
    made = vmap(lambda x: BCOO.fromdense(x, nse=5))(np.stack([X, X]))
    assert made.shape == (2, 3, 4) and made.n_batch == 1 and np.array_equal(made.todense(), np.stack([X, X]))
    with pytest.raises(ValueError, match=re.escape("vmap, pmap and scan map leading batch dimensions of a BCOO")):
        vmap(lambda m: m.todense())(BCOO.fromdense(X))
    shared = BCOO((np.ones((1, 2), np.float32), np.array([[[0], [1]], [[1], [2]]])), shape=(2, 3))
    assert np.array_equal(shared.todense(), [[1, 1, 0], [0, 1, 1]])
    both = BCOO((np.ones((1, 2), np.float32), np.array([[[0], [1]]])), shape=(2, 3))
    assert both.data.shape == (2, 2) and np.array_equal(both.todense(), [[1, 1, 0]] * 2)


def test_carries_of_loops_are_sparse_arrays(cls):
    mat = cls.fromdense(X)
    assert np.array_equal(lax.fori_loop(0, 3, lambda i, m: m * 2, mat).todense(), 8 * X)
    assert np.array_equal(lax.cond(True, lambda m: m * 2, lambda m: m, mat).todense(), 2 * X)
    structure = trees.tree_structure(mat)
    assert trees.tree_structure(trees.tree_map(lambda x: "leaf", mat)) == structure
    assert trees.tree_structure(trees.tree_map(lambda x: x.sum(), mat)) == structure


def test_nan_in_padding_does_not_spread():
    mat = BCOO((np.array([1, np.nan], np.float32), np.array([[0, 1], [3, 4]])), shape=(3, 4))
    for got in (mat.todense(), mat @ Y, mat.sum(), mat.sum(0), mat[0], mat * X, mat.T, mat.reshape(12), mat @ mat.T,
                mat + X):
        assert np.all(np.isfinite(np.asarray(sparse.todense(got))))


def test_booleans_and_other_dtypes():
    for dtype in (bool, np.int8, np.float16, np.complex64):
        mat = BCOO.fromdense(X.astype(dtype))
        assert mat.dtype == dtype and np.array_equal(mat.todense(), X.astype(dtype))
    half = BCOO.fromdense(np.ones((1, 4096), np.float16))
    assert float((half @ np.ones(4096, np.float16))[0]) == 4096  # summed in float32


A = BCOO.fromdense(X)
ERRORS = [
    (lambda: BCOO(X, shape=(3, 4)), ValueError, "BCOO: args must be the pair (data, indices); got ndarray"),
    (lambda: BCOO((np.ones(3), np.zeros((4, 2), int)), shape=(3, 4)), ValueError, "data and indices must have the same nse"),
    (lambda: BCOO((np.ones(3), np.zeros((3, 3), int)), shape=(3, 4)), ValueError, "indices [*batch, nse, n_sparse]; got"),
    (lambda: BCOO((np.ones(3), np.zeros((3, 2))), shape=(3, 4)), TypeError, "indices must be an array of integers; got float"),
    (lambda: BCOO((np.ones(1), np.array([[-1]])), shape=(3,)), ValueError, "indices must not be negative; got -1"),
    (lambda: BCOO((A, A.indices), shape=(3, 4)), TypeError, "BCOO: data must be a dense array; got BCOO"),
    (lambda: BCSR((np.ones(2), np.zeros(2, int), np.zeros(3, int)), shape=(3, 4)), ValueError,
     "BCSR: data, indices and indptr"),
    (lambda: CSR((np.ones(2), np.zeros(2, int), np.zeros(3, int)), shape=(3, 4)), ValueError, "CSR: expected a matrix and"),
    (lambda: BCOO.fromdense(X, nse=2), ValueError, "nse must be at least the number of elements to store, 4; got 2"),
    (lambda: BCOO.fromdense(X, nse=2.5), TypeError, "nse must be an integer; got 2.5"),
    (lambda: BCOO.fromdense(X, n_batch=3), ValueError, "n_batch and n_dense must be at least 0"),
    (lambda: BCOO.fromdense(A), TypeError, "bcoo_fromdense: mat must be a dense array; got BCOO"),
    (lambda: jit(BCOO.fromdense)(X), ValueError, "nse must be given under jit"),
    (lambda: jit(lambda m: m.sum_duplicates())(A), ValueError, "nse must be given under jit"),
    (lambda: BCSR.fromdense(X, n_batch=1), ValueError, "mat must have 2 sparse dimensions"),
    (lambda: BCSR.from_bcoo(A[0]), NotImplementedError, "arr must have 2 sparse dimensions; got 1"),
    (lambda: COO.fromdense(X[0]), ValueError, "COO: expected a matrix; got the shape (4,)"),
    (lambda: sparse.bcoo_todense(X), TypeError, "bcoo_todense: mat must be a BCOO; got ndarray. Use BCOO.fromdense"),
    (lambda: sparse.bcoo_todense(CSR.fromdense(X)), TypeError, "mat must be a BCOO; got CSR. Use its method to_bcoo()"),
    (lambda: sparse.empty((3, 4), sparse_format="x"), ValueError, "sparse_format must be 'bcoo', 'bcsr'"),
    (lambda: sparse.empty((3, 4), n_btch=1), TypeError, "unknown arguments ['n_btch']"),
    (lambda: sparse.random_bcoo(random.PRNGKey(0), (2, 2), nse=9), ValueError, "nse must be between 0 and 4; got 9"),
    (lambda: A + 1, NotImplementedError, "a dense operand must have the shape (3, 4)"),
    (lambda: A + A.T, ShapeError, "sparse operands must have one shape; got (3, 4) and (4, 3)"),
    (lambda: A * A.T, ShapeError, "shapes must broadcast; got (3, 4) and (4, 3)"),
    (lambda: A * Y, ShapeError, "must have a shape that broadcasts to (3, 4); got (4, 2)"),
    (lambda: A @ X, ShapeError, "got operands of shapes (3, 4) and (3, 4)"),
    (lambda: A @ np.float32(2), ValueError, "use * to multiply by a number"),
    (lambda: 1 / A, NotImplementedError, "division by a sparse array has a dense result"),
    (lambda: A ** 0, NotImplementedError, "must be a positive number"),
    (lambda: A == A, NotImplementedError, "the result would be dense"),
    (lambda: bool(A), TypeError, "the truth value"),
    (lambda: np.asarray(A), TypeError, "is sparse; use its method todense()"),
    (lambda: A["x"], TypeError, "an index must consist of integers"),
    (lambda: A[X > 0], TypeError, "an index must consist of integers"),
    (lambda: A[3], IndexError, "index 3 must be within the size 3 of dimension 0"),
    (lambda: A[np.array([0, 9])], IndexError, "indices must be within the size 3"),
    (lambda: A[0, 0, 0], IndexError, "too many indices"),
    (lambda: A.reshape(5, 5), ValueError, "new_sizes must have 12 elements"),
    (lambda: A.transpose((0, 0)), ValueError, "must be distinct axes of 2 dimensions; got (0, 0)"),
    (lambda: A.sum(2), ValueError, "must be distinct axes of 2 dimensions"),
    (lambda: A.update_layout(n_batch=1), sparse.SparseEfficiencyError, "stores 6 elements instead of 4"),
    (lambda: A.update_layout(n_batch=1, on_inefficient="x"), ValueError, "on_inefficient must be"),
    (lambda: sparse.bcoo_squeeze(A, dimensions=(0,)), ValueError, "dimensions must have size 1"),
    (lambda: sparse.bcoo_slice(A, start_indices=(0, 0), limit_indices=(9, 9)), ValueError, "ranges must fit the shape (3, 4)"),
    (lambda: sparse.bcoo_dynamic_slice(A, (0, 0), (9, 9)), ValueError, "must fit the shape (3, 4)"),
    (lambda: sparse.bcoo_dynamic_slice(A, (0., 0), (1, 1)), TypeError, "start_indices must be integer scalars"),
    (lambda: sparse.bcoo_concatenate([], dimension=0), ValueError, "at least one; got []"),
    (lambda: sparse.bcoo_concatenate([A, X], dimension=0), TypeError, "operands must be a BCOO; got ndarray"),
    (lambda: sparse.bcoo_concatenate([A, A.T], dimension=0), ValueError, "shapes must differ in dimension 0 only"),
    (lambda: sparse.bcoo_extract(A, Y), ValueError, "arr must have the shape (3, 4) of sparr; got (4, 2)"),
    (lambda: sparse.bcoo_multiply_dense(X, X), TypeError, "sp_mat must be a BCOO; got ndarray"),
    (lambda: sparse.bcoo_dot_general(X, X, dimension_numbers=(((1,), (1,)), ((), ()))), TypeError, "lhs or rhs must be a BCOO"),
    (lambda: sparse.bcoo_dot_general(A, X, dimension_numbers=1), TypeError, "dimension_numbers must be ((lhs_contracting"),
    (lambda: sparse.bcoo_dot_general(A, X, dimension_numbers=(((5,), (1,)), ((), ()))), ValueError, "distinct dimensions"),
    (lambda: sparse.bcoo_broadcast_in_dim(A, shape=(3, 5), broadcast_dimensions=(0, 1)), ValueError,
     "must map the shape (3, 4)"),
    (lambda: BCOO.fromdense(np.ones((1, 65536), np.float32)).astype("int8").reshape("x"), TypeError, "sequence of integers"),
    (lambda: BCOO.from_scipy_sparse(scipy.sparse.eye(3), n_batch=1), NotImplementedError, "n_batch and n_dense must be 0"),
]


@pytest.mark.parametrize("make, kind, text", ERRORS, ids=[text for _, _, text in ERRORS])
def test_errors_say_what_is_wrong(make, kind, text):
    with pytest.raises(kind, match=re.escape(text)):
        make()


def test_inefficient_layouts_warn_on_request():
    with pytest.warns(sparse.SparseEfficiencyWarning, match="stores 6 elements"):
        A.update_layout(n_batch=1, on_inefficient="warn")


def test_huge_shapes_do_not_overflow():
    n = 100_000
    mat = BCOO((np.ones(2, np.float32), np.array([[1, 2], [n - 1, n - 1]])), shape=(n, n))
    assert np.array_equal(mat.reshape(n, 100, 1000).indices, [[1, 0, 2], [n - 1, 99, 999]])
    with pytest.raises(ValueError, match="does not fit the dtype int32 of the indices"):
        mat.reshape(-1)
    assert np.array_equal((mat @ mat).sum_duplicates().indices, [[n - 1, n - 1]]) and (mat * mat).nse == 2


def test_small_index_dtypes():
    mat = BCOO.fromdense(np.eye(127, dtype=np.float32), index_dtype=np.int8)
    assert mat.indices.dtype == np.int8 and np.array_equal(mat.todense(), np.eye(127))
    assert np.array_equal((mat @ mat)[::-1, 1:].sum(0).todense(), np.ones(126))
    with pytest.raises(ValueError, match=re.escape("indices of dtype int8 hold sizes up to 127; got shape=(128, 128)")):
        BCOO.fromdense(np.eye(128), index_dtype=np.int8)
    with pytest.raises(ValueError, match="indices of dtype int32 hold sizes up to"):
        sparse.empty((1 << 40,))


def test_duplicates_are_added_before_functions_that_are_not_linear(cls):
    rows, columns = np.array([0, 0, 1]), np.array([1, 1, 0])
    for data in ([0.25, 0.75, 2.], [True, True, True], [3, 4, 250]):
        dense = np.zeros((2, 2), np.asarray(data).dtype)
        np.add.at(dense, (rows, columns), data)
        dense = dense.astype(np.uint8) if data[-1] == 250 else dense.astype(np.float32) if data[-1] == 2. else dense
        mat = BCOO((np.asarray(data).astype(dense.dtype), np.stack([rows, columns], -1)), shape=(2, 2))
        if cls is BCSR:
            mat = BCSR.from_bcoo(mat)
        elif cls is not BCOO:
            mat = {COO: lambda m: COO((m.data, m.indices[:, 0], m.indices[:, 1]), shape=m.shape),
                   CSR: lambda m: CSR((m.data, m.indices[:, 1], np.array([0, 2, 3])), shape=m.shape),
                   CSC: lambda m: CSR((m.data, m.indices[:, 1], np.array([0, 2, 3])), shape=m.shape).T.T}[cls](mat)
        wide = np.array([[1000, 2000], [3000, -4000]], np.int32)
        for f in (lambda m: m.astype("int32"), lambda m: m.astype(bool), lambda m: m.astype("float32"), lambda m: m * wide,
                  lambda m: m + wide, lambda m: wide - m, lambda m: m - wide, lambda m: m @ wide, lambda m: m * 2.5,
                  lambda m: m.sum(), lambda m: m.sum(1), lambda m: m / 2):
            got, want = sparse.todense(f(mat)), f(lnp.asarray(dense))
            assert np.allclose(got, want) and got.dtype == want.dtype, (data, got, want)
        got = sparse.sparsify(lambda m: lax.div(m, lnp.full((2, 2), 2, m.dtype)))(mat) if dense.dtype != bool else mat
        half = dense // 2 if dense.dtype == np.uint8 else dense / 2
        assert np.allclose(got.todense(), half if dense.dtype != bool else dense)


def test_booleans_are_joined_by_or():
    x, y = np.array([True, False, True]), np.array([True, True, False])
    p, q = BCOO.fromdense(x), BCOO.fromdense(y)
    assert np.array_equal((p + q).todense(), x | y) and np.array_equal((p * q).todense(), x & y)
    assert np.array_equal(((p + q) * 2).todense(), (x | y) * 2) and int((p + q).sum()) == 3
