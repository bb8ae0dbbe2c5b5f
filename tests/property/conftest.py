"""How many random uses each law tries: `LAMINA_LAWS=50`, or few; the same ones every time unless a seed is given."""
from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from lamina_ir import config
from lamina_tracing import hooks

sys.path.insert(0, str(Path(__file__).parent))  # for `law_cases` and `drawing`

settings.register_profile("laws", max_examples=int(os.environ.get("LAMINA_LAWS", "3")), deadline=None, database=None,
                          derandomize=True, suppress_health_check=list(HealthCheck), print_blob=True)
settings.load_profile("laws")


@pytest.fixture(autouse=True, scope="module")
def wide_numbers():
    """64-bit dtypes for the length of a module."""
    with config.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def on_numpy():
    """Ops on concrete arrays have their NumPy meaning: no compiler between a rule and the law it is held to."""
    before = hooks.evaluator
    hooks.set_evaluator(hooks.NumPyEvaluator())
    yield
    hooks.set_evaluator(before)
