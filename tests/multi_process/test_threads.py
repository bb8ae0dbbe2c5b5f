"""Sixteen threads launch programs on eight devices and on one, compile, reshard and donate at random; no thread hangs."""
import random
import threading

import lamina
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax
from lamina.sharding import NamedSharding
from lamina.sharding import PartitionSpec as P

pytestmark = pytest.mark.devices
HOST = np.arange(32, dtype=np.float32).reshape(8, 4)


def make_operations():
    """Return name -> a function that runs some programs and returns (result, expected)."""
    mesh = lamina.make_mesh((8,), ("i",))
    rows, everywhere = NamedSharding(mesh, P("i")), NamedSharding(mesh, P())
    x, small = lamina.device_put(HOST, rows), jnp.ones(3)
    psum = lamina.pmap(lambda x: lax.psum(x, "i"), axis_name="i")
    local = lamina.shard_map(lambda x: lax.psum(x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P())
    repeated = {"pmap": lamina.pmap(lambda x: x * 2), "psum": psum, "add": lamina.jit(lambda x: x + 1),
                "eager": lambda x: x * 3, "sum": lamina.jit(lambda x: x.sum(0)), "eager sum": lambda x: jnp.sum(x, 0),
                "shard_map": lamina.jit(local)}
    expected = {"pmap": HOST * 2, "psum": np.tile(HOST.sum(0), (8, 1)), "add": HOST + 1, "eager": HOST * 3,
                "sum": HOST.sum(0), "eager sum": HOST.sum(0), "shard_map": HOST.sum(0, keepdims=True)}
    donating, one_device = lamina.jit(lambda x: x + 1, donate_argnums=0), lamina.jit(lambda x: x * 3)

    def repeat(name):
        for _ in range(20):
            y = repeated[name](x)
        return y, expected[name]

    def donate():
        y = lamina.device_put(HOST, rows) + 0
        for _ in range(5):
            y = donating(y)
        return y, HOST + 5

    def run_new(k):
        return lamina.jit(lambda x: x * k + x.sum())(x), HOST * k + HOST.sum()

    def map_new(k):
        return lamina.pmap(lambda x: lax.psum(x * k, "i"), axis_name="i")(x), np.tile(HOST.sum(0) * k, (8, 1))

    return {**{name: lambda k, name=name: repeat(name) for name in repeated}, "donate": lambda k: donate(),
            "reshard": lambda k: (lamina.device_put(x, everywhere), HOST), "new": run_new, "new map": map_new,
            "gradient": lambda k: (lamina.grad(lambda x: psum(x).sum())(x), np.full((8, 4), 8)),
            "index": lambda k: (x[3], HOST[3]), "one device": lambda k: (one_device(small), [3, 3, 3])}


def test_threads_launch_anything_at_once():
    operations, mistakes = make_operations(), []

    def work(seed):
        draw = random.Random(seed)
        for _ in range(20):
            name = draw.choice([*operations])
            try:
                got, want = operations[name](draw.randrange(1, 40))
                if not np.array_equal(got, want):
                    mistakes.append(name)
            except Exception as e:
                mistakes.append(f"{name}: {e!r}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not mistakes
