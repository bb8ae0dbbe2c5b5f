"""Ranges between packages: each rule is broken in a small checkout."""
from __future__ import annotations

from pathlib import Path

import check_ranges
import pytest
from packages import ROOT, packages


def replace(checkout: Path, name: str, old: str, new: str) -> None:
    path = checkout / "packages" / name / "pyproject.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_valid_checkout_and_this_repository_have_no_violation(checkout: Path) -> None:
    assert check_ranges.check(checkout) == []
    assert check_ranges.check(ROOT) == []


@pytest.mark.parametrize("old, new, message", [
    ("lamina-ir>=0.1,<0.2", "lamina-ir>=0.2,<0.3", "excludes lamina-ir 0.1.0 of this tree"),
    ("lamina-ir>=0.1,<0.2", "lamina-ir>=0.1", "must have a lower and an upper bound"),
    ("lamina-ir>=0.1,<0.2", "lamina-ri>=0.1,<0.2", "is not in this repository"),
    ("numpy>=2.0", "numpy>=2.1", "but lamina-ir requires numpy>=2.0; use one range")])
def test_wrong_range_is_reported(checkout: Path, old: str, new: str, message: str) -> None:
    replace(checkout, "lamina-tracing", old, new)
    assert any(message in line for line in check_ranges.check(checkout))


def test_range_of_an_extra_is_checked(checkout: Path) -> None:
    extra = '[project.optional-dependencies]\nir = ["lamina-ir>=0.2,<0.3"]\n\n[tool.hatch.version]'
    replace(checkout, "lamina-tracing", "[tool.hatch.version]", extra)
    assert any("excludes lamina-ir 0.1.0 of this tree" in line for line in check_ranges.check(checkout))


def test_requirement_without_lower_bound_is_reported(checkout: Path) -> None:
    replace(checkout, "lamina-ir", "numpy>=2.0", "numpy<3")
    assert any(line.endswith("numpy<3 has no lower bound") for line in check_ranges.check(checkout))


def test_write_repeats_the_ranges_in_the_version_file(checkout: Path) -> None:
    replace(checkout, "lamina-tracing", "<0.2", "<0.3")
    assert "expected `_needs(" in check_ranges.check(checkout)[0]
    assert check_ranges.check(checkout, write=True) == check_ranges.check(checkout) == []
    text = (packages(checkout)["lamina-tracing"].source / "_version.py").read_text()
    assert text == '__version__ = "0.1.0"\n_needs("lamina-tracing", __version__, "lamina-ir>=0.1,<0.3")\n'


def test_long_needs_call_has_one_range_on_each_line() -> None:
    lines = check_ranges.needs_call(packages()["lamina"]).splitlines()
    assert lines[1].strip() == '"lamina-ir>=0.1,<0.2",' and len(lines) == len(packages()) - 1  # the last is an extra
