"""The lists of programs, pins, recorded numbers and the page agree; `nox -s libraries` runs the programs."""
from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from library_sets import PROGRAMS, ROOT, SETS, NoPackageIndexError, differences, distribution_of
from page import page_of, replace_tables
from record import is_nan
from run import SAMPLE, TOLERANCES, main, run_jobs


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


@pytest.mark.parametrize("output, error", [
    ("Retrying (Retry(total=1)) after connection broken by 'NewConnectionError'", NoPackageIndexError),
    ("ERROR: No matching distribution found for optax==0.0", RuntimeError)])
def test_sample_passes_only_if_the_index_cannot_be_reached(monkeypatch, tmp_path, capsys, output, error):
    monkeypatch.setattr("library_sets.ROOT", tmp_path)
    monkeypatch.setattr("library_sets.subprocess.run", lambda command, **options: subprocess.CompletedProcess(
        command, "pip" in command, "3.11", output))
    if error is RuntimeError:
        with pytest.raises(RuntimeError, match="No matching distribution"):
            main(["--sample"])
        return
    assert main(["--sample"]) == 0 and main([]) == 1
    assert "The package index cannot be reached" in capsys.readouterr().out


def test_jobs_that_start_late_are_skipped(capsys):
    jobs = [partial(lambda name: (True, f"PASSED {name}"), name) for name in "ab"]
    assert run_jobs(jobs, 60) == 0 and "0 failed, 2 passed, 0 skipped" in capsys.readouterr().out
    assert run_jobs(jobs, -1) == 0 and "SKIPPED b" in capsys.readouterr().out
    assert run_jobs([partial(lambda name: (False, "FAILED"), "c")], 60) == 1


def test_nan_is_refused():
    assert is_nan({"a": [1.0], "b": [2.0, float("nan")]}) and not is_nan({"a": [1.0]})


@pytest.mark.parametrize("year", SETS)
def test_recordings_have_no_nan(year):
    assert not any(map(is_nan, json.loads(SETS[year].recording.read_text())["programs"].values()))
