"""Counted figures do not rise: Python calls, allocations, loaded modules, instructions, kernels, planned memory.

After a change that is meant, write the new numbers with `python tests/counts/measure.py --update`, on Python 3.11 and on the
newest supported one.
"""
from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ALLOWED_RISE = 1.05


@pytest.fixture(scope="module")
def measured() -> tuple[str, dict[str, float]]:
    """The interpreter and jaxlib, and the figures of a new process."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("LAMINA_", "JAX_"))}
    done = subprocess.run([sys.executable, str(HERE / "measure.py")], capture_output=True, text=True, timeout=300,
                          env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_counted_figures_do_not_rise(measured: tuple[str, dict[str, float]]) -> None:
    versions, figures = measured
    table = json.loads((HERE / "counts.json").read_text(encoding="utf-8"))
    if versions not in table:
        pytest.skip(f"counts.json has no numbers of {versions}")
    old = table[versions]
    assert figures.keys() == old.keys()
    risen = {row: (old[row], value) for row, value in figures.items() if value > old[row] * ALLOWED_RISE}
    assert not risen, f"(before, now); see the docstring of {__file__}: {risen}"


def test_later_calls_of_compiled_functions_run_no_python(measured: tuple[str, dict[str, float]]) -> None:
    _, figures = measured
    assert figures["jit_later_calls"] == figures["jit_grad_later_calls"] == 0
