"""Where a stand-in is found, and how its layer's contract is run on it."""
from __future__ import annotations

import os
from pathlib import Path

import pytest
import try_contract

DECLARED = '[project]\nname = "y"\n[project.entry-points."lamina.layers"]\nbatching = "yourlab_batching"\n'


@pytest.mark.parametrize("source", ["src", ""])
def test_a_distribution_says_the_name_itself(tmp_path: Path, source: str) -> None:
    (tmp_path / "pyproject.toml").write_text(DECLARED)
    (tmp_path / source / "yourlab_batching").mkdir(parents=True)
    assert try_contract.stand_in("batching", tmp_path) == ("yourlab_batching", tmp_path / source)


def test_a_package_and_a_module_are_named_by_their_files(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text("")
    (tmp_path / "other.py").write_text("")
    assert try_contract.stand_in("batching", tmp_path / "mine") == ("mine", tmp_path)
    assert try_contract.stand_in("batching", tmp_path / "other.py") == ("other", tmp_path)


def test_a_folder_that_says_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="declares nothing for the layer `autodiff`"):
        try_contract.stand_in("autodiff", tmp_path)
    with pytest.raises(SystemExit, match="there is no stand-in"):
        try_contract.stand_in("autodiff", tmp_path / "none")


def test_the_choice_is_made_by_the_environment(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("")
    run, environment = try_contract.command("lamina-batching", tmp_path / "other.py", ["-q"])
    assert run[1:] == ["-m", "lamina_batching.contract", "-q"] and environment["LAMINA_LAYERS"] == "batching=other"
    assert environment["PYTHONPATH"].split(os.pathsep)[0] == str(tmp_path)
    assert try_contract.command("lamina-batching", None, [])[1]["LAMINA_LAYERS"] == ""


def test_a_fork_of_ir_keeps_its_name(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="keeps that name"):
        try_contract.command("lamina-ir", tmp_path, [])
    (tmp_path / "src" / "lamina_ir").mkdir(parents=True)
    run, environment = try_contract.command("lamina-ir", tmp_path, [])
    assert environment["PYTHONPATH"].split(os.pathsep)[0] == str(tmp_path / "src")
    assert run[-1].endswith("packages/lamina-ir/src/lamina_ir/contract")


def test_a_package_without_a_contract_is_refused() -> None:
    assert "lamina-batching" in try_contract.contracts()
    with pytest.raises(SystemExit, match="lamina-none has no contract"):
        try_contract.main(["lamina-none"])
