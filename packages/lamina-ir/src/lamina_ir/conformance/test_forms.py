"""Serialized forms: text, bytes, JSON and pickle round-trip; damaged or ill-formed input is rejected."""
from __future__ import annotations

import json
import pickle
import random

import numpy as np
import pytest
from lamina_ir import (ClosedJaxpr, Eqn, Jaxpr, Literal, ProgramError, Var, alpha_equal, aval_of, check, dtypes, dumps,
                       evaluate, jaxpr_from_json, jaxpr_json, jaxpr_text, loads, parse, prims, shaped)
from lamina_ir.testing.programs import NOTEBOOK, chain, f32, make_sample_program
from lamina_ir.testing.samples import samples_of

ROWS = [row for prim in prims.ALL for row in samples_of(prim)]
FORMS = {"bytes": lambda p: loads(dumps(p)), "text": lambda p: parse(jaxpr_text(p)),
         "pickle": lambda p: pickle.loads(pickle.dumps(p)),
         "JSON": lambda p: jaxpr_from_json(json.loads(json.dumps(jaxpr_json(p))))}
# Text and JSON cannot hold user rules, host functions or keys.
UNWRITABLE = ("custom_jvp_call", "custom_vjp_call", "custom_vmap_call", "transposed_call", "io_callback", "pure_callback",
              "debug_callback", "remat")


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.id)
def test_samples_round_trip_through_bytes(row):
    program = make_sample_program(row)
    check(program)
    again = loads(dumps(program))
    assert alpha_equal(program, again, weak=True) and [a.dtype for a in again.in_avals] == [a.dtype for a in program.in_avals]


@pytest.mark.parametrize("row", [r for r in ROWS if r.prim.name not in UNWRITABLE], ids=lambda r: r.id)
def test_samples_round_trip_through_text(row):
    program = make_sample_program(row)
    again = parse(jaxpr_text(program))
    assert alpha_equal(program, again) and jaxpr_text(again) == jaxpr_text(program)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NOTEBOOK)
def test_nested_programs_round_trip(name, form):
    program, text = NOTEBOOK[name]
    assert jaxpr_text(program) == text
    assert alpha_equal(FORMS[form](program), program)


CONSTANT = Var(f32(2, 3))
A = Var(f32(2, 3))
B = Var(f32(2, 3))
HELD = ClosedJaxpr(Jaxpr([CONSTANT], [A], [Eqn(prims.mul_p, [A, CONSTANT], [B], {})], [B, Literal(np.float32(0.1), f32()), A]),
                   [np.arange(6, dtype=np.float32).reshape(2, 3) / 7])


