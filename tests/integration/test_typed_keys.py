"""Typed keys on devices, in everything that carries values: results match those of raw uint32 keys."""
import copy
import pickle

import lamina
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax, random
from lamina.experimental.shard_map import shard_map
from lamina.sharding import NamedSharding, PartitionSpec

KEY, RAW = random.key(3), random.PRNGKey(3)
N = lamina.device_count()
pytestmark = pytest.mark.devices


def assert_same(typed, raw):
    assert typed.shape == np.shape(raw)[:-1]
    np.testing.assert_array_equal(random.key_data(typed), raw)


def check(fun):
    """Check that `fun` of typed keys gives the result of `fun` of raw keys."""
    assert_same(fun(random.split(KEY, (N, 3))), fun(random.split(RAW, (N, 3))))


def test_indexing_of_typed_keys():
    check(lambda k: k[1])
    check(lambda k: k[:, 1:])
    check(lambda k: k[jnp.array([2, 0])])
    check(lambda k: k.at[0].set(k[1]))
    check(lambda k: jnp.stack([k[0], k[1]]))
    check(lambda k: jnp.concatenate([k, k]))
    check(lambda k: jnp.swapaxes(k, 0, 1))
    check(lambda k: jnp.take(k, 1, axis=0))
    check(lambda k: jnp.roll(k, 1, axis=0))
    keys = random.split(KEY, 2)
    assert_same(jnp.where(jnp.array([True, False]), keys, KEY), np.stack([random.split(RAW)[0], RAW]))
    assert_same(keys.reshape(2, 1), np.asarray(random.split(RAW)).reshape(2, 1, 2))
    assert [k.shape for k in keys] == [(), ()] and len(keys) == 2 and KEY[None].shape == (1,)
    assert bool(KEY == KEY) and (keys != keys[::-1]).all()


def test_typed_keys_in_calls_and_loops():
    check(lamina.jit(lambda k: k[0]))
    check(lamina.pmap(lambda k: k[1]))
    check(lambda k: lamina.pmap(lambda k: lax.all_gather(k, "i"), axis_name="i")(k)[0])
    check(lambda k: lamina.pmap(lambda k: lax.ppermute(k, "i", [(i, (i + 1) % N) for i in range(N)]), axis_name="i")(k))
    check(lambda k: lax.scan(lambda c, x: (random.fold_in(c, 1), x[0]), k[0, 0], k)[1])
    check(lambda k: lax.fori_loop(0, 3, random_step, k[0, 0]))
    check(lambda k: lax.cond(True, lambda k: random.split(k)[0], lambda k: k, k[0, 0]))
    check(lamina.jit(lambda k: k[::-1], donate_argnums=0))
    assert_same(lamina.jit(lambda: KEY)(), RAW)
    assert_same(lamina.jit(random.key)(3), RAW)
    keys, raw = random.split(KEY, N), random.split(RAW, N)
    np.testing.assert_array_equal(lamina.pmap(random.normal)(keys), lamina.pmap(random.normal)(raw))
    x = lamina.grad(lamina.checkpoint(lambda x, k: jnp.sin(x * random.normal(k))))(2.0, KEY)
    assert x == lamina.grad(lambda x: jnp.sin(x * random.normal(RAW)))(2.0)


def random_step(i, k):
    return random.fold_in(k, i)


def test_shardings_of_typed_keys():
    spread = NamedSharding(lamina.make_mesh((N,), ("x",)), PartitionSpec("x"))
    keys, raw = random.split(KEY, 2 * N), random.split(RAW, 2 * N)
    placed = lamina.device_put(keys, spread)
    assert placed.sharding.num_devices == N
    np.testing.assert_array_equal(lamina.jit(lamina.vmap(random.normal))(placed), lamina.vmap(random.normal)(raw))
    assert_same(lamina.jit(lambda k: random.split(k, 2 * N), out_shardings=spread)(KEY), raw)
    local = shard_map(lambda k: lamina.vmap(random.normal)(k), mesh=spread.mesh, in_specs=PartitionSpec("x"),
                      out_specs=PartitionSpec("x"))
    np.testing.assert_array_equal(local(keys), lamina.vmap(random.normal)(raw))
    assert_same(lamina.jit(random.split).lower(KEY).compile()(KEY), random.split(RAW))
    assert lamina.eval_shape(random.key, 3).dtype == KEY.dtype


