"""Plans and drawings with devices of several processes."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for `processes`
from processes import run  # noqa: E402

PLANS = """
from lamina import lax
from lamina.experimental.maps import Mesh, xmap
from lamina.sharding import NamedSharding, PartitionSpec as P, visualize

mesh = Mesh(np.array(lamina.devices()).reshape(2, 2).T, ("x", "y"))  # each process has a column
ids = [d.id for d in lamina.local_devices()]
f = xmap(lambda v, w: lax.psum(v * w, ("b", "i")), (["b", "i"], ["i"]), {}, axis_resources={"b": "y", "i": "x"})
with mesh:
    lowered = f.lower(np.ones((3, 4), np.float32), np.ones(4, np.float32))
for plan in lowered.plan(), lowered.compile().plan():
    assert [(a.name, a.size, a.devices, a.vector_size) for a in plan.axes] == [("b", 6, 2, 3), ("i", 4, 2, 2)]
    assert [(c.op, set(c.axes), c.kind, c.mesh_axes) for c in plan.collectives] == [
        ("psum", {"b", "i"}, "all-reduce", ("x", "y"))], plan.collectives
    v, w = plan.arguments
    assert (v.shard_shape, v.split, v.replicated_axes, w.split) == ((3, 2), ((), ("x",)), (), (("x",),))
    assert {b: [d.id for d in ds] for b, ds in v.blocks().items()} == {
        ((0, 3), (0, 2)): ids[:1], ((0, 3), (2, 4)): ids[1:]}
    assert "arguments of this process" in str(plan) and "results of this process" in plan.svg()
    assert "cpu:0 of process 0" in str(plan) and " of process 1" in str(plan)
plan = lamina.pmap(lambda v: lax.psum(v, "r"), axis_name="r").lower(np.ones((2, 3))).plan()
assert plan.mesh.shape == {"r": 4} and plan.arguments[0].split == (("r",), ()) and plan.collectives[0].mesh_axes == ("r",)

x = lamina.make_array_from_process_local_data(NamedSharding(mesh, P("x", "y")), np.ones((2, 2)), (2, 2))
text = str(visualize(x))
assert all(str(d.id) in text for d in lamina.devices()), text
assert all(str(d.id) in str(visualize(lamina.pmap(lambda v: v)(np.ones(2)))) for d in lamina.local_devices())
plan = lamina.jit(lambda v: (v * v).sum()).lower(x).compile().plan()
assert {c.mesh_axes for c in plan.collectives} <= {("x",), ("y",), ("x", "y")} and plan.arguments[0].split == (("x",), ("y",))
print("ok")
"""


def test_plans_over_two_processes():
    assert run(PLANS) == ["ok", "ok"]
