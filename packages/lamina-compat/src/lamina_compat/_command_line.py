"""`python -m lamina [--as LEVEL] [--report] program.py args...` or `-m module args...`: run a program written for JAX."""
from __future__ import annotations

import argparse
import os
import runpy
import sys
import traceback

from ._importer import as_jax
from ._missing_names import format_report

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    """Run the command line; return the exit status.

    Args:
      arguments: the arguments after `python -m lamina`.
    """
    parser = argparse.ArgumentParser(prog="python -m lamina", description="Run a program written for JAX on lamina.",
                                     usage="%(prog)s [-h] [--as LEVEL] [--report] (program.py | -m module) [args...]")
    parser.add_argument("--as", dest="level", default="0.4.30", metavar="LEVEL",
                        help="the release of JAX whose interface is offered, from 0.4.30 (default) to 0.12")
    parser.add_argument("--report", action="store_true",
                        help="print at the end which names of jax were missing; also printed if the program fails")
    parser.add_argument("-m", dest="module", action="store_true", help="run a module instead of a file")
    parser.add_argument("program", help="the file or module")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="arguments of the program")
    given = parser.parse_args(arguments)
    try:
        as_jax(given.level)
    except ValueError as e:
        parser.error(str(e))
    sys.argv = [given.program, *given.args]
    status = 0
    try:
        if given.module:
            sys.path.insert(0, "")
            runpy.run_module(given.program, run_name="__main__", alter_sys=True)
        else:
            # `run_path` sets sys.path[0] only for folders and archives; a script finds modules in its own folder.
            sys.path.insert(0, _folder(given.program))
            runpy.run_path(given.program, run_name="__main__")
    except SystemExit as e:
        status = _print_exit(e)
    except BaseException:  # the report follows the traceback
        traceback.print_exc()
        status = 1
    report = format_report()
    if report and (given.report or status):
        print(f"lamina: {report}", file=sys.stderr)
    elif given.report:
        print("lamina: no name of jax was missing", file=sys.stderr)
    return status


def _folder(program: str) -> str:
    return os.path.dirname(os.path.abspath(program))


def _print_exit(e: SystemExit) -> int:
    """Return the status of `sys.exit(...)`; print its message as Python does."""
    if e.code is None or isinstance(e.code, int):
        return e.code or 0
    print(e.code, file=sys.stderr)
    return 1
