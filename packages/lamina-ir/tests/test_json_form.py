"""Programs as JSON: every primitive round-trips, shared programs are stored once, errors give the position."""
import json
import random

import numpy as np
import pytest

from lamina_ir import (ClosedJaxpr, Eqn, Jaxpr, Literal, ProgramError, Var, alpha_equal, build, jaxpr_from_json, jaxpr_json,
                       jaxpr_text, parse, prims, shaped)
from lamina_ir.testing.programs import NOTEBOOK, make_sample_program
from lamina_ir.testing.samples import samples_of


def round_trip(program):
    return jaxpr_from_json(json.loads(json.dumps(jaxpr_json(program), allow_nan=False)))


def has_functions(row):
    return any(type(v).__name__ == "HostCall" for v in row.params.values())


@pytest.mark.parametrize("prim", prims.ALL, ids=str)
@pytest.mark.parametrize("weak", [False, True], ids=["", "weak"])
def test_every_primitive_round_trips(prim, weak):
    for row in samples_of(prim):
        if has_functions(row):
            continue
        program = make_sample_program(row, weak)
        again = round_trip(program)
        assert alpha_equal(again, program, weak=True) and jaxpr_text(again) == jaxpr_text(program)


@pytest.mark.parametrize("name", NOTEBOOK)
def test_maps_round_trip(name):
    assert str(round_trip(NOTEBOOK[name][0])) == NOTEBOOK[name][1]


LITERALS = [(True, "bool"), (-3, "int8"), (2**63, "uint64"), (0.1, "float32"), (1e-300, "float64"), (float("nan"), "bfloat16"),
            (float("-inf"), "float16"), (1 - 2j, "complex64"), (3, "int4")]


@pytest.mark.parametrize("value, dtype", LITERALS, ids=[d for _, d in LITERALS])
def test_literals_round_trip_exactly(value, dtype):
    aval = shaped((), dtype)
    program = ClosedJaxpr(Jaxpr([], [], [], [Literal(np.asarray(value).astype(aval.dtype)[()], aval)]))
    assert alpha_equal(round_trip(program), program)


def test_constants_round_trip_and_can_be_omitted():
    values = [np.array([[1.5, np.nan]], np.float32), np.arange(3, dtype=np.int64), np.zeros((0, 2), np.complex64),
              np.ones((), "bool")]
    vs = [Var(shaped(v.shape, v.dtype)) for v in values]
    program = ClosedJaxpr(Jaxpr(vs, [], [], vs), values)
    again = round_trip(program)
    assert alpha_equal(again, program) and not again.consts[0].flags.writeable
    made = jaxpr_json(program, constants=False)
    assert [c["data"] for c in made["programs"][0]["constants"]] == [None] * 4
    with pytest.raises(ProgramError, match=r"programs\[0\].constants\[0\]: the elements of a constant are missing"):
        jaxpr_from_json(made)


def test_json_has_sources_costs_names_and_nested_programs():
    def step(b, c, x):
        return b.op("add", c, x), c
    program = build(lambda b, x: b.scan(step, [0.0], [x])[1], "f32[3]")
    made = jaxpr_json(program, costs=True)
    inner, outer = made["programs"]
    assert made["main"] == 1 and outer["equations"][0]["params"]["jaxpr"] == {"program": 0}
    assert inner["equations"][0]["cost"] == {"flops": 1, "transcendentals": 0, "bytes_read": 8, "bytes_written": 4, "holes": []}
    source = inner["equations"][0]["source"]
    assert source["file"] == __file__ and source["function"] == "step"
    assert [v["name"] for v in inner["inputs"]] == ["c", "d"] and "c:f32[] d:f32[]" in str(program)
    assert jaxpr_from_json(made).eqns[0].params["jaxpr"].eqns[0].source.line == source["line"]


def test_shared_programs_are_stored_once():
    program = parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }")
    for _ in range(40):
        program = build(lambda b, x: b.call(program, *b.call(program, x)), "f32[]")
    made = jaxpr_json(program)
    assert len(made["programs"]) == 41
    again = jaxpr_from_json(made)
    assert again.eqns[0].params["call_jaxpr"] is again.eqns[1].params["call_jaxpr"]


