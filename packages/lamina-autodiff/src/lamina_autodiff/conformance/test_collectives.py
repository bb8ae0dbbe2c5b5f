"""Derivatives of collectives: all members together are one function, compared with its dense matrix."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_autodiff import grad, jvp, linear_transpose, linearize, vjp
from lamina_ir import evaluate_spmd, prims
from lamina_ir.testing.samples import samples_of
from lamina_tracing import lax, make_jaxpr
from lamina_tracing.extend import bind

pytestmark = pytest.mark.collectives

N = 4
ENV = [("i", N)]
BOTH = [("i", 4), ("j", 2)]


def on_all_members(fun, each, env=None):
    """Run `fun` on all members in lockstep and stack results by member; `each` has a list of operands per argument."""
    closed = make_jaxpr(fun, axis_env=env or ENV)(*[x[0] for x in each])
    return [np.stack(r).astype(np.float64) for r in evaluate_spmd(closed, env or ENV, each)]


def matrix(fun, shape):
    """Return the dense matrix of a linear function of all members."""
    columns = []
    for k in range(N * int(np.prod(shape, dtype=int))):
        basis = np.zeros(N * int(np.prod(shape, dtype=int)), np.float32)
        basis[k] = 1
        columns.append(on_all_members(fun, [list(basis.reshape(N, *shape))])[0].reshape(-1))
    return np.stack(columns, 1)


PERM = [(0, 2), (3, 1), (1, 0)]
LINEAR = {
    "psum": (lambda x: lax.psum(x, "i"), (2,)), "pmean": (lambda x: lax.pmean(x, "i"), ()),
    "groups": (lambda x: lax.psum(x, "i", axis_index_groups=[[0, 3, 1], [2]]), ()),
    "ppermute": (lambda x: lax.ppermute(x, "i", PERM), (2,)),
    "all_gather": (lambda x: lax.all_gather(x, "i"), (2,)),
    "all_gather tiled": (lambda x: lax.all_gather(x, "i", tiled=True), (2,)),
    "psum_scatter": (lambda x: lax.psum_scatter(x, "i"), (N,)),
    "all_to_all": (lambda x: lax.all_to_all(x, "i", 0, 1), (N, 2)),
    "pshuffle": (lambda x: lax.pshuffle(x, "i", [2, 0, 3, 1]), ()),
    "weighted": (lambda x: lax.psum(lax.mul(x, lax.convert_element_type(lax.axis_index("i"), "float32")), "i"), ()),
}


@pytest.mark.parametrize("name", LINEAR)
def test_transpose_equals_that_of_dense_matrix(name):
    fun, shape = LINEAR[name]
    dense = matrix(fun, shape)
    like = np.zeros(shape, np.float32)
    out = on_all_members(fun, [[like] * N])[0].shape[1:]
    for back in (lambda ct: linear_transpose(fun, like)(ct)[0], lambda ct: vjp(fun, like)[1](ct)[0]):
        transposed = matrix(back, out)
        np.testing.assert_allclose(transposed, dense.T, atol=1e-6)
    pushed = matrix(lambda t: jvp(fun, (like,), (t,))[1], shape)
    np.testing.assert_allclose(pushed, dense, atol=1e-6)
    np.testing.assert_allclose(matrix(lambda t: linearize(fun, like)[1](t), shape), dense, atol=1e-6)


def test_gradient_inside_map_counts_results_of_all_members():
    x = np.float32([1, 2, 4, 8])
    loss = lambda w, x: lax.mul(lax.mul(w, x), lax.mul(w, x))
    w = [np.float32(3)] * N
    local, = on_all_members(lambda w, x: grad(loss)(w, x), [w, list(x)])
    np.testing.assert_allclose(local, 6 * x * x)
    summed, = on_all_members(lambda w, x: grad(lambda w, x: lax.psum(loss(w, x), "i"))(w, x), [w, list(x)])
    np.testing.assert_allclose(summed, N * 6 * x * x)
    meant, = on_all_members(lambda w, x: grad(lambda w, x: lax.pmean(loss(w, x), "i"))(w, x), [w, list(x)])
    np.testing.assert_allclose(meant, 6 * x * x)


def test_pmax_divides_derivative_equally_among_ties():
    got, = on_all_members(lambda x, t: jvp(lambda x: lax.pmax(x, "i"), (x,), (t,))[1],
                      [list(np.float32([2, 9, 9, 1])), list(np.float32([1, 10, 100, 1000]))])
    np.testing.assert_allclose(got, [55] * N)


def test_second_derivatives_across_members():
    """The squared sum of all members' squares has a Hessian with entries between members."""
    x = np.float32([1, 2, 3, 4])
    f = lambda x: lax.integer_pow(lax.psum(lax.mul(x, x), "i"), 2)
    s = float((x * x).sum())
    first, = on_all_members(grad(f), [list(x)])
    np.testing.assert_allclose(first, N * 4 * s * x, rtol=1e-5)
    second, = on_all_members(lambda x: jvp(grad(f), (x,), (np.float32(1),))[1], [list(x)])
    want = N * (8 * np.outer(x, x) + 4 * s * np.eye(N)) @ np.ones(N)
    np.testing.assert_allclose(second, want, rtol=1e-5)


def test_derivatives_of_collectives_in_loops_and_branches():
    def fun(x):
        y = lax.fori_loop(0, 2, lambda i, v: lax.psum(lax.mul(v, 0.5), "i"), x)
        return lax.cond(True, lambda v: lax.ppermute(v, "i", PERM), lambda v: v, y)

    like = np.float32(0)
    np.testing.assert_allclose(matrix(lambda ct: vjp(fun, like)[1](ct)[0], ()), matrix(fun, ()).T, atol=1e-6)


SAMPLES = [s for p in prims.ALL if p.family == "collectives" for s in samples_of(p) if s.args
           and all(a.dtype.kind == "f" for a in s.args)]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.id)
def test_samples_over_two_axes_satisfy_dot_product_test(sample):
    def fun(*xs):
        out = bind(sample.prim, *xs, **sample.params)
        return tuple(out) if sample.prim.multiple else (out,)

    rng = np.random.default_rng(0)
    xs = [[rng.permutation(a.size).reshape(a.shape).astype(np.float32) + 10 * d for d in rng.permutation(8)]
          for a in sample.args]
    ts = [[rng.integers(-9, 9, a.shape).astype(np.float32) for _ in range(8)] for a in sample.args]
    n = len(xs)
    pushed = on_all_members(lambda *v: jvp(fun, v[:n], v[n:])[1], [*xs, *ts], BOTH)
    ws = [[w for w in rng.integers(-9, 9, y.shape).astype(np.float32)] for y in pushed]
    m = len(ws)
    back = on_all_members(lambda *v: vjp(fun, *v[m:])[1](v[:m]), [*ws, *xs], BOTH)
    left = sum(np.vdot(y, np.stack(w)) for y, w in zip(pushed, ws))
    right = sum(np.vdot(np.stack(t), b) for t, b in zip(ts, back, strict=True))
    np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-3)
