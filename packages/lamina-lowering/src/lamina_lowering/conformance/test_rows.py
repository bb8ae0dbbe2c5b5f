"""Rows of the lowering tables are obeyed: another's in an op's place, for all platforms or one, while the block is open."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_ir import MissingRuleError, Primitive, prims

from lamina_lowering import lower, lowering_rules, platform_rules

from lamina_lowering.conformance.runner import V, agrees, chain, program_of, run

pytestmark = pytest.mark.rows

X = np.array([0.5, -1, 2], np.float32)


def test_a_row_in_an_ops_place_is_used_while_its_block_is_open() -> None:
    program = chain(prims.sin_p, prims.neg_p)
    with lowering_rules.override(prims.sin_p, lowering_rules[prims.cos_p]):
        np.testing.assert_allclose(run(lower(program), program, [X])[0], -np.cos(X), rtol=1e-6)
    agrees(program, X)


def test_a_platforms_row_counts_on_that_platform_alone() -> None:
    program = chain(prims.sin_p, prims.neg_p)
    before = lower(program, platform="tpu").bytecode()
    with platform_rules("tpu").override(prims.sin_p, lowering_rules[prims.cos_p]):
        agrees(program, X)
        assert lower(program, platform="tpu").bytecode() != before
    assert lower(program, platform="tpu").bytecode() == before


def test_an_op_without_a_row_is_an_error_that_names_it() -> None:
    odd = Primitive("odd", infer=lambda a: a, family="shape")
    with pytest.raises(MissingRuleError, match="odd"):
        lower(program_of([(odd, [V], {})]))


def test_an_op_from_outside_has_the_row_it_was_given() -> None:
    twice = Primitive("contract_of_lowering", infer=lambda a: a, numpy=np.sin)
    program = program_of([(twice, [V], {})])
    with lowering_rules.override(twice, lowering_rules[prims.sin_p]):
        agrees(program, X)
