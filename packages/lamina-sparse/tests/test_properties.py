"""Functions of BCOO arrays of random shapes and layouts agree with NumPy on the dense arrays, also with duplicates, padding,
under jit, and in their derivatives."""
import itertools

import lamina_numpy as lnp
import lamina_sparse as sparse
import numpy as np
import pytest
from lamina_autodiff import grad
from lamina_batching import vmap
from lamina_sparse import BCOO
from lamina_tracing import jit

SHAPES = [(5,), (3, 4), (2, 3, 4), (2, 1, 3), (0, 3), (1, 1)]
LAYOUTS = [(shape, b, d) for shape in SHAPES for b in range(len(shape) + 1) for d in range(len(shape) + 1 - b)]


def draw(shape, seed=0, density=0.4):
    rng = np.random.RandomState(seed)
    return (rng.randint(1, 9, shape) * (rng.rand(*shape) < density)).astype(np.float32)


def sparse_of(dense, n_batch, n_dense, seed=0):
    """Return a BCOO with duplicates, padding whose data is not 0, and unsorted entries."""
    mat = BCOO.fromdense(dense, n_batch=n_batch, n_dense=n_dense)
    nse = mat.nse
    data = np.concatenate([np.asarray(mat.data) * 0.25, np.asarray(mat.data) * 0.75], n_batch)
    indices = np.concatenate([np.asarray(mat.indices)] * 2, n_batch)
    if mat.n_sparse:
        ends = np.broadcast_to(np.int32(dense.shape[n_batch:dense.ndim - n_dense]), (*indices.shape[:n_batch], 2, mat.n_sparse))
        indices = np.concatenate([indices, ends], n_batch)
        data = np.concatenate([data, np.full((*data.shape[:n_batch], 2, *data.shape[n_batch + 1:]), 7, np.float32)], n_batch)
    order = np.random.RandomState(seed).permutation(indices.shape[n_batch])
    assert nse * 2 <= len(order)
    return BCOO((np.take(data, order, n_batch), np.take(indices, order, n_batch)), shape=dense.shape)


@pytest.fixture(params=LAYOUTS, ids=str)
def layout(request):
    return request.param


def test_dense_values_round_trip(layout):
    shape, b, d = layout
    x = draw(shape)
    assert np.array_equal(BCOO.fromdense(x, n_batch=b, n_dense=d).todense(), x)
    mat = sparse_of(x, b, d)
    assert (mat.n_batch, mat.n_dense, mat.shape) == (b, d, shape)
    assert np.array_equal(mat.todense(), x)
    assert np.array_equal(jit(lambda m: m.todense())(mat), x)
    assert np.array_equal(mat.sort_indices().todense(), x)


def test_sum_duplicates_gives_sorted_unique_indices(layout):
    shape, b, d = layout
    x = draw(shape)
    mat = sparse_of(x, b, d).sum_duplicates()
    assert np.array_equal(mat.todense(), x) and mat.indices_sorted
    assert mat.nse == BCOO.fromdense(x, n_batch=b, n_dense=d).nse
    again = jit(lambda m: m.sum_duplicates(nse=m.nse))(sparse_of(x, b, d))
    assert np.array_equal(again.todense(), x)


def test_transposes(layout):
    shape, b, d = layout
    x, n = draw(shape), len(shape)
    mat = sparse_of(x, b, d)
    for order in itertools.permutations(range(n)):
        if sorted(order[n - d:]) == list(range(n - d, n)):
            assert np.array_equal(mat.transpose(order).todense(), x.transpose(order)), order
        else:
            with pytest.raises(NotImplementedError, match="dense dimensions"):
                mat.transpose(order)


def test_sums(layout):
    shape, b, d = layout
    x = draw(shape)
    mat = sparse_of(x, b, d)
    for k in range(len(shape) + 1):
        for axes in itertools.combinations(range(len(shape)), k):
            assert np.allclose(sparse.todense(mat.sum(axes)), x.sum(axes)), axes
            assert np.allclose(sparse.todense(mat.sum(axes, keepdims=True)), x.sum(axes, keepdims=True)), axes


def test_slices(layout):
    shape, b, d = layout
    x = draw(shape)
    mat = sparse_of(x, b, d)
    items = [slice(None), slice(1, None), slice(None, None, -1), slice(None, None, 2), slice(-2, None), slice(3, 1), None, ...]
    items += [0, -1] if 0 not in shape else []
    for first, second in itertools.product(items, items[:6] if len(shape) > 1 else [...]):
        if first is ... and second is ...:
            continue
        assert np.array_equal(sparse.todense(mat[first, second]), x[first, second]), (first, second)


