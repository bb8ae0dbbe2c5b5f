"""The runner of conformance tests: a made-up layer in a process that has only the runner's settings."""
from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from lamina_ir.testing import conformance

SOUND = "import pytest\n\ndef test_a():\n    pass\n\n@pytest.mark.cost\ndef test_b():\n    pass\n"


@pytest.fixture
def layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the conformance folder of a made-up layer, in a folder with pytest settings that would break it."""
    folder = tmp_path / "lamina_toy_of_contracts" / "conformance"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("")
    (folder / "__init__.py").write_text("")
    (folder / "__main__.py").write_text("from lamina_ir.testing.conformance import main\n"
                                        "raise SystemExit(main('lamina_toy_of_contracts'))\n")
    (folder / "test_x.py").write_text(SOUND)
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\naddopts = ['--no-such-option']\n")
    (tmp_path / "conftest.py").write_text("raise RuntimeError('this file must not be loaded')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.chdir(tmp_path)
    return folder


def run(folder: Path, *argv: str) -> tuple[int, str]:
    return conformance.run_with_implementation(folder.parent.name, None, argv)


def test_header_names_implementation_and_unmarked_tests_are_core(layer: Path) -> None:
    done = subprocess.run([sys.executable, "-m", f"{layer.parent.name}.conformance", "-q", "-m", "core"], text=True,
                          stdout=subprocess.PIPE)
    header = "conformance tests of lamina_toy_of_contracts, on lamina_toy_of_contracts (no version)"
    assert done.returncode == 0 and done.stdout.startswith(header) and "1 passed, 1 deselected" in done.stdout


def test_results_as_json(layer: Path) -> None:
    done = subprocess.run([sys.executable, "-m", f"{layer.parent.name}.conformance", "--json", "-m", "core"], text=True,
                          stdout=subprocess.PIPE)
    found = json.loads(done.stdout)
    assert done.returncode == found["status"] == 0 and found["layer"] == layer.parent.name
    assert (found["passed"], found["failed"], found["skipped"]) == (1, [], [])


def test_selected_implementation_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("LAMINA_LAYERS", "scipy=mine")
    assert conformance.describe_implementation("lamina_scipy") == "mine (LAMINA_LAYERS), not imported yet"
    assert conformance.describe_implementation("lamina_ir").startswith("lamina_ir (")


@pytest.mark.parametrize(("body", "text"), [
    ("assert 0", "1 failed"), ("pytest.skip('not here')", "conformance tests must not be skipped"),
    ("import warnings; warnings.warn('hm')", "UserWarning: hm")])
def test_failures_warnings_and_skips_fail_the_run(layer: Path, body: str, text: str) -> None:
    (layer / "test_x.py").write_text(f"import pytest\n\ndef test_a():\n    {body}\n")
    status, output = run(layer, "-q")
    assert status == 1 and text in output


def test_unknown_mark_is_an_error(layer: Path) -> None:
    (layer / "test_x.py").write_text(SOUND.replace("cost", "price"))
    assert run(layer)[0] not in (0, 1)


def test_single_file_can_be_selected(layer: Path) -> None:
    (layer / "test_y.py").write_text("def test_y():\n    assert 0\n")
    assert run(layer)[0] == 1
    assert run(layer, "test_x.py")[0] == 0
    assert run(layer, "-x", "test_y.py::test_y")[0] == 1


def test_missing_pytest_is_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert conformance.main("lamina_batching", []) == 2
    output = capsys.readouterr().err
    assert output.count("\n") == 1 and "pip install 'lamina-batching[conformance]'" in output


def test_layer_without_conformance_tests_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"numpy: expected a folder `conformance` with tests"):
        conformance.folder_of("numpy")
    with pytest.raises(ValueError, match="found none in any installed package"):
        conformance.folder_of("no_such_layer")
