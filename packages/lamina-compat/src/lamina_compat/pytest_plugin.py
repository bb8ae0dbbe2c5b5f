"""Run a test suite that imports `jax` on lamina: `pytest -p lamina.as_jax`, or `-p lamina_compat.pytest_plugin`."""
from __future__ import annotations

import os
from types import ModuleType
from typing import Any

from ._importer import VARIABLE, as_jax
from ._missing_names import format_report

__all__ = ["CallableModule", "pytest_load_initial_conftests", "pytest_terminal_summary"]


class CallableModule(ModuleType):
    """A module that calls `as_jax` when it is called."""

    def __call__(self, level: str = "0.4.30") -> None:
        as_jax(level)

    __call__.__doc__ = as_jax.__doc__


def pytest_load_initial_conftests(early_config: Any, parser: Any, args: list[str]) -> None:
    """Install lamina as `jax` before conftest.py files are loaded; LAMINA_AS_JAX may hold the level."""
    as_jax(os.environ.get(VARIABLE, "0.4.30"))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the names of jax that were missing."""
    report = format_report()
    if report:
        terminalreporter.section("lamina as jax")
        terminalreporter.write_line(report)
