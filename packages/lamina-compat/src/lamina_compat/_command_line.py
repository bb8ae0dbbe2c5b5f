"""`python -m lamina [--as LEVEL] [--report] program.py args...` or `-m module args...`: run a program written for JAX.

Its `--help` lists the commands of all packages.
"""
from __future__ import annotations

import argparse
import json
import os
import runpy
import sys
import textwrap
from types import TracebackType

from ._importer import as_jax
from ._missing_names import format_report, missing_names

__all__ = ["COMMANDS", "main"]

# command -> what it does
COMMANDS = {
    "python -m lamina": "run a program written for JAX on lamina",
    "python -m lamina see": "run a program and report on every function that it compiles",
    "python -m lamina replay": "run a failing call again, from the file that lamina.replay wrote, and shrink it",
    "python -m lamina_ir.replay": "run such a file with NumPy alone",
    "python -m lamina.launch": "run a program in several processes of this machine",
    "python -m lamina_distributed.coordinator": "run the coordinator of a program in several processes, if the program "
                                            "does not start one",
    **{f"python -m lamina_{layer}.conformance": f"test the selected implementation of the layer `{layer}`"
       for layer in ("ir", "tracing", "autodiff", "batching", "parallel", "lowering", "runtime", "distributed", "numpy")}}


def main(arguments: list[str]) -> int:
    """Run the command line; return the exit status.

    Args:
      arguments: the arguments after `python -m lamina`.
    """
    parser = _make_parser()
    given = parser.parse_args(arguments)
    if given.program is None:
        if not given.json:
            parser.error("the following arguments are required: program")
        print(json.dumps(COMMANDS))
        return 0
    try:
        as_jax(given.level)
    except ValueError as e:
        parser.error(str(e))
    sys.argv = [given.program, *given.args]
    status = _run(given.program, given.module)
    report = format_report()
    if given.json:
        print(json.dumps({"status": status, "missing": [name._asdict() for name in missing_names()]}), file=sys.stderr)
    elif report and (given.report or status):
        print(f"lamina: {report}", file=sys.stderr)
    elif given.report:
        print("lamina: no name of jax was missing", file=sys.stderr)
    return status


def _make_parser() -> argparse.ArgumentParser:
    width = 78
    commands = [textwrap.fill(f"{command}: {about}", width, initial_indent="  ", subsequent_indent="      ",
                              break_on_hyphens=False) for command, about in COMMANDS.items()]
    parser = argparse.ArgumentParser(
        prog="python -m lamina", description="Run a program written for JAX on lamina.",
        usage="%(prog)s [-h] [--as LEVEL] [--report] [--json] (program.py | -m module) [args...]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(["commands (each has --help and --json):", *commands]))
    parser.add_argument("--as", dest="level", default="0.4.30", metavar="LEVEL",
                        help="the release of JAX whose interface is offered, from 0.4.30 (default) to 0.12")
    parser.add_argument("--report", action="store_true",
                        help="print the missing names of jax at the end; also printed if the program fails")
    parser.add_argument("--json", action="store_true",
                        help="print the report as one line of JSON, with the exit status, on standard error; without a "
                             "program, print the commands as JSON")
    parser.add_argument("-m", dest="module", action="store_true", help="run a module instead of a file")
    parser.add_argument("program", nargs="?", help="the file or module")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="arguments of the program")
    return parser


def _run(program: str, is_module: bool) -> int:
    """Run a file or a module as `__main__`; return its exit status."""
    if not is_module and not os.path.exists(program):
        print(f"lamina: cannot open file {program!r}: it does not exist", file=sys.stderr)
        return 2  # as Python itself
    try:
        if is_module:
            sys.path.insert(0, "")
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            # `run_path` sets sys.path[0] only for folders and archives; a script finds modules in its own folder.
            sys.path.insert(0, _folder(program))
            runpy.run_path(program, run_name="__main__")
    except SystemExit as e:
        return _print_exit(e)
    except BaseException as e:  # the report follows the traceback
        e.__traceback__ = _skip_own_frames(e.__traceback__)
        sys.excepthook(type(e), e, e.__traceback__)
        return 1
    return 0


def _skip_own_frames(tb: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames of this module and of runpy that it starts with."""
    while tb is not None and tb.tb_frame.f_code.co_filename in (__file__, runpy.__file__, "<frozen runpy>"):
        tb = tb.tb_next
    return tb


def _folder(program: str) -> str:
    return os.path.dirname(os.path.abspath(program))


def _print_exit(e: SystemExit) -> int:
    """Return the status of `sys.exit(...)`; print its message as Python does."""
    if e.code is None or isinstance(e.code, int):
        return e.code or 0
    print(e.code, file=sys.stderr)
    return 1
