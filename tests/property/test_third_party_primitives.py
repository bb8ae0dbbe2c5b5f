"""The third-party primitives of `examples/outside` in the property-based tests of built-in primitives."""
from __future__ import annotations

import sys
from pathlib import Path

import pytest
import test_batching
import test_compiled
import test_derivatives
import test_programs
import test_splits

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "outside" / "src"))
from outside import repeat_p, softsign_p  # noqa: E402

CHECKS = [test_compiled.test_compiled_primitive_matches_numpy, test_compiled.test_jit_matches_eager_call,
        test_programs.test_serialization_and_text_round_trip, test_programs.test_evaluated_results_have_the_inferred_types,
        test_splits.test_primitive_on_sharded_operands, test_splits.test_gradient_on_sharded_operands]
ON_NUMPY = [test_batching.test_vmap_matches_a_loop, test_batching.test_grad_of_vmap_is_vmap_of_grad,
            test_derivatives.test_jvp_is_the_limit_of_differences_and_vjp_its_transpose]
OPS = pytest.mark.parametrize("prim", [softsign_p, repeat_p], ids=str)


def name(check):
    return check.__name__.removeprefix("test_")


@OPS
@pytest.mark.parametrize("check", CHECKS, ids=name)
def test_compiled_third_party_primitive(check, prim):
    check(prim=prim)


@OPS
@pytest.mark.usefixtures("on_numpy")
@pytest.mark.parametrize("check", ON_NUMPY, ids=name)
def test_rules_of_third_party_primitive(check, prim):
    check(prim=prim)


def test_third_party_primitive_at_special_values():
    test_compiled.test_compiled_primitive_matches_numpy_at_special_values(prim=softsign_p)