def test_shards_of_typed_keys():
    spread = NamedSharding(lamina.make_mesh((N,), ("x",)), PartitionSpec("x"))
    keys, raw = random.split(KEY, 2 * N), random.split(RAW, 2 * N)
    shards = lamina.device_put(keys, spread).addressable_shards
    assert [s.index for s in shards] == [(slice(2 * i, 2 * i + 2),) for i in range(N)] and shards[-1].replica_id == 0
    assert_same(shards[-1].data, raw[-2:])
    assert_same(lamina.make_array_from_single_device_arrays(keys.shape, spread, [s.data for s in shards]), raw)
    indices = []
    assert_same(lamina.make_array_from_callback(keys.shape, spread, lambda i: (indices.append(i), keys[i])[1]), raw)
    assert indices == [s.index for s in shards]
    for at in range(2):  # numeric data mixed with keys, and keys with numeric data
        with pytest.raises(TypeError, match="key"):
            lamina.make_array_from_callback(keys.shape, spread, lambda i: keys[i] if (i[0].start > 0) == at else np.ones(2))


def test_copies_and_pickles_of_typed_keys():
    keys = random.split(KEY)
    for again in (pickle.loads(pickle.dumps(keys)), copy.deepcopy(keys), keys.copy(), lamina.device_get(keys),
                  lamina.block_until_ready(keys), jnp.array(keys)):
        assert_same(again, random.split(RAW))
    assert isinstance(keys, lamina.Array) and lamina.tree.leaves({"k": keys})[0] is keys
    assert repr(KEY) == f"{KEY}" == "Array((), dtype=key<fry>) with key data:\n[0, 3]"
    assert lamina.dtypes.issubdtype(keys.dtype, lamina.dtypes.prng_key)


@pytest.mark.parametrize("wrong", [
    lambda k: k + 1, lambda k: -k, lambda k: k @ k, lambda k: k < k, jnp.sum, jnp.sort, jnp.sin, jnp.max,
    lambda k: k.astype(int), np.asarray,
    lamina.grad(lambda k: random.normal(k[0])), bool, hash])
def test_arithmetic_on_typed_keys_is_refused(wrong):
    with pytest.raises(TypeError, match="key"):
        wrong(random.split(KEY))


def test_checkpoints_of_typed_keys(tmp_path):
    from lamina.experimental import checkpointing
    keys = random.split(random.key(3), 4)
    checkpointing.save(tmp_path, {"keys": keys, "one": random.key(7)})
    types = lamina.eval_shape(lambda: keys)
    for like in (None, np.ndarray, {"keys": keys, "one": lamina.devices()[1]}, {"keys": types, "one": random.key(0)}):
        found = checkpointing.load(tmp_path, like=like)
        assert found["keys"].dtype == keys.dtype and found["one"].shape == ()
        assert random.key_data(found["keys"]).tolist() == random.key_data(keys).tolist()
    for wrong in (jnp.ones(4), random.key(1)):
        with pytest.raises((TypeError, ValueError), match=r"load: tree\['keys'\] (is a key<fry> array|has shape \(4,\))"):
            checkpointing.load(tmp_path, like={"keys": wrong, "one": random.key(0)})


@pytest.mark.parametrize("make", [lambda: random.key(0), lambda: lamina.jit(random.split)(random.key(0)),
                                  lambda: random.wrap_key_data(random.key_data(random.key(0))),
                                  lambda: random.key(0, impl="rbg"), lambda: lamina.eval_shape(random.key, 0)])
def test_scalar_type_of_key_dtypes_is_prng_key(make):
    dtype = make().dtype
    assert dtype.type is lamina.dtypes.prng_key and dtype.type.__name__ == "prng_key"
    assert jnp.issubdtype(dtype, lamina.dtypes.prng_key) and jnp.issubdtype(dtype, lamina.dtypes.extended)
    assert not jnp.issubdtype(dtype, np.number) and dtype.names[0].startswith("key<")
    with pytest.raises(TypeError, match="prng_key: the scalar type of keys has no instances"):
        lamina.dtypes.prng_key()
