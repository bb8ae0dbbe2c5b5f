"""If processes are killed and started again during training, the result is that of a single process."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "elastic_digits.py"
EVERY = os.environ.get("LAMINA_LOSSES") == "every"  # five rounds, both ways


@pytest.mark.slow
@pytest.mark.parametrize("options, rounds", [(["--steps", "40"], 1), *[([], 5), (["--from-checkpoint"], 5)] * EVERY])
def test_training_continues_after_process_failures(options: list[str], rounds: int) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in ("XLA_FLAGS", "LAMINA_NUM_CPU_DEVICES")}
    done = subprocess.run([sys.executable, str(SCRIPT), *options], env=environment, timeout=300, capture_output=True, text=True,
                          encoding="utf-8")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "as one process alone: True" in done.stdout, done.stdout + done.stderr[-3000:]
    assert done.stderr.count("starting it again") == rounds, done.stderr[-3000:]
    # Three go on without the new process, unless it comes within a second.
    assert done.stdout.count(" lost at step ") == 3 * rounds, done.stdout
    assert done.stdout.count("4 processes at step None") == 4 + rounds, done.stdout
