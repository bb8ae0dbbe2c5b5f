"""The corpus tool adds what is missing, never writes a file again, and gives a new version what it writes otherwise."""
from __future__ import annotations

import json

import add_corpus
import corpus_programs
import numpy as np
import pytest
from lamina_ir import evaluate, loads, parse, prims


@pytest.fixture
def few(monkeypatch):
    """A small corpus: two ops, one function."""
    program = parse("{ lambda ; a:f32[2]. let b:f32[2] = sin a in (b,) }")
    monkeypatch.setattr(prims, "ALL", (prims.sin_p, prims.psum_p))
    monkeypatch.setattr(corpus_programs, "programs", lambda: iter([("f", program, [np.ones(2, np.float32)], {})]))


def run(folder, version):
    assert add_corpus.main(["--out", str(folder), "--version", version]) == 0
    return json.loads((folder / version / "index.json").read_text())


def test_adds_once(tmp_path, few):
    names = ["f.lamina", "f.values.lamina", "psum.lamina", "sin.lamina"]
    assert run(tmp_path, "0.1.0") == {name: f"0.1.0/{name}" for name in names}
    times = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "0.1.0").iterdir()}
    run(tmp_path, "0.1.0")
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "0.1.0").iterdir()} == times
    held = evaluate(loads((tmp_path / "0.1.0/f.values.lamina").read_bytes()))
    assert np.allclose(held, [[1, 1], np.sin([1, 1])])


def test_a_new_version_gets_what_it_writes_otherwise(tmp_path, few, monkeypatch):
    first = run(tmp_path, "0.9.0")
    assert run(tmp_path, "0.10.0") == first
    assert [path.name for path in (tmp_path / "0.10.0").iterdir()] == ["index.json"]
    monkeypatch.setattr(prims, "ALL", (prims.sin_p, prims.psum_p, prims.cos_p))
    before = (tmp_path / "0.9.0" / "sin.lamina").read_bytes()
    made = add_corpus.op_program
    monkeypatch.setattr(add_corpus, "op_program", lambda prim: made(prims.tan_p if prim is prims.sin_p else prim))
    assert run(tmp_path, "0.11.0") == {**first, "cos.lamina": "0.11.0/cos.lamina", "sin.lamina": "0.11.0/sin.lamina"}
    assert (tmp_path / "0.9.0" / "sin.lamina").read_bytes() == before
