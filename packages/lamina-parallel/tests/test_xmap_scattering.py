"""Cotangents of shared values that members read in part: accumulated in one array, not in one per member. On NumPy."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_autodiff import grad
from lamina_batching import vmap
from lamina_ir import check, evaluate, prims, walk
from lamina_tracing import jit, lax, make_jaxpr

from lamina_parallel import Mesh, SerialLoop, xmap
from lamina_parallel.extend import lower_xmaps
from lamina_parallel.testing import fake_devices

N, M = 12, 9
IDS = np.random.default_rng(0).integers(-1, M + 1, (N, 4)).astype(np.int32)  # some out of range, where reads are clamped
TABLE = np.random.default_rng(1).integers(-9, 9, (M, 2)).astype(np.float32)
X = np.random.default_rng(2).permutation(N * 4).reshape(N, 4).astype(np.float32)


def one(i, w):
    return lax.dynamic_slice(w, (i[0], i[1]), (2, 1)).reshape(2)


def several(i, w):
    return lax.reduce_sum(vmap(lambda k: lax.dynamic_index_in_dim(w, k, 0, False))(i), (0,))


def read_only_by_some(i, w):
    return lax.cond(i[0] > 3, lambda: one(i, w), lambda: one(i, 2 * w))


@pytest.mark.parametrize("resources", [{}, {"b": "x"}, {"b": SerialLoop(3)}, {"b": ("x", SerialLoop(3))}])
@pytest.mark.parametrize("read", [one, several, read_only_by_some])
def test_gradient_of_a_lookup_table_is_one_array(read, resources):
    def loss(f):
        return lambda w: lax.reduce_sum(lax.integer_pow(f(IDS, w), 2), (0, 1))

    want = grad(loss(vmap(read, (0, None))))(TABLE)
    with Mesh(np.array(fake_devices(2)), ("x",)):
        program = lower_xmaps(make_jaxpr(grad(loss(xmap(read, ({0: "b"}, {}), {0: "b"}, axis_resources=resources))))(TABLE))
    check(program)
    assert np.array_equal(evaluate(program, TABLE)[0], want)
    if read is not read_only_by_some:
        sizes = [v.aval.size for e in walk(program) for v in e.outvars if e.primitive in (prims.scatter_p, prims.scatter_add_p)]
        assert sizes and max(sizes) <= TABLE.size * (4 if read is several else 1)


@pytest.mark.parametrize("f", [lambda v: lax.cumsum(v, "b"), lambda v: lax.sort(v, "b"),
                               lambda v: lax.sort((v, 2 * v), "b")[1]])
def test_gradient_of_named_axis_operations_is_not_quadratic(f):
    named = xmap(lambda v: f(v), {0: "b"}, {0: "b"})
    plain = vmap(f, axis_name="b")
    program = lower_xmaps(make_jaxpr(grad(lambda v: lax.reduce_sum(lax.integer_pow(named(v), 2), (0, 1))))(X))
    assert np.array_equal(evaluate(program, X)[0], jit(grad(lambda v: lax.reduce_sum(lax.integer_pow(plain(v), 2), (0, 1))))(X))
    assert max([v.aval.size for e in walk(program) for v in e.outvars]) < N * N * 4


def test_updates_of_nonzero_or_shared_arrays_are_not_rewritten():
    def over(i, v):
        y = lax.dynamic_update_slice(lax.full((N,), 1.0, np.float32), lax.reshape(v, (1,)), (i,))
        return lax.psum(y, "b"), y

    i = IDS[:, 0] % N
    out, rows = xmap(over, ({0: "b"}, {0: "b"}), ({}, {0: "b"}))(i, X[:, 0])
    want = np.ones((N, N), np.float32)
    want[np.arange(N), i] = X[:, 0]
    program = lower_xmaps(make_jaxpr(xmap(over, ({0: "b"}, {0: "b"}), ({}, {0: "b"})))(i, X[:, 0]))
    found = evaluate(program, i, X[:, 0])
    assert np.array_equal(found[0], want.sum(0)) and np.array_equal(found[1], want)
    assert np.array_equal(out, want.sum(0)) and np.array_equal(rows, want)

    def twice(i, v):  # a zero array with another reader
        y = lax.dynamic_update_slice(lax.full((N,), 0.0, np.float32), lax.reshape(v, (1,)), (i,))
        return lax.psum(y, "b"), y

    program = lower_xmaps(make_jaxpr(xmap(twice, ({0: "b"}, {0: "b"}), ({}, {0: "b"})))(i, X[:, 0]))
    want[want == 1] = 0
    want[np.arange(N), i] = X[:, 0]
    found = evaluate(program, i, X[:, 0])
    assert np.array_equal(found[0], want.sum(0)) and np.array_equal(found[1], want)
