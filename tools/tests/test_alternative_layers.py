"""The alternative layers: declared, short, and with a reason for everything that does not run on them."""
from __future__ import annotations

import json
import re

import pytest
import run_alternative_layers as tool
import small_examples
from lamina_ir.layers import CONTRACTS
from packages import ROOT, alternative_layers

FOLDER = ROOT / "examples" / "alternative_layers"
PROGRAMS = {path.stem for path in (ROOT / "examples").glob("*.py")} - {"svg_bars"}


@pytest.mark.parametrize("name", alternative_layers())
def test_implementation_is_short_declares_its_layers_and_gives_reasons(name: str) -> None:
    project = alternative_layers()[name].settings["project"]
    declared = project["entry-points"]["lamina.layers"]
    assert declared and set(declared) <= set(CONTRACTS) and not project["name"].startswith("lamina")
    assert sum(len(path.read_text().splitlines()) for path in FOLDER.joinpath(name).rglob("src/**/*.py")) <= 300
    marks = {word for word in tool.settings(name).get("marks", "").split() if word not in ("not", "and")}
    reasons = tool.settings(name).get("without", {})
    assert marks <= set(reasons)
    assert {key for key in reasons if not key.startswith("test_")} - marks <= {*small_examples.PROGRAMS, *tool.DISTRIBUTIONS}
    assert f"[{name}]" in (FOLDER / "README.md").read_text()


@pytest.mark.parametrize("name", alternative_layers())
def test_excluded_tests_exist(name: str) -> None:
    folders = ("packages/*/src/*/conformance", "tests/jax_doc_pages", "examples/*/tests")
    paths = [path for folder in folders for path in ROOT.glob(f"{folder}/*.py")]
    names = {test for path in paths for test in [path.stem, *re.findall(r"def (test_\w+)", path.read_text())]}
    for excluded in tool.settings(name).get("without", {}):
        assert not excluded.startswith("test_") or any(excluded in test for test in names), excluded


def test_commands_run_conformance_tests_pages_and_examples() -> None:
    runs = tool.commands(["loop-batching", "forward-autodiff"], sample=True)
    assert [run[1] for run in runs[:-1]] == ["lamina_batching.conformance", "lamina_autodiff.conformance", "pytest"]
    assert runs[-1][0] == "tools/small_examples.py" and len(runs[-1]) == 2 and runs[-1][1] in PROGRAMS
    assert "--every" in runs[0] and "without_jaxlib" in tool.commands(["numpy-source"], False)[0]
    assert tool.environment(["loop-batching"])["PYTHONPATH"].startswith(str(tool.WORK / "loop-batching"))


def test_every_example_runs_or_has_a_reason() -> None:
    assert PROGRAMS == {*small_examples.PROGRAMS} == {*json.loads(small_examples.FIGURES.read_text())}
    assert {path.parent.name for path in (ROOT / "examples").glob("*/pyproject.toml")} == {*tool.DISTRIBUTIONS}
    for name in alternative_layers():
        words = {word for run in tool.commands([name], sample=False, only_examples=True) for word in run}
        examples = {example for example in (*PROGRAMS, *tool.DISTRIBUTIONS) if {example, f"examples/{example}/tests"} & words}
        assert examples == {*PROGRAMS, *tool.DISTRIBUTIONS} - {*tool.settings(name).get("without", {})}


@pytest.mark.slow
def test_default_implementation_gives_the_recorded_numbers() -> None:
    assert small_examples.main(["named_mlp"]) == 0


def test_numbers_that_differ_are_not_close() -> None:
    assert small_examples.is_close([1.0, 2.0], [1.0005, 2.0])
    assert not small_examples.is_close([1.0, 2.1], [1.0, 2.0]) and not small_examples.is_close([1.0], [1.0, 2.0])


def test_unknown_implementation_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        tool.main(["loop-batchin"])
    assert "unknown implementation loop-batchin; expected chunked-batching" in capsys.readouterr().err
