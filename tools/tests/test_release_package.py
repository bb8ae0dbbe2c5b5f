"""A release on a small house: what it writes, what it refuses before it writes, what it says to do."""
from __future__ import annotations

import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import check_ranges
import distributions
import pytest
import release_package
from packaging.version import Version


def leave(house: Path, package: str, git: Callable[..., None], text: str = "Something new.") -> None:
    folder = house / "packages" / package / "changelog.d"
    folder.mkdir(exist_ok=True)
    (folder / "it.added.md").write_text(text)
    git("add", "--all")
    git("commit", "--quiet", "--message", "a change")


def run(house: Path, package: str, part: str | None, widen: bool = False) -> str:
    return release_package.release(package, part, "2030-01-02", widen, tests=False, root=house)


@pytest.mark.parametrize("part, new", [("major", "1.0.0"), ("minor", "0.2.0"), ("patch", "0.1.4"), ("0.3.0rc1", "0.3.0rc1"),
                                       (None, "0.1.3")])
def test_next_version(part: str | None, new: str) -> None:
    assert release_package.next_version(Version("0.1.3"), part) == Version(new)


def test_a_patch_bumps_collects_and_builds_and_touches_no_other_package(small_house: Path, git: Callable[..., None]) -> None:
    leave(small_house, "lamina-ir", git)
    said = run(small_house, "lamina-ir", "patch")
    room = distributions.rooms(small_house)["lamina-ir"]
    assert str(room.version) == "0.1.1"
    assert "## 0.1.1 (2030-01-02)\n\n### Added\n\n- lamina-ir: Something new." in (room.folder / "CHANGELOG.md").read_text()
    built = sorted(path.name for path in (small_house / "dist" / "release").iterdir())
    assert built == ["lamina_ir-0.1.1-py3-none-any.whl", "lamina_ir-0.1.1.tar.gz"]
    changed = [line[3:] for line in distributions.git("status", "--porcelain", root=small_house).splitlines()]
    assert changed and all(path.startswith("packages/lamina-ir/") for path in changed)
    assert 'git tag -a lamina-ir-v0.1.1 -m "lamina-ir 0.1.1"' in said and "nox -s neighbours -- lamina-ir" in said


def test_the_first_release_takes_the_version_as_it_stands(small_house: Path, git: Callable[..., None]) -> None:
    assert "lamina-ir 0.1.0 is ready" in run(small_house, "lamina-ir", None)
    text = (small_house / "packages/lamina-ir/CHANGELOG.md").read_text()
    assert text == "# lamina-ir\n\n## 0.1.0 (2030-01-02)\n\n- lamina-ir: first version.\n"


def test_a_minor_version_that_dependants_shut_out_is_refused_and_nothing_is_written(small_house: Path,
                                                                                    git: Callable[..., None]) -> None:
    leave(small_house, "lamina-ir", git)
    with pytest.raises(release_package.ReleaseError, match=r"do not admit 0\.2\.0") as raised:
        run(small_house, "lamina-ir", "minor")
    assert "packages/lamina-tracing/pyproject.toml" in str(raised.value)
    assert "packages/lamina/pyproject.toml" in str(raised.value)
    assert distributions.git("status", "--porcelain", root=small_house) == ""


def test_widen_lets_the_ranges_admit_it_tells_dependants_users_and_says_what_follows(small_house: Path,
                                                                                     git: Callable[..., None]) -> None:
    leave(small_house, "lamina-ir", git)
    said = run(small_house, "lamina-ir", "minor", widen=True)
    assert "from the ground up:\n  lamina-tracing, lamina\n" in said
    assert check_ranges.breaches(small_house) == []  # the ranges, and the version files that tell of them
    tracing = distributions.rooms(small_house)["lamina-tracing"]
    assert tracing.dependencies[0] == "lamina-ir>=0.1,<0.3" and str(tracing.version) == "0.1.0"
    assert (tracing.folder / "changelog.d" / "with-lamina-ir-0-2.changed.md").read_text() == "Works with lamina-ir 0.2.0 too.\n"


