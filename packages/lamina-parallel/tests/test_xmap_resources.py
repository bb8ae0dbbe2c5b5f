"""`xmap` over a mesh, in the per-device view: the programs that `lower_xmaps` writes match the named ones. On NumPy."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_autodiff import grad
from lamina_batching import vmap
from lamina_ir import check, evaluate, prims, walk
from lamina_tracing import lax, make_jaxpr

from lamina_parallel import Mesh, pmap, xmap
from lamina_parallel.extend import lower_xmaps
from lamina_parallel.testing import fake_devices

X = np.arange(32, dtype=np.float32).reshape(4, 8)
DEVICES = np.reshape(fake_devices(8), (2, 4))


def ident(v):
    return v


def run_on_mesh(f, *args):
    """Return the results of the per-device program, and the program."""
    with Mesh(DEVICES, ("x", "y")):
        program = lower_xmaps(make_jaxpr(f)(*args))
    check(program)
    assert not any(e.primitive is prims.xmap_p for e in walk(program))
    return evaluate(program, *args), program


def test_distributed_matrix_product():
    f = xmap(lambda a, b: lax.dot(a, b), in_axes=({0: "left"}, {1: "right"}), out_axes=["left", "right", ...],
             axis_resources={"left": "x", "right": "y"})
    (found,), program = run_on_mesh(f, X, X.T)
    assert np.array_equal(found, X @ X.T)
    e, = program.eqns
    assert e.primitive is prims.shard_map_p
    assert e.params["in_specs"] == ((prims.Split(("x",)), None), (None, prims.Split(("y",))))
    assert e.params["out_specs"] == ((prims.Split(("x",)), prims.Split(("y",))),)
    block = e.params["call_jaxpr"]  # one product of blocks, and no collective
    assert block.out_avals[0].shape == (2, 1) and not block.jaxpr.axis_names


@pytest.mark.parametrize("resources", [{"b": "x"}, {"b": ("y", "x")}, {"b": ("x", "y")}, {"i": "y", "b": "x"}, {"i": "x"}])
def test_collectives_over_devices_and_members_per_device(resources):
    def f(x, w):
        y = lax.psum(x * w, "i") + lax.axis_index("b").astype(np.float32)
        z = lax.ppermute(y, "b", [(k, (k + 3) % 8) for k in range(8)]) + lax.all_gather(y, "b")[2]
        return z - lax.pmax(y, "b"), lax.psum(z, ("b", "i"))

    def plain(x, w):  # x: [b, i]
        y = lax.dot(x, w) + np.arange(8, dtype=np.float32)
        z = lax.concatenate([lax.slice(y, (5,), (8,)), lax.slice(y, (0,), (5,))], 0) + lax.broadcast(y[2], (8,))
        return z - lax.broadcast(lax.reduce_max(y, (0,)), (8,)), lax.reduce_sum(z, (0,)) * 4

    named = xmap(f, (["i", "b"], {0: "i"}), (["b"], {}), axis_resources=resources)
    w = np.array([1, -2, 3, 1], np.float32)
    found, program = run_on_mesh(named, X, w)
    for a, b in zip(found, plain(X.T, w)):
        assert np.array_equal(a, b)

    def loss(g):
        return lambda x, w: lax.reduce_sum(g(x, w)[0] * np.arange(8, dtype=np.float32), (0,)) + g(x, w)[1]

    found, _ = run_on_mesh(grad(loss(named), (0, 1)), X, w)
    for a, b in zip(found, grad(loss(lambda x, w: plain(x.T, w)), (0, 1))(X, w)):
        assert np.array_equal(a, b)


def test_two_separate_axes_may_share_a_mesh_axis():
    def f(a, b, w):
        return lax.psum(a * w, "b"), b * w, lax.psum(b, "b")

    named = xmap(f, (["b", ...], ["c", ...], {}), ({}, ["c", ...], ["c", ...]), axis_resources={"b": "x", "c": "x"})
    w = np.full(8, 2, np.float32)
    found, _ = run_on_mesh(named, X, X, w)
    for a, b in zip(found, (2 * X.sum(0), 2 * X, 4 * X)):
        assert np.array_equal(a, b)
    found, _ = run_on_mesh(grad(lambda w: sum(lax.reduce_sum(o, tuple(range(o.ndim))) for o in named(X, X, w))), w)
    assert np.array_equal(found[0], 2 * X.sum(0))


def test_xmap_with_resources_nested_in_vmap_and_plain_xmap():
    named = xmap(lambda a: a + lax.psum(a, "b"), {0: "b"}, {0: "b"}, axis_resources={"b": "x"})
    found, _ = run_on_mesh(vmap(named), np.stack([X, X + 1]))
    assert np.array_equal(found[0], np.stack([X + X.sum(0), X + 1 + (X + 1).sum(0)]))
    outer = xmap(lambda v: xmap(lambda a: a * lax.psum(a, ("b", "c")), {0: "c"}, {0: "c"})(v), {0: "b"}, {0: "b"},
                 axis_resources={"b": "x"})
    assert np.array_equal(run_on_mesh(outer, X)[0][0], X * X.sum())
    inner = xmap(lambda v: xmap(lambda a: a * lax.psum(a, ("b", "c")), {0: "c"}, {0: "c"}, axis_resources={"c": "y"})(v),
                 {0: "b"}, {0: "b"})
    assert np.array_equal(run_on_mesh(inner, X)[0][0], X * X.sum())


BAD = {
    "an unknown mesh axis": (lambda: xmap(ident, {0: "b"}, {0: "b"}, axis_resources={"b": "z"})(X),
                             "gives the axis 'b' 'z', which is not an axis of the mesh in scope"),
    "sizes": (lambda: xmap(ident, {0: "b"}, {0: "b"}, axis_resources={"b": ("x", "y")})(X),
              "the axis 'b' of size 4 cannot be divided evenly over 'x' of size 2 and 'y' of size 4"),
    "two names in one type": (lambda: xmap(ident, ["b", "c"], ["b", "c"], axis_resources={"b": "x", "c": "x"})(X),
                              r"'b' and 'c' are both given .* 'x', and meet in one value: an argument is f32\[\]{b,c}"),
    "made of two": (lambda: xmap(lambda a, b: a * b, (["b", ...], ["c", ...]), ["b", "c", ...],
                                 axis_resources={"b": "x", "c": "x"})(X, X),
                    "meet in one value: `mul` at .*test_xmap_resources.* gives f32"),
    "in one another": (lambda: xmap(lambda v: xmap(ident, {0: "c"}, {0: "c"}, axis_resources={"c": "x"})(v), {0: "b"}, {0: "b"},
                                    axis_resources={"b": "x"})(X), "the inner xmap of .* has axis_resources too"),
    "a branch that some take": (lambda: xmap(lambda v: lax.cond(v[0] > 2, lambda: lax.psum(v, "b"), lambda: v), {0: "b"},
                                             {0: "b"}, axis_resources={"b": "y"})(X), "which branch runs may differ"),
    "in a pmap": (lambda: make_jaxpr(pmap(lambda v: xmap(ident, {1: "c"}, {0: "c"}, axis_resources={"c": "y"})(v)))(X[None]),
                  "pmap of `<lambda>`: the inner xmap of `ident` has axis_resources at .*test_xmap_resources"),
}


@pytest.mark.parametrize("case", BAD)
def test_invalid_axis_resources_are_refused(case):
    make, message = BAD[case]
    with Mesh(DEVICES, ("x", "y")), pytest.raises(ValueError, match=message):
        make()


def test_axis_resources_need_a_mesh_in_scope():
    f = xmap(ident, {0: "b"}, {0: "b"}, axis_resources={"b": "x"})
    with pytest.raises(ValueError, match="gives the axis 'b' 'x', and no mesh is in scope"):
        f(X)
    with Mesh(DEVICES, ("x", "y")):
        assert np.array_equal(f(X), X)
    with pytest.raises(ValueError, match="no mesh is in scope"):
        f(X)
