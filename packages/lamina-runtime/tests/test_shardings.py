import numpy as np
import pytest
from lamina_batching import vmap
from lamina_parallel import pmap
from lamina_runtime import device_put, devices
from lamina_runtime._sharding.shardings import (index_map, mapped_sharding, replicated_sharding, sharding_devices,
                                                single_device_sharding)
from lamina_tracing import jit, lax

ALL = tuple(devices())


def pieces(sharding, shape):
    host = np.arange(int(np.prod(shape))).reshape(shape)
    return host, [host[i] for i in index_map(sharding, shape)]


def test_one_object_per_placement():
    assert (single_device_sharding(ALL[1]) is single_device_sharding(ALL[1])
            and mapped_sharding(ALL, 2, ((0, 8),)) is mapped_sharding(ALL, 2, ((0, 8),)))
    assert (single_device_sharding(ALL[0]) != single_device_sharding(ALL[1])
            and hash(single_device_sharding(ALL[0])) == hash(single_device_sharding(ALL[0])))
    assert mapped_sharding(ALL, 2, ((0, 8),)) != mapped_sharding(ALL[::-1], 2, ((0, 8),))


@pytest.mark.parametrize("axis, shape", [(0, (8, 3)), (1, (3, 8)), (2, (2, 3, 8))])
def test_one_row_per_device(axis, shape):
    host, parts = pieces(mapped_sharding(ALL, len(shape), ((axis, 8),)), shape)
    for i, part in enumerate(parts):
        np.testing.assert_array_equal(part, np.take(host, [i], axis))


