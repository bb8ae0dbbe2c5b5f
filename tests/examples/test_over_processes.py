"""The examples for several processes, in two. They compare themselves with one device, so it matters that they end."""
from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ONE_AFTER_THE_OTHER = f"""
import runpy
import lamina
lamina.distributed.initialize()
lamina.distributed.initialize = lambda: None  # once for all of them
for name in ("ring_all_reduce", "pipeline", "matrix_product"):
    runpy.run_path(f"{EXAMPLES}/{{name}}.py", run_name="__main__")
"""
pytestmark = pytest.mark.slow


def run(*program: str, processes: int = 2, devices: int = 2) -> list[str]:
    """What process 0 prints."""
    launch = "-m", "lamina.launch", "-n", str(processes), "--devices", str(devices), "--timeout", "200"
    done = subprocess.run([sys.executable, *launch, *program],
                          env={**os.environ, "XLA_FLAGS": ""}, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line.removeprefix("[0] ") for line in done.stdout.splitlines() if line.startswith("[0] ") and "Gloo" not in line]


def test_ring_pipeline_and_product(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(ONE_AFTER_THE_OTHER)
    ring, sums, _, pipeline, loss, _, product, share, _ = run(str(program))
    assert ring == "4 devices in 2 processes, vectors of 4000 numbers"
    assert len(set(re.findall(r"-?\d+\.\d\d\d", sums))) == 1
    assert pipeline == "4 layers on 4 devices in 2 processes; 12 batches, 15 turns"
    assert len(set(re.findall(r"\d\.\d\d\d\d", loss))) == 1
    assert product == "[192, 100] times [100, 192] on 4 devices in 2 processes"
    assert share == "a device holds 4800 + 4800 numbers, and makes 9216"


def test_digits(tmp_path: Path) -> None:
    program = str(EXAMPLES / "digits_over_processes.py"), "--epochs", "1", "--keep", str(tmp_path / "states")
    epoch, end = run(*program, devices=4)
    assert re.fullmatch(r"epoch 1: loss (\d\.\d{3})\d+, on one device \1\d+", epoch)
    assert end.startswith("8 devices in 2 processes: accuracy 0.")
    [again] = run(*program, processes=1, devices=3)  # nothing is left to be done with what was kept
    assert again == end.replace("8 devices in 2 processes", "3 devices in 1 processes")
