"""`.lower(...).plan()`: shardings and communication, compared with the compiled program and its arrays."""
import collections
import re
import xml.etree.ElementTree as ElementTree

import lamina as jax
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax
from lamina.experimental.maps import Mesh, SerialLoop, xmap
from lamina.sharding import NamedSharding, PartitionSpec as P

DEVICES = np.array(jax.devices()[:8], object).reshape(4, 2)
MESH = Mesh(DEVICES, ("x", "y"))
X = np.linspace(-1, 1, 64, dtype=np.float32).reshape(16, 4)
SVG = "{http://www.w3.org/2000/svg}"


def regression(x, y, w):
    return jnp.mean((jnp.einsum("{i},{i}->{}", x, w) - y) ** 2, axis="b")


def mlp(ws, x, y):
    hidden = jnp.tanh(jnp.einsum("{i},{i}->{}", x, ws[0]))
    return jnp.mean((jnp.einsum("{h},{h}->{}", hidden, ws[1]) - y) ** 2, axis=("b", "o"))


def attention(q, k, v):
    s = jnp.vdot(q, k)
    e = jnp.exp(s - jnp.max(s, axis="k"))
    return jnp.sum(e / jnp.sum(e, axis="k") * v, axis="k")


def means(p, c):
    mine = jnp.argmin(jnp.sum((p - c) ** 2), axis="k") == lax.axis_index("k")
    return jnp.sum(jnp.where(mine, p, 0), axis="n") / jnp.maximum(jnp.sum(mine, axis="n"), 1)


def shifted(x):
    return (lax.ppermute(x, "b", [(i, (i + 1) % 16) for i in range(16)]), lax.all_gather(x, "b"),
            lax.psum_scatter(jnp.ones((16, 1)) * x, "b"))


def over(f, ins, outs, **resources):
    return xmap(f, ins, outs, axis_resources=resources)


WS = np.ones((4, 8), np.float32), np.ones((8, 2), np.float32)
PRODUCT = over(jnp.vdot, ({0: "l"}, {1: "r"}), ["l", "r"], l="x", r="y"), X, X.T
REGRESSION = over(regression, (["b", "i"], ["b"], ["i"]), {}, b="x", i="y"), X, X[:, 0], X[0]
MLP = over(mlp, ((["i", "h"], ["h", "o"]), ["b", "i"], ["b", "o"]), {}, b="x", h="y"), WS, X, X[:, :2]
ATTENTION = over(attention, (["q", ...], ["k", ...], ["k", ...]), ["q", ...], q="x", k="y"), X, X, X
MEANS = over(means, (["n", ...], ["k", ...]), ["k", ...], n="x", k="y"), X, X[:4]
SHIFTED = over(shifted, ["b", ...], ["b", ...], b="x"), X
# primitive, axes, collective, mesh axes, bytes per device: floats of 4 bytes, times the members per device
EXPECTED = {
    "product": (PRODUCT, []),
    "regression": (REGRESSION, [("psum", "i", "all-reduce", "y", 4 * 4), ("psum", "b", "all-reduce", "x", 4)]),
    "mlp": (MLP, [("psum", "h", "all-reduce", "y", 4 * 4 * 2), ("psum", "b o", "all-reduce", "x", 4)]),
    "attention": (ATTENTION, [("pmax", "k", "all-reduce", "y", 4 * 4), ("psum", "k", "all-reduce", "y", 4 * 4),
                              ("psum", "k", "all-reduce", "y", 4 * 4 * 4)]),
    "means": (MEANS, [("pmin", "k", "all-reduce", "y", 4 * 4)] * 2 + [("psum", "n", "all-reduce", "x", 4 * 2 * 4),
                                                                      ("psum", "n", "all-reduce", "x", 4 * 2)]),
    # one of four members goes to the next device; each device receives its part of gathered and scattered values once
    "shifted": (SHIFTED, [("ppermute", "b", "collective-permute", "x", 4 * 4), ("all_gather", "b", "all-gather", "x", 4 * 16),
                          ("psum_scatter", "b", "reduce-scatter", "x", 4 * 16 * 4)]),
}


