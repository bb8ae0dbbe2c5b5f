"""Primitives whose lowering rule is a program: the pass that replaces them, and the rule without it."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Primitive, Var, parse, prims, shaped
from lamina_ir.extend import collect_facts
from lamina_lowering import lower, lowering_rules, platform_rules
from lamina_lowering.extend import ProgramRule, expand_primitives
from lamina_lowering.testing import run_lowered

AVAL = shaped((3,), np.dtype("float32"))
X = np.arange(3, dtype=np.float32)


def new_primitive(text, **facts):
    """Return a primitive of one operand whose rule is the program `text`, and the arguments of each call of the rule."""
    prim, calls = Primitive("expanded", infer=lambda a, **params: a, **facts), []

    def make_program(avals, out_avals, params, axes):
        calls.append((avals, out_avals, params, axes))
        return parse(text)
    lowering_rules.define(prim, ProgramRule(make_program))
    return prim, calls


def call(prim, **params):
    a, b = Var(AVAL), Var(AVAL)
    return ClosedJaxpr(Jaxpr([], [a], [Eqn(prim, [a], [b], params)], [b]))


SINE = "{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }"


def test_primitive_becomes_a_call_of_its_program():
    prim, calls = new_primitive(SINE, params=("k",))
    program = call(prim, k=2)
    found = expand_primitives(program)
    assert [e.primitive for e in found.jaxpr.eqns] == [prims.xla_call_p]
    assert calls == [([AVAL], [AVAL], {"k": 2}, ())]
    assert expand_primitives(program) is found and expand_primitives(found) is found
    np.testing.assert_allclose(run_lowered(lower(program), X)[0], np.sin(X), rtol=1e-6)


def test_nested_programs_are_expanded_within_their_axes():
    prim, calls = new_primitive("{ lambda ; a:f32[3]. let b:f32[3] = psum[axes=(i,) axis_index_groups=None] a in (b,) }")
    inner, a, b = call(prim), Var(shaped((2, 3), AVAL.dtype)), Var(shaped((2, 3), AVAL.dtype))
    params = {"call_jaxpr": inner, "axis_name": "i", "axis_size": 2, "in_axes": (0,), "out_axes": (0,), "name": "f",
              "devices": None, "global_axis_size": None, "donated_invars": ()}
    params = {name: params[name] for name in prims.xla_pmap_p.params if name in params}
    program = ClosedJaxpr(Jaxpr([], [a], [Eqn(prims.xla_pmap_p, [a], [b], params)], [b]))
    assert not collect_facts(program).has_collectives and collect_facts(expand_primitives(program)).has_collectives
    assert [axes for *_, axes in calls] == [(("i", 2),)]
    assert run_lowered(lower(program), np.stack([X, X]))[0].tolist() == [[0, 2, 4]] * 2


def test_program_without_such_primitives_is_unchanged():
    program = parse("{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }")
    assert expand_primitives(program) is program


@pytest.mark.parametrize("case", ["platform", "elementwise"])
def test_rule_emits_its_program_in_place(case):
    prim, calls = new_primitive(SINE, elementwise=case == "elementwise")
    if case == "platform":
        platform_rules("tpu").define(prim, lambda ctx, x: x)
    program = call(prim)
    assert expand_primitives(program) is program
    np.testing.assert_allclose(run_lowered(lower(program), X)[0], np.sin(X), rtol=1e-6)
    if case == "platform":
        assert "sine" not in lower(program, platform="tpu").as_text()


def test_overridden_rule_is_used_inside_the_block():
    prim, _ = new_primitive(SINE)
    program = call(prim)
    expand_primitives(program)
    cosine = parse("{ lambda ; a:f32[3]. let b:f32[3] = cos a in (b,) }")
    with lowering_rules.override(prim, ProgramRule(lambda *args: cosine)):
        np.testing.assert_allclose(run_lowered(lower(program), X)[0], np.cos(X), rtol=1e-6)
    np.testing.assert_allclose(run_lowered(lower(program), X)[0], np.sin(X), rtol=1e-6)