def test_vectors_of_indices(layout):
    shape, b, d = layout
    x = draw(shape)
    mat = sparse_of(x, b, d)
    for axis, n in enumerate(shape):
        if n and axis < len(shape) - d:
            index = (slice(None),) * axis + (np.array([n - 1, 0, -1]),)
            assert np.array_equal(mat[index].todense(), x[index]), axis
            assert np.array_equal(jit(lambda m, i: m[i])(mat, index[-1][0]).todense(), x[index[-1][0]]) if not axis else True


def test_reshapes(layout):
    shape, b, d = layout
    x = draw(shape)
    mat = sparse_of(x, b, d)
    for new in [(-1,), (1, *shape), (*shape, 1), shape[::-1]]:
        if 0 in shape and -1 in new:
            new = (0,)
        try:
            got = mat.reshape(new)
        except ValueError:
            assert d
            continue
        assert np.array_equal(got.todense(), x.reshape(new)), new


def test_broadcasts(layout):
    shape, b, d = layout
    x = draw(shape)
    mat = sparse_of(x, b, d)
    n = len(shape)
    for place in range(n + 1):
        new = (*shape[:place], 3, *shape[place:])
        dims = [a for a in range(n + 1) if a != place]
        want = np.broadcast_to(np.expand_dims(x, place), new)
        assert np.array_equal(sparse.bcoo_broadcast_in_dim(mat, shape=new, broadcast_dimensions=dims).todense(), want), place
    wide = tuple([2 if m == 1 else m for m in shape])
    assert np.array_equal(sparse.bcoo_broadcast_in_dim(mat, shape=wide, broadcast_dimensions=range(n)).todense(),
                          np.broadcast_to(x, wide))


def test_concatenations(layout):
    shape, b, d = layout
    x, y = draw(shape), draw(shape, 1)
    for axis in range(len(shape) - d):
        got = sparse.bcoo_concatenate([sparse_of(x, b, d), BCOO.fromdense(y, n_batch=b, n_dense=d)], dimension=axis)
        assert np.array_equal(got.todense(), np.concatenate([x, y], axis)), axis


def test_elementwise_arithmetic(layout):
    shape, b, d = layout
    x, y = draw(shape), draw(shape, 1)
    p, q = sparse_of(x, b, d), sparse_of(y, b, d)
    for f in (lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b):
        assert np.allclose(f(p, q).todense(), f(x, y))
        assert np.allclose(sparse.todense(f(p, y)), f(x, y))
        assert np.allclose(sparse.todense(f(y, p)), f(y, x))
        assert np.allclose(sparse.todense(jit(f)(p, q)), f(x, y))
    assert np.allclose((p / (y + 1)).todense(), x / (y + 1))
    assert np.allclose((-p * 2 / 4).todense(), -x * 2 / 4) and np.allclose(abs(-p).todense(), x)
    assert np.allclose((p ** 2).todense(), x ** 2)
    for axis, n in enumerate(shape):  # broadcasting
        part = y.sum(axis, keepdims=True)
        assert np.allclose((p * part).todense(), x * part)
        assert np.allclose((p * BCOO.fromdense(part, n_dense=d)).todense(), x * part)
        assert np.allclose((p * part.squeeze(axis)).todense(), x * part.squeeze(axis)) if not axis else True
        assert n >= 0


def test_extract(layout):
    shape, b, d = layout
    x, y = draw(shape), draw(shape, 1, 1.0)
    mat = BCOO.fromdense(x, n_batch=b, n_dense=d)
    at = np.any(x != 0, tuple(range(len(shape) - d, len(shape))), keepdims=True)
    at |= mat.n_sparse == 0 and mat.nse > 0  # without sparse dimensions no index marks padding
    assert np.array_equal(sparse.bcoo_extract(mat, y).todense(), np.where(at, y, 0))
    assert np.array_equal(sparse.bcoo_extract(sparse_of(x, b, d), y).todense(), np.where(at, y, 0))


def test_layouts(layout):
    shape, b, d = layout
    x = draw(shape)
    mat = sparse_of(x, b, d)
    for nb, nd in [(nb, nd) for s, nb, nd in LAYOUTS if s == shape]:
        got = mat.update_layout(n_batch=nb, n_dense=nd, on_inefficient=None)
        assert (got.n_batch, got.n_dense) == (nb, nd) and np.array_equal(got.todense(), x), (nb, nd)


DIMENSIONS = [((2, 3, 4), (4, 2, 5), (((2,), (0,)), ((), ()))), ((2, 3, 4), (4, 2, 5), (((2,), (0,)), ((0,), (1,)))),
              ((2, 3, 4), (4, 2, 3), (((0, 2), (1, 0)), ((1,), (2,)))), ((3, 4), (3,), (((0,), (0,)), ((), ()))),
              ((3, 4), (3, 4), (((0, 1), (0, 1)), ((), ()))), ((2, 3), (2, 2), (((), ()), ((0,), (1,)))),
              ((3,), (2,), (((), ()), ((), ())))]


