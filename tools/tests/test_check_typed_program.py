"""The typed programs: what counts as a breach, and that the one without mistakes runs."""
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import check_typed_program as tool
import pytest


def test_a_mistake_that_is_not_found_and_one_that_is_none_are_breaches(tmp_path: Path) -> None:
    path = tmp_path / "some.py"
    path.write_text("a = 1\nb = a.c  # wrong: no such attribute\nd = 2\n")
    assert tool.breaches("mypy", {("some.py", 2): "said"}, [path]) == []
    missed, more = tool.breaches("mypy", {("some.py", 3): "said"}, [path])
    assert missed == "some.py:2: mypy does not find what is wrong: b = a.c  # wrong: no such attribute"
    assert more == "some.py:3: mypy: said"


def test_a_checker_that_does_not_run_is_a_breach(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(tool.subprocess, "run", lambda *a, **k: subprocess.CompletedProcess(a, 1, "no network", ""))
    assert tool.main([]) == 1
    said = capsys.readouterr().out
    assert "mypy does not run" in said and "pyright does not run; it needs Node" in said and "no network" in said


def test_an_unknown_checker_is_refused() -> None:
    assert tool.main(["pytype"]) == 2


def test_the_program_runs() -> None:
    done = subprocess.run([sys.executable, str(tool.FOLDER / "program.py")], capture_output=True, text=True)
    assert done.returncode == 0 and 0 <= float(done.stdout) < 1, done.stderr
