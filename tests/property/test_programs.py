"""Properties of programs: serialized, printed and parsed, or rewritten, a program evaluates the same."""
from __future__ import annotations

import numpy as np
import pytest
from sample_cases import cases
from hypothesis import given
from hypothesis import strategies as st
from lamina_ir import alpha_equal, check, cse, dumps, evaluate, inline_calls, jaxpr_text, loads, parse, prims
from lamina_ir.testing.programs import make_sample_program
from lamina_ir.testing.samples import samples_of

OPS = [p for p in prims.ALL if samples_of(p) and not p.axis_params]


def is_serializable(prim):
    from lamina_ir import ProgramError
    try:
        dumps(make_sample_program(samples_of(prim)[0]))
    except ProgramError:
        return False
    return True


@pytest.mark.parametrize("prim", [p for p in OPS if is_serializable(p)], ids=str)
@given(data=st.data())
def test_serialization_and_text_round_trip(prim, data):
    sample = data.draw(cases(prim))
    program = make_sample_program(sample, weak=data.draw(st.booleans()))
    check(program)
    loaded = loads(dumps(program))
    assert alpha_equal(program, loaded, weak=True)
    text = jaxpr_text(program, weak=True)
    if not prim.subprograms:
        assert alpha_equal(parse(text), program, weak=True)
    assert jaxpr_text(loaded, weak=True) == text
    if prim.effectful:
        return
    wanted = evaluate(program, *sample.args)
    for other in (loaded, cse(program), inline_calls(program)):
        for a, b in zip(evaluate(other, *sample.args), wanted, strict=True):
            a, b = np.asarray(a), np.asarray(b)
            assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("prim", [p for p in OPS if not p.effectful], ids=str)
@given(data=st.data())
def test_evaluated_results_have_the_inferred_types(prim, data):
    sample = data.draw(cases(prim))
    program = make_sample_program(sample)
    for v, a in zip(program.jaxpr.outvars, evaluate(program, *sample.args), strict=True):
        assert a.shape == v.aval.shape and a.dtype == v.aval.dtype
