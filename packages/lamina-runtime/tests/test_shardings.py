import numpy as np
import pytest
from lamina_batching import vmap
from lamina_parallel import pmap
from lamina_runtime import device_put, devices
from lamina_runtime._sharding.shardings import (index_map, mapped_sharding, replicated_sharding, sharding_devices,
                                                single_device_sharding)
from lamina_tracing import jit, lax

ALL = tuple(devices())


def split_by_sharding(sharding, shape):
    host = np.arange(int(np.prod(shape))).reshape(shape)
    return host, [host[i] for i in index_map(sharding, shape)]


def test_equal_shardings_are_one_object():
    assert (single_device_sharding(ALL[1]) is single_device_sharding(ALL[1])
            and mapped_sharding(ALL, 2, ((0, 8),)) is mapped_sharding(ALL, 2, ((0, 8),)))
    assert (single_device_sharding(ALL[0]) != single_device_sharding(ALL[1])
            and hash(single_device_sharding(ALL[0])) == hash(single_device_sharding(ALL[0])))
    assert mapped_sharding(ALL, 2, ((0, 8),)) != mapped_sharding(ALL[::-1], 2, ((0, 8),))


@pytest.mark.parametrize("axis, shape", [(0, (8, 3)), (1, (3, 8)), (2, (2, 3, 8))])
def test_mapped_sharding_index_map(axis, shape):
    host, parts = split_by_sharding(mapped_sharding(ALL, len(shape), ((axis, 8),)), shape)
    for i, part in enumerate(parts):
        np.testing.assert_array_equal(part, np.take(host, [i], axis))


