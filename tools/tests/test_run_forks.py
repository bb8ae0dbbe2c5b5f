"""Each stand-in is a distribution that declares a layer, is short, and says what it leaves out and why."""
import tomllib

import pytest
import run_forks
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
    assert left <= set(said.get("without", {})), "each mark that is left out has its reason"
    assert f"[{fork}]" in (run_forks.FORKS / "README.md").read_text()


def test_what_is_run(tmp_path):
    runs = run_forks.commands(["loop-batching", "forward-autodiff"], sample=True)
    assert [run[1] for run in runs] == ["lamina_batching.contract", "lamina_autodiff.contract", "pytest"]
    assert "--every" in runs[0] and "not cost and not rows" in runs[0]
    env = run_forks.environment([tmp_path])
    assert env["PYTHONPATH"].startswith(str(tmp_path)) and "LAMINA_LAYERS" not in env
    assert "without_jaxlib" in run_forks.commands(["numpy-source"], False)[0]


def test_an_unknown_fork_is_named(capsys):
    with pytest.raises(SystemExit):
        run_forks.main(["loop-batchin"])
    assert "no fork loop-batchin; there are chunked-batching" in capsys.readouterr().err
