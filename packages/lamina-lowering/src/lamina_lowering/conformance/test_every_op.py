"""Every primitive, lowered and run, equals its NumPy evaluation on every sample."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, MissingRuleError, Var, aval_of, evaluate_primitive, prims
from lamina_ir.testing import assert_close
from lamina_ir.testing.samples import Sample, canonicalize_results, samples_of

from lamina_lowering import lower

from lamina_lowering.conformance.runner import check_run, program_of, run

# Primitives that other packages remove before lowering, or that need axes of outer maps (`test_collectives.py`).
BEFORE = {prims.xmap_p, prims.random_wrap_p, prims.random_unwrap_p}
PLAIN = [p for p in prims.ALL if p.family != "collectives" and p not in BEFORE]


def compare_results(rows: list[Sample]) -> None:
    """Lower all these uses in one program; compare each result with the NumPy evaluation."""
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
def test_lowered_primitive_equals_numpy_evaluation(prim: Any) -> None:
    rows = samples_of(prim)
    assert rows
    compare_results(rows[:1] if prim.family == "special" else rows)  # long series compile slowly


@pytest.mark.parametrize("row", [r for p in PLAIN if p.subprograms for r in samples_of(p)], ids=lambda row: row.id)
def test_lowered_primitive_with_regions_equals_numpy_evaluation(row: Any) -> None:
    compare_results([row])


@pytest.mark.parametrize("row", samples_of(prims.random_wrap_p), ids=lambda row: row.id)
def test_random_wrap_and_unwrap_round_trip(row: Any) -> None:
    words = Var(aval_of(row.args[0]))
    keys, back = Var(prims.random_wrap_p.infer(words.aval, **row.params)), Var(words.aval)
    program = ClosedJaxpr(Jaxpr([], [words], [Eqn(prims.random_wrap_p, [words], [keys], row.params),
                                              Eqn(prims.random_unwrap_p, [keys], [back], {"use": "data"})], [back]))
    check_run(program, row.args[0])


def test_xmap_is_rejected_by_name_or_equals_numpy_evaluation() -> None:
    row = samples_of(prims.xmap_p)[0]
    program = program_of([(row.prim, [aval_of(a) for a in row.args], row.params)])
    try:
        lower(program)
    except MissingRuleError as e:
        assert "xmap" in str(e)
    else:
        check_run(program, *row.args)