def test_mapped_sharding_with_copies():
    s = mapped_sharding(ALL, 2, ((0, 2),), copies=4)
    host, parts = split_by_sharding(s, (2, 3))
    for i, part in enumerate(parts):
        np.testing.assert_array_equal(part, host[[i // 4]])
    assert s.shard_shape((2, 3)) == (1, 3)


def test_two_axes_in_another_order():
    host, parts = split_by_sharding(mapped_sharding(ALL, 3, ((2, 4), (0, 2))), (2, 3, 4))
    for i, part in enumerate(parts):
        np.testing.assert_array_equal(part, host[i % 2:i % 2 + 1, :, i // 2:i // 2 + 1])


def test_replicated_holds_all():
    s = replicated_sharding(ALL)
    assert s.is_fully_replicated and s.shard_shape((4,)) == (4,) and len(s.devices_indices_map((4,))) == 8
    assert replicated_sharding(ALL[:1]) is single_device_sharding(ALL[0])


def test_repr_names_the_class():
    assert "MappedSharding" in repr(mapped_sharding(ALL, 1,
                                                    ((0, 8),))) and "SingleDevice" in repr(single_device_sharding(ALL[0]))


def test_constraint_decides_the_sharding_of_a_result():
    x = pmap(lambda v: lax.mul(v, 2.0))(np.arange(16, dtype=np.float32).reshape(8, 2))

    def square(v):
        return lax.broadcast_in_dim(lax.reduce_sum(v, (1,)), (8, 8), (1,))

    constrained = jit(lambda v: lax.with_sharding_constraint({"s": square(v)}, x.sharding))(x)["s"]
    assert constrained.sharding == x.sharding and jit(square)(x).sharding != x.sharding
    np.testing.assert_array_equal(constrained, jit(square)(np.asarray(x)))
    alone = jit(lambda v: lax.with_sharding_constraint(v, x.sharding))(np.asarray(x))
    np.testing.assert_array_equal(alone, x)
    assert alone.sharding == x.sharding and alone.committed
    with pytest.raises(ValueError, match="sharding must be for arrays with 1 axes"):
        lax.with_sharding_constraint(x[0], x.sharding)
    with pytest.raises(TypeError, match="expected shardings.*got int"):
        lax.with_sharding_constraint(x, 3)


ORDERS = [ALL, ALL[::-1], (*ALL[1:], ALL[0]), tuple(ALL[i] for i in (3, 1, 4, 0, 5, 7, 2, 6))]


@pytest.mark.parametrize("wanted", ORDERS, ids=["same", "back", "rotated", "mixed"])
@pytest.mark.parametrize("given", ORDERS, ids=["same", "back", "rotated", "mixed"])
def test_constraint_decides_the_order_of_devices(given, wanted):
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
constrain = lax.with_sharding_constraint


@pytest.mark.parametrize("f", [
    lambda v: constrain(v, ROWS), lambda v: lax.mul(constrain(v, ROWS), 2.0),
    lambda v: (constrain(v, COLUMNS), constrain(v, ROWS))[1],
    lambda v: lax.cond(v[0, 0] < 9, lambda v: constrain(v, ROWS), lambda v: v, v),
    lambda v: jit(lambda v: constrain(v, ROWS))(v),
    lambda v: vmap(lambda r: constrain(r, mapped_sharding(ALL, 1, ((0, 8),))), 1, 1)(v),
    lambda v: lax.scan(lambda c, r: (c, constrain(r, mapped_sharding(ALL, 1, ((0, 8),)))), 0, lax.transpose(v, (1, 0)))[1],
    lambda v: constrain(lax.full((8, 8), 3.0), ROWS)],
    ids=["alone", "before", "two", "cond", "called", "vmap", "scan", "made"])
def test_constraint_selects_the_devices_of_its_program(f):
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    want = np.asarray(f(x))
    for v in (x, device_put(x), device_put(x, COLUMNS)):
        for _ in range(2):
            y = (g := jit(f))(v)
            assert y.sharding.device_set == {*ALL} and not y.sharding.is_fully_replicated and y.committed
            np.testing.assert_array_equal(y, want)
    assert g.lower(x).compile()(x).sharding == y.sharding


def test_eager_constraint_moves_an_uncommitted_array():
    for x in (np.ones((8, 8), np.float32), device_put(np.ones((8, 8), np.float32))):
        assert constrain(x, ROWS).sharding == ROWS and constrain(x, FOUR).sharding == FOUR
        assert constrain(x, single_device_sharding(ALL[2])).device == ALL[2]
    assert jit(lambda v: constrain(v, single_device_sharding(ALL[2])))(x).device == ALL[2]
    assert pmap(lambda r: constrain(r, mapped_sharding(ALL, 1, ((0, 8),))))(x).sharding == ROWS  # each member has one element


def test_constraints_on_different_devices_are_refused():
    x = np.zeros((8, 8), np.float32)
    with pytest.raises(ValueError, match=r"jit of `<lambda>`: with_sharding_constraint names \[cpu:0, .*cpu:7\] at .*"
                                         r", and \[cpu:0, cpu:1, cpu:2, cpu:3\] at"):
        jit(lambda v: lax.add(constrain(v, ROWS), constrain(v, FOUR)))(x)
    four, row = device_put(x, FOUR), jit(lambda v: constrain(v, ROWS))
    for call, by in ((lambda: row(four), "arguments are committed to"),
                     (lambda: constrain(four, ROWS), "arguments are committed to"),
                     (lambda: jit(lambda v: constrain(v, ROWS), device=ALL[1])(x), "device= and backend= name"),
                     (lambda: jit(lambda v: constrain(v, ROWS), in_shardings=FOUR)(x), "in_shardings and out_shardings name"),
                     (lambda: jit(lambda v: constrain(pmap(lax.neg)(v), FOUR))(x), "the maps inside run on")):
        with pytest.raises(ValueError, match=rf"with_sharding_constraint names \[cpu:0, .*\].*; {by} \[cpu"):
            call()


def test_results_with_tiles_on_other_devices():
    x = np.arange(24, dtype=np.float32).reshape(8, 3)
    y = pmap(lambda r: r)(x)
    back = lax.rev(y, (0,))
    assert back.sharding.tile_devices == tuple(range(8))[::-1]
    np.testing.assert_array_equal(np.asarray(back), x[::-1])
    for i, row in enumerate(back):
        np.testing.assert_array_equal(np.asarray(row), x[::-1][i])
        assert not row.committed and row.device == ALL[7 - i]
    np.testing.assert_array_equal(np.asarray(jit(lambda v: v * 2)(back)), x[::-1] * 2)


def test_negative_padding_of_a_sharded_array():
    x = np.arange(24, dtype=np.float32).reshape(8, 3)
    config = (-1, -2, 1), (1, -1, 0)
    got = lax.pad(pmap(lambda r: r)(x), np.float32(9), config)
    np.testing.assert_array_equal(np.asarray(got), np.asarray(lax.pad(x, np.float32(9), config)))


def test_operands_on_several_devices():
    x = np.arange(24, dtype=np.float32).reshape(8, 3)
    y = pmap(lambda r: r)(x)
    np.testing.assert_array_equal(np.asarray(lax.add(y[0], y[5])), x[0] + x[5])
    total, _ = lax.scan(lambda c, r: (lax.add(c, r), None), y[0], y)
    np.testing.assert_array_equal(np.asarray(total), x.sum(0) + x[0])
