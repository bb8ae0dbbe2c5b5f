"""`shard_map` over a mesh of devices of several processes, on arrays over all of them."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `processes`
from processes import run  # noqa: E402

pytestmark = pytest.mark.slow

WHOLE = """
from lamina import grad, jit, lax, shard_map
from lamina.sharding import Mesh, NamedSharding
from lamina.sharding import PartitionSpec as P

devices_of_all = np.array(lamina.devices())
whole = np.arange(32, dtype=np.float32).reshape(8, 4)

def same(got, want):
    for shard in got.addressable_shards:
        assert np.allclose(shard.data, want[shard.index], rtol=1e-5), (shard, want[shard.index])

for grid in (devices_of_all.reshape(2, 2), devices_of_all.reshape(2, 2).T, devices_of_all[[2, 0, 3, 1]].reshape(2, 2)):
    mesh = Mesh(grid, ("x", "y"))
    x = lamina.make_array_from_process_local_data(NamedSharding(mesh, P("x", "y")), whole, whole.shape)
    f = shard_map(lambda v: (v + 10 * lax.axis_index("x") + lax.axis_index("y"), lax.psum(v, ("x", "y")),
                             lax.ppermute(v, "x", [(0, 1), (1, 0)])), mesh, P("x", "y"), (P("x", "y"), P(), P("x", "y")))
    offsets = np.kron(np.arange(2)[:, None] * 10 + np.arange(2), np.ones((4, 2)))
    wanted = whole + offsets, whole.reshape(2, 4, 2, 2).sum((0, 2)), np.roll(whole, 4, 0)
    for got, want in zip(f(x), wanted):
        same(got, want)
    assert f(x)[0].sharding == x.sharding and f(x)[1].is_fully_replicated
    for _ in range(5):
        x2 = f(x)[2]
    inside = jit(lambda x: [v * 2 for v in f(x * 0.5 + x * 0.5)])
    for got, want in zip(inside(x), wanted):
        same(got, 2 * want)
    product = shard_map(lambda a, b: lax.psum(a @ b, "y"), mesh, (P("x", "y"), P("y")), P("x"))
    w = np.arange(12, dtype=np.float32).reshape(4, 3)
    gradient = jit(grad(lambda b, x: (product(x, b) ** 2).sum()))(w, x)
    same(gradient, 2 * whole.T @ (whole @ w))
print("done")
"""


def test_shard_map_of_arrays_over_all_processes():
    assert run(WHOLE) == ["done"] * 2
