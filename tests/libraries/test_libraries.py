"""The lists of programs, pins, recorded numbers and the page agree; `nox -s libraries` runs the programs."""
from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from library_sets import PROGRAMS, ROOT, SETS, differences, distribution_of
from page import page_of, replace_tables
from run import SAMPLE, TOLERANCES


@pytest.mark.parametrize("year", SETS)
def test_recorded_numbers_and_pins_cover_the_programs(year):
    chosen = SETS[year]
    assert set(json.loads(chosen.recording.read_text())["programs"]) == set(chosen.programs)
    assert {distribution_of(name) for name in chosen.programs} <= set(chosen.versions())
    assert {*chosen.excluded, *chosen.failing, *SAMPLE, *TOLERANCES} <= set(PROGRAMS)
    running = [name for name in chosen.programs if name not in chosen.failing]
    assert len(running) >= 25 and len({distribution_of(name) for name in running}) >= 20
    assert {"jax", "jaxlib"}.isdisjoint(chosen.versions())


def test_page_shows_the_current_tables():
    text = page_of(ROOT).read_text()
    assert replace_tables(text) == text, "run: python tests/libraries/run.py --write-page"


def test_differences_names_numbers_that_changed_or_are_missing():
    recorded = {"a": [1.0, 2.0], "b": [0.0], "c": [float("nan")]}
    assert differences({"a": [1.0, 2.001], "b": [0.0], "c": [float("nan")]}, recorded, 1e-3) == []
    found = differences({"a": [1.0, 2.1], "c": [0.0]}, recorded, 1e-3)
    assert [line.split(":")[0] for line in found] == ["b", "a", "c"]
