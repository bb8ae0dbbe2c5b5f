"""The contract holds for the stock, and each implementation in `broken/`, which changes one meaning, breaks it."""
from __future__ import annotations

from pathlib import Path

import pytest
from lamina_ir.testing.contracts import try_stand_in

LAYER = "lamina_runtime"
STOCK = Path(__file__).parent / "broken" / "nothing_changed.py"
# What is wrong -> the file of the contract that sees it.
BROKEN = {
    "takes_one_op_for_another": "test_every_op.py::test_an_op_called_on_values_gives_its_meaning",
    "remembers_results": "test_calls.py", "keeps_what_is_donated": "test_calls.py", "knows_one_width": "test_calls.py",
    "traces_each_call": "test_calls.py", "does_not_say_which": "test_calls.py", "forgets_who_is_weak": "test_arrays.py",
    "calls_twice": "test_effects.py", "maps_on_one_device": "test_places.py", "goes_to_the_first_device": "test_places.py",
}


def test_each_broken_one_is_tried():
    assert {p.stem for p in STOCK.parent.glob("*.py")} == {*BROKEN, STOCK.stem, "does_nothing"}


def test_a_stand_in_that_changes_nothing_keeps_the_contract():
    status, output = try_stand_in(LAYER, STOCK, ["-q", "test_arrays.py", "test_calls.py", "test_places.py", "test_effects.py"])
    assert status == 0, output


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_a_change_of_meaning_breaks_the_contract(name):
    status, output = try_stand_in(LAYER, STOCK.with_stem(name), ["-x", "-q", BROKEN[name]])
    assert status == 1 and "1 failed" in output, output


@pytest.mark.slow
def test_nothing_is_kept_where_nothing_is_done():
    argv = ["-q", "--tb=no", "-rp", "--continue-on-collection-errors"]
    status, output = try_stand_in(LAYER, STOCK.with_stem("does_nothing"), argv)
    assert status == 1 and "PASSED" not in output and " passed" not in output, output