def contract(x, y, numbers):
    (lc, rc), (lb, rb) = numbers
    names = "abcdefg"
    left = list(names[:x.ndim])
    right = list("uvwxyz"[:y.ndim])
    for i, j in [*zip(lc, rc), *zip(lb, rb)]:
        right[j] = left[i]
    out = [left[i] for i in lb] + [c for i, c in enumerate(left) if i not in (*lb, *lc)] + [
        c for i, c in enumerate(right) if i not in (*rb, *rc)]
    return np.einsum(f"{''.join(left)},{''.join(right)}->{''.join(out)}", x, y)


@pytest.mark.parametrize("left, right, numbers", DIMENSIONS, ids=str)
def test_contractions(left, right, numbers):
    x, y = draw(left), draw(right, 1)
    want = contract(x, y, numbers)
    for b in range(len(left) + 1):
        for d in range(len(left) + 1 - b):
            mat = sparse_of(x, b, d)
            assert np.allclose(sparse.bcoo_dot_general(mat, y, dimension_numbers=numbers), want), (b, d)
            swapped = tuple([pair[::-1] for pair in numbers])
            assert np.allclose(sparse.bcoo_dot_general(y, mat, dimension_numbers=swapped), contract(y, x, swapped)), (b, d)
    for b in range(len(left) + 1):
        for c in range(len(right) + 1):
            p, q = sparse_of(x, b, 0), sparse_of(y, c, 0)
            for run in (lambda f: f, jit):
                got = run(lambda p, q: sparse.bcoo_dot_general(p, q, dimension_numbers=numbers))(p, q)
                assert np.allclose(got.todense(), want), (b, c)
            p, q = BCOO.fromdense(x, n_batch=b), BCOO.fromdense(y, n_batch=c)
            unique = sparse.bcoo_dot_general(p, q, dimension_numbers=numbers)
            assert np.allclose(unique.todense(), want), (b, c)


@pytest.mark.parametrize("left, right, numbers", DIMENSIONS, ids=str)
def test_sampled_contractions(left, right, numbers):
    x, y = draw(left), draw(right, 1)
    want = contract(x, y, numbers)
    b = len(numbers[1][0])
    for d in range(want.ndim - b + 1):
        mat = BCOO.fromdense(draw(want.shape, 2), n_batch=b, n_dense=d)
        got = sparse.bcoo_dot_general_sampled(x, y, mat.indices, dimension_numbers=numbers)
        assert np.allclose(got, sparse.bcoo_extract(mat, want).data), d


@pytest.mark.parametrize("left, right", [((3, 4), (4, 2)), ((4,), (4, 2)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 5)),
                                         ((3, 4), (2, 4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4,)),
                                         ((4,), (2, 4, 5))], ids=str)
def test_matmul(left, right):
    x, y = draw(left), draw(right, 1)
    p, q = BCOO.fromdense(x), BCOO.fromdense(y)
    for got in (p @ y, x @ q, p @ q, jit(lambda p, q: p @ q)(p, q), lnp.asarray(x) @ q):
        assert np.allclose(sparse.todense(got), x @ y)


def test_gradients_are_those_of_the_dense_array(layout):
    shape, b, d = layout
    x, y = draw(shape), draw(shape, 1)
    mat = sparse_of(x, b, d)

    def loss(p):
        return (((p * y).sum() + (p.todense() ** 2).sum() + p.sum(0).sum() ** 2) if p.ndim else 0.) * 1.0

    def dense_loss(p):
        return (p * y).sum() + (p ** 2).sum() + p.sum() ** 2
    want = np.asarray(grad(dense_loss)(x))
    got = sparse.grad(loss)(mat)
    assert got.data.shape == mat.data.shape and got.indices is mat.indices
    assert np.allclose(got.data, sparse.bcoo_extract(mat, want, assume_unique=True).data, rtol=1e-5)


def test_vmap_maps_batch_dimensions(layout):
    shape, b, d = layout
    if not b or 0 in shape:
        return
    x = draw(shape)
    mat = sparse_of(x, b, d)
    assert np.array_equal(vmap(lambda m: m.todense())(mat), x)
    doubled = vmap(lambda m: m * 2)(mat)
    assert doubled.shape == shape and doubled.n_batch == b and np.array_equal(doubled.todense(), 2 * x)
    assert np.allclose(vmap(lambda m: m.sum())(mat), x.sum(tuple(range(1, len(shape)))))
