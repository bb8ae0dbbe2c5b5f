"""Resharding of arrays on devices gives exactly the result of going through the host."""
import copy
import sys

import numpy as np
import pytest
from lamina_parallel import pmap
from lamina_runtime import (GSPMDSharding, TransferCounts, device_put, device_put_replicated, device_put_sharded,
                            devices, transfer_counts)
from lamina_runtime._array import compiled_reshard
from lamina_runtime._backend import client_state, launch_guards
from lamina_runtime._sharding.shardings import device_list, mapped_sharding, replicated_sharding, single_device_sharding
from lamina_runtime._array.transfer import put_with_sharding
from lamina_tracing import jit, lax

ALL = tuple(devices())
SHAPE = (24, 8)
HOST = np.arange(192, dtype=np.float32).reshape(SHAPE)
BACK, FOUR, THREE, TWO = ALL[::-1], (ALL[5], ALL[2], ALL[7], ALL[0]), (ALL[4], ALL[1], ALL[2]), (ALL[6], ALL[1])
SHARDINGS = {
    "rows": mapped_sharding(ALL, 2, ((0, 8),)), "columns": mapped_sharding(ALL, 2, ((1, 8),)),
          "rows backwards": mapped_sharding(BACK, 2, ((0, 8),)),
    "four": mapped_sharding(FOUR, 2, ((0, 4),)), "three": mapped_sharding(THREE, 2, ((0, 3),)),
          "two columns": mapped_sharding(TWO, 2, ((1, 2),)),
    "grid": mapped_sharding(ALL, 2, ((1, 2), (0, 4))), "copies": mapped_sharding(FOUR, 2, ((0, 2),), 2),
          "one": single_device_sharding(ALL[3]),
    "everywhere": replicated_sharding(BACK), "everywhere on three": replicated_sharding(THREE)}


def assert_no_transfers(before):
    assert not any(transfer_counts() - before), transfer_counts() - before


def test_reshard_between_all_shardings():
    for a in SHARDINGS.values():
        x = device_put(HOST, a)
        for name, b in SHARDINGS.items():
            before = transfer_counts()
            y = device_put(x, b)
            assert_no_transfers(before)
            assert y.sharding is b and y.committed, (a, name)
            np.testing.assert_array_equal(y, HOST)
            for mine, hosts in zip(y.addressable_shards, put_with_sharding(HOST, y.aval, b).addressable_shards):
                assert mine.device == hosts.device
                np.testing.assert_array_equal(mine.data, hosts.data)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "float16", "bfloat16", "complex64"])
def test_reshard_of_every_dtype(dtype):
    host = np.asarray(jit(lambda x: lax.convert_element_type(x, dtype))(HOST % 3))
    y = device_put(device_put(device_put(host, SHARDINGS["rows"]), SHARDINGS["three"]), SHARDINGS["columns"])
    assert y.dtype == host.dtype
    np.testing.assert_array_equal(np.asarray(y), host)


def test_empty_arrays_and_scalars():
    x = device_put(np.zeros((8, 0), np.float32), SHARDINGS["rows"])
    assert device_put(x, ALL[2]).shape == (8, 0)
    s = device_put(device_put(np.float32(3), replicated_sharding(ALL)), replicated_sharding(THREE))
    assert float(s) == 3


def test_resharded_array_has_separate_memory():
    for a in SHARDINGS.values():
        for b in SHARDINGS.values():
            x = device_put(HOST, a)
            y = device_put(x, b)
            if y is not x:
                x.delete()
                np.testing.assert_array_equal(y, HOST)


def test_donated_arrays_are_deleted():
    x = device_put(HOST, SHARDINGS["rows"])
    y = device_put(x, SHARDINGS["everywhere"], donate=True)
    assert x.is_deleted()
    np.testing.assert_array_equal(y, HOST)


def test_elements_and_shards_of_a_mapped_array():
    y = pmap(lambda x: lax.mul(x, x))(HOST[:8])
    before = transfer_counts()
    rows = [*y, y.addressable_shards[3].data, y.addressable_data(5)]
    again = device_put_sharded(rows[:8], ALL)
    many = device_put_replicated(rows[2], ALL)
    twice = device_put_replicated(y, TWO)
    copy.copy(y)
    assert_no_transfers(before)
    for i in range(8):
        assert rows[i].shape == (8,) == memoryview(rows[i]).shape and rows[i].devices() == {ALL[i]} and not rows[i].committed
        np.testing.assert_array_equal(rows[i], HOST[i] ** 2)
    np.testing.assert_array_equal(rows[8], HOST[3:4] ** 2)
    np.testing.assert_array_equal(again, HOST[:8] ** 2)
    np.testing.assert_array_equal(many, np.stack([HOST[2] ** 2] * 8))
    np.testing.assert_array_equal(twice, np.stack([HOST[:8] ** 2] * 2))


