"""Every primitive has a lowering rule or a declared reason, and every sample matches its NumPy evaluation."""
from __future__ import annotations

import pytest
from lamina_ir import prims
from lamina_ir.testing.samples import samples_of
from lamina_ir.testing.samples.collectives import AXES, per_device
from lamina_lowering import lowering_rules
from lamina_lowering.testing import check_collective, check_lowering

SAMPLES = [s for p in prims.ALL for s in samples_of(p)]


@pytest.mark.parametrize("prim", prims.ALL, ids=str)
def test_primitive_has_rule_or_declared_reason(prim):
    assert lowering_rules.has_rule_or_reason(prim), f"{prim.name}: add a rule to lamina_lowering/rules/{prim.family}.py"


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.id)
def test_sample_matches_numpy_evaluation(sample):
    if sample.prim in lowering_rules.missing_rules:
        pytest.skip(lowering_rules.missing_rules[sample.prim])
    if sample.prim.family == "collectives":
        check_collective(sample.prim, per_device(sample), sample.params, AXES)
    else:
        check_lowering(sample.prim, sample.args, sample.params)
