"""Rules added to the lowering tables, and overrides for all platforms or for one, are used."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_ir import MissingRuleError, Primitive, prims

from lamina_lowering import lower, lowering_rules, platform_rules

from lamina_lowering.conformance.runner import V, chain, check_run, program_of, run

pytestmark = pytest.mark.rules

X = np.array([0.5, -1, 2], np.float32)


def test_overridden_rule_is_used_inside_block() -> None:
    program = chain(prims.sin_p, prims.neg_p)
    with lowering_rules.override(prims.sin_p, lowering_rules[prims.cos_p]):
        np.testing.assert_allclose(run(lower(program), program, [X])[0], -np.cos(X), rtol=1e-6)
    check_run(program, X)


def test_platform_rule_is_used_only_on_its_platform() -> None:
    program = chain(prims.sin_p, prims.neg_p)
    before = lower(program, platform="tpu").bytecode()
    with platform_rules("tpu").override(prims.sin_p, lowering_rules[prims.cos_p]):
        check_run(program, X)
        assert lower(program, platform="tpu").bytecode() != before
    assert lower(program, platform="tpu").bytecode() == before


def test_primitive_without_rule_is_rejected_by_name() -> None:
    odd = Primitive("odd", infer=lambda a: a, family="shape")
    with pytest.raises(MissingRuleError, match="odd"):
        lower(program_of([(odd, [V], {})]))


def test_third_party_primitive_uses_its_rule() -> None:
    twice = Primitive("conformance_of_lowering", infer=lambda a: a, numpy=np.sin)
    program = program_of([(twice, [V], {})])
    with lowering_rules.override(twice, lowering_rules[prims.sin_p]):
        check_run(program, X)
