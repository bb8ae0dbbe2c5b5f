"""Number of random samples per test: `LAMINA_LAWS=50`, or few by default; always the same unless a seed is given."""
from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from lamina_ir import config
from lamina_tracing import hooks

sys.path.insert(0, str(Path(__file__).parent))  # for `sample_cases` and `drawing`

settings.register_profile("laws", max_examples=int(os.environ.get("LAMINA_LAWS", "3")), deadline=None, database=None,
                          derandomize=True, suppress_health_check=list(HealthCheck), print_blob=True)
settings.load_profile("laws")


@pytest.fixture(autouse=True, scope="module")
def wide_numbers():
    """Enable 64-bit dtypes for a module."""
    with config.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def on_numpy():
    """Evaluate eager primitives with NumPy, so that no compiler is involved in tests of rules."""
    before = hooks.evaluator
    hooks.set_evaluator(hooks.NumPyEvaluator())
    yield
    hooks.set_evaluator(before)
