"""Meshes over the devices of several processes."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `processes`
from processes import run  # noqa: E402

pytestmark = pytest.mark.slow

MESHES = """
from lamina import jit, lax
from lamina.experimental import mesh_utils, multihost_utils
from lamina.experimental.pjit import pjit
from lamina.sharding import Mesh, NamedSharding, PartitionSpec as P
import lamina.numpy as jnp
import pickle

every = lamina.devices()
host = np.arange(64, dtype=np.float32).reshape(8, 8)
grids = {"rows": np.reshape(every, (2, 2)), "across": np.reshape(every, (2, 2)).T, "back": np.reshape(every[::-1], (2, 2))}

def holds(x, want):
    assert x.shape == want.shape
    for s in x.addressable_shards:
        assert s.device in lamina.local_devices()
        np.testing.assert_allclose(s.data, want[s.index], rtol=1e-5)

for name, grid in grids.items():
    mesh = Mesh(grid, ("x", "y"))
    assert mesh.is_multi_process and mesh.local_devices == [d for d in grid.reshape(-1) if d.process_index == rank]
    local = mesh.local_mesh
    assert not local.is_multi_process and local.shape == ({"x": 2, "y": 1} if name == "across" else {"x": 1, "y": 2}), local
    assert pickle.loads(pickle.dumps(mesh)) == mesh
    for spec in (P("x", "y"), P("y"), P(None, ("x", "y")), P(("y", "x")), P()):
        sharding = NamedSharding(mesh, spec)
        x = lamina.make_array_from_callback(host.shape, sharding, lambda index: host[index])
        assert not x.is_fully_addressable and x.sharding == sharding and x.sharding.spec == spec and x.sharding.mesh == mesh
        holds(x, host)
        held = sharding.addressable_devices_indices_map(host.shape)
        assert {*held} == {*lamina.local_devices()}
        for _ in range(2):
            y = jit(lambda a: (a * 2 + a.sum(0)).T)(x)
            holds(y, (host * 2 + host.sum(0)).T)
            assert y.sharding.mesh == mesh
        z = jit(lambda a: lax.with_sharding_constraint(a @ a.T, NamedSharding(mesh, P("y"))))(x)
        assert z.sharding.spec == P("y")
        holds(z, host @ host.T)
        with mesh:
            w = pjit(lambda a: a + 1, out_axis_resources=P("x"))(x)
        assert w.sharding == NamedSharding(mesh, P("x"))
        holds(w, host + 1)
        holds(lamina.device_put(host, sharding), host)  # the same value in each process
    # Each process gives the shards of its devices.
    parts = NamedSharding(mesh, P("x", "y"))
    index = parts.addressable_devices_indices_map(host.shape).values()
    box = tuple(slice(min(i[d].start or 0 for i in index), max(8 if i[d].stop is None else i[d].stop for i in index))
                for d in range(2))
    x = lamina.make_array_from_process_local_data(parts, host[box])
    assert x.shape == (8, 8) and x.sharding.spec == P("x", "y")
    holds(x, host)
    part = multihost_utils.global_array_to_host_local_array(x, mesh, P("x", "y"))
    np.testing.assert_array_equal(part, host[box])
    holds(multihost_utils.host_local_array_to_global_array(part, mesh, P("x", "y")), host)

odd = Mesh(np.array([every[i] for i in (0, 2, 3, 1)]).reshape(2, 2), ("x", "y"))  # local devices are no block
try:
    odd.local_mesh
except ValueError as e:
    assert "do not form a block of Mesh" in str(e)
else:
    raise AssertionError
holds(lamina.device_put(host, NamedSharding(odd, P("x", "y"))), host)
grid = mesh_utils.create_hybrid_device_mesh((2, 1), (1, 2), process_is_granule=True)
assert [[d.process_index for d in row] for row in grid] == [[0, 1], [0, 1]]
own = Mesh(lamina.local_devices(), "i")
assert own.local_mesh is own and jit(lambda a: a * 2)(lamina.device_put(host, NamedSharding(own, P("i")))).sharding.mesh == own

# A training step: the batch is sharded over the processes, the weights over the devices of each.
mesh = Mesh(np.reshape(every, (2, 2)), ("data", "model"))
w = lamina.device_put(host[:, :4] / 64, NamedSharding(mesh, P(None, "model")))
step = jit(lambda w, x: w - 0.1 * lamina.grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w), donate_argnums=0)
want = host[:, :4] / 64
rng = np.random.default_rng(0)
for i in range(4):
    batch = rng.normal(size=(8, 8)).astype(np.float32)
    x = lamina.make_array_from_process_local_data(NamedSharding(mesh, P("data")), batch[4 * rank:4 * rank + 4])
    w = step(w, x)
    t = np.tanh(batch @ want)
    want = want - 0.1 * batch.T @ (2 * t * (1 - t * t) / t.size)
    assert w.sharding.spec == P(None, "model")
holds(w, want)
print("well")
"""


def test_meshes_over_two_processes():
    assert run(MESHES) == ["well", "well"]
