"""`python -m lamina see program.py args...`: run a program and report on every function that it compiles."""
from __future__ import annotations

import argparse
import faulthandler
import json
import os
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._report import Report

__all__ = ["COMMANDS", "main", "run_see"]

_EXIT_SECONDS = 5.0
_EXTENSIONS = (".html", ".json", ".txt", ".pftrace", ".perfetto-trace")
_DEFAULT_OUTPUT = "lamina-see.html"


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lamina see",
        description="Run a program and report on every function that it compiles; or show saved reports, of which two are "
                    "compared.",
        usage="%(prog)s [options] (program.py | -m module) [args...]\n       %(prog)s [options] report.json [report.json]")
    parser.add_argument("-o", "--output", action="append", metavar="FILE",
                        help=f"save the report: .html, .json, .txt or .pftrace; default {_DEFAULT_OUTPUT}; may be repeated")
    parser.add_argument("--seconds", type=float, default=3.0, metavar="S",
                        help="measure times for S seconds after a compilation; default 3")
    parser.add_argument("--tui", action="store_true", help="show the report in the terminal; needs lamina-see[tui]")
    parser.add_argument("--json", action="store_true", help="print the report as JSON in place of text")
    parser.add_argument("--as", dest="level", metavar="LEVEL",
                        help="the release of JAX whose interface is offered, for programs that import jax")
    parser.add_argument("-m", dest="module", action="store_true", help="run a module instead of a file")
    parser.add_argument("program", help="the file or module, or a saved report")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="arguments of the program, or a second report")
    return parser


def run_see(arguments: Sequence[str]) -> int:
    """Run the command `see`; return the exit status: that of the program, 1 or 2 for errors of the command itself.

    Args:
      arguments: the arguments after `see`.
    """
    parser = _make_parser()
    given = parser.parse_args(arguments)
    if not given.seconds >= 0:
        parser.error(f"--seconds must be at least 0; got {given.seconds}")
    for path in given.output or ():
        if not path.endswith(_EXTENSIONS):
            parser.error(f"--output must end in {', '.join(_EXTENSIONS)}; got {path!r}")
    if given.program.endswith(".json") and not given.module:
        return _show_saved(given)
    problem = _check_program(given.program, given.module)
    if problem:
        print(f"lamina see: {problem}", file=sys.stderr)
        return 2  # as Python itself
    from ._runtime import has_runtime  # noqa: PLC0415 (on demand: this module is imported for other commands too)
    if not has_runtime():
        print("lamina see: a program needs lamina-runtime; install it, or call lamina_see.see(f)(*args) for the facts that do "
              "not depend on devices", file=sys.stderr)
        return 2
    from ._program_run import run_program  # noqa: PLC0415 (on demand: it loads the profiler)
    report, status = run_program(given.program, given.args, is_module=given.module, seconds=given.seconds, level=given.level)
    failed = _show(report, given)
    if status == 130:
        # Python waits for devices when it ends, and what was interrupted may run for ever.
        sys.stdout.flush()
        faulthandler.dump_traceback_later(_EXIT_SECONDS, exit=True, file=open(os.devnull, "w"))
    return failed or status


def _check_program(program: str, is_module: bool) -> str:
    """Return why a program cannot be run; "" if it can."""
    if is_module:
        sys.path.insert(0, "")
        try:
            found = find_spec(program)
        except (ImportError, ValueError):
            found = None
        finally:
            sys.path.remove("")
        return "" if found is not None else f"there is no module {program!r}"
    if not os.path.exists(program):
        return f"cannot open file {program!r}: it does not exist"
    if os.path.isdir(program) and not os.path.exists(os.path.join(program, "__main__.py")):
        return f"cannot run {program!r}: it is a folder without __main__.py"
    return ""


def _show_saved(given: argparse.Namespace) -> int:
    from ._report import ReportError, load  # noqa: PLC0415 (on demand: this module is imported for other commands too)
    paths = [given.program, *given.args]
    if len(paths) > 2:
        print(f"lamina see: at most two reports can be compared; got {len(paths)}", file=sys.stderr)
        return 2
    try:
        reports = [load(path) for path in paths]
    except (OSError, ReportError) as e:
        print(f"lamina see: {e}", file=sys.stderr)
        return 2
    if len(reports) == 1:
        return _show(reports[0], given)
    from ._page import write_comparison  # noqa: PLC0415 (on demand: only pages need it)
    for path in given.output or [_DEFAULT_OUTPUT]:
        if not path.endswith(".html"):
            print(f"lamina see: two reports are compared in an .html file; got {path!r}", file=sys.stderr)
            return 2
        if _save(path, lambda path: write_comparison(reports[0].json(), reports[1].json(), path)):
            return 1
    return 0


def _show(report: Report, given: argparse.Namespace) -> int:
    """Print and save a report; return 1 if that failed."""
    failed = 0
    for path in given.output or ([] if given.json or given.tui else [_DEFAULT_OUTPUT]):
        failed |= _save(path, report.save)
    if given.tui:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            print("lamina see: --tui needs a terminal; here is the text", file=sys.stderr)
        else:
            try:
                report.tui()
                return failed
            except ImportError as e:
                print(f"lamina see: {e}", file=sys.stderr)
                failed = 1
    try:
        print(json.dumps(report.json(), separators=(",", ":")) if given.json else _text(report), flush=True)
    except BrokenPipeError:  # as with `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return failed


def _text(report: Report) -> str:
    """Return the text of a report, in colour if rich is installed and the output is a terminal."""
    if sys.stdout.isatty():
        try:
            from ._tui import rich_text  # noqa: PLC0415 (optional: needs rich)
            return rich_text(report.json())
        except ImportError:
            pass
    return str(report)


def _save(path: str, save: Callable[[str], Any]) -> int:
    try:
        save(path)
    except (OSError, ValueError) as e:
        print(f"lamina see: the report cannot be saved: {e}", file=sys.stderr)
        return 1
    print(f"lamina see: saved {path}", file=sys.stderr)
    return 0


def run_replay(arguments: Sequence[str]) -> int:
    """Run the command `replay`; return the exit status: 1 if the call fails in the same way, 2 for errors of the command.

    Args:
      arguments: the arguments after `replay`.
    """
    from ._replay.command import main  # noqa: PLC0415 (other commands do not need it)
    return main(arguments)


# command -> function of its arguments, which returns the exit status
COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {"see": run_see, "replay": run_replay}


def main() -> int:
    """Run `python -m lamina ...`: a command of this package, such as `see program.py`, or a program written for JAX.

    Returns:
      The exit status.
    """
    run = COMMANDS.get(sys.argv[1]) if len(sys.argv) > 1 else None
    if run is not None:
        return run(sys.argv[2:])
    from lamina_compat import run_command_line  # noqa: PLC0415 (only this command needs it)
    return run_command_line()
