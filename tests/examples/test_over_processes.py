"""The multi-process examples run in two processes. They compare their results with one device themselves."""
from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# Gloo writes to the same stream, possibly in the middle of a line of the program.
SEPARATE_STDOUT = """
import os, runpy, sys
own = os.dup(1)
os.dup2(2, 1)
sys.stdout = os.fdopen(own, "w", buffering=1)
"""
EXAMPLE = SEPARATE_STDOUT + """
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
ALL_EXAMPLES = SEPARATE_STDOUT + f"""
import lamina
lamina.distributed.initialize()
lamina.distributed.initialize = lambda: None  # once for all of them
for name in ("ring_all_reduce", "pipeline", "matrix_product"):
    runpy.run_path(f"{EXAMPLES}/{{name}}.py", run_name="__main__")
"""
pytestmark = pytest.mark.slow


def run(folder: Path, text: str, *arguments: str, processes: int = 2, devices: int = 2) -> list[str]:
    """Run a program in several processes and return the lines that process 0 prints."""
    program = folder / "program.py"
    program.write_text(text)
    launch = "-m", "lamina.launch", "-n", str(processes), "--devices", str(devices), "--timeout", "200"
    done = subprocess.run([sys.executable, *launch, str(program), *arguments],
                          env={**os.environ, "XLA_FLAGS": ""}, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line.removeprefix("[0] ") for line in done.stdout.splitlines() if line.startswith("[0] ")]


def test_ring_pipeline_and_product(tmp_path: Path) -> None:
    ring, sums, _, pipeline, loss, _, product, share, _ = run(tmp_path, ALL_EXAMPLES)
    assert ring == "4 devices in 2 processes, vectors of 4000 numbers"
    assert len(set(re.findall(r"-?\d+\.\d\d\d", sums))) == 1
    assert pipeline == "4 layers on 4 devices in 2 processes; 12 batches, 15 steps"
    assert len(set(re.findall(r"\d\.\d\d\d\d", loss))) == 1
    assert product == "[192, 100] times [100, 192] on 4 devices in 2 processes"
    assert share == "a device holds 4800 + 4800 numbers, and makes 9216"


def test_digits_continue_from_a_checkpoint(tmp_path: Path) -> None:
    program = str(EXAMPLES / "digits_over_processes.py"), "--epochs", "1", "--keep", str(tmp_path / "states")
    epoch, end = run(tmp_path, EXAMPLE, *program, devices=4)
    assert re.fullmatch(r"epoch 1: loss (\d\.\d{3})\d+, on one device \1\d+", epoch)
    assert end.startswith("8 devices in 2 processes: accuracy 0.")
    [continued] = run(tmp_path, EXAMPLE, *program, processes=1, devices=3)  # all epochs are in the checkpoint
    assert continued == end.replace("8 devices in 2 processes", "3 devices in 1 processes")
