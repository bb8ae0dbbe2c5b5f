"""Collectives over the named axis of a map, as docs/design/collectives.md defines them."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lamina_batching import vmap
from lamina_ir import AxisEnv, prims
from lamina_ir.testing.samples import samples_of
from lamina_tracing import jit, lax
from lamina_tracing.extend import bind

pytestmark = pytest.mark.collectives

N = 4
X = np.random.default_rng(0).normal(size=(N, 8, 3)).astype(np.float32)


def parts(x: np.ndarray, axis: int, tiled: bool) -> list[np.ndarray]:
    return [p if tiled else np.squeeze(p, axis) for p in np.split(x, N, axis)]


def joined(xs: list[np.ndarray], axis: int, tiled: bool) -> np.ndarray:
    return np.concatenate(xs, axis) if tiled else np.stack(xs, axis)


def permuted(xs: np.ndarray, perm: list[tuple[int, int]]) -> list[np.ndarray]:
    return [sum([xs[j] for j, to in perm if to == k], np.zeros_like(xs[k])) for k in range(N)]


PERM, RING = [(0, 2), (3, 1)], [(k, (k + 1) % N) for k in range(N)]
SQUARE = X[:, :N]
# function of one member, operands of all members, results of all members
MEANING = {
    "psum": (lambda x: lax.psum(x, "i"), X, lambda xs: [xs.sum(0)] * N),
    "pmean": (lambda x: lax.pmean(x, "i"), X, lambda xs: [xs.mean(0)] * N),
    "pmax": (lambda x: lax.pmax(x, "i"), X, lambda xs: [xs.max(0)] * N),
    "pmin": (lambda x: lax.pmin(x, "i"), X, lambda xs: [xs.min(0)] * N),
    "all_gather": (lambda x: lax.all_gather(x, "i", axis=1), X, lambda xs: [np.stack(xs, 1)] * N),
    "all_gather tiled": (lambda x: lax.all_gather(x, "i", axis=1, tiled=True), X, lambda xs: [np.concatenate(xs, 1)] * N),
    "psum_scatter": (lambda x: lax.psum_scatter(x, "i", scatter_dimension=0), SQUARE, lambda xs: parts(xs.sum(0), 0, False)),
    "psum_scatter tiled": (lambda x: lax.psum_scatter(x, "i", scatter_dimension=0, tiled=True), X,
                           lambda xs: parts(xs.sum(0), 0, True)),
    "all_to_all": (lambda x: lax.all_to_all(x, "i", 0, 1), SQUARE,
                   lambda xs: [joined([parts(x, 0, False)[k] for x in xs], 1, False) for k in range(N)]),
    "all_to_all tiled": (lambda x: lax.all_to_all(x, "i", 0, 1, tiled=True), X,
                         lambda xs: [joined([parts(x, 0, True)[k] for x in xs], 1, True) for k in range(N)]),
    "ppermute": (lambda x: lax.ppermute(x, "i", PERM), X, lambda xs: permuted(xs, PERM)),
    "ppermute ring": (lambda x: lax.ppermute(x, "i", RING), X, lambda xs: permuted(xs, RING)),
    "pshuffle": (lambda x: lax.pshuffle(x, "i", [2, 0, 3, 1]), X, lambda xs: [xs[j] for j in (2, 0, 3, 1)]),
    "axis_index": (lambda x: lax.mul(x, lax.convert_element_type(lax.axis_index("i"), "float32")), X,
                   lambda xs: [k * xs[k] for k in range(N)]),
    "groups": (lambda x: lax.psum(x, "i", axis_index_groups=[[0, 3], [1, 2]]), X,
               lambda xs: [xs[0] + xs[3], xs[1] + xs[2], xs[1] + xs[2], xs[0] + xs[3]]),
    "groups of all sizes": (lambda x: lax.psum(x, "i", axis_index_groups=[[0, 3, 1], [2]]), X,
                            lambda xs: [xs[[0, 1, 3]].sum(0)] * 2 + [xs[2], xs[[0, 1, 3]].sum(0)]),
    "gather in groups": (lambda x: lax.all_gather(x, "i", axis_index_groups=[[3, 0], [1, 2]]), X,
                         lambda xs: [np.stack([xs[3], xs[0]]), np.stack(xs[1:3]), np.stack(xs[1:3]), np.stack([xs[3], xs[0]])]),
}


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("name", MEANING)
def test_collectives_equal_their_definition(name, axis):
    fun, xs, meaning = MEANING[name]
    got = vmap(fun, in_axes=axis, axis_name="i")(np.moveaxis(xs, 0, axis))
    np.testing.assert_allclose(np.asarray(got), np.stack(meaning(xs)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", MEANING)
def test_staged_collectives_give_equal_results(name):
    fun, xs, meaning = MEANING[name]
    for mapped in (jit(vmap(fun, axis_name="i")), vmap(jit(fun), axis_name="i")):
        np.testing.assert_allclose(np.asarray(mapped(xs)), np.stack(meaning(xs)), rtol=1e-5, atol=1e-6)


def test_psum_of_1_is_the_axis_size():
    sizes = []
    vmap(lambda x: sizes.append(lax.psum(1, "i")) or x, axis_name="i")(X)
    assert set(sizes) == {N} and isinstance(sizes[0], int)


def test_psum_counts_replicated_value_for_each_member():
    got = vmap(lambda x, y: lax.psum(y, "i"), (0, None), axis_name="i")(X, np.float32(3))
    np.testing.assert_array_equal(np.asarray(got), [12] * N)


def test_axis_name_may_be_any_hashable_value():
    for name in ("batch", ("a", 3), frozenset("x")):
        over = (name,) if isinstance(name, tuple) else name
        got = vmap(lambda x, over=over: lax.psum(x, over), axis_name=name)(X)
        np.testing.assert_allclose(np.asarray(got), [X.sum(0)] * N, rtol=1e-5)


def test_psum_over_positional_and_named_axes():
    got = vmap(lambda x: lax.psum(x, (0, "i")), axis_name="i")(X)
    np.testing.assert_allclose(np.asarray(got), [X.sum((0, 1))] * N, rtol=1e-5, atol=1e-6)


def both(fun: Any, outer: int = 0, inner: int = 0) -> Any:
    return vmap(vmap(fun, inner, axis_name="j"), outer, axis_name="i")


Y = np.random.default_rng(1).normal(size=(4, 2, 3)).astype(np.float32)


def test_collectives_in_nested_maps_over_either_axis_and_both():
    np.testing.assert_allclose(np.asarray(both(lambda x: lax.psum(x, "j"))(Y)), np.repeat(Y.sum(1, keepdims=True), 2, 1),
                               rtol=1e-5)
    np.testing.assert_allclose(np.asarray(both(lambda x: lax.psum(x, "i"))(Y)), np.repeat(Y.sum(0, keepdims=True), 4, 0),
                               rtol=1e-5)
    np.testing.assert_allclose(np.asarray(both(lambda x: lax.psum(x, ("i", "j")))(Y)), np.broadcast_to(Y.sum((0, 1)), Y.shape),
                               rtol=1e-5, atol=1e-6)


def test_first_of_two_axis_names_varies_slowest():
    got = both(lambda x: lax.axis_index(("i", "j")))(Y)
    np.testing.assert_array_equal(np.asarray(got), np.arange(8).reshape(4, 2))
    turned = both(lambda x: lax.axis_index(("j", "i")))(Y)
    np.testing.assert_array_equal(np.asarray(turned), np.arange(8).reshape(2, 4).T)


def test_inner_axis_shadows_equal_name():
    sizes = []

    def outer(row):
        out = vmap(lambda x: sizes.append(lax.psum(1, "i")) or lax.psum(x, "i"), axis_name="i")(row)
        sizes.append(lax.psum(1, "i"))
        return out

    got = vmap(outer, axis_name="i")(Y)
    np.testing.assert_allclose(np.asarray(got), np.repeat(Y.sum(1, keepdims=True), 2, 1), rtol=1e-5)
    assert set(sizes[:-1]) == {2} and sizes[-1] == 4


def test_collectives_in_loop_and_branch():
    def fun(x):
        x = lax.fori_loop(0, 3, lambda _, v: lax.pmean(lax.add(v, 1.0), "i"), x)
        return lax.cond(True, lambda v: lax.psum(v, "i"), lambda v: v, x)

    got = vmap(fun, axis_name="i")(X)
    np.testing.assert_allclose(np.asarray(got), [N * (X.mean(0) + 3)] * N, rtol=1e-4, atol=1e-5)


SAMPLES = [s for p in prims.ALL if p.family == "collectives" for s in samples_of(p)]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.id)
def test_samples_over_two_nested_maps(sample):
    env = AxisEnv([("i", 4), ("j", 2)])
    operands = [[np.asarray(np.roll(a, d) if a.dtype == bool else a * (1 + d % 3) + a.dtype.type(d % 5), a.dtype)
                 for d in range(8)] for a in sample.args]
    want = sample.prim.numpy(env, *operands, **sample.params)
    want = want if sample.prim.multiple else (want,)

    def fun(*xs):
        out = bind(sample.prim, *xs, **sample.params)
        return out if sample.prim.multiple else (out,)

    args = [np.stack(o).reshape(4, 2, *o[0].shape) for o in operands]
    if args:
        got = vmap(vmap(fun, axis_name="j"), axis_name="i")(*args)
    else:
        got = vmap(vmap(fun, axis_name="j", axis_size=2), axis_name="i", axis_size=4)()
    for g, w in zip(got, want):
        g = np.asarray(g)
        np.testing.assert_allclose(g.reshape(8, *g.shape[2:]), np.stack(w), rtol=1e-5, atol=1e-5)
