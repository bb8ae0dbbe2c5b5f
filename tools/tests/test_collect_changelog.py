"""Fragments: which are refused, and what the changelog says when they are collected."""
from __future__ import annotations

from pathlib import Path

import collect_changelog
import distributions
import pytest


def leave(house: Path, name: str, text: str) -> Path:
    folder = house / "packages" / "lamina-ir" / "changelog.d"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    return folder / name


@pytest.fixture
def room(small_house: Path) -> distributions.Distribution:
    return distributions.rooms(small_house)["lamina-ir"]


def test_fragments_are_collected_by_kind_under_a_new_version_and_removed(small_house: Path,
                                                                         room: distributions.Distribution) -> None:
    leave(small_house, "zeta.fixed.md", "`zeta` of 1 is\ninfinite.\n")
    leave(small_house, "alpha.added.md", "`alpha`.\n")
    collect_changelog.collect(room, "0.2.0", "2030-01-02")
    text = (room.folder / "CHANGELOG.md").read_text()
    assert text == ("# lamina-ir\n\n## 0.2.0 (2030-01-02)\n\n### Added\n\n- lamina-ir: `alpha`.\n\n### Fixed\n\n"
                    "- lamina-ir: `zeta` of 1 is infinite.\n\n## 0.1.0\n\n- lamina-ir: first version.\n")
    assert not (room.folder / "changelog.d").exists()


def test_a_version_with_a_heading_keeps_what_stands_there(small_house: Path, room: distributions.Distribution) -> None:
    leave(small_house, "more.changed.md", "More.")
    collect_changelog.collect(room, "0.1.0", "2030-01-02")
    assert (room.folder / "CHANGELOG.md").read_text() == (
        "# lamina-ir\n\n## 0.1.0 (2030-01-02)\n\n- lamina-ir: first version.\n\n### Changed\n\n- lamina-ir: More.\n")


def test_two_versions_stand_one_above_the_other(small_house: Path, room: distributions.Distribution) -> None:
    for version, text in (("0.1.1", "One."), ("0.1.10", "Ten.")):
        leave(small_house, "it.fixed.md", text)
        collect_changelog.collect(room, version, "2030-01-02")
    lines = (room.folder / "CHANGELOG.md").read_text().splitlines()
    assert [line for line in lines if line.startswith("## ")] == ["## 0.1.10 (2030-01-02)", "## 0.1.1 (2030-01-02)", "## 0.1.0"]
    assert lines.count("") == 8 and lines[-1] == "- lamina-ir: first version."


@pytest.mark.parametrize("name, text, said", [
    ("no-kind.md", "Text.", "is to be named <slug>"), ("a.better.md", "Text.", "is to be named <slug>"),
    ("Upper.added.md", "Text.", "is to be named <slug>"), ("notes.txt", "Text.", "is to be named <slug>"),
    ("empty.added.md", " \n", "is empty"), ("dash.added.md", "- Text.", "a sentence or two"),
    ("prefix.added.md", "lamina-ir: text.", "a sentence or two")])
def test_a_wrong_fragment_is_named(small_house: Path, room: distributions.Distribution, name: str, text: str, said: str,
                                   capsys: pytest.CaptureFixture[str]) -> None:
    leave(small_house, name, text)
    assert collect_changelog.main(["--check", "--root", str(small_house)]) == 1
    printed = capsys.readouterr().out
    assert f"changelog.d/{name}" in printed and said in printed


def test_long_fragments_are_filled_to_the_width(small_house: Path, room: distributions.Distribution) -> None:
    leave(small_house, "long.added.md", "word " * 60)
    lines = collect_changelog.section(room).splitlines()
    assert len(lines) > 3 and all(len(line) <= collect_changelog.WIDTH for line in lines) and lines[-1].startswith("  word")


def test_the_fragments_here_are_well_formed(capsys: pytest.CaptureFixture[str]) -> None:
    assert collect_changelog.main(["--check"]) == 0, capsys.readouterr().out
