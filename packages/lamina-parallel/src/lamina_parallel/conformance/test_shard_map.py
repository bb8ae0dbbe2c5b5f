"""Meshes and `shard_map`: a function of one device's blocks; how arrays are split and joined."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lamina_autodiff import grad, vjp
from lamina_batching import vmap
from lamina_ir.testing import assert_close
from lamina_tracing import jit, lax

from lamina_parallel import Mesh, PartitionSpec, all_gather, axis_index, axis_size, ppermute, psum, shard_map

from lamina_parallel.conformance.backend import devices

P = PartitionSpec
X = np.random.default_rng(3).normal(size=(8, 4)).astype(np.float32)


def mesh() -> Mesh:
    return Mesh(np.reshape(np.array(devices(4), object), (2, 2)), ("x", "y"))


def test_mesh_has_named_axes() -> None:
    m = mesh()
    assert m.axis_names == ("x", "y") and dict(m.shape) == {"x": 2, "y": 2} and m.size == 4
    assert m == mesh() and hash(m) == hash(mesh()) and m != Mesh(devices(4), "x")
    for bad in (lambda: Mesh([devices(4)[0]] * 2, "x"), lambda: Mesh(devices(4), ("x", "y")), lambda: Mesh([], "x")):
        with pytest.raises(ValueError):
            bad()


def test_partition_spec_is_a_tuple_of_its_entries() -> None:
    assert tuple(P("x", None, ("y", "z"))) == ("x", None, ("y", "z")) and P("x") == P("x") != P("y")
    assert len({P("x"), P("x"), P(None)}) == 2


SPLITS = [P(), P("x"), P(None, "y"), P("x", "y"), P("y", "x"), P(("x", "y")), P(("y", "x")), P(None, ("x", "y"))]


def block(spec: Any, i: int, j: int) -> tuple[slice, ...]:
    """Return the slices in `X` of the block of the device at `(i, j)` of the mesh."""
    found = []
    for n, entry in zip(X.shape, (*spec, None, None)):
        names = entry if isinstance(entry, tuple) else (entry,) if entry else ()
        at = count = 0
        for name in names:
            at, count = at * 2 + {"x": i, "y": j}[name], max(count, 1) * 2
        size = n // (count or 1)
        found.append(slice(at * size, (at + 1) * size))
    return tuple(found)


@pytest.mark.parametrize("spec", SPLITS, ids=str)
def test_function_maps_block_to_block(spec: Any) -> None:
    def f(x: Any) -> Any:
        assert x.shape == X[block(spec, 0, 0)].shape
        return x * 2 + lax.reduce_max(x, (0, 1))

    def g(x: np.ndarray) -> np.ndarray:
        out = np.empty_like(x)
        for i in range(2):
            for j in range(2):
                at = block(spec, i, j)
                out[at] = x[at] * 2 + x[at].max()
        return out

    for run in (shard_map(f, mesh(), (spec,), spec), jit(shard_map(f, mesh(), (spec,), spec))):
        assert_close(run(X), g(X))


def test_mesh_in_scope_is_used_by_default() -> None:
    f = shard_map(lambda x: x + axis_index("x"), None, (P("x"),), P("x"))
    with mesh():
        assert_close(f(np.zeros(4, np.int32)), np.array([0, 0, 1, 1], np.int32))
    with pytest.raises(ValueError, match="mesh"):
        f(np.zeros(4, np.int32))


@pytest.mark.collectives
def test_collectives_in_shard_map() -> None:
    def f(x: Any) -> Any:
        return psum(x, "x"), all_gather(x, "y", axis=1, tiled=True), ppermute(x, "x", [(0, 1), (1, 0)])

    total, rows, turned = shard_map(f, mesh(), (P("x", "y"),), (P(None, "y"), P(("x",), None), P("x", "y")), check_rep=False)(X)
    assert_close(total, X[:4] + X[4:], slack=4)
    assert_close(rows, X)
    assert_close(turned, np.roll(X, 4, 0))
    sizes = shard_map(lambda: axis_size("x") * 10 + axis_size(("x", "y")) + axis_index(("y", "x")).reshape(1), mesh(), (),
                      P(("y", "x")))()
    assert_close(sizes, 24 + np.arange(4, dtype=np.int32))


@pytest.mark.collectives
def test_result_declared_replicated_must_be_replicated() -> None:
    assert_close(shard_map(lambda x: psum(x, ("x", "y")), mesh(), (P("x", "y"),), P())(X),
                 X.reshape(2, 4, 2, 2).sum((0, 2)), slack=4)
    with pytest.raises(ValueError, match="shard_map"):
        shard_map(lambda x: x, mesh(), (P("x"),), P())(X)


@pytest.mark.collectives
def test_blocked_matrix_product() -> None:
    y = np.random.default_rng(4).normal(size=(4, 6)).astype(np.float32)
    f = shard_map(lambda a, b: psum(lax.dot(a, b), "y"), mesh(), (P("x", "y"), P("y", None)), P("x", None))
    assert_close(f(X, y), X @ y, slack=10)
    stack = np.stack([X, 2 * X])
    assert_close(vmap(f, (0, None))(stack, y), stack @ y, slack=10)


@pytest.mark.order
def test_derivatives_equal_those_of_global_function() -> None:
    def loss(x: Any, w: Any) -> Any:
        return psum(lax.reduce_sum(lax.sin(x * w), (0, 1)), ("x", "y"))

    f = shard_map(loss, mesh(), (P("x", "y"), P()), P())
    gx, gw = grad(f, (0, 1))(X, np.float32(2))
    assert_close(gx, 2 * np.cos(2 * X), slack=4)
    assert_close(gw, np.float32((np.cos(2 * X.astype(float)) * X).sum()), slack=20)
    twice = shard_map(lambda x: ppermute(x * x, "x", [(0, 1), (1, 0)]), mesh(), (P("x"),), P("x"))
    assert_close(vjp(twice, X)[1](X)[0], 2 * X * np.roll(X, 4, 0))
    assert_close(shard_map(grad(lambda x: lax.reduce_sum(x * x, (0, 1))), mesh(), (P("x", "y"),), P("x", "y"))(X), 2 * X)


@pytest.mark.parametrize("call", [
    lambda: shard_map(lambda x: x, mesh(), (P("z"),), P("x"))(X),
    lambda: shard_map(lambda x: x, mesh(), (P("x"),), P("x"))(X[:7]),
    lambda: shard_map(lambda x: x, mesh(), (P("x", None, "y"),), P("x"))(X),
    lambda: shard_map(lambda x: x, mesh(), (P("x"), P("y")), P("x"))(X)],
    ids=["unknown axis", "uneven", "too many entries", "more specs than arguments"])
def test_wrong_arguments_raise_value_error_that_names_shard_map(call: Any) -> None:
    with pytest.raises(ValueError, match="shard_map"):
        call()
