"""The contract holds for the stock, and each module in `broken/`, which puts one wrong thing in its place, breaks it."""
from __future__ import annotations

from pathlib import Path

import pytest
from lamina_ir.testing.contracts import try_stand_in

LAYER = "lamina_ir"
STOCK = Path(__file__).parent / "broken" / "nothing_changed.py"
# What is wrong -> the file of the contract that sees it.
BROKEN = {
    "cubes_for_tanh": "test_elementwise.py", "sums_the_first_axis": "test_arrays.py",
    "scans_once_too_few": "test_programs_run.py", "ignores_groups": "test_programs_run.py",
    "drops_effects": "test_rewriting.py", "knows_too_much": "test_rewriting.py", "checks_nothing": "test_forms.py",
    "loads_anything": "test_forms.py", "rounds_constants": "test_forms.py", "overrides_for_ever": "test_tables.py",
    "takes_none_for_a_leaf": "test_trees.py", "forgets_weak_types": "test_types.py",
    "writes_otherwise": "test_file_format.py",
}


def test_each_broken_one_is_tried():
    assert {p.stem for p in STOCK.parent.glob("*.py")} == {*BROKEN, STOCK.stem}


def test_a_plugin_that_changes_nothing_keeps_the_contract():
    status, output = try_stand_in(LAYER, STOCK, ["-q", "test_rewriting.py", "test_tables.py", "test_trees.py", "test_types.py"])
    assert status == 0, output


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_a_change_of_meaning_breaks_the_contract(name):
    status, output = try_stand_in(LAYER, STOCK.with_stem(name), ["-x", "-q", BROKEN[name]])
    assert status == 1 and "1 failed" in output, output
