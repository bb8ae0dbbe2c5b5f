"""The contract holds for the stock, and each implementation in `broken/`, which changes one meaning, breaks it."""
from __future__ import annotations

from pathlib import Path

import pytest
from lamina_ir.testing.contracts import try_stand_in

LAYER = "lamina_lowering"
STOCK = Path(__file__).parent / "broken" / "nothing_changed.py"
FOREIGN = Path(__file__).parent / "broken" / "foreign" / "on_numpy.py"
# What is wrong -> the file of the contract that sees it.
BROKEN = {
    "takes_one_op_for_another": "test_every_op.py::test_an_op_is_lowered_to_its_meaning",
    "forgets_constants": "test_programs.py",
    "turns_results_around": "test_programs.py", "never_gives_the_same": "test_programs.py",
    "believes_there_is_a_row": "test_rows.py", "loses_lines": "test_lines.py", "obeys_its_own_rows": "test_rows.py",
    "adds_up_all_groups": "test_collectives.py", "writes_out_every_call": "test_cost.py",
}


def test_each_broken_one_is_tried():
    assert {p.stem for p in STOCK.parent.glob("*.py")} == {*BROKEN, STOCK.stem, "does_nothing"}


def test_a_stand_in_that_changes_nothing_keeps_the_contract():
    status, output = try_stand_in(LAYER, STOCK, ["-q", "test_programs.py", "test_rows.py", "test_lines.py", "test_cost.py",
                                                 "test_collectives.py"])
    assert status == 0, output


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_a_change_of_meaning_breaks_the_contract(name):
    status, output = try_stand_in(LAYER, STOCK.with_stem(name), ["-x", "-q", BROKEN[name]])
    assert status == 1 and "1 failed" in output, output


@pytest.mark.slow
def test_a_lowering_to_another_format_is_tried_as_a_whole():
    status, output = try_stand_in(LAYER, FOREIGN, ["-q", "-m", "core or collectives"])
    assert status == 0 and "deselected" in output, output
    status, output = try_stand_in(LAYER, FOREIGN, ["-q", "-m", "rows or lines"])
    assert status == 1 and "5 failed, 1 passed" in output, output  # what it has no row for it refuses


@pytest.mark.slow
def test_nothing_is_kept_where_nothing_is_done():
    argv = ["-q", "--tb=no", "-rp", "--continue-on-collection-errors"]
    status, output = try_stand_in(LAYER, STOCK.with_stem("does_nothing"), argv)
    assert status == 1 and "PASSED" not in output and " passed" not in output, output
