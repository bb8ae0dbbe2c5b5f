"""Checks a user's typed programs, tests/typed, under mypy and pyright: what a type checker sees of lamina.

usage: python tools/check_typed_program.py [mypy] [pyright]

`program.py` must have no errors, in the strict mode of both; `mistakes.py` must have one on each line that is marked
`# wrong: ...`, and no others. pyright fetches its own program from the npm registry at its first run.
"""
from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests" / "typed"
MARK = "# wrong: "
# what a function without annotations takes and gives is unknown, lambdas first of all: that is the user's to write
QUIET = ("reportUnknownArgumentType", "reportUnknownLambdaType", "reportUnknownMemberType", "reportUnknownParameterType",
         "reportUnknownVariableType", "reportUnusedExpression", "reportUnusedCallResult", "reportUnusedVariable")
Found = dict[tuple[str, int], str]  # (file, line) -> what is said of it


class CheckerError(Exception):
    """A checker that did not run; the message says why."""


def sources() -> list[str]:
    return [str(path) for path in sorted(ROOT.glob("packages/*/src"))]


def mypy(files: list[Path]) -> Found:
    """Errors of mypy --strict; only those in the files: `nox -s types` checks the packages themselves."""
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-error-summary",
               "--config-file", str(ROOT / "pyproject.toml"), *map(str, files)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    found = {}
    for line in done.stdout.splitlines():
        if said := re.match(r"(.*?):(\d+): error: (.*)", line):
            found[Path(said[1]).name, int(said[2])] = said[3]
    if done.returncode and not found:
        raise CheckerError(f"mypy does not run:\n{done.stdout}{done.stderr}")
    return found


def pyright(files: list[Path]) -> Found:
    """Errors of pyright in its strict mode."""
    with tempfile.TemporaryDirectory() as folder:
        for path in files:
            (Path(folder) / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
        settings = {"include": ["."], "typeCheckingMode": "strict", "pythonVersion": "3.11", "extraPaths": sources(),
                    **dict.fromkeys(QUIET, "none")}
        (Path(folder) / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
        command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", folder]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    try:
        said = json.loads(done.stdout)["generalDiagnostics"]
    except ValueError:
        raise CheckerError("pyright does not run; it needs Node, or `pip install 'pyright[nodejs]'`, and at its first run the "
                           f"npm registry:\n{done.stdout}{done.stderr}") from None
    return {(Path(one["file"]).name, one["range"]["start"]["line"] + 1): one["message"].splitlines()[0]
            for one in said if one["severity"] == "error"}


def breaches(checker: str, found: Found, files: list[Path]) -> list[str]:
    """Marked lines of which nothing is said, and others of which something is."""
    out = []
    for path in files:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            said = found.get((path.name, number))
            if MARK in line and said is None:
                out.append(f"{path.name}:{number}: {checker} does not find what is wrong: {line.strip()}")
            elif MARK not in line and said is not None:
                out.append(f"{path.name}:{number}: {checker}: {said}")
    return out


def main(argv: list[str] | None = None) -> int:
    checkers = {"mypy": mypy, "pyright": pyright}
    chosen = (sys.argv[1:] if argv is None else argv) or list(checkers)
    if not set(chosen) <= set(checkers):
        print(__doc__)
        return 2
    files = sorted(FOLDER.glob("*.py"))
    out: list[str] = []
    for name in chosen:
        try:
            out += breaches(name, checkers[name](files), files)
        except CheckerError as error:
            out.append(str(error))
    marked = sum(MARK in line for path in files for line in path.read_text(encoding="utf-8").splitlines())
    print("\n".join(out) or f"typed: {', '.join(chosen)} find {marked} mistakes where they are, and nothing else")
    return 1 if out else 0


if __name__ == "__main__":
    sys.exit(main())
