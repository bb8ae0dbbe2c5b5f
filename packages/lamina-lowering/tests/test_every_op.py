"""Every primitive has a lowering row or a written reason, and every sample compiles to its NumPy meaning."""
from __future__ import annotations

import pytest
from lamina_ir import prims
from lamina_ir.testing.samples import samples_of
from lamina_ir.testing.samples.collectives import AXES, per_device
from lamina_lowering import lowering_rules
from lamina_lowering.testing import check_collective, check_lowering

ROWS = [s for p in prims.ALL for s in samples_of(p)]


@pytest.mark.parametrize("prim", prims.ALL, ids=str)
def test_row_or_hole(prim):
    assert lowering_rules.has_rule_or_reason(prim), f"{prim.name}: add a row to lamina_lowering/rules/{prim.family}.py"


@pytest.mark.parametrize("row", ROWS, ids=lambda s: s.id)
def test_sample_lowers_to_its_numpy_meaning(row):
    if row.prim in lowering_rules.missing_rules:
        pytest.skip(lowering_rules.missing_rules[row.prim])
    if row.prim.family == "collectives":
        check_collective(row.prim, per_device(row), row.params, AXES)
    else:
        check_lowering(row.prim, row.args, row.params)
