"""Run programs written for JAX on lamina: `import jax` gives lamina's modules.

A child process loads nothing of lamina until it imports `jax`, so that one that does not need it starts as fast as any
other.
"""
from __future__ import annotations

import sys

from ._importer import JaxImporter, as_jax, installed_level
from ._missing_names import format_report, missing_names
from .pytest_plugin import CallableModule, pytest_load_initial_conftests, pytest_terminal_summary

__all__ = ["CallableModule", "JaxImporter", "as_jax", "format_report", "installed_level", "missing_names",
           "pytest_load_initial_conftests", "pytest_terminal_summary", "run_command_line"]


def run_command_line(arguments: list[str] | None = None) -> int:
    """Run the command line `python -m lamina`.

    Args:
      arguments: the arguments; default: those of this process.
    Returns:
      The exit status of the program.
    """
    from ._command_line import main  # noqa: PLC0415 (argparse and runpy are needed only here)
    return main(sys.argv[1:] if arguments is None else arguments)
