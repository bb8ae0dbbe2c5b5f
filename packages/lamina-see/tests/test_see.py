"""`see`: the facts of a report agree with each other, with XLA's reports and with the schema."""
import json
import os
from pathlib import Path

import lamina_runtime
import lamina_see
import numpy as np
import pytest
from lamina_autodiff import checkpoint, checkpoint_name, grad
from lamina_batching import vmap
from lamina_parallel import Mesh, PartitionSpec, pmap, shard_map, xmap
from lamina_see import Report, ReportError, load, see
from lamina_tracing import jit, lax
import lamina_numpy as jnp
import lamina_random as random

from . import see_model as model

SCHEMA = json.loads((Path(lamina_see.__file__).parent / "schema.json").read_text(encoding="utf-8"))


def check(value, schema, path="report"):
    """Check a value against the part of JSON Schema that the file uses."""
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool,
             "null": type(None)}
    if "const" in schema:
        assert value == schema["const"], path
    if "enum" in schema:
        assert value in schema["enum"], (path, value)
    if "type" in schema:
        names = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        assert any(isinstance(value, kinds[name]) and (name == "boolean" or not isinstance(value, bool)) for name in names), (
            path, value)
    if isinstance(value, dict) and "properties" in schema:
        assert value.keys() == schema["properties"].keys(), path
        for name, part in schema["properties"].items():
            check(value[name], part, f"{path}.{name}")
    if isinstance(value, list) and "items" in schema:
        for i, part in enumerate(value):
            check(part, schema["items"], f"{path}[{i}]")


@pytest.fixture(scope="module")
def report():
    weights, x = lamina_runtime.device_put(model.arguments())
    return see(jit(model.step))(weights, x)


@pytest.fixture(scope="module")
def facts(report):
    return report.json()


def at(facts, mark):
    [f] = facts["functions"]
    [row] = [row for row in f["lines"] if row["line"] == model.line_of(mark)
             and facts["sources"][row["source"]]["file"] == model.__file__]
    return row


def test_report_follows_the_schema(facts):
    check(facts, SCHEMA)
    assert json.loads(json.dumps(facts)) == facts


def test_lines_and_rest_sum_to_the_step(facts):
    step = facts["functions"][0]["step"]
    lines = sum(row[f"time_{phase}"] for row in facts["functions"][0]["lines"]
                for phase in ("forward", "backward", "recomputed"))
    assert abs(lines + sum(row["time"] for row in step["rest"]) - step["time"]) < 0.01 * step["time"]
    assert step["attributed"] > 0.85  # 0.95 and more on a machine that does nothing else
    assert abs(sum(row["share"] for row in facts["functions"][0]["lines"]) - step["attributed"]) < 0.01


def test_time_of_a_line_is_split_by_phase(facts):
    row = at(facts, "LAYER")
    assert min(row["time_forward"], row["time_backward"], row["time_recomputed"]) > 0
    assert row["share"] > 0.5
    phases = {e["phase"] for e in facts["functions"][0]["equations"] if e["line"] == model.line_of("LAYER")}
    assert phases == {"forward", "backward", "recomputed"}


def test_flops_of_a_line_count_each_execution(facts):
    products = [e for e in facts["functions"][0]["equations"] if e["primitive"] == "dot_general"]
    assert sum(e["flops"] for e in products) >= 3 * 3 * 2 * model.SIZE ** 3 - 3 * 3 * model.SIZE ** 2
    assert at(facts, "LAYER")["flops"] >= sum(e["flops"] for e in products)


def test_equations_link_to_instructions_scopes_and_values(facts):
    f = facts["functions"][0]
    assert f["scopes"][0] == {"name": "step", "parent": None, "repeated": 1}
    assert "layer" in {s["name"] for s in f["scopes"]}
    for e in f["equations"]:
        assert e["scope"] < len(f["scopes"])
        assert all(k < len(f["values"]) for k in (*e["operands"], *e["results"]))
        assert all(k < len(f["memory"]["instructions"]) for k in e["instruction"])
    assert [f["values"][k]["name"] for k in f["arguments"]] == ["weights[0]", "weights[1]", "weights[2]", "x"]
    assert len(f["results"]) == 4


def test_arguments_and_compilations_have_the_line_of_the_call(facts):
    [row] = [c for c in facts["compilations"] if c["function"] == "step"]
    assert (row["kind"], row["reason"], row["memory_cache"]) == ("jit", "first call of this function", "miss")
    assert min(row["trace"], row["lower"], row["xla"]) > 0
    assert facts["sources"][row["source"]]["file"] == __file__