@pytest.mark.parametrize("form", ["bytes", "pickle", "JSON"])
def test_loaded_program_computes_identical_bits(form):
    x = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    for got, want in zip(evaluate(FORMS[form](HELD), x), evaluate(HELD, x), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", sorted(dtypes.SHORT_NAMES))
def test_constants_of_every_dtype_round_trip(name):
    d = dtypes.from_short_name(name)
    value = np.zeros((2, 3), d) if d == dtypes.float0 else np.arange(6).reshape(2, 3).astype(d)
    v = Var(shaped((2, 3), d))
    again = loads(dumps(ClosedJaxpr(Jaxpr([v], [], [], [v]), [value])))
    assert again.consts[0].dtype == d and again.consts[0].tobytes() == value.tobytes()


@pytest.mark.parametrize("value", [np.float32("nan"), np.float32("inf"), np.float32(-0.0), np.float32(0.1), np.float32(1e-45)])
def test_literals_keep_their_bits(value):
    program = ClosedJaxpr(Jaxpr([], [], [], [Literal(value, f32())]), [])
    for form in FORMS.values():
        got, = evaluate(form(program))
        assert np.asarray(got, np.float32).tobytes() == value.tobytes() or np.isnan(value) and np.isnan(got)


def test_weak_types_are_printed_on_request():
    program = parse("{ lambda ; a:~f32[]. let b:~f32[] = sin a in (b,) }")
    assert program.in_avals[0].weak_type and loads(dumps(program)).in_avals[0].weak_type


def test_varying_axes_round_trip():
    program = parse("{ lambda ; a:f32[3]{i}. let b:f32[3] = psum[axes=('i',) axis_index_groups=None] a in (b,) }")
    for form in FORMS.values():
        again = form(program)
        assert again.in_avals[0].varying_axes == frozenset("i") and again.out_avals[0].varying_axes == frozenset()


GOOD = dumps(NOTEBOOK["jit of vmap"][0])


@pytest.mark.parametrize("data", [b"", b"\x80\x04K\x01.", b"PK\x03\x04", GOOD[:20], GOOD[:-1], GOOD + b"x",
                                  GOOD.replace(b"dot_general", b"dot_generaL")])
def test_foreign_bytes_are_rejected(data):
    with pytest.raises(ProgramError):
        loads(data)


def test_bytes_with_any_flipped_bit_are_rejected():
    rng = random.Random(0)
    for _ in range(100):
        at = rng.randrange(len(GOOD))
        with pytest.raises(ProgramError):
            loads(GOOD[:at] + bytes([GOOD[at] ^ 1 << rng.randrange(8)]) + GOOD[at + 1:])


@pytest.mark.parametrize("text", [
    "", "{ lambda ; a:f32[3]. let b:f32[3] = nothing_known a in (b,) }", "{ lambda ; a:f32[3]. let b:f32[3] = sin c in (b,) }",
    "{ lambda ; a:f32[3]. let b:f32[4] = sin a in (b,) }", "{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,)",
    "{ lambda ; a:g32[3]. let  in (a,) }", "{ lambda ; a:f32[3]. let b:f32[] = reduce_sum a in (b,) }"])
def test_ill_formed_text_is_rejected(text):
    with pytest.raises(ProgramError):
        check(parse(text))


def neg(a, b, **params):
    return Eqn(prims.neg_p, [a], [b], params)


P, Q, R = (Var(f32(3)) for _ in range(3))


@pytest.mark.parametrize(("program", "words"), [
    (Jaxpr([], [P], [neg(R, Q)], [Q]), "bound"), (Jaxpr([], [P], [neg(P, Q), neg(P, Q)], [Q]), "bound"),
    (Jaxpr([], [P], [neg(P, Var(f32(4)))], []), "neg"), (Jaxpr([], [P], [neg(P, Q, axis=3)], [Q]), "axis"),
    (Jaxpr([], [P], [Eqn(prims.reduce_sum_p, [P], [Q], {})], [Q]), "axes"),
    (Jaxpr([], [P], [Eqn(prims.reduce_sum_p, [P], [Var(f32())], {"axes": (7,)})], []), "7"),
    (Jaxpr([], [P], [Eqn(prims.reduce_sum_p, [P], [Var(f32())], {"axes": "x"})], []), "axes"),
    (Jaxpr([], [P], [], [Q]), "bound"), (Jaxpr([], [P, P], [], []), "bound"),
    (Jaxpr([], [P], [Eqn(prims.neg_p, [P], [Q, R], {})], []), "results"),
    (Jaxpr([], [P], [Eqn(prims.neg_p, [P, P], [Q], {})], []), "operands"),
    (Jaxpr([], [], [], [Literal(np.ones(3), f32())]), "scalar"),
    (ClosedJaxpr(Jaxpr([P], [], [], [P]), [np.ones(4, np.float32)]), "constant")], ids=range(13))
def test_ill_formed_program_is_rejected(program, words):
    with pytest.raises(ProgramError, match=words):
        check(program)


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.id)
def test_equation_with_wrong_result_type_is_rejected(row):
    program = make_sample_program(row)
    e, = program.eqns
    if not e.outvars:
        return  # without results there is no type to change
    other = aval_of(np.zeros((7, 7, 7), np.int16))
    wrong = Eqn(e.primitive, e.invars, [Var(other), *e.outvars[1:]], e.params)
    with pytest.raises(ProgramError):
        check(Jaxpr([], program.jaxpr.invars, [wrong], []))


@pytest.mark.parametrize(("other", "same"), [
    ("{ lambda ; b:f32[] x:f32[]. let y:f32[] = sub b x in (y,) }", True),
    ("{ lambda ; x:f32[] b:f32[]. let y:f32[] = sub b x in (y,) }", False),
    ("{ lambda ; b:f32[] x:f32[]. let y:f32[] = add b x in (y,) }", False),
    ("{ lambda ; b:f32[] x:f32[]. let y:f32[] = sub b x in (b,) }", False),
    ("{ lambda ; b:f32[] x:f32[]. let y:f32[] = sub b 1.0:f32[] in (y,) }", False)])
def test_programs_are_equal_up_to_variable_names(other, same):
    one = parse("{ lambda ; a:f32[] b:f32[]. let c:f32[] = sub a b in (c,) }")
    assert alpha_equal(one, parse(other)) is same


@pytest.mark.cost
def test_long_programs_are_saved_loaded_and_run():
    program = chain(5000)
    for form in ("bytes", "text"):
        assert alpha_equal(FORMS[form](program), program)
    assert np.isfinite(evaluate(program, np.float32(0.5))[0])


@pytest.mark.cost
def test_shared_program_is_saved_once():
    body = chain(200)
    params = {"call_jaxpr": body, "name": "f", "donated_invars": (), "inline": False, "device": None, "backend": None}
    a, *vs = (Var(f32()) for _ in range(21))
    eqns = [Eqn(prims.xla_call_p, [x], [y], params) for x, y in zip([a, *vs], vs)]
    many = dumps(ClosedJaxpr(Jaxpr([], [a], eqns, [vs[-1]])))
    assert len(many) < 3 * len(dumps(body))
