"""Nested derivatives and maps. Autodiff and batching are independent; this is the first layer that imports both."""
from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from lamina_autodiff import checkpoint, custom_jvp, custom_vjp, grad, hessian, jacfwd, jacrev, jvp, value_and_grad, vjp
from lamina_batching import custom_vmap, vmap
from lamina_ir import MissingRuleError, UnboundedLoopError, dtypes, prims
from lamina_ir.testing import assert_close
from lamina_ir.testing.samples import canonicalize_results, samples_of
from lamina_tracing import jit, lax
from lamina_tracing.extend import bind

pytestmark = pytest.mark.order

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
W = np.float32([0.5, -1, 2])
N = len(X)


def assert_near(got: Any, want: Any) -> None:
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-4, atol=1e-5)


def loss(w, x):
    return lax.sin(lax.dot(w, x))


def expected_gradients(w, x):
    return np.cos(x @ w)[..., None] * x


@pytest.mark.parametrize("around", [lambda f: f, jit], ids=["at once", "jit"])
def test_vmap_of_grad(around):
    assert_near(around(vmap(grad(loss), (None, 0)))(W, X), expected_gradients(W, X))
    values, gradients = around(vmap(value_and_grad(loss), (None, 0)))(W, X)
    assert_near(values, np.sin(X @ W)), assert_near(gradients, expected_gradients(W, X))
    assert_near(around(vmap(lambda x: grad(loss, 1)(W, x)))(X), np.cos(X @ W)[:, None] * W)


def test_grad_of_vmap_is_sum_over_examples():
    total = lambda w: lax.reduce_sum(vmap(loss, (None, 0))(w, X), (0,))
    assert_near(grad(total)(W), expected_gradients(W, X).sum(0))
    assert_near(jit(grad(jit(total)))(W), expected_gradients(W, X).sum(0))


def test_vmap_of_grad_of_vmap():
    def inner(w):  # one set of weights, all examples
        return lax.reduce_sum(vmap(lambda x: loss(w, x))(X), (0,))

    ws = np.stack([W, 2 * W, -W])
    assert_near(vmap(grad(inner))(ws), np.stack([expected_gradients(w, X).sum(0) for w in ws]))
    outer = lambda ws: lax.reduce_sum(vmap(lambda w: lax.dot(grad(inner)(w), w))(ws), (0,))

    def written(w):
        s, c = np.sin(X @ w), np.cos(X @ w)
        return ((c - s * (X @ w))[:, None] * X).sum(0)

    assert_near(grad(outer)(ws), np.stack([written(w) for w in ws]))


def test_jvp_of_vmap_equals_vmap_of_jvp():
    f = lambda x: lax.mul(lax.sin(x), lax.reduce_sum(x, (0,)))
    t = X[::-1].copy()
    there = jvp(vmap(f), (X,), (t,))
    back = vmap(lambda x, t: jvp(f, (x,), (t,)))(X, t)
    for a, b in zip(there, back, strict=True):
        assert_near(a, b)
    want = np.cos(X) * t * X.sum(1, keepdims=True) + np.sin(X) * t.sum(1, keepdims=True)
    assert_near(there[1], want)


def test_vjp_of_vmap_equals_vmap_of_vjp():
    f = lambda x: lax.cumsum(lax.mul(x, x), axis=0)
    ct = X + 2
    want = 2 * X * np.cumsum(ct[:, ::-1], 1)[:, ::-1]
    assert_near(vjp(vmap(f), X)[1](ct)[0], want)
    assert_near(vmap(lambda x, c: vjp(f, x)[1](c)[0])(X, ct), want)


def test_vmap_of_jacobians_and_hessians():
    f = lambda x: lax.mul(x, lax.sin(x))
    want = np.stack([np.diag(np.sin(x) + x * np.cos(x)) for x in X])
    assert_near(vmap(jacfwd(f))(X), want), assert_near(vmap(jacrev(f))(X), want)
    h = vmap(hessian(lambda x: lax.reduce_sum(lax.integer_pow(x, 3), (0,))))(X)
    assert_near(h, np.stack([np.diag(6 * x) for x in X]))


def test_examples_branch_and_loop_independently():
    branched = lambda x: lax.cond(lax.gt(lax.reduce_sum(x, (0,)), 0.0), lambda: lax.dot(x, x), lambda: lax.reduce_sum(x, (0,)))
    assert_near(vmap(grad(branched))(X), np.where(X.sum(1, keepdims=True) > 0, 2 * X, 1))

    def grown(x):
        return lax.while_loop(lambda s: lax.lt(s, 10.0), lambda s: lax.mul(s, s), x, max_iters=8)

    x = np.float32([2, 3, 11, 1.5])
    turns = [2, 2, 0, 3]  # 2 4 16; 3 9 81; 11; 1.5 2.25 5.06 25.6
    assert_near(vmap(grad(grown))(x), [2.0 ** n * v ** (2 ** n - 1) for n, v in zip(turns, x)])

    def scanned(x):
        return lax.scan(lambda c, v: (lax.mul(c, v), None), np.float32(1), x)[0]

    y = X + 2
    assert_near(vmap(grad(scanned))(y), y.prod(1, keepdims=True) / y)


