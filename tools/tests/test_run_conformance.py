"""How an implementation is found, and how the conformance tests run on it."""
from __future__ import annotations

import os
from pathlib import Path

import pytest
import run_conformance

DECLARED = '[project]\nname = "y"\n[project.entry-points."lamina.layers"]\nbatching = "yourlab_batching"\n'


@pytest.mark.parametrize("source", ["src", ""])
def test_distribution_declares_its_module(tmp_path: Path, source: str) -> None:
    (tmp_path / "pyproject.toml").write_text(DECLARED)
    (tmp_path / source / "yourlab_batching").mkdir(parents=True)
    assert run_conformance.find_implementation("batching", tmp_path) == ("yourlab_batching", tmp_path / source)


def test_package_and_module_are_named_by_their_files(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text("")
    (tmp_path / "other.py").write_text("")
    assert run_conformance.find_implementation("batching", tmp_path / "mine") == ("mine", tmp_path)
    assert run_conformance.find_implementation("batching", tmp_path / "other.py") == ("other", tmp_path)


def test_folder_without_an_implementation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no implementation of `autodiff`"):
        run_conformance.find_implementation("autodiff", tmp_path)


def test_environment_selects_the_implementation(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("")
    run, environment = run_conformance.command("lamina-batching", tmp_path / "other.py", ["-q"])
    assert run[1:] == ["-m", "lamina_batching.conformance", "-q"] and environment["LAMINA_LAYERS"] == "batching=other"
    assert environment["PYTHONPATH"].split(os.pathsep)[0] == str(tmp_path)
    assert run_conformance.command("lamina-batching", None, [])[1]["LAMINA_LAYERS"] == ""


def test_implementation_of_ir_keeps_its_name(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="keep that name"):
        run_conformance.command("lamina-ir", tmp_path, [])
    (tmp_path / "src" / "lamina_ir").mkdir(parents=True)
    run, environment = run_conformance.command("lamina-ir", tmp_path, [])
    assert environment["PYTHONPATH"].split(os.pathsep)[0] == str(tmp_path / "src")
    assert run[-1].endswith("packages/lamina-ir/src/lamina_ir/conformance")


def test_package_without_conformance_tests_is_refused() -> None:
    with pytest.raises(SystemExit, match="no conformance tests for lamina-none; expected lamina-autodiff"):
        run_conformance.main(["lamina-none"])
