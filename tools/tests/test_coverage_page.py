"""The page of coverage counts what is there, and the check notices a difference."""
from __future__ import annotations

from pathlib import Path

import coverage_page


def test_every_listed_name_is_counted_once() -> None:
    found = coverage_page.rows()
    lines = [line.split("|") for line in coverage_page.page().splitlines() if line.startswith("| `")]
    assert sum(int(line[2]) for line in lines) == sum(map(len, found.values()))
    assert sum(int(line[3]) for line in lines) == sum(there for names in found.values() for _, there in names)


def test_missing_names_stand_by_name() -> None:
    assert coverage_page.table({"numpy": [("sin", True), ("gone", False)], "none": [("", False)]})[2:] == [
        "| `lamina.none` | 1 | 0 | all of it |", "| `lamina.numpy` | 2 | 1 | `gone` |"]


def test_check_fails_on_a_page_that_is_behind(tmp_path: Path) -> None:
    page = tmp_path / "coverage.md"
    assert coverage_page.main(["--out", str(page)]) == 0
    assert coverage_page.main(["--check", "--out", str(page)]) == 0
    page.write_text(page.read_text() + "by hand\n")
    assert coverage_page.main(["--check", "--out", str(page)]) == 1
