"""The contract holds for the stock, and each implementation in `broken/`, which changes one meaning, breaks it."""
from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
from lamina_ir.testing.contracts import folder_of, try_stand_in

LAYER = "lamina_parallel"
STOCK = Path(__file__).parent / "broken" / "nothing_changed.py"
# What is wrong -> the file of the contract that sees it.
BROKEN = {
    "forgets_out_axes": "test_maps.py", "cuts_what_is_longer": "test_maps.py", "traces_each_call": "test_maps.py",
    "means_are_sums": "test_collectives.py", "ignores_groups": "test_collectives.py",
    "shuffles_the_other_way": "test_collectives.py", "counts_replicas_once": "test_collectives.py",
    "sums_up_the_filling": "test_padded.py", "rounds_where_there_are_resources": "test_xmap.py",
    "believes_specs": "test_shard_map.py",
}


def test_each_broken_one_is_tried():
    assert {p.stem for p in STOCK.parent.glob("*.py")} == {*BROKEN, STOCK.stem, "does_nothing"}


def test_a_stand_in_that_changes_nothing_keeps_the_contract():
    status, output = try_stand_in(LAYER, STOCK, ["-q"])
    assert status == 0, output


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_a_change_of_meaning_breaks_the_contract(name):
    status, output = try_stand_in(LAYER, STOCK.with_stem(name), ["-x", "-q", BROKEN[name]])
    assert status == 1 and "1 failed" in output, output


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("lamina_runtime") is None, reason="no runtime is installed")
def test_the_contract_holds_on_devices(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4")
    files = ["test_maps.py", "test_xmap.py", "test_shard_map.py", "test_padded.py"]
    status, output = try_stand_in(LAYER, None, ["-q", "-p", "lamina_runtime", *files])
    assert status == 0, output


@pytest.mark.slow
def test_nothing_is_kept_where_nothing_is_done():
    # `test_together.py` is about the two layers below, which meet here first.
    files = [path.name for path in folder_of(LAYER).glob("test_*.py") if path.name != "test_together.py"]
    argv = ["-q", "--tb=no", "-rp", "--continue-on-collection-errors", *files]
    status, output = try_stand_in(LAYER, STOCK.with_stem("does_nothing"), argv)
    assert status == 1 and "PASSED" not in output and " passed" not in output, output