def count_collectives(plan):
    return collections.Counter([(c.op, " ".join(c.axes), c.kind, " ".join(c.mesh_axes), c.instruction.operand_bytes) for c in
                                plan.collectives if c.instruction])


@pytest.mark.parametrize("name", EXPECTED)
def test_planned_collectives_are_in_the_compiled_program(name):
    (f, *args), expected = EXPECTED[name]
    with MESH:
        lowered = f.lower(*args)
        compiled = lowered.compile()
    plan, after = lowered.plan(), compiled.plan()
    assert count_collectives(plan) == count_collectives(after) == collections.Counter(expected)
    kinds = "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute"
    assert collections.Counter(re.findall(rf" ({kinds})(?:-start)?\(", compiled.as_text())) == collections.Counter(
        [kind for _, _, kind, _, _ in expected])
    assert plan.complete and all(c.instruction[3:6] == (1, False, False) for c in plan.collectives if c.instruction)
    assert all("test_plans.py:" in c.line for c in (*plan.collectives, *after.collectives))
    if name == "mlp":
        within, = [c for c in plan.collectives if c.kind == "within"]
        assert (within.op, within.axes, within.bytes_sent) == ("psum", ("i",), 0)


@pytest.mark.parametrize("name", EXPECTED)
def test_arrays_have_the_planned_shardings(name):
    f, *args = EXPECTED[name][0]
    with MESH:
        compiled = f.lower(*args).compile()
        out = compiled(*args)
    after = compiled.plan()
    for array, x in zip(after.results, jax.tree.leaves(out)):
        held = {d: block for block, devices in array.blocks().items() for d in devices}
        for shard in x.addressable_shards:
            assert held[shard.device] == tuple([i.indices(n)[:2] for i, n in zip(shard.index, x.shape)])
            assert array.shard_shape == shard.data.shape and array.shard_bytes == shard.data.nbytes
    report = compiled.memory_analysis()
    assert after.memory.arguments == report.argument_size_in_bytes == sum(a.shard_bytes for a in after.arguments)
    assert after.memory.temporaries == report.temp_size_in_bytes and not after.memory.is_estimated


def test_plan_as_text():
    f, *args = REGRESSION
    with MESH:
        plan = f.lower(*args).plan()
    line = regression.__code__.co_firstlineno + 1
    assert str(plan) == repr(plan) == f"""\
xmap of `regression`, on 8 devices: Mesh('x': 4, 'y': 2), row-major cpu:0-7

axes
  'b'  16  = 4 devices along 'x' x 4 vectorized  (xmap of `regression`)
  'i'  4   = 2 devices along 'y' x 2 vectorized  (xmap of `regression`)

arguments
  x  float32[16,4]  256 B  float32[4,2] per device  dimension 0 split over 'x', dimension 1 split over 'y'
  y  float32[16]    64 B   float32[4] per device    dimension 0 split over 'x'; replicated over 'y'
  w  float32[4]     16 B   float32[2] per device    dimension 0 split over 'y'; replicated over 'x'

results
  output  float32[]  4 B  replicated

collectives
  psum over 'i'  all-reduce over 'y' of 16 B  sends 16 B  {__file__}:{line} (regression)
  psum over 'b'  all-reduce over 'x' of 4 B   sends 6 B   {__file__}:{line} (regression)
  each device sends 22 B in total

memory per device: {60 + plan.memory.temporaries} B, estimated: arguments 56 B + results 4 B + temporaries \
{plan.memory.temporaries} B"""
    assert [(a.name, a.size, a.mesh_axes, a.devices, a.vector_size) for a in plan.axes] == [
        ("b", 16, ("x",), 4, 4), ("i", 4, ("y",), 2, 2)]
    assert plan.bytes_sent == 22 and plan.arguments[1].split == (("x",),) and plan.arguments[1].replicated_axes == ("y",)


def test_plan_drawing_names_every_block():
    f, *args = ATTENTION
    with MESH:
        plan = f.lower(*args).plan()
    texts = [t.text for t in ElementTree.fromstring(plan.svg()).iter(f"{SVG}text")]
    for array in (*plan.arguments, *plan.results):
        assert array.name in texts
        for block in array.blocks():
            assert "[" + ", ".join(f"{a}:{b}" for a, b in block) + "]" in texts
    assert plan.svg() in plan.html() and "psum over 'k'" in plan.html() and "psum over" in plan._repr_html_()