def test_missing_varying_axes_are_inferred():
    text = "{ lambda ; a:f32[2]. let b:f32[2] = xla_pmap[axis_name=i axis_size=2 backend=None call_jaxpr={ lambda ; c:f32[]. " \
           "let d:f32[] = neg c in (d,) } devices=None donated_invars=(False,) global_arg_shapes=(None,) " \
           "global_axis_size=None in_axes=(0,) name=f out_axes=(0,)] a in (b,) }"
    made = jaxpr_json(parse(text))
    for v in (*made["programs"][0]["inputs"], *made["programs"][0]["equations"][0]["results"]):
        assert v["type"].pop("over") == ["i"]
    assert alpha_equal(jaxpr_from_json(made), parse(text))


PROGRAM = build(lambda b, x: b.op("reduce_sum", b.op("mul", x, 2.0), axes=(0,)), "f32[3]")
JUNK = [None, -1, 10**9, 0.5, "zz", True, [], {}, [1], {"text": "("}, {"text": 3}, {"program": 7}, {"dtype": "q"}, {"a": 1},
        {"array": {}, "data": 1}]


def paths_of(node, path=()):
    for key, value in (node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()):
        yield (*path, key)
        yield from paths_of(value, (*path, key))


@pytest.mark.parametrize("prim", [prims.mul_p, prims.scan_p, prims.gather_p], ids=str)
def test_forged_documents_are_rejected_or_well_formed(prim):
    program = make_sample_program(samples_of(prim)[0])
    made = json.dumps(jaxpr_json(program))
    rng = random.Random(len(made))
    found = list(paths_of(json.loads(made)))
    for _ in range(400):
        data = json.loads(made)
        *path, last = rng.choice(found)
        node = data
        for key in path:
            node = node[key]
        if rng.random() < .2:
            del node[last]
        else:
            node[last] = rng.choice(JUNK)
        try:
            jaxpr_from_json(data)
        except ProgramError as error:
            assert str(error).startswith(("jaxpr_from_json: ", "check: "))


def changed(path, value):
    data = jaxpr_json(PROGRAM)
    node = data
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return data


E0 = ("programs", 0, "equations", 0)
WRONG = [
    (lambda: jaxpr_from_json("{}"), "data must be a dict, as json.loads returns it.*got str: '{}'"),
    (lambda: jaxpr_from_json({}), "document: it has no 'format'"),
    (lambda: jaxpr_from_json(changed(["version"], 9)), "its version is 9; this lamina reads version 1"),
    (lambda: jaxpr_from_json(changed([*E0, "op"], "nul")), r"programs\[0\].equations\[0\]: no primitive is named 'nul'"),
    (lambda: jaxpr_from_json(changed([*E0, "operands", 0], "z")), r"operands\[0\]: the variable 'z' is not bound"),
    (lambda: jaxpr_from_json(changed([*E0, "operands", 0], 3)), r"operands\[0\]: expected a string or an object; got int: 3"),
    (lambda: jaxpr_from_json(changed([*E0, "params"], {"y": 1})), r"`mul` has the params \(none\); got y"),
    (lambda: jaxpr_from_json(changed(["programs", 0, "inputs", 0, "type", "dtype"], "f33")), "no dtype is written 'f33'"),
    (lambda: jaxpr_from_json(changed(["programs", 0, "inputs", 0, "type", "shape"], [4])), "check: equation 0 .*mul returns"),
    (lambda: jaxpr_from_json(changed(["main"], 1)), "less than 1; got int: 1")]


@pytest.mark.parametrize("call, words", WRONG, ids=[w for _, w in WRONG])
def test_errors_give_position_and_cause(call, words):
    with pytest.raises(ProgramError, match=words):
        call()


def test_non_programs_are_rejected():
    with pytest.raises(TypeError, match="jaxpr_json: expected a ClosedJaxpr; got int: 3"):
        jaxpr_json(3)
    v, w = Var(shaped((), "float32")), Var(shaped((), "float32"))
    with pytest.raises(ProgramError, match="operand 0 is a variable of type f32.* not bound"):
        jaxpr_json(ClosedJaxpr(Jaxpr([], [], [Eqn(prims.sin_p, [v], [w], {})], [w])))
