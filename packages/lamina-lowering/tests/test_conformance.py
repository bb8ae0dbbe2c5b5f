"""The contract holds for the stock, and each implementation in `broken/`, which changes one meaning, breaks it."""
from __future__ import annotations

from pathlib import Path

import pytest
from lamina_ir.testing.conformance import run_with_implementation
from lamina_ir.conformance.trials import ContractTrials


class TestContract(ContractTrials):
    layer = "lamina_lowering"
    broken = Path(__file__).parent / "broken"
    seen_in = {
        "takes_one_op_for_another": "test_every_op.py::test_an_op_is_lowered_to_its_meaning",
        "forgets_constants": "test_programs.py",
        "turns_results_around": "test_programs.py", "never_gives_the_same": "test_programs.py",
        "believes_there_is_a_row": "test_rows.py", "loses_lines": "test_lines.py", "obeys_its_own_rows": "test_rows.py",
        "adds_up_all_groups": "test_collectives.py", "writes_out_every_call": "test_cost.py",
    }
    kept = ["test_programs.py", "test_rows.py", "test_lines.py", "test_cost.py", "test_collectives.py"]


FOREIGN = TestContract.broken / "foreign" / "on_numpy.py"


@pytest.mark.slow
def test_a_lowering_to_another_format_is_tried_as_a_whole():
    status, output = run_with_implementation("lamina_lowering", FOREIGN, ["-q", "-m", "core or collectives"])
    assert status == 0 and "deselected" in output, output
    status, output = run_with_implementation("lamina_lowering", FOREIGN, ["-q", "-m", "rows or lines"])
    assert status == 1 and "5 failed, 1 passed" in output, output  # what it has no row for it refuses
