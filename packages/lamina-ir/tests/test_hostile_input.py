"""Damaged text and forged files always raise `ProgramError`."""
import hashlib
import json
import pickle
import random
import re
import struct

import numpy as np
import pytest

from lamina_ir import (ClosedJaxpr, Eqn, Jaxpr, Literal, ProgramError, ShapeError, Var, alpha_equal, has_host_callbacks,
                       check, cse, dce, dumps, fold_constants, has_ordered_effects, jaxpr_text, loads, parse,
                       partial_eval, prims, shaped)
from lamina_ir.testing.programs import NOTEBOOK, f32, make_sample_program
from lamina_ir.testing.samples import samples_of

HEAD = struct.Struct("<8sII32sQQ")
JUNK = [0, -1, 1, 10**12, 0.5, "x", None, True, [], {}, {"tuple": [1]}, {"float": "x"}, {"a": 1, "b": 2}, {"array": 0},
        {"enum": ["x", "y"]}, {"record": ["GatherDimensionNumbers", {}]}, {"dict": [[{"list": []}, 1]]}, "f32"]


def paths_of(node, path=()):
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from paths_of(value, (*path, key))


@pytest.mark.parametrize("name", NOTEBOOK)
def test_damaged_text_is_rejected(name):
    rng = random.Random(name)
    for _ in range(150):
        text = list(NOTEBOOK[name][1])
        for _ in range(rng.randint(1, 3)):
            i = rng.randrange(len(text))
            text[i:i + rng.randint(0, 2)] = rng.choice(["", *"{}[]();:=.,<>'\"a1 -~_\\\n"])
        try:
            check(parse("".join(text)))
        except ProgramError:
            pass


@pytest.mark.parametrize("name", NOTEBOOK)
def test_forged_files_are_rejected(name):
    rng = random.Random(name)
    data = dumps(NOTEBOOK[name][0])
    magic, version, zero, _, n, m = HEAD.unpack_from(data)
    for _ in range(100):
        header = json.loads(data[HEAD.size:HEAD.size + n])
        *path, last = rng.choice(list(paths_of(header)))
        node = header
        for key in path:
            node = node[key]
        node[last] = rng.choice(JUNK)
        body = json.dumps(header).encode()
        buffers = data[HEAD.size + n:]
        digest = hashlib.sha256(body + buffers).digest()
        try:
            loads(HEAD.pack(magic, version, zero, digest, len(body), m) + body + buffers)
        except ProgramError:
            pass


@pytest.mark.parametrize("text", ["(" * 9999, "{ lambda ; . let a:f32[] = xla_call[name=" + "(" * 9999,
                                  "{ lambda ; . let a:f32[] = xla_call[call_jaxpr=" * 3000])
def test_deep_nesting_is_rejected(text):
    with pytest.raises(ProgramError):
        parse(text)


WORDS = re.compile(r"'[^']*'|[A-Za-z_]\w*|\d+|\s+|.", re.DOTALL)
SNIPPETS = ["", "None", "nan", "-1", "9" * 5000, "1e999", "(1+2j)", "(a+bj)", "'x'", "'\\U0fffffff'", "frozenset([1])",
            "frozenset([[1]])", "frozenset", "frozenset(1)", "frozenset()", "{[1]: 2}", "{ lambda ; . let in () }", "@1",
            "@1:", "@", "<axis i>", "GatherScatterMode.CLIP", "GatherDimensionNumbers()", "HostFunction(name=[1])", "f32[]",
            f"f32[{'9' * 5000}]", "f32[99999999999]", "~f32[]", "q8[]", "float0", "_", "in", "let", ";", "=", ":", ",", "(",
            ")", "[", "]", "{", "}", "1:bool[]", "9999999999:i32[]", "(1+2j):c64[]", "-1:u8[]", "2:f32[3]", "..", "1.",
            "<x>", "\\", '\u0663']


@pytest.mark.parametrize("prim", prims.ALL, ids=str)
def test_mutated_text_is_rejected_with_its_position(prim):
    """Tokens are replaced, dropped, doubled and exchanged; the error gives the position and the expected token."""
    rng = random.Random(prim.name)
    for row in samples_of(prim)[:2]:
        words = WORDS.findall(jaxpr_text(make_sample_program(row)))
        for _ in range(25):
            text = list(words)
            for _ in range(rng.choice([1, 1, 2])):
                i, j = rng.randrange(len(text)), rng.randrange(len(text))
                text[i:i + rng.randint(0, 2)] = rng.choice([[rng.choice(SNIPPETS)], [], [text[j]]])
                text = text or [""]
            try:
                parse("".join(text))
            except ProgramError as error:
                assert re.search(r" at line \d+, column \d+\n", str(error))


def test_repeated_constant_is_stored_once():
    a, b = np.ones(1000, np.float32), np.ones(1000, np.float32)
    vs = [Var(f32(1000)) for _ in range(200)]
    data = dumps(ClosedJaxpr(Jaxpr(vs, [], [], vs[-1:]), [a] * 199 + [b]))
    assert len(data) < 20_000
    consts = loads(data).consts
    assert all(c is consts[0] for c in consts[:199]) and consts[199] is not consts[0] and not consts[0].flags.writeable


def calls(inner, times=2):
    vs = [Var(f32()) for _ in range(times + 1)]
    facts = dict(call_jaxpr=inner, name="f", **prims.xla_call_p.defaults)
    return ClosedJaxpr(Jaxpr([], vs[:1], [Eqn(prims.xla_call_p, [a], [b], facts) for a, b in zip(vs, vs[1:])], vs[-1:]))


