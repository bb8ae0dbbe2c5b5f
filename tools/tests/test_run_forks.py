"""Each stand-in is a distribution that declares a layer, is short, and says what it leaves out and why."""
import json
import tomllib

import pytest
import run_forks
import small_examples
from lamina_ir.layers import CONTRACTS


@pytest.mark.parametrize("fork", run_forks.forks())
def test_a_fork_is_short_declared_and_told(fork):
    folder = run_forks.FORKS / fork
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    declared = project["entry-points"]["lamina.layers"]
    assert declared and set(declared) <= set(CONTRACTS)
    assert not project["name"].startswith("lamina")
    lines = sum(len(path.read_text().splitlines()) for path in folder.rglob("src/**/*.py"))
    assert lines <= 300, lines
    said = run_forks.settings(fork)
    left = {word for word in said.get("marks", "").split() if word not in ("not", "and")}
    reasons = said.get("without", {})
    assert left <= set(reasons), "each mark that is left out has its reason"
    examples = {name for name in reasons if not name.startswith("test_")} - left
    assert examples <= {*small_examples.PROGRAMS, *run_forks.GUESTS}
    assert f"[{fork}]" in (run_forks.FORKS / "README.md").read_text()


def test_what_is_run(tmp_path):
    runs = run_forks.commands(["loop-batching", "forward-autodiff"], sample=True)
    assert [run[1] for run in runs[:-1]] == ["lamina_batching.contract", "lamina_autodiff.contract", "pytest"]
    assert runs[-1] == ["tools/small_examples.py", "named_mlp"]
    assert "--every" in runs[0] and "not cost and not rows" in runs[0]
    env = run_forks.environment([tmp_path])
    assert env["PYTHONPATH"].startswith(str(tmp_path)) and "LAMINA_LAYERS" not in env
    assert "without_jaxlib" in run_forks.commands(["numpy-source"], False)[0]


def test_every_example_is_run_or_has_a_reason():
    folder = run_forks.ROOT / "examples"
    there = {path.stem for path in folder.glob("*.py")} - {"svg_bars"}
    assert there == {*small_examples.PROGRAMS} == {*json.loads(small_examples.FIGURES.read_text())}
    assert {path.parent.name for path in folder.glob("*/pyproject.toml")} == {*run_forks.GUESTS}
    for fork in run_forks.forks():
        runs = run_forks.commands([fork], sample=False, examples_alone=True)
        names = {word for run in runs for word in run if word in there} | {run[3].split("/")[1] for run in runs[1:]}
        assert names == (there | {*run_forks.GUESTS}) - {*run_forks.settings(fork).get("without", {})}


@pytest.mark.slow
def test_the_stock_comes_to_the_figures_that_are_kept():
    assert small_examples.main(["named_mlp"]) == 0


def test_figures_that_differ_are_told():
    assert small_examples.difference([1.0, 2.0], [1.0005, 2.0]) is None
    assert small_examples.difference([1.0, 2.1], [1.0, 2.0]) == "comes to [1.0, 2.1], and with the stock to [1.0, 2.0]"
    assert small_examples.difference([1.0], [1.0, 2.0]) is not None


def test_an_unknown_fork_is_named(capsys):
    with pytest.raises(SystemExit):
        run_forks.main(["loop-batchin"])
    assert "no fork loop-batchin; there are chunked-batching" in capsys.readouterr().err
