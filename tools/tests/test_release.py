"""Releases in a small checkout: what is written, and what is refused before anything is written."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import release
from packages import ROOT, packages

DATE = "2030-01-02"


@pytest.fixture
def fragment(checkout: Path, git: Callable[..., None]) -> None:
    """Commit a changelog fragment of lamina-tracing."""
    folder = checkout / "packages" / "lamina-tracing" / "changelog.d"
    folder.mkdir()
    (folder / "+ragged.added.md").write_text("`vmap` takes ragged arrays.\n")
    git("add", "--all")
    git("commit", "--quiet", "--message", "ragged")


def version_of(checkout: Path, name: str) -> str:
    return str(packages(checkout)[name].version)


def test_release_writes_version_changelog_and_distributions(checkout: Path, fragment: None) -> None:
    package = release.release("lamina-tracing", "patch", DATE, checkout)
    assert version_of(checkout, "lamina-tracing") == "0.1.1"
    changelog = (package.folder / "CHANGELOG.md").read_text()
    assert "## 0.1.1 (2030-01-02)\n\n### Added\n\n- `vmap` takes ragged arrays.\n" in changelog
    assert not list(package.folder.glob("changelog.d/*.md"))
    built = {path.name for path in (checkout / "dist" / "release").iterdir()} - {".gitignore"}
    assert built == {"lamina_tracing-0.1.1-py2.py3-none-any.whl", "lamina_tracing-0.1.1.tar.gz"}
    assert "git tag -a lamina-tracing-v0.1.1" in release.next_steps(package)


def test_release_without_a_part_keeps_the_version(checkout: Path) -> None:
    assert str(release.release("lamina-ir", None, DATE, checkout).version) == "0.1.0"


def test_umbrella_changelog_names_the_versions_of_the_packages(checkout: Path) -> None:
    package = release.release("lamina", "patch", DATE, checkout)
    assert "Tested with lamina-ir 0.1.0, lamina-tracing 0.1.0." in (package.folder / "CHANGELOG.md").read_text()


def test_version_that_a_dependent_excludes_is_refused(checkout: Path, fragment: None) -> None:
    with pytest.raises(release.ReleaseError, match=r"packages/lamina/pyproject.toml: .* excludes lamina-tracing 0\.2\.0"):
        release.release("lamina-tracing", "minor", DATE, checkout)
    assert version_of(checkout, "lamina-tracing") == "0.1.0"


def test_patch_that_removes_a_public_name_is_refused(checkout: Path, fragment: None, git: Callable[..., None]) -> None:
    source = packages(checkout)["lamina-tracing"].source / "__init__.py"
    source.write_text('__all__ = ["scan", "vmap"]\ndef scan(): ...\ndef vmap(): ...\n')
    git("commit", "--quiet", "--all", "--message", "scan")
    git("tag", "lamina-tracing-v0.1.0")
    source.write_text('__all__ = ["vmap"]\ndef vmap(): ...\n')
    git("commit", "--quiet", "--all", "--message", "removed")
    with pytest.raises(release.ReleaseError, match="scan: Public object was removed"):
        release.release("lamina-tracing", "patch", DATE, checkout)
    assert version_of(checkout, "lamina-tracing") == "0.1.0"


@pytest.mark.parametrize("part, message", [("0.1.0", "is already released"), ("0.0.9", "failed|is older")])
def test_version_that_is_not_new_is_refused(checkout: Path, fragment: None, git: Callable[..., None], part: str,
                                            message: str) -> None:
    git("tag", "lamina-tracing-v0.1.0")
    with pytest.raises(release.ReleaseError, match=message):
        release.release("lamina-tracing", part if part != "0.1.0" else None, DATE, checkout)


def test_missing_fragment_uncommitted_change_and_unknown_package_are_refused(checkout: Path) -> None:
    with pytest.raises(release.ReleaseError, match="changelog.d is empty"):
        release.release("lamina-tracing", "patch", DATE, checkout)
    with pytest.raises(release.ReleaseError, match="unknown package lamina-x; expected lamina"):
        release.release("lamina-x", "patch", DATE, checkout)
    (packages(checkout)["lamina-ir"].source / "__init__.py").write_text("")
    with pytest.raises(release.ReleaseError, match="uncommitted changes"):
        release.release("lamina-tracing", "patch", DATE, checkout)


def test_writers_of_corpora_exist() -> None:
    assert set(release.CORPORA) <= set(packages())
    assert all((ROOT / path).is_file() for path in release.CORPORA.values())