def test_custom_rules_apply_to_each_example():
    by_jvp = custom_jvp(lambda x: lax.mul(x, 2.0))
    by_jvp.defjvp(lambda p, t: (by_jvp(*p), lax.mul(t[0], p[0])))
    by_vjp = custom_vjp(lambda x: lax.mul(x, 2.0))
    by_vjp.defvjp(lambda x: (by_vjp(x), x), lambda x, ct: (lax.mul(ct, x),))
    for f in (by_jvp, by_vjp):
        x = X[:, 0]
        assert_near(vmap(f)(x), 2 * x), assert_near(vmap(grad(f))(x), x), assert_near(jit(vmap(grad(f)))(x), x)
        assert_near(grad(lambda x, f=f: lax.reduce_sum(vmap(f)(x), (0,)))(x), x)


def test_custom_batching_rule_is_differentiated():
    f = custom_vmap(lambda x: lax.sin(x))
    f.def_vmap(lambda size, batched, x: (lax.mul(lax.sin(x), 3.0), batched[0]))
    assert_near(grad(lambda x: lax.reduce_sum(vmap(f)(x), (0,)))(X[0]), 3 * np.cos(X[0]))
    assert_near(vmap(grad(f))(X[0]), 3 * np.cos(X[0]))


def test_vmap_and_grad_of_checkpoint():
    f = checkpoint(lambda w, x: lax.sin(lax.dot(w, x)))
    assert_near(vmap(grad(f), (None, 0))(W, X), expected_gradients(W, X))
    assert_near(grad(lambda w: lax.reduce_sum(vmap(f, (None, 0))(w, X), (0,)))(W), expected_gradients(W, X).sum(0))


COLLECTIVES = {
    "psum": (lambda x: lax.psum(x, "i"), np.ones((N, N))), "pmean": (lambda x: lax.pmean(x, "i"), np.full((N, N), 1 / N)),
    "groups": (lambda x: lax.psum(x, "i", axis_index_groups=[[0, 3], [1, 2]]), np.eye(N) + np.eye(N)[::-1]),
    "ppermute": (lambda x: lax.ppermute(x, "i", [(0, 2), (3, 1)]), np.float32([[0] * 4, [0, 0, 0, 1], [1, 0, 0, 0], [0] * 4])),
    "scaled": (lambda x: lax.psum(lax.mul(x, lax.convert_element_type(lax.axis_index("i"), "float32")), "i"),
               np.tile(np.arange(N), (N, 1))),
}


@pytest.mark.collectives
@pytest.mark.parametrize("name", COLLECTIVES)
def test_derivatives_of_vmap_with_collectives_equal_its_matrix(name):
    fun, matrix = COLLECTIVES[name]
    x = X[:, 0]
    mapped = vmap(fun, axis_name="i")
    assert_near(mapped(x), matrix @ x)
    assert_near(jacfwd(mapped)(x), matrix), assert_near(jacrev(mapped)(x), matrix)
    inside = vmap(lambda x, ct: vjp(fun, x)[1](ct)[0], axis_name="i")
    for k in range(N):
        assert_near(inside(x, np.eye(N, dtype=np.float32)[k]), matrix[k])


@pytest.mark.collectives
def test_second_derivatives_across_members():
    f = lambda x: lax.reduce_sum(vmap(lambda v: lax.integer_pow(lax.psum(v, "i"), 3), axis_name="i")(x), (0,))
    x = X[:, 2]
    assert_near(hessian(f)(x), np.full((N, N), N * 6 * x.sum()))


# One sample of each primitive. Maps over devices need devices; collectives are tested above.
SAMPLES = [next((s for s in samples_of(p) if s.differentiable and all(np.isfinite(a).all() for a in s.args if dtypes.is_inexact(
    a.dtype))), None) for p in prims.ALL if p.family not in ("collectives", "maps", "callbacks") and p.name not in (
        "stop_gradient", "xla_pmap", "rng_uniform")]
MAY_REFUSE = ("nextafter", "geqrf", "hessenberg", "tridiagonal", "schur", "reduce", "reduce_window", "while")
KNOWN_OPERANDS = {"polygamma": (1,), "zeta": (1,), "igamma_grad_a": (1,), "random_gamma_grad": (1,),
                  "regularized_incomplete_beta": (2,)}


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s], ids=lambda s: s.prim.name)
def test_vjp_of_batched_primitive_equals_vjp_of_each_example(sample):
    prim = sample.prim
    moving = [i for i, a in enumerate(sample.args) if dtypes.is_inexact(a.dtype)
              and i in KNOWN_OPERANDS.get(prim.name, range(99))]

    def fun(*xs):
        args = list(sample.args)
        for i, x in zip(moving, xs):
            args[i] = x
        out = bind(prim, *args, **sample.params)
        return [o for o in canonicalize_results(prim, out if prim.multiple else (out,), bind) if dtypes.is_inexact(o.dtype)]

    def pulled(*xs):
        out, pull = vjp(fun, *xs)
        return pull([lax.full_like(o, 1.0) for o in out])

    point = [sample.args[i] for i in moving]
    batch = [np.stack([x, x * np.asarray(1.125, x.dtype)]) for x in point]
    try:
        each = [pulled(*[b[k] for b in batch]) for k in range(2)]
    except (MissingRuleError, UnboundedLoopError):
        assert prim.name in MAY_REFUSE
        return
    for got, *want in zip(vmap(pulled)(*batch), *each, strict=True):
        assert_close(np.asarray(got), np.stack([np.asarray(w) for w in want]), slack=200.0)


def test_pullback_can_be_mapped():
    y, pull = vjp(functools.partial(loss, W), X[0])
    assert_near(vmap(pull)(np.float32([1, 2]))[0], np.outer([1, 2], np.cos(X[0] @ W) * W))
