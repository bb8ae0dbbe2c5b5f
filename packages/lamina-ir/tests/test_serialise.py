"""Saved programs: round trips, and errors for other data."""
import hashlib
import json
import struct

import numpy as np
import pytest

from lamina_ir import (ClosedJaxpr, Eqn, Jaxpr, Literal, MissingRuleError, ProgramError, Source, Var, alpha_equal,
                       dumps, jaxpr_text, loads, parse, prims)
from lamina_ir.prims import Rule
from lamina_ir.testing import samples
from lamina_ir.testing.programs import NOTEBOOK, chain, f32, jit, make_sample_program

ROWS = [row for prim in prims.ALL for row in samples.samples_of(prim)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_every_sample_round_trips(row):
    program = make_sample_program(row)
    assert alpha_equal(program, loads(dumps(program)), weak=True)


@pytest.mark.parametrize("name", NOTEBOOK)
def test_notebook_programs_round_trip_and_print_the_same(name):
    program, text = NOTEBOOK[name]
    assert jaxpr_text(loads(dumps(program))) == text


@pytest.mark.parametrize("value", [np.float32("nan"), np.float32("inf"), np.float32(0.1), -0.0])
def test_literals_and_scalar_constants_keep_their_bits(value):
    v = Var(f32())
    program = ClosedJaxpr(Jaxpr([v], [], [], [v, Literal(value, f32())]), [np.float32(value)])
    assert alpha_equal(program, loads(dumps(program)))


def test_nested_programs_are_saved_once_and_long_ones_round_trip():
    body = chain(3000)
    two = jit(body)
    call = two.eqns[0]
    out = Var(f32())
    program = ClosedJaxpr(Jaxpr([], two.jaxpr.invars, [call, Eqn(prims.xla_call_p, call.outvars, [out], call.params)],
                                [out]))
    again = loads(dumps(program))
    assert alpha_equal(program, again)
    assert again.eqns[0].params["call_jaxpr"] is again.eqns[1].params["call_jaxpr"]


GOOD = dumps(NOTEBOOK["jit of vmap"][0])


@pytest.mark.parametrize("data", [b"", b"\x80\x04K\x01.", b"PK\x03\x04", GOOD[:20], GOOD[:-1], GOOD + b"x",
                                  GOOD.replace(b"dot_general", b"dot_generaL"), b"\x89LAMINA\n"])
def test_foreign_or_damaged_bytes_are_rejected(data):
    with pytest.raises(ProgramError, match="loads: "):
        loads(data)


def forge(change):
    """Return a file with a changed header and a matching checksum."""

    head = struct.Struct("<8sII32sQQ")
    magic, version, zero, _, n, m = head.unpack_from(GOOD)
    header = json.loads(GOOD[head.size:head.size + n])
    change(header)
    body = json.dumps(header).encode()
    data = GOOD[head.size + n:]
    return head.pack(magic, version, zero, hashlib.sha256(body + data).digest(), len(body), m) + body + data


@pytest.mark.parametrize(("change", "words"), [
    (lambda h: h["programs"][0]["eqns"][0].__setitem__(0, "os.system"), "primitive `os.system`, which is not known"),
    (lambda h: h.pop("avals"), "malformed"), (lambda h: h.update(main=7), "malformed"),
    (lambda h: h.update(main=-1), "expected an index"),
    (lambda h: h["programs"][0]["outvars"].__setitem__(0, 99), "malformed"),
    (lambda h: h["programs"][0]["eqns"][0][3].update(precision={"record": ["Popen", {}]}), "no param type is named"),
    (lambda h: h["programs"][0]["eqns"][0][3].update(precision={"pickle": "x"}), "params of kind `pickle`"),
    (lambda h: h["programs"][0]["eqns"][0][3].update(extra=1), "unexpected extra"),
    (lambda h: h["avals"][0].__setitem__(1, [9]), "check: ")])
def test_forged_headers_are_rejected(change, words):
    with pytest.raises(ProgramError, match=words):
        loads(forge(change))


def test_newer_formats_are_rejected():
    data = bytearray(GOOD)
    data[8] = 3
    with pytest.raises(ProgramError, match="format 3; this version reads formats 1 to 2"):
        loads(bytes(data))


def test_text_is_not_bytes():
    with pytest.raises(TypeError, match="loads: expected bytes; got str"):
        loads("lamina")


def test_unsupported_values_are_rejected_by_name():
    program = jit(chain(1))
    program.eqns[0].params["device"] = print
    with pytest.raises(ProgramError, match="param `device` of `xla_call` holds a builtin_function"):
        dumps(program)


def custom(rule, call=None):
    call = call or chain(1)
    v = Var(f32())
    params = {"call_jaxpr": call, "jvp": rule, "name": "f", "num_consts": 0}
    ins = [Var(f32())]
    return ClosedJaxpr(Jaxpr([], ins, [Eqn(prims.custom_jvp_call_p, ins, [v], params)], [v]))


def test_rules_of_custom_calls_are_saved_with_the_program():
    x, t, y = Var(f32()), Var(f32()), Var(f32())
    body = ClosedJaxpr(Jaxpr([], [x, t], [Eqn(prims.mul_p, [x, t], [y], {})], [x, y]))
    asked = []
    rule = Rule("f_jvp", lambda: asked.append(1) or body)
    program = custom(rule)
    again = loads(dumps(program))
    found = again.eqns[0].params["jvp"]
    assert alpha_equal(program, again) and alpha_equal(found.program(), body) and asked == [1]
    assert alpha_equal(loads(dumps(again)).eqns[0].params["jvp"].program(), body)


def rule_program_of(inner):
    """Return the rule program `(x, t) -> (f(x), t)` with the custom call `inner` for f."""
    x, t, y = Var(f32()), Var(f32()), Var(f32())
    e = inner.eqns[0]
    return ClosedJaxpr(Jaxpr([], [x, t], [Eqn(e.primitive, [x], [y], e.params)], [y, t]))


def test_recursive_rule_is_saved_once():
    rule = Rule("f_jvp", lambda: rule_program_of(custom(rule)))
    found = loads(dumps(custom(rule))).eqns[0].params["jvp"]
    assert found.program().eqns[0].params["jvp"] is found


def test_endless_chain_of_rules_is_truncated():
    def make():
        return rule_program_of(custom(Rule("f_jvp", make)))
    found = loads(dumps(custom(Rule("f_jvp", make)))).eqns[0].params["jvp"]
    with pytest.raises(MissingRuleError, match="the rule `f_jvp`"):
        for _ in range(100):
            found = found.program().eqns[0].params["jvp"]


def test_rule_without_program_is_reported_on_use():
    rule = loads(dumps(custom(Rule("f_jvp")))).eqns[0].params["jvp"]
    with pytest.raises(MissingRuleError, match="the rule `f_jvp` of a custom call is not known here"):
        rule.program()


def test_forged_rule_is_checked():
    x, y = Var(f32()), Var(f32())
    bad = ClosedJaxpr(Jaxpr([], [x], [Eqn(prims.sin_p, [x], [y], {"extra": 1})], [y]))
    with pytest.raises(ProgramError, match="unexpected extra"):
        loads(dumps(custom(Rule("f_jvp", lambda: bad))))


def test_chain_of_rules_is_truncated_at_depth_8():
    def make():  # equal names do not make equal rules
        inner = custom(Rule("f_jvp", make))
        x, t, y = Var(f32()), Var(f32()), Var(f32())
        return ClosedJaxpr(Jaxpr([], [x, t], [Eqn(inner.eqns[0].primitive, [x], [y], inner.eqns[0].params)], [y, t]))
    rule, depth = loads(dumps(custom(Rule("f_jvp", make)))).eqns[0].params["jvp"], 0
    with pytest.raises(MissingRuleError, match="not known here"):
        while depth < 100:
            rule, depth = rule.program().eqns[0].params["jvp"], depth + 1
    assert depth == 8


def test_params_added_later_get_their_defaults():
    row = samples.samples_of(prims.while_p)[0]
    program = make_sample_program(row)
    data = dumps(ClosedJaxpr(Jaxpr([], program.jaxpr.invars, [program.eqns[0].replace(
        params={k: v for k, v in row.params.items() if k != "max_iters"})], program.jaxpr.outvars)))
    assert "max_iters" not in row.params or row.params["max_iters"] is None
    assert loads(data).eqns[0].params["max_iters"] is None


def test_open_programs_and_other_values_are_rejected():
    with pytest.raises(TypeError, match="dumps: expected a ClosedJaxpr; got Jaxpr"):
        dumps(chain(2).jaxpr)


# --- source lines ---------------------------------------------------------------------------------------------------
def with_lines():
    program = parse("""{ lambda ; a:f32[3]. let
        b:f32[3] = sin a
        c:f32[3] = xla_call[name=f call_jaxpr={ lambda ; d:f32[3]. let e:f32[3] = cos d f:f32[3] = exp e in (f,) }] b
      in (c,) }""")
    first, call = program.jaxpr.eqns
    inner = call.params["call_jaxpr"].jaxpr.eqns
    first.source = Source.from_line("model.py", 3, "f", "scope")
    call.source = Source.from_line("model.py", 4, "f")
    inner[1].source = Source.from_line("layer.py", 7, "g", part="backward")
    return program


def test_source_lines_are_saved_on_request():
    loaded = loads(dumps(with_lines(), sources=True))
    first, call = loaded.jaxpr.eqns
    inner = call.params["call_jaxpr"].jaxpr.eqns
    assert repr(first.source) == "model.py:3 (f)" and first.source.scope == "scope"
    assert repr(call.source) == "model.py:4 (f)" and inner[0].source is None
    assert repr(inner[1].source) == "layer.py:7 (g) [backward]"
    assert dumps(loaded, sources=True) == dumps(with_lines(), sources=True)


def test_source_lines_are_not_saved_by_default():
    bare = with_lines()
    data = dumps(bare)
    assert b"model.py" not in data
    bare.jaxpr.eqns[0].source = None
    assert dumps(bare) == data and loads(data).jaxpr.eqns[0].source is None


@pytest.mark.parametrize("old, new", [(b'"lines":[[-1,0]', b'"lines":[[-1,9]'), (b'"lines":[[-1,0]', b'"lines":[[0]   '),
                                      (b'"layer.py",7,', b'"layer.py",-,'), (b'"lines":[[-1,0]', b'"lines":[[-1,-3]')])
def test_damaged_source_lines_are_rejected(old, new):
    data = dumps(with_lines(), sources=True)
    assert old in data
    body = data[64:].replace(old, new)
    if len(body) > len(data) - 64:  # the header's padding shrinks
        body = body.rstrip(b" ")[:len(data) - 64]
    head = data[:16] + hashlib.sha256(body).digest() + struct.pack("<QQ", len(body), 0)
    with pytest.raises(ProgramError):
        loads(head + body)


def test_treedefs_are_optional():
    from lamina_ir import split_saved, load_treedefs, join_saved, trees
    program = NOTEBOOK["jit of vmap"][0]
    ins, outs = trees.tree_structure(([0], {"w": (0, None)})), trees.tree_structure({"y": 0})
    data = dumps(program, trees=(ins, outs))
    assert load_treedefs(data) == (ins, outs) and load_treedefs(dumps(program)) is None
    assert alpha_equal(loads(data), program)
    with pytest.raises(ProgramError, match="structure of the arguments must have 2 leaves, one for each; got 1"):
        dumps(program, trees=(outs, outs))
    with pytest.raises(ProgramError, match="structure of the results cannot be saved: the keys of a dict must be "
                       "strings or ints"):
        dumps(program, trees=(ins, trees.tree_structure({1.5: 0})))
    header, buffers = split_saved(data)
    for forged in (3, [], [0], [0, 0], ["list", None], [["node unknown", "", [0, 0]], 0], [["dict", ["a"], [0, 0]], 0],
                   [["os.system", None, []], 0], [[0, 0], 0]):
        header["trees"] = forged
        with pytest.raises(ProgramError, match="saved structures"):
            load_treedefs(join_saved(header, buffers))
        assert alpha_equal(loads(join_saved(header, buffers)), program)
