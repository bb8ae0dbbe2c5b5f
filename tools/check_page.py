"""Build the page of lamina-see from its sources, and compare it with the committed files of the wheel.

usage: python tools/check_page.py [--write]

`--write` replaces the committed files. If Node.js 18 or npm is missing, the check is skipped with a message, because the wheel
and its tests use the committed files. Exit status 1 if a file differs.
"""
from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

WEB = Path(__file__).resolve().parent.parent / "packages" / "lamina-see" / "web"
OLDEST_NODE = 18


def find_node() -> str | None:
    """Return why Node.js cannot be used here, or None."""
    if not (shutil.which("node") and shutil.which("npm")):
        return "node or npm is not installed"
    version = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout.strip()
    major = version.lstrip("v").split(".")[0]
    if not major.isdigit() or int(major) < OLDEST_NODE:
        return f"node {version} is older than {OLDEST_NODE}"
    return None


def main() -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(description="Compare the page of lamina-see with its sources.")
    parser.add_argument("--write", action="store_true", help="replace the committed files")
    given = parser.parse_args()
    missing = find_node()
    if missing is not None:
        print(f"check_page: skipped: {missing}; the committed page is used")
        return 1 if given.write else 0
    npm = shutil.which("npm") or "npm"
    if subprocess.run([npm, "ci", "--no-audit", "--no-fund", "--loglevel=error"], cwd=WEB).returncode:
        print("check_page: npm ci failed, so the page was not built", file=sys.stderr)
        return 1
    return subprocess.run(["node", "build.mjs", *([] if given.write else ["--check"])], cwd=WEB).returncode


if __name__ == "__main__":
    sys.exit(main())
