"""Devices: their number, placement of values, placement of calls; on all available devices."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lamina_ir import shaped
from lamina_ir.testing import assert_close
from lamina_parallel import Mesh, PartitionSpec, pmap, ppermute, psum
from lamina_tracing import jit, lax, hooks

from lamina_runtime import (Array, NamedSharding, default_backend, default_device, device_count, device_put,
                            device_put_replicated, device_put_sharded, devices, local_device_count, local_devices,
                            process_count, process_index)

N = device_count()
X = np.arange(N * 6, dtype=np.float32).reshape(2 * N, 3)


@pytest.mark.core
def test_device_counts_agree() -> None:
    assert N == len(devices()) >= 1 and local_device_count() == len(local_devices()) >= 1
    assert 0 <= process_index() < process_count()
    assert len({d.id for d in devices()}) == N and {d.platform for d in devices()} == {default_backend()}
    with pytest.raises((RuntimeError, ValueError), match="nosuch"):
        devices("nosuch")


@pytest.mark.core
def test_runtime_installs_evaluator_and_dispatcher() -> None:
    one = np.float32([1])
    made = hooks.evaluator.array(one, shaped((1,), one.dtype))
    one += 1
    assert isinstance(made, Array) and made.tolist() == [1]
    assert hooks.dispatcher.device_count(None) in (N, None)  # None: as many as a map needs
    assert isinstance(lax.add(1.0, 2.0), Array)


@pytest.mark.core
@pytest.mark.parametrize("k", [0, N - 1])
def test_device_put_places_values_and_calls_follow(k: int) -> None:
    there = device_put(X, devices()[k])
    assert there.devices() == {devices()[k]}
    assert jit(lambda x: x + 1)(there).devices() == lax.sin(there).devices() == {devices()[k]}
    assert_close(jit(lambda x: x + 1)(there), X + 1)
    with default_device(devices()[k]):
        assert device_put(X).devices() == jit(lambda x: x + 2)(X).devices() == {devices()[k]}
    assert device_put(there, devices()[0]).devices() == {devices()[0]}


@pytest.mark.collectives
def test_operands_on_two_devices_are_rejected() -> None:
    far = [device_put(X, d) for d in devices()[:2]]
    if N > 1:
        with pytest.raises(ValueError, match="device"):
            lax.add(*far)
    else:
        assert_close(lax.add(far[0], X), X + X)


@pytest.mark.collectives
def test_device_put_sharded_places_one_shard_per_device() -> None:
    rows = device_put_sharded([X[2 * k] for k in range(N)], devices())
    assert rows.shape == (N, 3) and len(rows.addressable_shards) == N
    assert {s.device for s in rows.addressable_shards} == set(devices())
    assert_close(rows, X[::2])
    same = device_put_replicated(X[0], devices())
    assert_close(same, np.broadcast_to(X[0], (N, 3)))
    for out in (jit(lambda x: x * 2)(rows), rows * 2):
        assert_close(out, X[::2] * 2)


@pytest.mark.collectives
def test_pmap_runs_on_every_device() -> None:
    got = pmap(lambda x: x * 2)(X[:N])
    assert_close(got, X[:N] * 2)
    assert {s.device for s in got.addressable_shards} == set(devices())
    again = pmap(lambda x: x - psum(x, "i"), "i")
    for _ in range(3):
        assert_close(again(got), X[:N] * 2 - (X[:N] * 2).sum(0))
    ring = pmap(lambda x: ppermute(x, "i", [(k, (k + 1) % N) for k in range(N)]), "i")
    assert_close(ring(X[:N]), np.roll(X[:N], 1, 0))
    with pytest.raises(ValueError, match=f"{N + 1}"):
        pmap(lambda x: x)(np.zeros((N + 1, 2), np.float32))


@pytest.mark.collectives
def test_queued_collectives_finish() -> None:
    total = pmap(lambda x: psum(x, "i") / N, "i")
    x: Any = np.ones((N, 4), np.float32)
    for _ in range(100):
        x = total(x)
    assert_close(x, np.ones((N, 4), np.float32))


@pytest.mark.collectives
def test_shardings_place_shards_and_do_not_change_results() -> None:
    mesh = Mesh(np.array(devices(), object), ("x",))
    for spec in (PartitionSpec("x"), PartitionSpec(), PartitionSpec(None)):
        placed = device_put(X, NamedSharding(mesh, spec))
        rows = 2 if spec and spec[0] else 2 * N
        for shard in placed.addressable_shards:
            assert shard.data.shape == (rows, 3)
            assert_close(shard.data, X[shard.index])
        assert_close(placed, X)
        assert_close(jit(lambda x: lax.reduce_sum(x, (0,)))(placed), X.sum(0))
        assert_close(jit(lambda x: lax.dot(x, lax.transpose(x, (1, 0))))(placed), X @ X.T)
    assert NamedSharding(mesh, PartitionSpec("x")) == NamedSharding(mesh, PartitionSpec("x"))