def test_rows_repeated_over_an_inner_axis():
    s = mapped_sharding(ALL, 2, ((0, 2),), copies=4)
    host, parts = pieces(s, (2, 3))
    for i, part in enumerate(parts):
        np.testing.assert_array_equal(part, host[[i // 4]])
    assert s.shard_shape((2, 3)) == (1, 3)


def test_two_axes_in_another_order():
    host, parts = pieces(mapped_sharding(ALL, 3, ((2, 4), (0, 2))), (2, 3, 4))
    for i, part in enumerate(parts):
        np.testing.assert_array_equal(part, host[i % 2:i % 2 + 1, :, i // 2:i // 2 + 1])


def test_replicated_holds_all():
    s = replicated_sharding(ALL)
    assert s.is_fully_replicated and s.shard_shape((4,)) == (4,) and len(s.devices_indices_map((4,))) == 8
    assert replicated_sharding(ALL[:1]) is single_device_sharding(ALL[0])


def test_repr_names_the_class():
    assert "MappedSharding" in repr(mapped_sharding(ALL, 1,
                                                    ((0, 8),))) and "SingleDevice" in repr(single_device_sharding(ALL[0]))


def test_a_constraint_decides_where_the_parts_of_a_partitioned_program_lie():
    x = pmap(lambda v: lax.mul(v, 2.0))(np.arange(16, dtype=np.float32).reshape(8, 2))

    def square(v):
        return lax.broadcast_in_dim(lax.reduce_sum(v, (1,)), (8, 8), (1,))

    told = jit(lambda v: lax.with_sharding_constraint({"s": square(v)}, x.sharding))(x)["s"]
    assert told.sharding == x.sharding and jit(square)(x).sharding != x.sharding
    np.testing.assert_array_equal(told, jit(square)(np.asarray(x)))
    alone = jit(lambda v: lax.with_sharding_constraint(v, x.sharding))(np.asarray(x))
    np.testing.assert_array_equal(alone, x)
    assert alone.sharding == x.sharding and alone.committed
    with pytest.raises(ValueError, match="sharding must be for arrays with 1 axes"):
        lax.with_sharding_constraint(x[0], x.sharding)
    with pytest.raises(TypeError, match="expected shardings.*got int"):
        lax.with_sharding_constraint(x, 3)


ORDERS = [ALL, ALL[::-1], (*ALL[1:], ALL[0]), tuple(ALL[i] for i in (3, 1, 4, 0, 5, 7, 2, 6))]


@pytest.mark.parametrize("wanted", ORDERS, ids=["same", "back", "turned", "mixed"])
@pytest.mark.parametrize("given", ORDERS, ids=["same", "back", "turned", "mixed"])
def test_parts_lie_in_the_order_that_a_constraint_asks_for(given, wanted):
    x = np.arange(96, dtype=np.float32).reshape(8, 12)
    y = device_put(x, mapped_sharding(given, 2, ((0, 8),)))
    for dims, copies in ((((0, 8),), 1), (((0, 2), (1, 4)), 1), (((1, 4), (0, 2)), 1), (((1, 2),), 4), ((), 1)):
        sharding = mapped_sharding(wanted, 2, dims, copies)
        held = jit(lambda v: lax.with_sharding_constraint(lax.mul(v, 2.0), sharding))(y)
        np.testing.assert_array_equal(held, 2 * x)
        where = dict(zip(sharding_devices(sharding), index_map(sharding, x.shape)))
        for shard in held.addressable_shards:
            np.testing.assert_array_equal(shard.data, 2 * x[where[shard.device]])
    batch = jit(vmap(lambda v: lax.with_sharding_constraint(v, mapped_sharding(wanted, 1, ((0, 8),))), 1, 1))(y)
    for shard in batch.addressable_shards:
        np.testing.assert_array_equal(shard.data, x[wanted.index(shard.device)][None])


ROWS, COLUMNS, FOUR = mapped_sharding(ALL, 2, ((0, 8),
                                               )), mapped_sharding(ALL, 2, ((1, 8),)), mapped_sharding(ALL[:4], 2, ((0, 4),))
told = lax.with_sharding_constraint


@pytest.mark.parametrize("f", [
    lambda v: told(v, ROWS), lambda v: lax.mul(told(v, ROWS), 2.0), lambda v: (told(v, COLUMNS), told(v, ROWS))[1],
    lambda v: lax.cond(v[0, 0] < 9, lambda v: told(v, ROWS), lambda v: v, v), lambda v: jit(lambda v: told(v, ROWS))(v),
    lambda v: vmap(lambda r: told(r, mapped_sharding(ALL, 1, ((0, 8),))), 1, 1)(v),
    lambda v: lax.scan(lambda c, r: (c, told(r, mapped_sharding(ALL, 1, ((0, 8),)))), 0, lax.transpose(v, (1, 0)))[1],
    lambda v: told(lax.full((8, 8), 3.0), ROWS)],
    ids=["alone", "before", "two", "cond", "called", "vmap", "scan", "made"])
def test_a_constraint_chooses_the_devices_of_its_program(f):
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    want = np.asarray(f(x))
    for v in (x, device_put(x), device_put(x, COLUMNS)):
        for _ in range(2):
            y = (g := jit(f))(v)
            assert y.sharding.device_set == {*ALL} and not y.sharding.is_fully_replicated and y.committed
            np.testing.assert_array_equal(y, want)
    assert g.lower(x).compile()(x).sharding == y.sharding


def test_a_constraint_moves_an_array_that_nobody_placed():
    for x in (np.ones((8, 8), np.float32), device_put(np.ones((8, 8), np.float32))):
        assert told(x, ROWS).sharding == ROWS and told(x,
                                                       FOUR).sharding == FOUR
        assert told(x, single_device_sharding(ALL[2])).device == ALL[2]
    assert jit(lambda v: told(v, single_device_sharding(ALL[2])))(x).device == ALL[2]
    assert pmap(lambda r: told(r, mapped_sharding(ALL, 1, ((0, 8),))))(x).sharding == ROWS  # each member has its row to itself


def test_constraints_name_one_set_of_devices():
    x = np.zeros((8, 8), np.float32)
    with pytest.raises(ValueError, match=r"jit of `<lambda>`: with_sharding_constraint names \[cpu:0, .*cpu:7\] at .*"
                                         r", and \[cpu:0, cpu:1, cpu:2, cpu:3\] at"):
        jit(lambda v: lax.add(told(v, ROWS), told(v, FOUR)))(x)
    four, row = device_put(x, FOUR), jit(lambda v: told(v, ROWS))
    for call, by in ((lambda: row(four), "arguments are committed to"),
                     (lambda: told(four, ROWS), "arguments are committed to"),
                     (lambda: jit(lambda v: told(v, ROWS), device=ALL[1])(x), "device= and backend= name"),
                     (lambda: jit(lambda v: told(v, ROWS), in_shardings=FOUR)(x), "in_shardings and out_shardings name"),
                     (lambda: jit(lambda v: told(pmap(lax.neg)(v), FOUR))(x), "the maps inside run on")):
        with pytest.raises(ValueError, match=rf"with_sharding_constraint names \[cpu:0, .*\].*; {by} \[cpu"):
            call()


def test_results_whose_tiles_the_compiler_gave_to_other_devices():
    x = np.arange(24, dtype=np.float32).reshape(8, 3)
    y = pmap(lambda r: r)(x)
    back = lax.rev(y, (0,))
    assert back.sharding.tile_devices == tuple(range(8))[::-1]
    np.testing.assert_array_equal(np.asarray(back), x[::-1])
    for i, row in enumerate(back):
        np.testing.assert_array_equal(np.asarray(row), x[::-1][i])
        assert not row.committed and row.device == ALL[7 - i]
    np.testing.assert_array_equal(np.asarray(jit(lambda v: v * 2)(back)), x[::-1] * 2)


def test_padding_below_zero_of_a_split_array():
    x = np.arange(24, dtype=np.float32).reshape(8, 3)
    config = (-1, -2, 1), (1, -1, 0)
    got = lax.pad(pmap(lambda r: r)(x), np.float32(9), config)
    np.testing.assert_array_equal(np.asarray(got), np.asarray(lax.pad(x, np.float32(9), config)))


def test_rows_of_several_devices_meet():
    x = np.arange(24, dtype=np.float32).reshape(8, 3)
    y = pmap(lambda r: r)(x)
    np.testing.assert_array_equal(np.asarray(lax.add(y[0], y[5])), x[0] + x[5])
    total, _ = lax.scan(lambda c, r: (lax.add(c, r), None), y[0], y)
    np.testing.assert_array_equal(np.asarray(total), x.sum(0) + x[0])
