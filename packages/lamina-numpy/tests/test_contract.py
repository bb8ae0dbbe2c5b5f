"""The contract holds for the stock, and each implementation in `broken/`, which changes one meaning, breaks it."""
from __future__ import annotations

from pathlib import Path

import pytest
from lamina_ir.testing.contracts import try_stand_in

LAYER = "lamina_numpy"
STOCK = Path(__file__).parent / "broken" / "nothing_changed.py"
# What is wrong -> the file of the contract that sees it.
BROKEN = {
    "divides_as_c_does": "test_functions.py", "forgets_keepdims": "test_functions.py",
    "takes_numbers_at_their_word": "test_types.py", "subtracts_the_other_way": "test_arrays.py",
    "reads_zeros_outside": "test_indexing.py", "adds_once": "test_indexing.py", "has_no_slope": "test_transformed.py",
    "looks_at_values": "test_transformed.py", "calls_itself": "test_transformed.py", "takes_lists": "test_refusals.py",
}


def test_each_broken_one_is_tried():
    assert {p.stem for p in STOCK.parent.glob("*.py")} == {*BROKEN, STOCK.stem, "does_nothing"}


def test_a_stand_in_that_changes_nothing_keeps_the_contract():
    files = ["test_types.py", "test_arrays.py", "test_indexing.py", "test_refusals.py"]
    status, output = try_stand_in(LAYER, STOCK, ["-q", *files])
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
    passed = [line for line in output.splitlines() if line.startswith("PASSED")]
    of_tracing = "test_reading_when_traced", "test_a_traced_value_is_no_number"  # whose operators are there all the same
    assert status == 1 and all(any(name in line for name in of_tracing) for line in passed), passed