def test_the_roof_says_which_rooms_it_joins(small_house: Path, git: Callable[..., None]) -> None:
    run(small_house, "lamina", "patch")
    text = (small_house / "packages/lamina/CHANGELOG.md").read_text()
    assert "## 0.1.1 (2030-01-02)\n\nJoins lamina-ir 0.1.0, lamina-tracing 0.1.0.\n" in text


def test_the_wheel_says_its_version_and_ranges(small_house: Path, git: Callable[..., None]) -> None:
    leave(small_house, "lamina-tracing", git)
    run(small_house, "lamina-tracing", "patch")
    [wheel] = (small_house / "dist" / "release").glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        [name] = [name for name in files.namelist() if name.endswith("METADATA")]
        metadata = files.read(name).decode()
    assert "Version: 0.1.1\n" in metadata and re.search(r"Requires-Dist: lamina-ir<0\.2,>=0\.1\n", metadata)


def test_a_bump_without_a_word_to_users_is_refused(small_house: Path) -> None:
    with pytest.raises(release_package.ReleaseError, match=r"changelog\.d holds nothing"):
        run(small_house, "lamina-ir", "patch")


def test_a_version_that_is_released_is_refused(small_house: Path, git: Callable[..., None]) -> None:
    git("tag", "lamina-ir-v0.1.0")
    with pytest.raises(release_package.ReleaseError, match=r"0\.1\.0 is released, tag lamina-ir-v0\.1\.0; say what to bump"):
        run(small_house, "lamina-ir", None)


def test_an_older_version_and_a_word_that_is_none_are_refused(small_house: Path) -> None:
    with pytest.raises(release_package.ReleaseError, match=r"is at 0\.1\.0; 0\.0\.9 is older"):
        run(small_house, "lamina-ir", "0.0.9")
    with pytest.raises(release_package.ReleaseError, match="'mnior' is neither major, minor, patch nor a version"):
        run(small_house, "lamina-ir", "mnior")
    with pytest.raises(release_package.ReleaseError, match="no package 'lamina-nothing'; there are lamina, lamina-ir"):
        run(small_house, "lamina-nothing", "patch")


def test_a_patch_may_take_no_public_name_away_and_a_minor_version_may(small_house: Path, git: Callable[..., None]) -> None:
    source = small_house / "packages/lamina/src/lamina/__init__.py"
    source.write_text('__all__ = ["kept", "gone"]\n')
    git("commit", "--quiet", "--all", "--message", "two names")
    git("tag", "lamina-v0.1.0")
    source.write_text('__all__ = ["kept", "newer"]\n')
    leave(small_house, "lamina", git)
    with pytest.raises(release_package.ReleaseError, match=r"lamina 0\.1\.0 has lamina\.gone, .* a minor version"):
        run(small_house, "lamina", "patch")
    assert "lamina 0.2.0 is ready" in run(small_house, "lamina", "minor")


def test_changes_that_are_not_committed_are_refused(small_house: Path, git: Callable[..., None]) -> None:
    leave(small_house, "lamina-ir", git)
    (small_house / "packages/lamina/src/lamina/__init__.py").write_text("")
    with pytest.raises(release_package.ReleaseError, match="a release is a commit of its own"):
        run(small_house, "lamina-ir", "patch")


def test_main_ends_with_status_1_and_the_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert release_package.main(["lamina-nothing", "patch"]) == 1
    assert "release: no package 'lamina-nothing'" in capsys.readouterr().err


def test_files_for_later_versions_go_along(small_house: Path, git: Callable[..., None]) -> None:
    script = small_house / "tools" / "add_corpus.py"
    script.parent.mkdir(exist_ok=True)
    script.write_text("from pathlib import Path\nPath('packages/lamina-ir/kept').write_text('by this version')\n")
    leave(small_house, "lamina-ir", git)
    run(small_house, "lamina-ir", "patch")
    assert (small_house / "packages/lamina-ir/kept").read_text() == "by this version"


def test_a_release_without_its_files_is_none(small_house: Path, git: Callable[..., None]) -> None:
    script = small_house / "tools" / "add_corpus.py"
    script.parent.mkdir(exist_ok=True)
    script.write_text("raise SystemExit('no room on the disk')\n")
    leave(small_house, "lamina-ir", git)
    with pytest.raises(release_package.ReleaseError, match="no room on the disk"):
        run(small_house, "lamina-ir", "patch")
