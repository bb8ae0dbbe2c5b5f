"""Every op, lowered and run, gives its NumPy meaning on every sample of it."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, MissingRuleError, Var, aval_of, evaluate_primitive, prims
from lamina_ir.testing import assert_close
from lamina_ir.testing.samples import Sample, canonicalize_results, samples_of

from lamina_lowering import lower

from lamina_lowering.conformance.runner import agrees, program_of, run

# Ops that other rooms take out of a program before it is lowered, or that speak of axes around it (`test_collectives.py`).
BEFORE = {prims.xmap_p, prims.random_wrap_p, prims.random_unwrap_p}
PLAIN = [p for p in prims.ALL if p.family != "collectives" and p not in BEFORE]


def compared(rows: list[Sample]) -> None:
    """All these uses in one program: each result is its op's meaning."""
    avals = [[aval_of(a) for a in row.args] for row in rows]
    arrays = [[np.asarray(a, v.dtype) for a, v in zip(row.args, types)] for row, types in zip(rows, avals)]
    program = program_of([(row.prim, types, row.params) for row, types in zip(rows, avals)])
    got = iter(run(lower(program), program, [a for given in arrays for a in given]))
    for row, given in zip(rows, arrays):
        wanted = evaluate_primitive(row.prim, given, row.params)
        wanted = list(wanted) if row.prim.multiple else [wanted]
        results = [next(got) for _ in wanted]
        for a, b in zip(canonicalize_results(row.prim, results), canonicalize_results(row.prim, wanted), strict=True):
            assert_close(a, b, what=row.id)


@pytest.mark.parametrize("prim", [p for p in PLAIN if not p.subprograms], ids=str)
def test_an_op_is_lowered_to_its_meaning(prim: Any) -> None:
    rows = samples_of(prim)
    assert rows
    compared(rows[:1] if prim.family == "special" else rows)  # long series, which take a compiler seconds each


@pytest.mark.parametrize("row", [r for p in PLAIN if p.subprograms for r in samples_of(p)], ids=lambda row: row.id)
def test_an_op_with_programs_inside_is_lowered_to_its_meaning(row: Any) -> None:
    compared([row])


@pytest.mark.parametrize("row", samples_of(prims.random_wrap_p), ids=lambda row: row.id)
def test_keys_are_their_words(row: Any) -> None:
    words = Var(aval_of(row.args[0]))
    keys, back = Var(prims.random_wrap_p.infer(words.aval, **row.params)), Var(words.aval)
    program = ClosedJaxpr(Jaxpr([], [words], [Eqn(prims.random_wrap_p, [words], [keys], row.params),
                                              Eqn(prims.random_unwrap_p, [keys], [back], {"use": "data"})], [back]))
    agrees(program, row.args[0])


def test_what_is_written_in_other_ops_before_is_refused_by_name_or_lowered_to_its_meaning() -> None:
    row = samples_of(prims.xmap_p)[0]
    program = program_of([(row.prim, [aval_of(a) for a in row.args], row.params)])
    try:
        lower(program)
    except MissingRuleError as e:
        assert "xmap" in str(e)
    else:
        agrees(program, *row.args)
