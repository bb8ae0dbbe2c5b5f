"""`python -m lamina replay FILE`: run a failed call again, and shrink it."""
from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from lamina_ir import ProgramError, jaxpr_text, replay

from .rerun import Rerun, has_runtime, prepare_devices
from .shrink import Shrunk, count_equations

__all__ = ["main"]

_SECONDS = 60.0


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lamina replay", description="Run a failed call, which lamina.replay wrote to FILE, and shrink it.",
        epilog="The exit status is 1 if the call fails in the same way, 0 if it does not, 2 if the file cannot be used. "
               "python -m lamina_ir.replay FILE runs it with lamina-ir and NumPy alone.")
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--shrink", action="store_true", help="reduce the program to a small one that fails in the same way")
    parser.add_argument("--output", metavar="FILE", help="the file of the shrunk call; default: FILE with the ending "
                                                         ".small.replay")
    parser.add_argument("--seconds", type=float, default=_SECONDS, help="the time for shrinking; default: %(default)g")
    parser.add_argument("--numpy", action="store_true", help="run it with NumPy, without a compiler")
    parser.add_argument("--text", action="store_true", help="print the program instead of running it")
    parser.add_argument("--json", action="store_true", help="print the result as one line of JSON")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
      arguments: those of the command line; None: those of this process.
    Returns:
      The exit status: 1 if the call fails in the same way, 0 if it does not, 2 if the file cannot be used.
    """
    options = _make_parser().parse_args(arguments)
    try:
        failed = replay.load(options.file)
        if options.text:
            print(failed.text)
            return 0
        if failed.program is None:
            raise ValueError(f"replay: {options.file} has no program that can run. Read its text with --text:\n"
                             f"{failed.text.rsplit(chr(10), 1)[-1]}")
        is_compiled = not options.numpy and has_runtime()
        if is_compiled:
            prepare_devices(failed)
        rerun = Rerun(failed, is_compiled)
    except (OSError, ProgramError, ValueError) as e:
        print(str(e) if str(e).startswith("replay") else f"replay: {e}", file=sys.stderr)
        return 2
    with replay.using_settings(failed):
        is_same, sentence = rerun.run()
        found, path = None, None
        if options.shrink and is_same:
            found = rerun.shrink(options.seconds)
            path = Path(options.output or Path(options.file).with_suffix(".small.replay"))
            replay.save(path, rerun.smaller_call(found))
    _report(options, rerun, is_same, sentence, found, path)
    return int(is_same)


def _report(options: argparse.Namespace, rerun: Rerun, is_same: bool, sentence: str, found: Shrunk | None,
            path: Path | None) -> None:
    failed = rerun.failed
    smaller = None if found is None else count_equations(found.program)
    if options.json:
        print(json.dumps({"file": options.file, "name": failed.name, "kind": failed.failure.kind,
                          "failure": failed.failure.message, "failed_again": is_same, "result": sentence,
                          "equations": rerun.equations, "shrunk_equations": smaller,
                          "shrunk_file": None if path is None else str(path)}))
        return
    how = "compiled" if rerun.is_compiled else "with NumPy"
    print(f"{failed.call} of `{failed.name}`, {rerun.equations} equations\n"
          f"failed:   {failed.failure.message}\n"
          f"now:      {'fails in the same way' if is_same else 'does not fail in the same way'}, {how}: {sentence}")
    if failed.versions:
        print("versions: " + ", ".join(f"{k} {v}" for k, v in failed.versions.items()))
    if found is not None:
        rest = "" if found.is_complete else "; the time ran out, so a longer run may reduce it further (--seconds)"
        print(f"shrunk:   {smaller} equation{'' if smaller == 1 else 's'} after {found.tests} tests, in {path}{rest}\n\n"
              f"{jaxpr_text(found.program)}")
    elif options.shrink:
        print("shrunk:   nothing, because it does not fail here")