def test_compiled_plan_has_collectives_of_the_compiler():
    x = jax.device_put(X, NamedSharding(MESH, P("x", "y")))
    lowered = jax.jit(lambda x: jnp.sin(x).sum(1)).lower(x)
    plan = lowered.plan()
    assert not plan.complete and not plan.collectives and plan.memory is None
    assert plan.results[0].tiles is None and plan.results[0].shard_shape is None and not plan.results[0].blocks()
    assert "collectives: none in the program itself" in str(plan) and "chosen by the compiler" in str(plan)
    after = lowered.compile().plan()
    entry, = after.collectives
    assert (entry.kind, entry.mesh_axes, entry.instruction.operand_bytes, entry.bytes_sent) == ("all-reduce", ("y",), 16, 16)
    assert after.complete and after.results[0].split == (("x",),) and after.memory.arguments == 32


def test_plan_of_loops_and_derivatives():
    f, *args = REGRESSION
    x, y, w = args

    def steps(w):
        return lax.fori_loop(0, 5, lambda i, w: w - jax.grad(f, 2)(x, y, w), w)

    with MESH:
        plan = jax.jit(steps).lower(w).plan()
    assert {c.instruction.executions for c in plan.collectives if c.instruction} == {5} and not plan.complete
    assert "5 times" in str(plan) and "backward" in str(plan)
    assert any(c.axes == ("b",) and "backward" in c.line for c in plan.collectives)


def test_plans_of_pmap_and_shard_map():
    rows = jax.pmap(lambda x: lax.psum(x, "i"), axis_name="i")
    blocks = jax.shard_map(lambda x: lax.psum(x, ("y", "x")), mesh=MESH, in_specs=P("x", "y"), out_specs=P())
    for f, names, spread in ((rows, ("i",), ("i",)), (blocks, ("x", "y"), ("x", "y"))):
        x = X[:8]
        for how in (f, jax.jit(lambda x, f=f: f(x) * 2)):
            for stage in (how.lower(x), how.lower(x).compile()):
                plan = stage.plan()
                entry, = plan.collectives
                assert (entry.op, {*entry.axes}, entry.mesh_axes, entry.kind) == ("psum", {*names}, spread, "all-reduce")
                assert plan.arguments[0].shard_bytes == 16 and tuple(plan.mesh.shape) == names
    plan = jax.pmap(lambda x: x + 1).lower(X[:8]).plan()
    assert plan.axes[0].name == "rows" and not plan.collectives
    plan = jax.jit(jnp.sin).lower(X).plan()
    assert plan.mesh.size == 1 and "on cpu:0" in str(plan) and plan.memory.peak == 512


def test_many_arguments_are_summarized():
    def f(params):
        return sum([w.sum() + b for w, b in params])

    params = [(np.ones((4, 2)), np.ones(()))] * 40
    text = str(jax.jit(f).lower(params).plan())
    assert "params[0][0] and 39 more" in text and "params[0][1] and 39 more" in text and len(text.splitlines()) < 20
    many = {f"w{i}": np.ones(i + 1) for i in range(40)}
    assert "... and 24 more" in str(jax.jit(lambda p: p["w0"]).lower(many).plan())


def test_plan_counts_donated_memory_once():
    plan = jax.jit(lambda x: x * 2, donate_argnums=0).lower(X).plan()
    assert plan.memory.peak == X.nbytes == plan.memory.aliased


