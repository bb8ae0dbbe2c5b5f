"""The default implementation passes the conformance tests; each defective one in `broken/` fails them."""
from __future__ import annotations

import pytest
from lamina_ir.testing.conformance import run_with_implementation
from lamina_ir.conformance.trials import ContractTrials


class TestContract(ContractTrials):
    seen_in = {
        "takes_one_op_for_another": "test_every_op.py::test_lowered_primitive_equals_numpy_evaluation",
        "forgets_constants": "test_programs.py",
        "turns_results_around": "test_programs.py", "never_gives_the_same": "test_programs.py",
        "ignores_missing_rules": "test_rule_tables.py", "loses_lines": "test_lines.py",
        "ignores_overrides": "test_rule_tables.py",
        "adds_up_all_groups": "test_collectives.py", "writes_out_every_call": "test_cost.py",
    }
    kept = ["test_programs.py", "test_rule_tables.py", "test_lines.py", "test_cost.py", "test_collectives.py"]


FOREIGN = TestContract.broken / "foreign" / "on_numpy.py"


@pytest.mark.slow
def test_lowering_to_another_format_passes_core_conformance_tests():
    status, output = run_with_implementation("lamina_lowering", FOREIGN, ["-q", "-m", "core or collectives"])
    assert status == 0 and "deselected" in output, output
    status, output = run_with_implementation("lamina_lowering", FOREIGN, ["-q", "-m", "rules or lines"])
    assert status == 1 and "5 failed, 1 passed" in output, output  # primitives without a rule are refused