def test_iteration_over_sharded_arrays():
    for name in ("columns", "grid", "everywhere", "three"):
        x = device_put(HOST, SHARDINGS[name])
        before = transfer_counts()
        rows = list(x)
        assert_no_transfers(before)
        np.testing.assert_array_equal(np.stack(rows), HOST)
    many = device_put(np.arange(800, dtype=np.int32), mapped_sharding(ALL, 1, ((0, 8),)))
    assert [int(v) for v in many] == list(range(800))


def test_deleting_a_shard_deletes_its_array():
    """On several devices jaxlib checks the first shard only, and crashes if another one is deleted."""
    double = pmap(lambda x: lax.add(x, x))
    for at in (0, 3, 7):
        y = double(HOST[:8])
        part = y.addressable_data(at)
        other = y.addressable_shards[(at + 1) % 8].data
        np.testing.assert_array_equal(double(y)[at], HOST[at] * 4)
        part.delete()
        assert y.is_deleted() and other.is_deleted()
        with pytest.raises(RuntimeError, match="deleted or donated"):
            np.asarray(double(y))  # if other threads exist, jaxlib 0.12 computes an error
    y = double(HOST[:8])
    jit(lambda v: lax.add(v, v), donate_argnums=0)(y.addressable_data(5))
    with pytest.raises(RuntimeError, match="deleted or donated"):
        np.asarray(double(y))
    z = double(HOST[:8])
    part = z.addressable_data(2)
    pmap(lambda x: lax.add(x, x), donate_argnums=0)(z)
    assert part.is_deleted()
    row, kept = (w := double(HOST[:8])).addressable_data(1), list(w)
    w.delete()
    assert row.is_deleted()
    np.testing.assert_array_equal(kept[1], HOST[1] * 2)


def test_reshard_of_deleted_array_raises():
    x = device_put(HOST, SHARDINGS["rows"])
    x.delete()
    with pytest.raises(RuntimeError, match="deleted or donated"):
        device_put(x, SHARDINGS["columns"])


@pytest.mark.parametrize("value, place, message", [
    (HOST[:7], "rows", r"dimension 0 .* length 7.*8 devices.*8 parts"),
    (HOST[0], "rows", r"2 dimensions.*8 x 1 parts.*1 dim"),
    (np.float32(1), "columns", r"2 dimensions.*0 dim"),
    (HOST[None], "grid", "2 dimensions.*4 x 2 parts.*3 dim")])
def test_shardings_that_do_not_fit_are_refused(value, place, message):
    for x in (value, device_put(value), device_put(value, replicated_sharding(ALL))):
        with pytest.raises(ValueError, match=message):
            device_put(x, SHARDINGS[place])


def test_shardings_of_the_jaxlib_class():
    own = GSPMDSharding(device_list(ALL), SHARDINGS["rows"]._hlo_sharding)
    x = device_put(HOST, own)
    assert x.sharding == SHARDINGS["rows"]
    np.testing.assert_array_equal(device_put(device_put(HOST, SHARDINGS["columns"]), own), HOST)
    for f in (jit(lambda v: lax.add(v, v), in_shardings=(own,)), jit(lambda v: lax.add(v, v), out_shardings=own)):
        y = f(x)
        assert y.sharding == SHARDINGS["rows"]
        np.testing.assert_array_equal(y, 2 * HOST)
    with pytest.raises(ValueError, match="with_sharding_constraint: dimension 0 .* length 3"):
        lax.with_sharding_constraint(device_put(HOST[:3], replicated_sharding(ALL)), own)


