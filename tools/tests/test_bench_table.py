"""The table of benchmark results: ratios to the peer of each goal, verdicts, and programs that failed."""
from __future__ import annotations

import importlib.util
import re
import runpy
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("bench_run", BENCHMARKS / "run.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module.peers, "SAME_JAXLIB", "jax 0.10.2")
    return module


FIGURES = {"lamina": {"eager_add": 4.0, "eager_index": 3.0, "growth_grad": 1.2, "psum_10000_queued": 8.0,
                      "psum_10000_blocking": 10.0, "import": 100.0},
           "jax 0.10.2": {"eager_add": 8.0, "eager_index": 20.0, "psum_10000_queued": "died", "import": 400.0},
           "jax 0.4.30": {"eager_add": 2.0, "eager_index": 10.0, "import": 300.0}}


@pytest.mark.parametrize("row, basis, ratio", [
    ("eager_add", "same", 0.5), ("eager_index", "best", 0.3), ("growth_grad", "limit", 1.2),
    ("psum_10000_queued", "psum_10000_blocking", 0.8), ("eager_sin", "same", None), ("eager_add", "jax 0.4.30", 2.0),
])
def test_ratio_is_relative_to_the_peer_of_the_goal(bench: ModuleType, row: str, basis: str, ratio: float | None) -> None:
    found = bench.ratio_of(row, basis, FIGURES)
    assert found == (None if ratio is None else pytest.approx(ratio))


def test_table_marks_missed_goals(bench: ModuleType) -> None:
    rows = {line.split(" | ")[0][2:]: line for line in bench.table(FIGURES).splitlines() if line.startswith("| ")}
    assert rows["growth_grad"].endswith("| short |")
    assert rows["eager_add"].endswith("| 0.8 same |  |")
    assert "fails" in rows["psum_10000_queued"]
    assert "4 of 5 goals reached" in bench.table(FIGURES)


def test_best_round_is_reported(bench: ModuleType) -> None:
    best: dict[str, float | str] = {"a": 3.0, "b": "failed"}
    bench.keep_best(best, {"a": 2.0, "b": 5.0, "c": "failed"})
    bench.keep_best(best, {"a": 4.0, "c": "failed again"})
    assert best == {"a": 2.0, "b": 5.0, "c": "failed again"}


def test_peer_with_the_same_jaxlib_is_that_of_this_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.12.0.1")
    assert runpy.run_path(str(BENCHMARKS / "peers.py"))["SAME_JAXLIB"] == "jax 0.12.0.1"
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.11.2")  # of none
    assert runpy.run_path(str(BENCHMARKS / "peers.py"))["SAME_JAXLIB"] == "jax 0.10.2"


def test_every_goal_names_a_program(bench: ModuleType) -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in BENCHMARKS.glob("*programs.py"))
    known = {"import", *re.findall(r"^def (\w+)\(", text, re.MULTILINE)}
    for name in re.findall(r'"(\w+)": (?:xp\.grad|moved)\(', text):
        known |= {f"trace_derivative_{name}", f"run_derivative_{name}"}
    for name in re.findall(r'^    "(\w+)": \(', text, re.MULTILINE):  # the tables of other modules
        known |= {f"loop_{name}", f"operation_{name}"}
        known |= {f"library_{kind}_{name}" for kind in ("small", "large", "eager", "first", "memory")}
    assert set(bench.GOALS) <= known


def test_peers_are_found_in_the_folder_of_the_environment_variable(bench: ModuleType, monkeypatch: pytest.MonkeyPatch,
                                                  tmp_path: Path) -> None:
    monkeypatch.setenv("LAMINA_PEERS", str(tmp_path))
    peers = sys.modules["peers"]
    for name in peers.PEERS:
        (tmp_path / name.replace(" ", "-")).mkdir()
        (tmp_path / name.replace(" ", "-") / "ready").touch()
    assert set(peers.interpreters()) == set(peers.PEERS)
