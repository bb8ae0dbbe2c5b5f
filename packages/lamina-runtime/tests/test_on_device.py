"""Arrays change their placement on the devices, bit for bit as the host would have it."""
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
PLACES = {
    "rows": mapped_sharding(ALL, 2, ((0, 8),)), "columns": mapped_sharding(ALL, 2, ((1, 8),)),
          "rows backwards": mapped_sharding(BACK, 2, ((0, 8),)),
    "four": mapped_sharding(FOUR, 2, ((0, 4),)), "three": mapped_sharding(THREE, 2, ((0, 3),)),
          "two columns": mapped_sharding(TWO, 2, ((1, 2),)),
    "grid": mapped_sharding(ALL, 2, ((1, 2), (0, 4))), "copies": mapped_sharding(FOUR, 2, ((0, 2),), 2),
          "one": single_device_sharding(ALL[3]),
    "everywhere": replicated_sharding(BACK), "everywhere on three": replicated_sharding(THREE)}


def unmoved(before):
    assert not any(transfer_counts() - before), transfer_counts() - before


def test_any_placement_to_any_other():
    for a in PLACES.values():
        x = device_put(HOST, a)
        for name, b in PLACES.items():
            before = transfer_counts()
            y = device_put(x, b)
            unmoved(before)
            assert y.sharding is b and y.committed, (a, name)
            np.testing.assert_array_equal(y, HOST)
            for mine, hosts in zip(y.addressable_shards, put_with_sharding(HOST, y.aval, b).addressable_shards):
                assert mine.device == hosts.device
                np.testing.assert_array_equal(mine.data, hosts.data)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "float16", "bfloat16", "complex64"])
def test_every_dtype(dtype):
    host = np.asarray(jit(lambda x: lax.convert_element_type(x, dtype))(HOST % 3))
    y = device_put(device_put(device_put(host, PLACES["rows"]), PLACES["three"]), PLACES["columns"])
    assert y.dtype == host.dtype
    np.testing.assert_array_equal(np.asarray(y), host)


def test_empty_arrays_and_scalars():
    x = device_put(np.zeros((8, 0), np.float32), PLACES["rows"])
    assert device_put(x, ALL[2]).shape == (8, 0)
    s = device_put(device_put(np.float32(3), replicated_sharding(ALL)), replicated_sharding(THREE))
    assert float(s) == 3


def test_what_moved_is_in_memory_of_its_own():
    for a in PLACES.values():
        for b in PLACES.values():
            x = device_put(HOST, a)
            y = device_put(x, b)
            if y is not x:
                x.delete()
                np.testing.assert_array_equal(y, HOST)


def test_donated_arrays_go():
    x = device_put(HOST, PLACES["rows"])
    y = device_put(x, PLACES["everywhere"], donate=True)
    assert x.is_deleted()
    np.testing.assert_array_equal(y, HOST)


def test_rows_and_parts_of_a_mapped_array():
    y = pmap(lambda x: lax.mul(x, x))(HOST[:8])
    before = transfer_counts()
    rows = [*y, y.addressable_shards[3].data, y.addressable_data(5)]
    again = device_put_sharded(rows[:8], ALL)
    many = device_put_replicated(rows[2], ALL)
    twice = device_put_replicated(y, TWO)
    copy.copy(y)
    unmoved(before)
    for i in range(8):
        assert rows[i].shape == (8,) == memoryview(rows[i]).shape and rows[i].devices() == {ALL[i]} and not rows[i].committed
        np.testing.assert_array_equal(rows[i], HOST[i] ** 2)
    np.testing.assert_array_equal(rows[8], HOST[3:4] ** 2)
    np.testing.assert_array_equal(again, HOST[:8] ** 2)
    np.testing.assert_array_equal(many, np.stack([HOST[2] ** 2] * 8))
    np.testing.assert_array_equal(twice, np.stack([HOST[:8] ** 2] * 2))


def test_iteration_over_rows_that_are_split():
    for name in ("columns", "grid", "everywhere", "three"):
        x = device_put(HOST, PLACES[name])
        before = transfer_counts()
        rows = list(x)
        unmoved(before)
        np.testing.assert_array_equal(np.stack(rows), HOST)
    many = device_put(np.arange(800, dtype=np.int32), mapped_sharding(ALL, 1, ((0, 8),)))
    assert [int(v) for v in many] == list(range(800))


def test_a_part_goes_with_its_array():
    """On several devices jaxlib sees only whether the first part is there, and ends the process over another."""
    double = pmap(lambda x: lax.add(x, x))
    for at in (0, 3, 7):
        y = double(HOST[:8])
        part = y.addressable_data(at)
        other = y.addressable_shards[(at + 1) % 8].data
        np.testing.assert_array_equal(double(y)[at], HOST[at] * 4)
        part.delete()
        assert y.is_deleted() and other.is_deleted()
        with pytest.raises(RuntimeError, match="deleted or donated"):
            double(y)
    y = double(HOST[:8])
    jit(lambda v: lax.add(v, v), donate_argnums=0)(y.addressable_data(5))
    with pytest.raises(RuntimeError, match="deleted or donated"):
        double(y)
    z = double(HOST[:8])
    part = z.addressable_data(2)
    pmap(lambda x: lax.add(x, x), donate_argnums=0)(z)
    assert part.is_deleted()
    row, kept = (w := double(HOST[:8])).addressable_data(1), list(w)
    w.delete()
    assert row.is_deleted()
    np.testing.assert_array_equal(kept[1], HOST[1] * 2)


