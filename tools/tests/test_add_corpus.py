"""The corpus tool adds what is missing and never writes a file again."""
from __future__ import annotations

import add_corpus
from lamina_ir import prims


def test_adds_once_and_again_only_when_asked(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(prims, "ALL", (prims.sin_p, prims.psum_p, prims.xla_call_p))
    assert add_corpus.main(["--out", str(tmp_path)]) == 0
    first = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert sorted(first) == ["psum.lamina", "sin.lamina", "xla_call.lamina"]
    assert add_corpus.main(["--out", str(tmp_path)]) == 0
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == first
    assert add_corpus.main(["--out", str(tmp_path), "--again", "sin"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir() if path.name not in first) == ["sin.2.lamina"]
    assert add_corpus.main(["--out", str(tmp_path), "--again", "sine"]) == 1
    assert "no primitive is named sine" in capsys.readouterr().out
