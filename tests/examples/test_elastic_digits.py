"""If one process is killed during training, the remaining ones get the same result as a single process."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "elastic_digits.py"


@pytest.mark.slow
def test_training_continues_after_a_process_failure() -> None:
    environment = {k: v for k, v in os.environ.items() if k not in ("XLA_FLAGS", "LAMINA_NUM_CPU_DEVICES")}
    done = subprocess.run([sys.executable, str(SCRIPT)], env={**environment, "LAMINA_TOKEN": "of these tests"}, timeout=300,
                          capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "exit codes: [-9, 0, 0]" in done.stdout and "as one process alone: True" in done.stdout, done.stdout
    assert done.stdout.count("(0,) lost; on from step 20") == 2, done.stdout + done.stderr[-3000:]
    assert len(SCRIPT.read_text(encoding="utf-8").splitlines()) < 80
