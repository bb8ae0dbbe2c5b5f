"""Wheels: what they contain, and which versions are installed together."""
from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import packages
import pytest
import run_tests
import test_wheels
from packaging.requirements import Requirement


@pytest.fixture
def small(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small checkout in place of this repository."""
    for name in ("packages", "distributions"):
        found = getattr(packages, name)
        monkeypatch.setattr(test_wheels, name, lambda root=checkout, found=found: found(root))
    monkeypatch.setattr(test_wheels, "with_dependencies", lambda names: packages.with_dependencies(names, checkout))
    monkeypatch.setattr(test_wheels, "build_wheels", lambda names, *_: {name: Path(f"{name}.whl") for name in names})
    return checkout


@pytest.mark.parametrize("name", ["lamina-ir", "lamina"])
def test_wheel_contains_sources_type_marker_and_license(name: str, tmp_path: Path) -> None:
    module = name.replace("-", "_")
    with zipfile.ZipFile(test_wheels.build_wheels([name], tmp_path)[name]) as wheel:
        files = wheel.namelist()
    assert {f"{module}/__init__.py", f"{module}/_version.py", f"{module}/py.typed"} <= set(files)
    assert any(file.endswith("licenses/LICENSE") for file in files)
    assert not any("tests" in file for file in files)


def test_isolated_installs_a_package_and_its_dependencies(small: Path) -> None:
    [job] = test_wheels.isolated(["lamina-tracing"], []).values()
    assert job.args[2] == [Path("lamina-ir.whl"), Path("lamina-tracing.whl")]  # type: ignore[attr-defined]


def test_lower_bounds_are_the_highest_of_all_packages() -> None:
    assert "numpy==2.0" in test_wheels.lower_bounds("lamina-ir")
    assert any(line.startswith("jaxlib==0.10.2") for line in test_wheels.lower_bounds("lamina"))


def test_oldest_release_that_all_ranges_admit_is_chosen(small: Path, git: Callable[..., None]) -> None:
    ranges = [Requirement("lamina-ir>=0.1,<0.2"), Requirement("lamina-ir>=0.1.2,<0.3")]
    assert test_wheels.oldest_admitted("lamina-ir", ranges) is None
    for version in ("0.1.0", "0.1.2", "0.1.3"):
        git("tag", f"lamina-ir-v{version}")
    assert test_wheels.oldest_admitted("lamina-ir", ranges) == "lamina-ir-v0.1.2"


def test_released_versions_combines_both_ways_or_names_the_range(small: Path, monkeypatch: pytest.MonkeyPatch,
                                                                 capsys: pytest.CaptureFixture[str]) -> None:
    old = {name: (packages.packages(small)[name], Path(f"{name}-old.whl")) for name in ("lamina-ir", "lamina-tracing")}
    monkeypatch.setattr(test_wheels, "released", lambda name, ref: old[name])
    with pytest.raises(SystemExit, match="no tag of lamina-ir, lamina-tracing"):
        test_wheels.released_versions(["lamina-tracing"], [], None)
    jobs = test_wheels.released_versions(["lamina-tracing"], [], "HEAD")
    assert [[wheel.name for wheel in job.args[2]] for job in jobs.values()] == [  # type: ignore[attr-defined]
        ["lamina-ir-old.whl", "lamina-tracing.whl"], ["lamina-ir.whl", "lamina-tracing-old.whl"]]
    (small / "packages/lamina-ir/src/lamina_ir/_version.py").write_text('__version__ = "0.2.0"\n')
    assert test_wheels.released_versions(["lamina-tracing"], [], "HEAD") == {}
    assert "requires lamina-ir<0.2,>=0.1; got lamina-ir 0.2.0" in capsys.readouterr().out


def test_files_of_a_commit_are_unpacked() -> None:
    folder = test_wheels.checkout("HEAD")
    assert (folder / "packages" / "lamina-ir" / "pyproject.toml").exists()


def test_unknown_package_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        test_wheels.main(["isolated", "--sample", "lamina-irr"])
    assert "unknown package lamina-irr; expected lamina," in capsys.readouterr().err


def test_python_without_the_build_tools_is_refused() -> None:
    done = subprocess.run([sys.executable, "-S", "tools/test_wheels.py", "isolated"], cwd=packages.ROOT, text=True,
                          capture_output=True)
    assert done.returncode == 1 and "needs the repository's environment, with pip, hatchling and packaging" in done.stderr
    assert "`.venv/bin/python tools/test_wheels.py isolated`" in done.stderr


@pytest.mark.slow
def test_wheel_is_tested_in_a_fresh_environment() -> None:
    [job] = test_wheels.isolated(["lamina-ir"], ["-k", "test_pages", *run_tests.SAMPLE]).values()
    status, output, _ = job()
    assert status == 0, output
