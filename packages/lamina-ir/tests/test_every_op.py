"""Every primitive over every sample, as a program: saved and loaded, printed and parsed, and through every rewrite."""
from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from lamina_ir import (ClosedJaxpr, Eqn, Jaxpr, Literal, ProgramError, Var, alpha_equal, check, cse, dce, dumps,
                       eqn_has_effects, evaluate, evaluate_spmd, fold_constants, inline_calls, jaxpr_text, loads, parse,
                       partial_eval, prims, rewrite, walk)
from lamina_ir.testing.programs import make_sample_program
from lamina_ir.testing.samples import samples_of
from lamina_ir.testing.samples.collectives import AXES, per_device

ROWS = [row for prim in prims.ALL for row in samples_of(prim)]


def holds_function(value):
    """Return whether a param holds a function, which can be neither saved nor printed."""
    if isinstance(value, (tuple, list)):
        return any(map(holds_function, value))
    if isinstance(value, ClosedJaxpr):
        return any(holds_function(v) for e in value.eqns for v in e.params.values())
    return callable(value) and not isinstance(value, type) and not dataclasses.is_dataclass(value)


WRITABLE = [row for row in ROWS if not any(map(holds_function, row.params.values()))]


def run(program, row):
    """Return the results of a sample's program; for collectives, those of every device."""
    if row.prim.axis_params:
        return [x for xs in evaluate_spmd(program, AXES, per_device(row)) for x in xs]
    return evaluate(program, *row.args)


def assert_same(got, wanted):
    for a, b in zip(got, wanted, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("prim", prims.ALL, ids=str)
def test_primitive_has_samples(prim):
    assert samples_of(prim), f"add rows to lamina_ir/testing/samples_{prim.family}.py"


@pytest.mark.parametrize("weak", [False, True], ids=["strong", "weak"])
@pytest.mark.parametrize("row", WRITABLE, ids=lambda row: row.id)
def test_samples_can_be_saved_and_printed(row, weak):
    program = make_sample_program(row, weak)
    check(program)
    loaded = loads(dumps(program))
    assert alpha_equal(program, loaded, weak=True)
    assert_same(run(loaded, row), run(program, row))
    text = jaxpr_text(program)
    assert jaxpr_text(loaded) == text
    if not any(c for e in walk(program) for s in e.params.values() if isinstance(s, ClosedJaxpr) for c in s.consts):
        again = parse(text)
        assert jaxpr_text(again) == text and alpha_equal(program, again)
        full = jaxpr_text(program, weak=True)
        again = parse(full)
        assert jaxpr_text(again, weak=True) == full and alpha_equal(program, again, weak=True)
        assert_same(run(again, row), run(program, row))


UNWRITABLE = [row for row in ROWS if any(map(holds_function, row.params.values()))]


@pytest.mark.parametrize("row", UNWRITABLE, ids=lambda row: row.id)
def test_params_with_functions_cannot_be_saved(row):
    with pytest.raises(ProgramError, match="cannot be saved"):
        dumps(make_sample_program(row))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_rewrites_keep_results(row):
    program = make_sample_program(row)
    e, = program.eqns
    twice = [Var(v.aval) for v in e.outvars]
    double = ClosedJaxpr(Jaxpr([], program.jaxpr.invars, [e, Eqn(e.primitive, e.invars, twice, e.params)],
                               [*e.outvars, *twice]))
    wanted = run(program, row)
    for change in (cse, inline_calls, fold_constants, lambda p: dce(p, instantiate=True)[0],
                   lambda p: rewrite(p, lambda e: None)):
        new = change(double)
        check(new)
        if not eqn_has_effects(e):
            assert_same(run(new, row), run(double, row))
    if not eqn_has_effects(e) and e.primitive.name not in ("xla_pmap",):
        assert len(cse(double).eqns) == 1
    for k in range(len(e.outvars)):
        small, used = dce(program, [i == k for i in range(len(e.outvars))], instantiate=True)
        check(small)
        n = len(wanted) // len(e.outvars)
        assert all(used)
        assert_same(run(small, row), wanted[k * n:(k + 1) * n])


LOCAL = [row for row in ROWS if not row.prim.axis_params and row.args]


@pytest.mark.parametrize("row", LOCAL, ids=lambda row: row.id)
def test_partial_evaluation_keeps_results(row):
    program = make_sample_program(row)
    wanted = run(program, row)
    n = len(row.args)
    for known in {(True,) * n, (False,) * n, *(tuple(i == k for i in range(n)) for k in range(n))}:
        split = partial_eval(program, list(known))
        check(split.known)
        check(split.unknown)
        first = evaluate(split.known, *[a for a, k in zip(row.args, known) if k])
        count = sum(split.out_known)
        assert [v.aval for v in split.known.jaxpr.outvars[count:]] == split.residuals
        second = iter(evaluate(split.unknown, *first[count:], *[a for a, k in zip(row.args, known) if not k]))
        done = iter(first[:count])
        assert_same([next(done if k else second) for k in split.out_known], wanted)


SCALARS = [row for row in LOCAL if not row.prim.subprograms and not row.prim.effectful]


@pytest.mark.parametrize("row", SCALARS, ids=lambda row: row.id)
def test_constant_folding_keeps_results(row):
    program = make_sample_program(row)
    jaxpr = program.jaxpr
    fixed = ClosedJaxpr(Jaxpr(jaxpr.invars, [], jaxpr.eqns, jaxpr.outvars), row.args)
    folded = fold_constants(fixed)
    check(folded)
    assert folded.eqns == [] and all(isinstance(a, (Var, Literal)) for a in folded.jaxpr.outvars)
    assert_same(evaluate(folded), evaluate(program, *row.args))