def test_constraints_keep_the_order_of_devices():
    for order in (ALL, BACK, FOUR, TWO):
        n = len(order)
        places = [replicated_sharding(order), mapped_sharding(order, 2, ((0, n),)), mapped_sharding(order, 2, ((1, n),))]
        places += [mapped_sharding(order, 2, ((1, 2), (0, n // 2))),
                   mapped_sharding(order, 2, ((1, 2),), n // 2)] if n > 2 else []
        for a in places:
            x = device_put(HOST, a)
            for b in places:
                before = transfer_counts()
                found = [jit(lambda v: lax.add(lax.with_sharding_constraint(v, b), v))(x), lax.with_sharding_constraint(x, b),
                         jit(lambda v: lax.with_sharding_constraint(lax.add(v, v), b))(x)]
                assert_no_transfers(before)
                for y, want in zip(found, (2 * HOST, HOST, 2 * HOST)):
                    np.testing.assert_array_equal(y, want)
                for y in found[1:]:
                    assert y.sharding == b
                    for mine, hosts in zip(y.addressable_shards, device_put(np.asarray(y), b).addressable_shards):
                        np.testing.assert_array_equal(mine.data, hosts.data)


def test_transfers_are_counted():
    before = transfer_counts()
    x = device_put(HOST, SHARDINGS["four"])
    np.asarray(x), np.asarray(x)  # the second read is cached
    assert transfer_counts() - before == TransferCounts(1, HOST.nbytes, 4, HOST.nbytes)
    before = transfer_counts()
    float(device_put(1.0))
    assert transfer_counts() - before == TransferCounts(1, 4, 1, 4)


def test_reshard_plans_are_cached():
    x = device_put(HOST, SHARDINGS["rows"])
    device_put(x, SHARDINGS["columns"])
    known = dict(client_state.current.reshard_plans)
    device_put(x, SHARDINGS["columns"])
    assert known and client_state.current.reshard_plans == known


def shardings_of_all_devices():
    """Return shardings over eight devices, in three orders."""
    shuffled = tuple(ALL[i] for i in (3, 1, 4, 0, 5, 2, 7, 6))
    made = []
    for order in (ALL, BACK, shuffled):
        split = [(((0, 8),), 1), (((1, 8),), 1), (((0, 4), (1, 2)), 1), (((1, 4), (0, 2)), 1), (((0, 2),), 4),
                 (((0, 2), (1, 2)), 2)]
        made += [replicated_sharding(order), *[mapped_sharding(order, 2, dims, copies) for dims, copies in split]]
    return made


def test_reshard_on_the_same_devices_runs_one_program():
    """Exact, in separate memory, with a number of Python calls that does not grow with the number of device pairs."""
    places = shardings_of_all_devices()
    first, others = places[1::6], places
    for a in first:
        for b in others:
            x = device_put(HOST, a)
            before = transfer_counts()
            y = device_put(x, b)
            assert_no_transfers(before)
            assert y.sharding == b and y.committed
            if y is not x:
                x.delete()
            np.testing.assert_array_equal(y, HOST)
            for mine, hosts in zip(y.addressable_shards, put_with_sharding(HOST, y.aval, b).addressable_shards):
                assert mine.device == hosts.device
                np.testing.assert_array_equal(mine.data, hosts.data)


def count_python_calls(act):
    count = 0

    def seen(frame, event, arg):
        nonlocal count
        count += event == "call"

    sys.setprofile(seen)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


def test_compiled_reshard_takes_few_python_calls():
    for devs in (ALL, ALL[:2]):
        n = len(devs)
        x = device_put(HOST, mapped_sharding(devs, 2, ((0, n),)))
        there = mapped_sharding(devs, 2, ((1, n),))
        device_put(x, there)
        assert count_python_calls(lambda: device_put(x, there)) < 60, n
    window = launch_guards.client_window(ALL[0].client)
    if window.is_limited:
        window.drain()
        device_put(x, there)
        assert len(window._pending) == 1


def test_reshard_that_would_gather_sends_shards():
    x = device_put(np.zeros((512, 512), np.float32), mapped_sharding(ALL, 2, ((0, 2), (1, 2)), 2))
    there = mapped_sharding(ALL, 2, ((0, 8),))
    assert compiled_reshard.reshard_compiled(x, there) is None
    before = transfer_counts()
    assert device_put(x, there).sharding == there
    assert_no_transfers(before)


@pytest.mark.parametrize("dtype", ["bool", "int4", "uint8", "float8_e4m3fn", "float8_e5m2", "bfloat16", "complex64"])
def test_compiled_reshard_of_every_dtype(dtype):
    host = np.asarray(jit(lambda x: lax.convert_element_type(x, dtype))(HOST % 3))
    x = device_put(host, SHARDINGS["rows"])
    for name in ("columns", "grid", "rows backwards"):
        x = device_put(x, SHARDINGS[name]) if name != "grid" else device_put(x, mapped_sharding(ALL, 2, ((1, 2), (0, 4))),
                                                                          donate=True)
        assert x.dtype == host.dtype
        np.testing.assert_array_equal(np.asarray(x), host)
    y = device_put(lax.convert_element_type(x, "float32"), SHARDINGS["everywhere"])
    assert y.sharding == SHARDINGS["everywhere"]
