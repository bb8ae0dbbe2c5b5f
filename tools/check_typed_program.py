"""Check what mypy and pyright report about a user's programs, tests/typed.

usage: python tools/check_typed_program.py

A line marked `# wrong: ...` must be an error, and no other line may be one. Both checkers run in strict mode on copies whose
marked lines have a `type: ignore` comment, and report an ignore comment that is not needed. The copies are needed because the
errors would otherwise not be visible in the programs. pyright downloads itself from the npm registry on its first run.
"""
from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARK = "# wrong: "
# Rules of pyright's strict mode about code without annotations, which is the user's to annotate.
OFF = ("reportUnknownArgumentType", "reportUnknownLambdaType", "reportUnknownMemberType", "reportUnknownParameterType",
       "reportUnknownVariableType", "reportUnusedExpression", "reportUnusedCallResult", "reportUnusedVariable")


def run_checkers(programs: dict[str, str]) -> int:
    """Run both checkers on programs, given as file name and text; return an exit status."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in programs]
        for path, text in zip(files, programs.values()):
            path.write_text(text.replace(MARK, f"# type: ignore  {MARK}"), encoding="utf-8")
        settings = {"include": ["."], "typeCheckingMode": "strict", "reportUnnecessaryTypeIgnoreComment": "error",
                    "extraPaths": [str(path) for path in sorted(ROOT.glob("packages/*/src"))], **dict.fromkeys(OFF, "none")}
        Path(folder, "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
        mypy = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", *map(str, files)], cwd=ROOT)
        pyright = subprocess.run([sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "-p", folder], cwd=ROOT)
    return mypy.returncode or pyright.returncode


if __name__ == "__main__":
    sys.exit(run_checkers({path.name: path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("tests/typed/*.py"))}))
