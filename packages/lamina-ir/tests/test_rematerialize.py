"""Rematerialization of cheap residuals in the second stage: never hands over more values and never changes rounding."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_ir import check, evaluate, parse

from lamina_ir._passes.rematerialize import find_compared_values, is_cheap, is_exact, recompute_cheap_residuals

A, T = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
SECOND = """{ lambda ; b:f32[4]{i} c:f32[4]{i} t:f32[4]{i}. let
    d:f32[4]{i} = mul b c
    e:f32[4]{i} = mul d t
  in (e,) }"""


def stages(text):
    """Return the primitives of both stages and the number of residuals. The first returns only residuals."""
    first, second = parse(text), parse(SECOND)
    one, two = recompute_cheap_residuals(first, second, 0, {"i": 8})
    for program in (one, two):
        check(program)
    wanted = evaluate(second, *evaluate(first, A, T), A)
    np.testing.assert_array_equal(evaluate(two, *evaluate(one, A, T), A), wanted)
    return [e.primitive.name for e in one.eqns], [e.primitive.name for e in two.eqns], len(two.in_avals) - 1


def test_factor_is_recomputed_from_varying_operand_and_replicated_value():
    assert stages("""{ lambda ; a:f32[4]{i} t:f32[4]. let
        b:f32[4] = cumsum[axis=0 reverse=False] t
        c:f32[4]{i} = sub a b
        d:f32[4]{i} = exp c
        e:f32[4]{i} = cos a
      in (d, e) }""") == (["cumsum"], ["sub", "exp", "cos", "mul", "mul"], 2)


def test_residuals_of_one_value_are_replaced_together():
    text = """{ lambda ; a:f32[4]{i} t:f32[4]. let
        b:f32[4]{i} = cumsum[axis=0 reverse=False] a
        c:f32[4]{i} = sin b
        d:f32[4]{i} = %s
      in (c, d) }"""
    assert stages(text % "cos b") == (["cumsum"], ["sin", "cos", "mul", "mul"], 1)
    assert stages(text % "cumsum[axis=0 reverse=False] c")[0] == ["cumsum", "sin", "cumsum"]


def test_small_residual_is_not_replaced_by_larger_one():
    text = """{ lambda ; a:f32[4,9]{i} t:f32[4]{i}. let
        b:f32[4,9]{i} = cumsum[axis=0 reverse=False] a
        c:f32[4,1]{i} = slice[limit_indices=(4, 1) start_indices=(0, 0) strides=None] b
        d:f32[4]{i} = reshape[dimensions=None new_sizes=(4,)] c
      in (d, t) }"""
    first, second = parse(text), parse(SECOND)
    assert recompute_cheap_residuals(first, second, 0, {"i": 8}) == (first, second)
    assert recompute_cheap_residuals(first, second, 0, {}) == (first, second)


def test_long_chains_stay_residuals():
    steps = "\n".join(f"a{n + 1}:f32[4]{{i}} = sin a{n}" for n in range(20))
    assert stages("{ lambda ; a0:f32[4]{i} t:f32[4]. let %s in (a20, a20) }" % steps)[2] == 1


@pytest.mark.parametrize("made, fixed", [("sin a", True), ("abs a", False), ("mul a 2.0:f32[]", True), ("neg a", False)])
def test_inexact_value_compared_with_its_pmax_is_not_recomputed(made, fixed):
    program = parse("""{ lambda ; a:f32[4]{i}. let
        b:f32[4]{i} = %s
        c:f32[4] = pmax[axes=('i',) axis_index_groups=None] b
        d:f32[4,1]{i} = reshape[dimensions=None new_sizes=(4, 1)] b
        e:f32[4,1] = reshape[dimensions=None new_sizes=(4, 1)] c
        f:bool[4,1]{i} = eq d e
        g:f32[4]{i} = exp b
      in (f, g) }""" % made)
    assert [e.primitive.name for e in program.eqns
            if {*e.outvars} & find_compared_values(program.eqns)] == [made.split()[0]] * fixed
    assert is_exact(program.eqns[0]) is not fixed


def test_comparison_with_pmax_is_found_inside_call():
    program = parse("""{ lambda ; a:f32[]{i}. let
        b:f32[]{i} = sin a
        c:f32[] = pmax[axes=('i',) axis_index_groups=None] b
        d:bool[]{i} = xla_call[
          call_jaxpr={ lambda ; e:f32[]{i} f:f32[]. let g:bool[]{i} = %s e f in (g,) }
          name=f
        ] b c
      in (d,) }""" % "eq")
    assert find_compared_values(program.eqns) == {program.eqns[0].outvars[0]}
    assert not find_compared_values(parse(str(program).replace("= eq e f", "= is_finite e")).eqns)


@pytest.mark.parametrize("op, exact", [("abs", False), ("neg", True)])
def test_complex_residuals_are_recomputed(op, exact):
    e, = parse("{ lambda ; a:c64[]. let b:%s = %s a in (b,) }" % ("f32[]" if op == "abs" else "c64[]", op)).eqns
    assert is_exact(e) is exact and is_cheap(e)