def test_text_size_grows_with_number_of_distinct_programs():
    program = parse("{ lambda ; a:f32[]. let b:f32[] = sin a c:f32[] = cos b in (c,) }")
    for _ in range(30):
        program = calls(program)
    text = jaxpr_text(program)
    assert len(text) < 60_000 and text.count("lambda") < 50
    again = parse(text)
    assert alpha_equal(program, again) and jaxpr_text(again) == text
    inner = [e.params["call_jaxpr"] for e in again.eqns]
    assert inner[0] is inner[1]


def nested_program(kind, depth):
    """Return 2**depth copies of a sine: each program calls the previous one twice."""
    program = parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }")
    true = parse("{ lambda ; a:f32[]. let b:bool[] = lt a 0.0:f32[] in (b,) }")
    for _ in range(depth):
        op, facts = {
            "xla_call": lambda p: (prims.xla_call_p, dict(call_jaxpr=p, name="f", **prims.xla_call_p.defaults)),
            "scan": lambda p: (prims.scan_p, dict(jaxpr=p, length=2, num_consts=0, num_carry=1, reverse=False, unroll=1)),
            "while": lambda p: (prims.while_p, dict(cond_jaxpr=true, body_jaxpr=p, cond_nconsts=0, body_nconsts=0,
                                                     max_iters=None)),
            "cond": lambda p: (prims.cond_p, dict(branches=(p, p)))}[kind](program)
        vs = [Var(f32()) for _ in range(3)]
        first = [Literal(np.int32(1), shaped((), np.dtype("int32")))] if kind == "cond" else []
        program = ClosedJaxpr(Jaxpr([], vs[:1], [Eqn(op, [*first, a], [b], facts) for a, b in zip(vs, vs[1:])], vs[-1:]))
    return program


@pytest.mark.parametrize("kind", ["xla_call", "scan", "while", "cond"])
@pytest.mark.parametrize("engine", [
    check, jaxpr_text, lambda p: parse(jaxpr_text(p)), lambda p: loads(dumps(p)), lambda p: alpha_equal(p, loads(dumps(p))),
    dce, cse, fold_constants, lambda p: partial_eval(p, [True]), lambda p: partial_eval(p, [False]), has_ordered_effects,
    has_host_callbacks, repr, hash, lambda p: pickle.loads(pickle.dumps(p))],
    ids=["check", "text", "parse", "loads", "alpha_equal", "dce", "cse", "fold_constants", "known", "unknown",
         "has_ordered_effects", "has_host_callbacks", "repr", "hash", "pickle"])
def test_every_rewrite_visits_shared_program_once(kind, engine):
    """Otherwise it would not terminate."""
    engine(nested_program(kind, 40))


def test_short_shared_programs_are_printed_inline():
    program = calls(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"), 3)
    text = jaxpr_text(program)
    assert "@" not in text and text.count("sin") == 3
    eqns = parse(text).eqns
    assert eqns[0].params["call_jaxpr"] is eqns[1].params["call_jaxpr"]


def test_programs_with_different_string_or_constant_are_not_merged():
    text = "{ lambda ; a:f32[]. let b:f32[] = name[name='p  q'] a in (b,) }"
    both = ("{{ lambda ; x:f32[]. let y:f32[] = xla_call[call_jaxpr={} name=f] x z:f32[] = xla_call[call_jaxpr={} name=f] y "
            "in (z,) }}")
    one = parse(both.format(text, text.replace("  ", "\n ").replace("p\n q", "p  q").replace(" a in", "  a  in")))
    two = parse(both.format(text, text.replace("p  q", "p q")))
    assert one.eqns[0].params["call_jaxpr"] is one.eqns[1].params["call_jaxpr"]
    assert two.eqns[0].params["call_jaxpr"] is not two.eqns[1].params["call_jaxpr"]
    closed = text.replace("lambda ;", "lambda c:f32[] ;")
    two = parse(both.format(closed, closed), consts=[np.float32(1), np.float32(2)])
    assert two.eqns[0].params["call_jaxpr"] is not two.eqns[1].params["call_jaxpr"]


@pytest.mark.parametrize("bad, words", [
    ("@1", "no program is marked @1 before this position"), ("@", "expected `@` and a number"),
    ("@1:f", "expected a program after `@1:`"),
    ("@1:{ lambda ; c:f32[]. let d:f32[] = xla_call[call_jaxpr=@1 name=g] c in (d,) }", "no program is marked @1 before"),
    ("(@1:{ lambda ; . let in () }, @1:{ lambda ; . let in () })", "marked @1 already")])
def test_bad_references_are_rejected(bad, words):
    with pytest.raises(ProgramError, match=words):
        parse(f"{{ lambda ; a:f32[]. let b:f32[] = xla_call[call_jaxpr={bad} name=f] a in (b,) }}")


def test_sum_over_repeated_axis_is_rejected():
    with pytest.raises(ShapeError, match=r"psum: axes must be different axes of the operand; got \(0, 0\)"):
        prims.psum_p.infer(f32(2, 3), axes=(0, 0), axis_index_groups=None)


def test_forward_param_of_transposed_call_must_be_a_rule():
    sample = samples_of(prims.transposed_call_p)[0]
    eqn = make_sample_program(sample).eqns[0]
    vs = [Var(a.aval) for a in eqn.invars]
    bad = Eqn(eqn.primitive, vs, [Var(v.aval) for v in eqn.outvars], {**eqn.params, "forward": prims.Rule(1)})
    with pytest.raises(ProgramError, match=r"forward must be a prims\.Rule"):
        check(ClosedJaxpr(Jaxpr([], vs, [bad], bad.outvars)))
