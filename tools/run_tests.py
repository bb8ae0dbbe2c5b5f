"""Run all tests, one pytest process per target, two targets at a time.

usage: python tools/run_tests.py [--jobs N] [--sample] [target ...] [-- pytest arguments]

A target is a package (`lamina-ir`), a folder of `tests/`, `tools` or `docs`; by default all of them, except tests/installation,
which needs a package index. `--sample` runs every fourth test that is not marked slow. A test that hangs is stopped with a
stack trace (`faulthandler_timeout` in pyproject.toml). pytest-xdist does not fit: importing a package installs its hooks in
lower packages, so each package needs a process that has not imported the others. nox runs its sessions one after another.
"""
from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NO_TESTS_COLLECTED = 5
SAMPLE = ("-m", "not slow", "--one-of", "4")
TIME_LIMIT = 1500  # seconds for a process: five times the longest target
# The longest targets first, so that the last ones to end are short.
SLOW_TARGETS = ("tests/multi_process", "tests/public_api", "lamina-runtime", "tests/integration", "tests/property",
                "lamina-lowering", "tests/examples", "lamina-autodiff", "lamina-numpy", "lamina-batching", "lamina-ir")
NEEDS_INDEX = "tests/installation"  # `nox -s release_dry_run`
Result = tuple[int, str, float]  # exit status, output, seconds


def all_targets() -> list[str]:
    """Return the names of all targets, the longest first."""
    names = [path.parent.name for path in sorted(ROOT.glob("packages/*/tests"))]
    names += [f"tests/{path.name}" for path in sorted((ROOT / "tests").iterdir()) if any(path.glob("test_*.py"))]
    names.remove(NEEDS_INDEX)
    return sorted([*names, "tools", "docs"], key=lambda name: SLOW_TARGETS.index(name) if name in SLOW_TARGETS else 99)


def package_arguments(package: str) -> list[str]:
    """Return the pytest arguments for a package's tests and the examples in its docstrings and README."""
    folder = f"{'packages' if (ROOT / 'packages' / package).is_dir() else 'examples'}/{package}"
    return ["--doctest-modules", "--doctest-glob=README.md", f"{folder}/tests", f"{folder}/README.md",
            "--pyargs", package.replace("-", "_")]


def pytest_arguments(target: str) -> list[str]:
    """Return the pytest arguments for a target."""
    if target == "docs":
        return ["--doctest-glob=*.md", "--ignore=docs/_generated", "docs", "README.md"]
    if target == "tools" or target.startswith("tests/"):
        return ["tools/tests" if target == "tools" else target]
    return package_arguments(target.strip("/").removeprefix("packages/"))


def run(command: list[str], cwd: Path = ROOT, **environment: str) -> Result:
    """Run a program for at most TIME_LIMIT seconds.

    The output goes through a file: a process that a killed test left behind would keep a pipe open.
    """
    start = time.monotonic()
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        try:
            status = subprocess.run(
                command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, timeout=TIME_LIMIT,
                env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "1", **environment}).returncode
        except subprocess.TimeoutExpired:
            status = -1
            output.write(f"\nstopped after {TIME_LIMIT} s\n")
        output.seek(0)
        return status, output.read(), time.monotonic() - start


def summarize(output: str) -> str:
    """Return pytest's last line; if pytest ended early, its last line and the test that it was in."""
    if totals := re.findall(r"^.*\d+ \w+.* in [\d.]+s.*$", output, re.MULTILINE):
        return "; ".join(line.strip("= ") for line in totals)
    last = output.rstrip().splitlines()[-1:]
    frames = re.findall(r'File ".*?([^/"]+)", line (\d+) in (test_\w+)', output)  # of faulthandler's stacks
    return "; ".join([*last, *(f"in {name} ({file}:{line})" for file, line, name in frames[-1:])])


def run_all(jobs: dict[str, Callable[[], Result]], workers: int) -> int:
    """Run jobs in threads; print each output when its job ends, then a summary in pytest's form. Return the exit status."""
    start = time.monotonic()
    lines: dict[str, str] = {}
    with ThreadPoolExecutor(workers) as pool:
        running = {pool.submit(job): name for name, job in jobs.items()}
        for done in as_completed(running):
            status, output, seconds = done.result()
            print(f"\n----- {running[done]} ({seconds:.0f} s)\n{output.rstrip()}", flush=True)
            lines[running[done]] = f"{'FAILED' if status else 'PASSED'} {running[done]}: {summarize(output)}"
    print("\n===== summary =====", *(lines[name] for name in jobs), sep="\n")
    total: Counter[str] = Counter()
    for line in lines.values():
        for number, kind in re.findall(r"(\d+) (failed|passed|skipped|xfailed|errors?)\b", line):
            total[kind] += int(number)
    failed = sum(line.startswith("FAILED") for line in lines.values())
    counts = [f"{failed} of {len(jobs)} targets failed"] * bool(failed) + [f"{n} {kind}" for kind, n in sorted(total.items())]
    print(f"===== {', '.join(counts) or 'nothing run'} in {time.monotonic() - start:.2f}s =====", flush=True)
    return 1 if failed else 0


def run_pytest(arguments: list[str], extra: list[str], python: str = sys.executable, cwd: Path = ROOT) -> Result:
    """Run pytest on a target. If `extra` selects none of its tests, the target passes."""
    status, output, seconds = run([python, "-m", "pytest", "-q", *arguments, *extra], cwd)
    return 0 if status == NO_TESTS_COLLECTED and extra else status, output, seconds


def parse(parser: argparse.ArgumentParser, argv: list[str] | None) -> tuple[argparse.Namespace, list[str]]:
    """Parse the options that tools which run tests share; also return the arguments for pytest."""
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 4), help="processes at a time")
    parser.add_argument("--sample", action="store_true", help="every fourth test, none marked slow")
    argv = list(sys.argv[1:] if argv is None else argv)
    at = argv.index("--") if "--" in argv else len(argv)
    options = parser.parse_intermixed_args(argv[:at])
    return options, [*(SAMPLE if options.sample else ()), *argv[at + 1:]]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", help="default: all")
    options, extra = parse(parser, argv)
    known = [*all_targets(), NEEDS_INDEX]
    targets = [target.strip("/").removeprefix("packages/") for target in options.targets] or all_targets()
    if unknown := sorted(set(targets) - set(known)):
        parser.error(f"unknown target {', '.join(unknown)}; expected {', '.join(known)}")
    print(f"tests: {len(targets)} targets, {options.jobs} at a time, Python {sys.version.split()[0]}", flush=True)
    return run_all({target: partial(run_pytest, pytest_arguments(target), extra) for target in targets}, options.jobs)


if __name__ == "__main__":
    sys.exit(main())
