"""The contract holds for the stock, and each implementation in `broken/`, which changes one meaning, breaks it."""
from __future__ import annotations

from pathlib import Path

import pytest
from lamina_ir.testing.contracts import folder_of, try_stand_in

LAYER = "lamina_autodiff"
STOCK = Path(__file__).parent / "broken" / "nothing_changed.py"
# What is wrong -> the file of the contract that sees it.
BROKEN = {
    "forgets_a_factor": "test_closed_forms.py", "pulls_back_what_it_pushes": "test_laws.py",
    "keeps_one_argument": "test_closed_forms.py", "forgets_the_second_time": "test_nested.py", "mixes_levels": "test_nested.py",
    "ignores_rules": "test_rules.py", "conjugates": "test_closed_forms.py", "sums_over_members_once": "test_collectives.py",
    "says_nothing": "test_errors.py", "pushes_forward_only": "test_cost.py",
}


def test_each_broken_one_is_tried():
    assert {p.stem for p in STOCK.parent.glob("*.py")} == {*BROKEN, STOCK.stem, "does_nothing"}


def test_a_stand_in_that_changes_nothing_keeps_the_contract():
    status, output = try_stand_in(LAYER, STOCK, ["-q", "test_closed_forms.py", "test_laws.py", "test_rules.py",
                                                 "test_errors.py", "test_cost.py", "test_rows.py"])
    assert status == 0, output


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_a_change_of_meaning_breaks_the_contract(name):
    status, output = try_stand_in(LAYER, STOCK.with_stem(name), ["-x", "-q", BROKEN[name]])
    assert status == 1 and "1 failed" in output, output


@pytest.mark.slow
def test_what_is_dear_keeps_all_but_the_cost():
    argv = ["-q", "-m", "not cost", "test_closed_forms.py", "test_laws.py", "test_cost.py"]
    status, output = try_stand_in(LAYER, STOCK.with_stem("pushes_forward_only"), argv)
    assert status == 0, output


@pytest.mark.slow
def test_nothing_is_kept_where_nothing_is_done():
    files = [path.name for path in folder_of(LAYER).glob("test_*.py") if path.name != "test_every_op.py"]
    status, output = try_stand_in(LAYER, STOCK.with_stem("does_nothing"), ["-q", "--tb=no", "-rp", *files])
    assert status == 1 and "PASSED" not in output and " passed" not in output, output
