"""The contract holds for the stock, and each implementation in `broken/`, which changes one meaning, breaks it."""
from __future__ import annotations

from pathlib import Path

import pytest
from lamina_ir.testing.contracts import folder_of, try_stand_in

LAYER = "lamina_batching"
STOCK = Path(__file__).parent / "broken" / "nothing_changed.py"
# What is wrong -> the file of the contract that sees it.
BROKEN = {
    "ignores_out_axes": "test_axes.py", "forgets_none": "test_axes.py", "first_for_all": "test_axes.py",
    "turns_examples_around": "test_axes.py", "loses_the_name": "test_collectives.py",
    "one_axis_when_nested": "test_nested.py", "ignores_rules": "test_custom.py", "says_nothing": "test_errors.py",
    "adds_members_up_wrongly": "test_collectives.py", "takes_one_at_a_time": "test_cost.py",
}


def test_each_broken_one_is_tried():
    assert {p.stem for p in STOCK.parent.glob("*.py")} == {*BROKEN, STOCK.stem, "does_nothing"}


def test_a_stand_in_that_changes_nothing_keeps_the_contract():
    status, output = try_stand_in(LAYER, STOCK, ["-q", "test_axes.py", "test_nested.py", "test_errors.py", "test_custom.py",
                                                 "test_cost.py", "test_rows.py"])
    assert status == 0, output


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_a_change_of_meaning_breaks_the_contract(name):
    status, output = try_stand_in(LAYER, STOCK.with_stem(name), ["-x", "-q", BROKEN[name]])
    assert status == 1 and "1 failed" in output, output


@pytest.mark.slow
def test_what_is_slow_keeps_all_but_the_cost():
    status, output = try_stand_in(LAYER, STOCK.with_stem("takes_one_at_a_time"), ["-q", "-m", "not cost", "test_axes.py",
                                                                                  "test_nested.py", "test_cost.py"])
    assert status == 0, output


@pytest.mark.slow
def test_nothing_is_kept_where_nothing_is_done():
    files = [path.name for path in folder_of(LAYER).glob("test_*.py") if path.name != "test_every_op.py"]
    status, output = try_stand_in(LAYER, STOCK.with_stem("does_nothing"), ["-q", "--tb=no", "-rp", *files])
    assert status == 1 and "PASSED" not in output and " passed" not in output, output
