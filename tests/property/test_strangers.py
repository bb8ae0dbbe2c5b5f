"""The ops of `examples/outside` under every law of the house's own."""
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

LAWS = [test_compiled.test_compiled_op_has_its_numpy_meaning, test_compiled.test_jit_is_eager,
        test_programs.test_save_load_print_parse, test_programs.test_the_meaning_has_the_type_that_is_inferred,
        test_splits.test_op_on_split_operands, test_splits.test_gradient_on_split_operands]
ON_NUMPY = [test_batching.test_vmap_is_a_loop, test_batching.test_grad_of_vmap_is_vmap_of_grad,
            test_derivatives.test_jvp_is_the_limit_of_differences_and_vjp_its_transpose]
OPS = pytest.mark.parametrize("prim", [softsign_p, repeat_p], ids=str)


def name(law):
    return law.__name__.removeprefix("test_")


@OPS
@pytest.mark.parametrize("law", LAWS, ids=name)
def test_of_compiled_ops(law, prim):
    law(prim=prim)


@OPS
@pytest.mark.usefixtures("on_numpy")
@pytest.mark.parametrize("law", ON_NUMPY, ids=name)
def test_of_rules(law, prim):
    law(prim=prim)


def test_at_special_values():
    test_compiled.test_compiled_op_has_its_numpy_meaning_at_special_values(prim=softsign_p)
