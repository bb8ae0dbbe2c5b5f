"""The contract holds for the stock, and each implementation in `broken/`, which changes one meaning, breaks it."""
from __future__ import annotations

from pathlib import Path

import pytest
from lamina_ir.testing.contracts import folder_of, try_stand_in

LAYER = "lamina_tracing"
STOCK = Path(__file__).parent / "broken" / "nothing_changed.py"
# What is wrong -> the file of the contract that sees it.
BROKEN = {
    "remembers_values": "test_jit.py", "forgets_static_arguments": "test_jit.py",
    "drops_what_is_not_read": "test_staging.py", "runs_to_learn_types": "test_staging.py",
    "scans_forward_only": "test_control.py", "wraps_indices_around": "test_control.py",
    "hides_values_without_jit": "test_jit.py", "takes_effects_for_values": "test_effects.py",
    "tells_no_leak": "test_tracers.py", "traces_at_every_call": "test_jit.py",
}


def test_each_broken_one_is_tried():
    assert {p.stem for p in STOCK.parent.glob("*.py")} == {*BROKEN, STOCK.stem, "does_nothing"}


def test_a_stand_in_that_changes_nothing_keeps_the_contract():
    argv = ["test_lax.py", "test_staging.py", "test_jit.py", "test_control.py", "test_effects.py", "test_tracers.py",
            "test_transformations.py"]
    status, output = try_stand_in(LAYER, STOCK, ["-q", *argv])
    assert status == 0, output


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_a_change_of_meaning_breaks_the_contract(name):
    status, output = try_stand_in(LAYER, STOCK.with_stem(name), ["-x", "-q", BROKEN[name]])
    assert status == 1 and "1 failed" in output, output


@pytest.mark.slow
def test_what_is_slow_keeps_all_but_the_cost():
    status, output = try_stand_in(LAYER, STOCK.with_stem("traces_at_every_call"), ["-q", "-m", "not cost", "test_jit.py",
                                                                                   "test_control.py", "test_staging.py"])
    assert status == 0, output


@pytest.mark.slow
def test_nothing_is_kept_where_nothing_is_done():
    files = [path.name for path in folder_of(LAYER).glob("test_*.py") if path.name != "test_every_op.py"]
    status, output = try_stand_in(LAYER, STOCK.with_stem("does_nothing"), ["-q", "--tb=no", "-rp", *files])
    assert status == 1 and "PASSED" not in output and " passed" not in output, output