def test_plan_of_serial_axes():
    f = over(attention, (["q", ...], ["k", ...], ["k", ...]), ["q", ...], q=SerialLoop(2), k=("y", SerialLoop(4)))
    with MESH:
        plan = f.lower(X, X, X).plan()
        after = jax.jit(jax.grad(lambda q: f(q, X, X).sum())).lower(X).compile().plan()
    assert [(a.name, a.devices, a.iterations, a.vector_size) for a in plan.axes] == [("q", 1, 2, 8), ("k", 2, 4, 2)]
    # The results of all q are stored, 8 run at once. Carries: the maximum, the sum of exponentials, the weighted sum.
    assert [(p.name, p.iterations, p.carry_bytes) for p in plan.phases] == [
        ("phase 0", (2,), 0), ("phase 0", (2, 4), 4 * 8), ("phase 1", (2, 4), 4 * 8), ("phase 2", (2, 4), 4 * 8 * 4)]
    assert plan.phases[0].output_bytes == 4 * 4 * 16 and plan.phases[-1].output_bytes == 0
    first = attention.__code__.co_firstlineno
    assert all(1 <= int(p.line.split(":")[-1].split()[0]) - first <= 3 for p in plan.phases)
    assert [(c.op, c.axes, c.instruction.operand_bytes, c.instruction.executions, int(c.line.split(":")[-1].split()[0]) - first)
            for c in plan.collectives if c.instruction] == [
        ("pmax", ("k",), 4 * 8, 2, 2), ("psum", ("k",), 4 * 8, 2, 3), ("psum", ("k",), 4 * 8 * 4, 2, 3)]
    assert "phase 1  4 iterations, in each of 2 iterations  carries 32 B " in str(plan)
    assert "4 iterations x 2 vectorized" in str(plan)
    assert len(after.phases) > 3 and after.axes == plan.axes


def test_plan_of_one_device_axes_and_groups():
    mesh = Mesh(DEVICES[:, :, None], ("x", "y", "z"))
    with mesh:
        plan = over(lambda x: lax.psum(x, ("b", "c")), ["b", "c"], {}, b=("x", "z")).lower(X).plan()
        alone = over(lambda x: lax.psum(x, "b"), ["b", ...], {}, b="z").lower(X).plan()
    assert [(c.axes, c.mesh_axes) for c in plan.collectives] == [(("b", "c"), ("x",))]
    assert [(c.axes, c.kind) for c in alone.collectives] == [(("b",), "within")]
    uneven = [[0, 1, 2], [3, 4, 5, 6, 7]]
    entry, = jax.pmap(lambda x: lax.psum(x, "i", axis_index_groups=uneven), axis_name="i").lower(X[:8]).plan().collectives
    assert (entry.axes, entry.mesh_axes, entry.bytes_sent) == (("i",), None, -(-2 * 4 * 16 // 5))
    assert "in groups of 5" in str(entry)


def test_plan_of_branches_and_unrolled_loops():
    def f(x):
        x = lax.cond(lax.pmax(x.sum(), "i") > 3, lambda c: lax.pmin(c, "i"), lambda c: c, x)
        return lax.scan(lambda c, _: (lax.psum(c, "i") / 8, None), x, None, length=7, unroll=2)[0]

    plan = jax.pmap(f, axis_name="i").lower(X[:8]).plan()
    assert collections.Counter([(c.op, c.instruction.executions, c.instruction.in_branch) for c in plan.collectives]) == {
        ("pmax", 1, False): 1, ("pmin", 1, True): 1, ("psum", 3, False): 2, ("psum", 1, False): 1}
    assert "if the branch is taken" in str(plan) and "3 times" in str(plan)


def test_plan_argument_names():
    plan = jax.jit(lambda x, *more, y: x["a"][1] + more[0] + y).lower({"a": (1., 2.)}, 3., y=4.).plan()
    assert [(a.name, a.is_used) for a in plan.arguments] == [
        ("x['a'][0]", False), ("x['a'][1]", True), ("args[1]", True), ("y", True)]
    assert [a.name for a in jax.jit(lambda x: {"b": (x, x)}).lower(1.).plan().results] == ["output['b'][0]", "output['b'][1]"]


def test_plan_of_too_deeply_nested_program_is_refused():
    def f(x):
        return lax.psum(x, "i")

    for _ in range(140):
        f = (lambda g: lambda x: lax.cond(lax.pmax(x.sum(), "i") > 0, g, lambda x: x, x))(f)
    with pytest.raises(RecursionError, match="levels deep"):
        jax.pmap(f, axis_name="i").lower(X[:8]).plan()