def test_a_deleted_array_is_named():
    x = device_put(HOST, PLACES["rows"])
    x.delete()
    with pytest.raises(RuntimeError, match="deleted or donated"):
        device_put(x, PLACES["columns"])


@pytest.mark.parametrize("value, place, words", [
    (HOST[:7], "rows", r"dimension 0 .* length 7.*8 devices.*8 parts"),
    (HOST[0], "rows", r"2 dimensions.*8 x 1 parts.*1 dim"),
    (np.float32(1), "columns", r"2 dimensions.*0 dim"),
    (HOST[None], "grid", "2 dimensions.*4 x 2 parts.*3 dim")])
def test_placements_that_do_not_fit(value, place, words):
    for x in (value, device_put(value), device_put(value, replicated_sharding(ALL))):
        with pytest.raises(ValueError, match=words):
            device_put(x, PLACES[place])


def test_placements_of_jaxlibs_class():
    own = GSPMDSharding(device_list(ALL), PLACES["rows"]._hlo_sharding)
    x = device_put(HOST, own)
    assert x.sharding == PLACES["rows"]
    np.testing.assert_array_equal(device_put(device_put(HOST, PLACES["columns"]), own), HOST)
    for f in (jit(lambda v: lax.add(v, v), in_shardings=(own,)), jit(lambda v: lax.add(v, v), out_shardings=own)):
        y = f(x)
        assert y.sharding == PLACES["rows"]
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
                unmoved(before)
                for y, want in zip(found, (2 * HOST, HOST, 2 * HOST)):
                    np.testing.assert_array_equal(y, want)
                for y in found[1:]:
                    assert y.sharding == b
                    for mine, hosts in zip(y.addressable_shards, device_put(np.asarray(y), b).addressable_shards):
                        np.testing.assert_array_equal(mine.data, hosts.data)


def test_transfers_are_counted():
    before = transfer_counts()
    x = device_put(HOST, PLACES["four"])
    np.asarray(x), np.asarray(x)  # the second time it is known
    assert transfer_counts() - before == TransferCounts(1, HOST.nbytes, 4, HOST.nbytes)
    before = transfer_counts()
    float(device_put(1.0))
    assert transfer_counts() - before == TransferCounts(1, 4, 1, 4)


def test_plans_are_remembered():
    x = device_put(HOST, PLACES["rows"])
    device_put(x, PLACES["columns"])
    known = dict(client_state.current.reshard_plans)
    device_put(x, PLACES["columns"])
    assert known and client_state.current.reshard_plans == known


def same_devices():
    """Placements over eight devices, in three orders."""
    shuffled = tuple(ALL[i] for i in (3, 1, 4, 0, 5, 2, 7, 6))
    made = []
    for order in (ALL, BACK, shuffled):
        split = [(((0, 8),), 1), (((1, 8),), 1), (((0, 4), (1, 2)), 1), (((1, 4), (0, 2)), 1), (((0, 2),), 4),
                 (((0, 2), (1, 2)), 2)]
        made += [replicated_sharding(order), *[mapped_sharding(order, 2, dims, copies) for dims, copies in split]]
    return made


def test_between_placements_of_the_same_devices_one_program_runs():
    """Bit for bit, in memory of its own, in a number of Python calls that does not grow with the devices' pairs."""
    places = same_devices()
    first, others = places[1::6], places
    for a in first:
        for b in others:
            x = device_put(HOST, a)
            before = transfer_counts()
            y = device_put(x, b)
            unmoved(before)
            assert y.sharding == b and y.committed
            if y is not x:
                x.delete()
            np.testing.assert_array_equal(y, HOST)
            for mine, hosts in zip(y.addressable_shards, put_with_sharding(HOST, y.aval, b).addressable_shards):
                assert mine.device == hosts.device
                np.testing.assert_array_equal(mine.data, hosts.data)


def python_calls(act):
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


def test_an_exchange_takes_few_calls_and_is_counted():
    for devs in (ALL, ALL[:2]):
        n = len(devs)
        x = device_put(HOST, mapped_sharding(devs, 2, ((0, n),)))
        there = mapped_sharding(devs, 2, ((1, n),))
        device_put(x, there)
        assert python_calls(lambda: device_put(x, there)) < 60, n
    window = launch_guards.client_window(ALL[0].client)
    if window is not None:
        window.drain()
        device_put(x, there)
        assert len(window._pending) == 1


def test_an_exchange_that_would_gather_sends_parts_instead():
    x = device_put(np.zeros((512, 512), np.float32), mapped_sharding(ALL, 2, ((0, 2), (1, 2)), 2))
    there = mapped_sharding(ALL, 2, ((0, 8),))
    assert compiled_reshard.reshard_compiled(x, there) is None
    before = transfer_counts()
    assert device_put(x, there).sharding == there
    unmoved(before)


@pytest.mark.parametrize("dtype", ["bool", "int4", "uint8", "float8_e4m3fn", "float8_e5m2", "bfloat16", "complex64"])
def test_every_dtype_is_exchanged(dtype):
    host = np.asarray(jit(lambda x: lax.convert_element_type(x, dtype))(HOST % 3))
    x = device_put(host, PLACES["rows"])
    for name in ("columns", "grid", "rows backwards"):
        x = device_put(x, PLACES[name]) if name != "grid" else device_put(x, mapped_sharding(ALL, 2, ((1, 2), (0, 4))),
                                                                          donate=True)
        assert x.dtype == host.dtype
        np.testing.assert_array_equal(np.asarray(x), host)
    y = device_put(lax.convert_element_type(x, "float32"), PLACES["everywhere"])
    assert y.sharding == PLACES["everywhere"]
