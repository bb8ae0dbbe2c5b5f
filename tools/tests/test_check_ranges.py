"""Ranges: each way in which one can be untrue, in a small house, and the real one."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import check_ranges
import distributions
import pytest


def edit(house: Path, path: str, old: str, new: str) -> None:
    file = house / "packages" / path
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def only_breach(house: Path) -> str:
    check_ranges.names_at.cache_clear()
    found = check_ranges.breaches(house)
    assert len(found) == 1, found
    return found[0]


def test_a_sound_house_has_no_breach(small_house: Path) -> None:
    assert check_ranges.breaches(small_house) == []


def test_a_range_that_shuts_out_the_neighbour_here_is_named(small_house: Path) -> None:
    edit(small_house, "lamina-ir/src/lamina_ir/_version.py", "0.1.0", "0.2.0")
    found = check_ranges.breaches(small_house)
    assert len(found) == 2 and all("asks for lamina-ir<0.2,>=0.1, and lamina-ir is 0.2.0 here" in line for line in found)


def test_a_range_without_an_upper_end_is_named(small_house: Path) -> None:
    edit(small_house, "lamina-tracing/pyproject.toml", "lamina-ir>=0.1,<0.2", "lamina-ir>=0.1")
    assert any("wants a lower and an upper bound" in line for line in check_ranges.breaches(small_house))


def test_two_ranges_for_one_distribution_are_named(small_house: Path) -> None:
    edit(small_house, "lamina-tracing/pyproject.toml", "numpy>=2.0", "numpy>=2.1")
    assert "asks for numpy>=2.1, and lamina-ir for numpy>=2.0" in only_breach(small_house)


def test_a_version_file_that_tells_of_another_range_is_named_and_written_anew(small_house: Path) -> None:
    edit(small_house, "lamina-tracing/pyproject.toml", "lamina-ir>=0.1,<0.2", "lamina-ir>=0.1,<0.3")
    assert "lamina_tracing/_version.py: does not say" in only_breach(small_house)
    assert check_ranges.main(["--root", str(small_house), "--write"]) == 0
    text = (small_house / "packages/lamina-tracing/src/lamina_tracing/_version.py").read_text()
    assert '_needs("lamina-tracing", __version__, "lamina-ir>=0.1,<0.3")' in text
    assert check_ranges.breaches(small_house) == []


def test_a_name_that_the_oldest_admitted_release_lacks_is_named(small_house: Path, git: Callable[..., None]) -> None:
    git("tag", "lamina-ir-v0.1.0")
    edit(small_house, "lamina-ir/src/lamina_ir/__init__.py", '"shaped"]', '"shaped", "newer"]')
    assert check_ranges.breaches(small_house) == []
    edit(small_house, "lamina-tracing/src/lamina_tracing/__init__.py", "import shaped", "import newer, shaped")
    line = only_breach(small_house)
    assert "uses lamina_ir.newer, which lamina-ir 0.1.0 does not have" in line and "raise its lower bound" in line


def test_an_attribute_and_a_module_that_the_oldest_release_lacks_are_named(small_house: Path, git: Callable[..., None]) -> None:
    git("tag", "lamina-ir-v0.1.0")
    source = small_house / "packages/lamina-tracing/src/lamina_tracing/__init__.py"
    source.write_text(source.read_text() + "import lamina_ir\nlamina_ir.newer()\n")
    assert "uses lamina_ir.newer" in only_breach(small_house)
    source.write_text("import numpy\nfrom lamina_ir.extend import ops\n")
    assert "uses lamina_ir.extend, which lamina-ir 0.1.0 does not have" in only_breach(small_house)


def test_a_list_of_names_may_include_those_of_modules(small_house: Path, git: Callable[..., None]) -> None:
    door = small_house / "packages/lamina-ir/src/lamina_ir/extend"
    door.mkdir()
    (door / "__init__.py").write_text('__all__ = sorted(["ops", *ops.__all__])\n')
    (door / "ops.py").write_text('__all__ = ["bind"]\n')
    git("add", "--all")
    git("commit", "--quiet", "--message", "a door")
    git("tag", "lamina-ir-v0.1.0")
    source = small_house / "packages/lamina-tracing/src/lamina_tracing/__init__.py"
    source.write_text("import numpy\nfrom lamina_ir.extend import bind, ops\n")
    assert check_ranges.breaches(small_house) == []
    source.write_text("import numpy\nfrom lamina_ir.extend import stage\n")
    assert "uses lamina_ir.extend.stage, which lamina-ir 0.1.0 does not have" in only_breach(small_house)


def test_the_oldest_admitted_release_is_what_a_tag_names(small_house: Path, git: Callable[..., None]) -> None:
    rooms = distributions.rooms(small_house)
    requirement = rooms["lamina"].neighbours["lamina-ir"]
    assert check_ranges.oldest_admitted(rooms["lamina-ir"], requirement, small_house) is None
    for tag in ("lamina-ir-v0.0.9", "lamina-ir-v0.1.10", "lamina-ir-v0.1.2", "lamina-v0.1.1"):
        git("tag", tag)
    assert str(check_ranges.oldest_admitted(rooms["lamina-ir"], requirement, small_house)) == "0.1.2"


def test_the_call_of_many_neighbours_stands_on_several_lines(small_house: Path) -> None:
    text = check_ranges.version_file(distributions.rooms()["lamina"])
    assert text.count("\n       \"lamina-") == 12 and max(map(len, text.splitlines())) <= 120


def test_the_house_has_no_breach() -> None:
    assert check_ranges.breaches(check_ranges.ROOT) == []


def test_a_version_file_without_a_version_is_refused() -> None:
    with pytest.raises(ValueError, match="lamina-ir: its _version.py has no line"):
        distributions.version_in("version = 1\n", "lamina-ir")
