"""Maps of functions that are staged, branch or loop; and staged maps."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_batching import vmap
from lamina_ir import check, evaluate
from lamina_tracing import eval_shape, jit, lax, make_jaxpr

from lamina_batching.conformance.reference_loop import check as check_loop

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


def f(x):
    return lax.reduce_sum(lax.mul(lax.sin(x), x), (0,))


def f_of_numpy(x):
    return (np.sin(x) * x).sum()


@pytest.mark.parametrize("make", [lambda: jit(vmap(f)), lambda: vmap(jit(f)), lambda: jit(vmap(jit(f)))],
                         ids=["jit of vmap", "vmap of jit", "jit of vmap of jit"])
def test_staged_map_gives_equal_results(make):
    want = np.stack([f_of_numpy(x) for x in X])
    np.testing.assert_allclose(np.asarray(make()(X)), want, rtol=1e-5)


def test_program_of_map_computes_the_map():
    closed = make_jaxpr(vmap(f, in_axes=1))(X)
    check(closed)
    out, = evaluate(closed, X)
    np.testing.assert_allclose(out, [f_of_numpy(x) for x in X.T], rtol=1e-5)


def test_eval_shape_of_map():
    out = eval_shape(vmap(lambda x, y: (lax.dot(x, y), x), (0, None), (0, 1)), X, X[0])
    assert [o.shape for o in out] == [(4,), (3, 4)] and str(out[0].dtype) == "float32"


def test_each_example_takes_its_branch():
    def fun(which, x):
        return lax.cond(which, lambda v: lax.mul(v, 2.0), lambda v: lax.neg(v), x)

    which = np.array([True, False, False, True])
    got = vmap(fun)(which, X)
    np.testing.assert_allclose(np.asarray(got), np.where(which[:, None], 2 * X, -X), rtol=1e-6)
    shared = vmap(fun, in_axes=(None, 0))(True, X)
    np.testing.assert_allclose(np.asarray(shared), 2 * X, rtol=1e-6)


def test_each_example_switches_among_branches():
    branches = [lambda v: v, lambda v: lax.mul(v, 10.0), lambda v: lax.neg(v)]
    index = np.int32([2, 0, 1, 2])
    got = vmap(lambda i, v: lax.switch(i, branches, v))(index, X)
    np.testing.assert_allclose(np.asarray(got), np.stack([-X[0], X[1], 10 * X[2], -X[3]]), rtol=1e-6)


def test_each_example_stops_at_its_own_condition():
    def doublings(x):
        return lax.while_loop(lambda s: lax.lt(s[0], 100.0), lambda s: (lax.mul(s[0], 2.0), lax.add(s[1], 1)), (x, 0))

    x = np.float32([1, 50, 3, 200])
    values, counts = vmap(doublings)(x)
    np.testing.assert_array_equal(np.asarray(values), [128, 100, 192, 200])
    np.testing.assert_array_equal(np.asarray(counts), [7, 1, 6, 0])


def test_each_example_loops_to_its_own_bound():
    got = vmap(lambda n: lax.fori_loop(0, n, lambda i, s: lax.add(s, i), 0))(np.int32([0, 1, 4, 5]))
    np.testing.assert_array_equal(np.asarray(got), [0, 0, 6, 10])


def test_each_example_scans_its_own_sequence():
    def fun(carry, xs):
        return lax.scan(lambda c, x: (lax.add(c, x), lax.mul(c, x)), carry, xs)

    carry = np.float32([0, 1, 2, 3])

    def loop(c, xs):
        products = []
        for x in xs:
            products.append(c * x)
            c = c + x
        return c, np.stack(products)

    check_loop(fun, loop, [carry, X], [0, 0])
    check_loop(fun, loop, [carry[0], X.T], [None, 1])
    check_loop(fun, loop, [carry, X[0]], [0, None])


def test_examples_read_and_write_at_their_own_indices():
    table, at = np.arange(10, dtype=np.float32), np.int32([3, 0, 7, 7])
    got = vmap(lambda i: lax.dynamic_slice(table, (i,), (2,)))(at)
    np.testing.assert_array_equal(np.asarray(got), [[3, 4], [0, 1], [7, 8], [7, 8]])
    put = vmap(lambda i, v: lax.dynamic_update_slice(table, v, (i,)))(at, X[:, :1])
    for row, i, v in zip(np.asarray(put), at, X[:, 0]):
        np.testing.assert_array_equal(row, np.where(np.arange(10) == i, v, table))


@pytest.mark.parametrize("batched", [(0, None), (None, 0), (0, 0)])
def test_matrix_products_of_examples(batched):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 2, 4)).astype(np.float32), rng.normal(size=(3, 4, 5)).astype(np.float32)
    args = [x if on == 0 else x[0] for x, on in zip((a, b), batched)]
    check_loop(lax.dot, lambda x, y: x @ y, args, batched)


def test_closed_over_array_is_shared_by_examples():
    got = vmap(lambda x: lax.reduce_sum(lax.mul(X, lax.broadcast_in_dim(x, (4, 3), ())), (0, 1)))(np.float32([1, 2, 3]))
    np.testing.assert_allclose(np.asarray(got), X.sum() * np.float32([1, 2, 3]), atol=1e-5)
