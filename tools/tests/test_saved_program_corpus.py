"""The writer of the corpus adds missing files, never writes one again, and gives a new version the files that differ."""
from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import saved_program_corpus as corpus
from lamina_ir import evaluate, loads, parse, prims


@pytest.fixture(autouse=True)
def small_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two primitives and one function."""
    program = parse("{ lambda ; a:f32[2]. let b:f32[2] = sin a in (b,) }")
    monkeypatch.setattr(prims, "ALL", (prims.sin_p, prims.psum_p))
    monkeypatch.setattr(corpus, "programs", lambda: iter([("f", program, [np.ones(2, np.float32)], {})]))


def run(folder: Path, version: str) -> dict[str, str]:
    assert corpus.main(["--out", str(folder), "--version", version]) == 0
    return corpus.read_index(folder / version / "index.json")


def test_files_are_written_once(tmp_path: Path) -> None:
    names = ["f.lamina", "f.values.lamina", "psum.lamina", "sin.lamina"]
    assert run(tmp_path, "0.1.0") == {name: f"0.1.0/{name}" for name in names}
    times = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "0.1.0").iterdir()}
    run(tmp_path, "0.1.0")
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "0.1.0").iterdir()} == times
    assert np.allclose(evaluate(loads((tmp_path / "0.1.0/f.values.lamina").read_bytes())), [[1, 1], np.sin([1, 1])])


def test_new_version_writes_only_the_files_that_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run(tmp_path, "0.9.0")
    assert run(tmp_path, "0.10.0") == first
    assert [path.name for path in (tmp_path / "0.10.0").iterdir()] == ["index.json"]
    monkeypatch.setattr(prims, "ALL", (prims.sin_p, prims.psum_p, prims.cos_p))
    before = (tmp_path / "0.9.0" / "sin.lamina").read_bytes()
    original = corpus.samples_program
    monkeypatch.setattr(corpus, "samples_program", lambda prim: original(prims.tan_p if prim is prims.sin_p else prim))
    assert run(tmp_path, "0.11.0") == {**first, "cos.lamina": "0.11.0/cos.lamina", "sin.lamina": "0.11.0/sin.lamina"}
    assert (tmp_path / "0.9.0" / "sin.lamina").read_bytes() == before
    assert json.loads((tmp_path / "0.9.0" / "index.json").read_text()) == first
