"""Bare environments for trying wheels: a folder of downloaded wheels, an environment filled from folders alone, tests in it.

Behind run_isolated.py (each wheel with what it declares), run_lowest.py (with the lowest versions) and run_neighbours.py
(with released neighbours). Nothing but what is named comes in: the environments know no index.
"""
from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import run_tests

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".isolated"
NO_JAXLIB_CHECK = """
import importlib.util, sys
found = [name for name in ("jax", "jaxlib") if importlib.util.find_spec(name)]
sys.exit(f"{found} can be imported here, and must not be" if found else 0)
"""
Result = tuple[int, str, float]  # exit status, output, seconds


def pip(*arguments: str, python: Path | None = None) -> None:
    """Run this environment's pip, on another environment where one is named."""
    target = ["--python", str(python)] if python else []
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *target, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"pip {' '.join(arguments[:2])} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")


def fill_wheelhouse(wanted: Iterable[str], kind: str = "") -> Path:
    """Download wheels from outside, once per set of requirements and Python version; `kind` names a folder of its own."""
    house = WORK / f"wheelhouse{kind}-{sys.version_info[0]}.{sys.version_info[1]}"
    lines = sorted(set(wanted))
    stamp = house / "requirements.txt"
    if not stamp.exists() or not set(lines) <= set(stamp.read_text().splitlines()):
        house.mkdir(parents=True, exist_ok=True)
        print(f"isolated: downloading {', '.join(lines)}", flush=True)
        pip("download", "--only-binary=:all:", "--dest", str(house), *lines)
        stamp.write_text("\n".join(lines) + "\n")
    return house


def run_in_bare(name: str, install: list[str], folders: list[Path], tests: list[str], no_jaxlib: bool,
                cwd: Path = ROOT) -> Result:
    """Make an environment, fill it with `install` from `folders` alone, run pytest there, and take it away."""
    start = time.monotonic()
    home = WORK / name
    shutil.rmtree(home, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    places = [part for folder in folders for part in ("--find-links", str(folder))]
    try:
        pip("install", "--quiet", "--no-compile", "--no-index", *places, *install, python=python)
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
        environment["TF_CPP_MIN_LOG_LEVEL"] = "1"
        if no_jaxlib:
            bare = subprocess.run([str(python), "-c", NO_JAXLIB_CHECK], capture_output=True, text=True, env=environment)
            if bare.returncode:
                return bare.returncode, bare.stderr, time.monotonic() - start
        command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
        status, output = run_tests.run_limited(command, environment, cwd=cwd)
    finally:
        shutil.rmtree(home, ignore_errors=True)  # some of the environments hold 350 MB of jaxlib each
    return status, output, time.monotonic() - start


def run_all(title: str, jobs: int, tries: dict[str, Callable[[], Result]]) -> list[str]:
    """Run what is to be tried, some at a time, print each as it ends, and give the names of those that failed."""
    failed = []
    with ThreadPoolExecutor(jobs) as pool:
        waiting = {pool.submit(attempt): name for name, attempt in tries.items()}
        for done in as_completed(waiting):
            status, output, seconds = done.result()
            print(f"\n----- {waiting[done]} ({seconds:.0f} s)\n{output.rstrip()}", flush=True)
            if status:
                failed.append(waiting[done])
    verdict = f"failed: {', '.join(sorted(failed))}" if failed else f"{len(tries)} passed"
    print(f"\n{title}: {verdict}")
    return failed


def parse(parser: argparse.ArgumentParser, argv: list[str] | None) -> tuple[argparse.Namespace, list[str]]:
    """The options that these tools share, and what follows `--`, for pytest."""
    parser.add_argument("packages", nargs="*", help="default: all")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 4))
    parser.add_argument("--sample", action="store_true", help="every second test, none marked slow")
    argv = list(sys.argv[1:] if argv is None else argv)
    own, extra = (argv[:argv.index("--")], argv[argv.index("--") + 1:]) if "--" in argv else (argv, [])
    options = parser.parse_args(own)
    return options, [*run_tests.SAMPLE, *extra] if options.sample else extra