PROGRAMS = {
    "step": (jit(model.step), model.arguments),
    "donated": (jit(model.step, donate_argnums=0), model.arguments),
    "loop": (jit(grad(lambda x: model.loop(x)[0].sum())), lambda: (np.full((20, 40, 40), 0.01, np.float32),)),
    "while": (jit(lambda x: lax.while_loop(lambda c: c[0] < 9, lambda c: (c[0] + 1, jnp.sin(c[1]) @ c[1].T @ c[1]), (0, x))),
              lambda: (np.ones((60, 90), np.float32),)),
    "cond": (jit(lambda p, x: lax.cond(p > 0, lambda x: (x @ x).sum(), lambda x: jnp.sort(x, 0).sum(), x)),
             lambda: (1, np.ones((80, 80), np.float32))),
    "factorization": (jit(lambda x: (jnp.linalg.svd(x), jnp.fft.fft(x))), lambda: (np.eye(40, dtype=np.float32),)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_peak_is_within_a_tenth_of_xlas_report(name):
    fun, make = PROGRAMS[name]
    memory = see(fun, seconds=0)(*make()).json()["functions"][0]["memory"]
    assert abs(memory["peak"] - memory["xla_peak"]) <= 0.1 * memory["xla_peak"]
    live = [sum(b["bytes"] for b in memory["buffers"] if b["first"] <= k <= b["last"])
            for k in range(len(memory["instructions"]))]
    assert live == [i["live"] for i in memory["instructions"]]
    assert memory["peak"] == max(live) == live[memory["peak_at"]]


def test_savings_are_those_of_the_compiled_variant():
    def f(x):
        return x * 2

    x = np.ones((50, 40), np.float32)
    [row] = see(f, seconds=0)(x).json()["functions"][0]["memory"]["savings"]
    assert (row["kind"], row["what"], row["bytes"]) == ("donate", "x", 8000)
    donated = see(jit(f, donate_argnums=0), seconds=0)(lamina_runtime.device_put(x)).json()["functions"][0]["memory"]
    assert donated["savings"] == [] and donated["xla_peak"] == 8000


def test_checkpoint_that_saves_memory_is_found():
    def layer(w, x):
        h = x @ w
        return jnp.exp(jnp.tanh(jnp.sin(h)) * 0.1)

    def total(w, x):
        for _ in range(8):
            x = layer(w, x)
        return x.sum()

    args = np.full((64, 64), 0.01, np.float32), np.ones((2048, 64), np.float32)
    rows = see(grad(total), seconds=0, savings=True)(*args).json()["functions"][0]["memory"]["savings"]
    [row] = [row for row in rows if row["kind"] == "checkpoint"]
    assert row["what"] == "layer" and row["bytes"] > 2_000_000


def test_chunks_that_save_memory_are_those_of_the_compiled_loop():
    points, x = np.ones((300, 3), np.float32), np.ones((4000, 3), np.float32)

    def nearest(row):
        return jnp.sort(jnp.square(row - points).sum(-1))[0]

    facts = see(vmap(nearest), seconds=0)(x).json()
    check(facts, SCHEMA)
    memory = facts["functions"][0]["memory"]
    [row] = memory["savings"]
    assert (row["kind"], row["what"]) == ("chunk", "axis of size 4,000") and "batch_size=500" in row["how"]
    loop = see(lambda x: lax.map(nearest, x, batch_size=500), seconds=0, savings=False)(x).json()["functions"][0]["memory"]
    assert abs(memory["xla_peak"] - row["bytes"] - loop["xla_peak"]) < 0.1 * memory["xla_peak"]


def test_placement_that_saves_memory_is_that_of_the_compiled_program():
    mesh = Mesh(np.array(lamina_runtime.devices()[:4]).reshape(2, 2), ("a", "b"))

    def put(w, *spec):
        return lamina_runtime.device_put(w, lamina_runtime.NamedSharding(mesh, PartitionSpec(*spec)))

    def memory(w):
        return see(lambda w: jnp.sort(w, axis=0).sum(), seconds=0)(w).json()["functions"][0]["memory"]

    whole = memory(put(np.ones((400, 200), np.float32)))
    [row] = whole["savings"]
    assert (row["kind"], row["what"]) == ("placement", "w") and "P(None, ('a', 'b'))" in row["how"]
    split = memory(put(np.ones((400, 200), np.float32), None, ("a", "b")))
    assert whole["xla_peak"] - row["bytes"] == split["xla_peak"]


def test_chunks_of_rows_that_are_not_independent_are_a_problem():
    x = np.ones((400, 3), np.float32)
    facts = see(lambda x: jnp.sort(jnp.exp(x @ x[:50].T), axis=0)[:, 0], seconds=0)(x).json()
    assert all(row["kind"] != "chunk" for row in facts["functions"][0]["memory"]["savings"])
    assert any("computing the axis of size 400 in parts would save is unknown, because" in text for text in facts["problems"])


def test_donated_arguments_stay_valid():
    x = lamina_runtime.device_put(np.ones(8, np.float32))
    facts = see(jit(lambda x: x + 1, donate_argnums=0), seconds=0)(x).json()
    assert not x.is_deleted() and facts["functions"][0]["donated"] == [0]


def test_maps_have_collectives_and_placements():
    mesh = Mesh(np.array(lamina_runtime.devices()[:4]).reshape(2, 2), ("x", "y"))
    mapped = shard_map(lambda a: lax.psum(jnp.sin(a), "x"), mesh=mesh, in_specs=PartitionSpec("x"), out_specs=PartitionSpec())
    facts = see(mapped, seconds=0)(np.ones((4, 8), np.float32)).json()
    check(facts, SCHEMA)
    [f] = facts["functions"]
    assert f["kind"] == "shard_map"
    [move] = f["collectives"]
    assert (move["kind"], move["axis"], move["bytes"], move["devices"]) == ("all-reduce", "x", 64, 2)
    [argument, result] = f["placements"]
    assert {block["device"] for block in argument["blocks"]} == {0, 1, 2, 3}
    assert {str(block["slices"]) for block in argument["blocks"]} == {"[[0, 2], [0, 8]]", "[[2, 4], [0, 8]]"}
    assert result["role"] == "result" and f["values"][f["arguments"][0]]["sharding"] == argument["sharding"]
    assert facts["meshes"] == [{"axes": [{"name": "x", "size": 2}, {"name": "y", "size": 2}], "devices": [[0, 1], [2, 3]]}]


def named_placements(fun, *args):
    facts = see(fun, seconds=0, savings=False)(*args).json()
    check(facts, SCHEMA)
    [f] = facts["functions"]
    return {p["name"]: p for p in f["placements"] if p["role"] == "named"}, f, facts


def test_named_values_have_placements():
    mesh = Mesh(np.array(lamina_runtime.devices()[:4]), ("i",))
    x = lamina_runtime.device_put(np.ones((16, 8), np.float32), lamina_runtime.NamedSharding(mesh, PartitionSpec("i")))

    def loss(w, x):
        h = checkpoint_name(jnp.tanh(x @ w), "h")
        _, steps = lax.scan(lambda c, _: (c, jnp.sum(checkpoint_name(c * h, "step") ** 2)), h, None, length=3)
        return (h * checkpoint_name(h.sum(0), "total")).sum() + steps.sum()

    named, f, facts = named_placements(grad(checkpoint(loss)), np.ones((8, 8), np.float32), x)
    assert {name.removesuffix(" (recomputed)") for name in named} >= {"h", "total", "step"} and facts["problems"] == []
    h = next(p for name, p in named.items() if name.startswith("h"))
    assert h["sharding"] == "dimension 0 split over 'i'"
    assert [b["slices"] for b in h["blocks"]] == [[[4 * k, 4 * k + 4], [0, 8]] for k in range(4)]
    assert f["values"][h["value"]]["sharding"] == h["sharding"]
    assert next(p for name, p in named.items() if name.startswith("total"))["sharding"] == "replicated"
    assert any(b["type"] == "float32[4,8]" and b["kind"] == "temporary" for b in f["memory"]["buffers"])


def test_value_that_is_named_in_a_map_has_a_block_for_each_member():
    mesh = Mesh(np.array(lamina_runtime.devices()[:4]), ("i",))

    def member(a):
        return checkpoint_name(jnp.sin(a), "s")

    mapped = shard_map(member, mesh=mesh, in_specs=PartitionSpec("i"), out_specs=PartitionSpec("i"))
    for fun, x in ((mapped, np.ones(16, np.float32)), (pmap(member), np.ones((4, 4), np.float32))):
        named, f, _ = named_placements(fun, x)
        assert named["s"]["blocks"] == [{"device": k, "slices": [[k, k + 1], [0, 4]]} for k in range(4)]


def test_named_value_without_a_sharding_is_a_problem():
    mesh = Mesh(np.array(lamina_runtime.devices()[:2]), ("i",))
    x = lamina_runtime.device_put(np.ones(8, np.float32), lamina_runtime.NamedSharding(mesh, PartitionSpec("i")))
    named, _, facts = named_placements(
        lambda x: lax.cond(x.sum() > 0, lambda x: checkpoint_name(x * 2, "branch"), lambda x: x, x), x)
    assert named == {} and "named value `branch` is unknown" in facts["problems"][0]


def test_pmap_is_reported_for_all_devices():
    facts = see(pmap(lambda a: lax.psum(a @ a, "i"), axis_name="i"), seconds=0)(np.ones((2, 8, 8), np.float32)).json()
    [f] = facts["functions"]
    [product] = [e for e in f["equations"] if e["primitive"] == "dot_general"]
    assert (f["kind"], product["count"], product["flops"]) == ("pmap", 2, 2 * 2 * 8 * 8 * 8)
    assert {row["device"] for row in facts["timeline"]} <= {0, 1}


def test_first_nan_has_its_line_and_the_values_before():
    bad = see(model.logarithm, seconds=0)(np.linspace(0.5, 2, 5).astype(np.float32)).json()["nonfinite"]
    assert (bad["kind"], bad["line"]) == ("nan", model.line_of("NAN"))
    assert [row["line"] - bad["line"] for row in bad["before"]] == [-1, -2, -3]
    assert bad["before"][1]["summary"] == "from -1 to 2"


def test_nan_after_random_numbers_is_found():
    def f(key, x):
        noise = random.normal(key, (3,))
        return jnp.sqrt(noise * 0 - 1) * x

    bad = see(f, seconds=0)(random.key(0), np.ones(3, np.float32)).json()
    assert bad["nonfinite"]["line"] == f.__code__.co_firstlineno + 2 and bad["problems"] == []


def test_xmap_is_reported_with_its_axis():
    mesh = Mesh(np.array(lamina_runtime.devices()[:2]), ("d",))
    f = xmap(lambda x: lax.psum(jnp.sin(x), "b"), in_axes={0: "b"}, out_axes={}, axis_resources={"b": "d"})
    with mesh:
        [found] = see(f, seconds=0)(np.ones((4, 8), np.float32)).json()["functions"]
    assert (found["kind"], found["collectives"][0]["axis"]) == ("xmap", "b")


def test_precision_finds_the_line_that_loses_digits():
    def f(x):
        y = x.astype(np.float16)
        z = y * 300
        return (z + 60000).astype(np.float32)

    rows = see(f, seconds=0, precision=True)(np.linspace(0, 1, 50).astype(np.float32)).json()["precision"]
    first = f.__code__.co_firstlineno
    assert {row["line"] - first for row in rows} <= {1, 2, 3}
    assert max(rows, key=lambda row: row["born"])["born"] > 1e-4
    overflow = see(lambda x: x.astype(np.float16) * 1000, seconds=0, precision=True)(np.float32([100.0])).json()
    assert [row["overflow"] for row in overflow["precision"]][0] is True


def test_loop_precision_and_counts():
    x = np.full((6, 10, 10), 0.02, np.float32)
    facts = see(model.loop, seconds=0, precision=True)(x).json()
    [product] = [e for e in facts["functions"][0]["equations"] if e["primitive"] == "dot_general"]
    assert product["count"] == 6
    assert facts["precision"] and all(row["relative_error"] < 1e-3 for row in facts["precision"])


def test_report_saves_and_loads(report, tmp_path):
    report.save(tmp_path / "a.json")
    assert load(tmp_path / "a.json").json() == report.json()
    report.save(os.fspath(tmp_path / "a.txt"))
    text = (tmp_path / "a.txt").read_text(encoding="utf-8")
    assert text == f"{report}\n" and "see_model.py:" in text and "x = checkpoint(layer)" not in text.partition("Memory")[2]
    with pytest.raises(ValueError, match="must be a file name that ends in"):
        report.save("a.pdf")


def test_file_that_is_no_report_of_this_version_is_one_sentence(tmp_path):
    for text, words in (("[]", "no report"), ('{"schema_version": 2}', "version 2"), ("{", "not JSON")):
        (tmp_path / "a.json").write_text(text, encoding="utf-8")
        with pytest.raises(ReportError, match=words):
            load(tmp_path / "a.json")


def test_wrong_arguments_are_refused():
    with pytest.raises(TypeError, match="fun must be a function"):
        see(3)
    with pytest.raises(ValueError, match="seconds must be"):
        see(jnp.sin, seconds=-1)


def test_error_of_the_function_is_raised():
    def f(x):
        raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        see(f)(1.0)


def test_interrupt_while_measuring_gives_a_report(monkeypatch):
    from lamina_see import _see
    calls = []

    def interrupted(call, copy, call_once=_see._call):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return call_once(call, copy)

    monkeypatch.setattr(_see, "_call", interrupted)
    facts = see(lambda x: jnp.sin(x) @ x)(np.ones((64, 64), np.float32)).json()
    assert facts["problems"] == ["Measuring was interrupted after 1 runs."]
    assert facts["functions"][0]["step"]["runs"] == 1


def test_single_primitive_is_reported():
    [f] = see(jnp.tanh, seconds=0)(np.ones(500, np.float32)).json()["functions"]
    assert [e["primitive"] for e in f["equations"]] == ["tanh"] and isinstance(see(jnp.tanh, seconds=0)(1.0), Report)
