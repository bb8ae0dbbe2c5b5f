"""Runs every test: one pytest process per room, because a room above fills the slots of the rooms below it.

usage: python tools/run_tests.py [--jobs N] [--sample] [target ...] [-- pytest arguments]

A target is a folder with tests (`packages/lamina-ir`, `tests/laws`) or a package's name; without targets all are run.
Output appears target by target as each ends; the last lines repeat every summary. `--sample` leaves out `slow` tests and
takes every second one of the others.
"""
from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NO_TESTS_COLLECTED = 5
SAMPLE = ("-m", "not slow", "--one-of", "2")
LIMIT = 1500  # seconds for a target: five times the longest on two idle cores, so what passes it stands still
TIMED_OUT = 124
# The longest first, so that two cores end at about the same time.
HEAVY = ("tests/devices", "lamina-runtime", "tests/compose", "tests/laws", "lamina-lowering", "tests/roof", "tests/examples",
         "lamina-autodiff", "lamina-numpy", "lamina-batching", "lamina-ir")


def all_targets() -> list[str]:
    """Names of everything that has tests: packages, the folders of `tests`, `tools`, `docs`."""
    names = [path.parent.name for path in sorted(ROOT.glob("packages/*/tests"))]
    names += [str(path.relative_to(ROOT)) for path in sorted((ROOT / "tests").glob("*")) if any(path.glob("test_*.py"))]
    names += [name for name in ("tools", "docs") if (ROOT / name).is_dir()]
    return sorted(names, key=lambda name: HEAVY.index(name) if name in HEAVY else len(HEAVY))


def package_arguments(package: str) -> list[str]:
    """One room: its tests, the examples in the docstrings of the installed package, those in its README."""
    folder = f"{'packages' if (ROOT / 'packages' / package).is_dir() else 'examples'}/{package}"
    return ["--doctest-modules", "--doctest-glob=README.md", f"{folder}/tests", f"{folder}/README.md",
            "--pyargs", package.replace("-", "_")]


def pytest_arguments(target: str) -> list[str]:
    """What pytest is told for one target."""
    if target == "docs":
        pages = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]
        return ["--doctest-glob=*.md", *(str(page.relative_to(ROOT)) for page in pages)]
    if target == "tools":
        return ["tools/tests"]
    if target.split("/")[0] == "tests":
        return [target]
    name = target.strip("/").removeprefix("packages/")
    if not (ROOT / "packages" / name / "tests").is_dir():
        raise SystemExit(f"run_tests: no tests for {target!r}; there are {', '.join(all_targets())}")
    return package_arguments(name)


def summary_of(output: str) -> str:
    """pytest's last line, such as `12 passed in 0.34s`."""
    lines = [line.strip("= ") for line in output.splitlines() if re.search(r"\bin [\d.]+s\b", line)]
    return lines[-1] if lines else "no summary; pytest ended early"


def run_limited(command: list[str], environment: dict[str, str], limit: float = LIMIT, cwd: Path = ROOT) -> tuple[int, str]:
    """A program and all that it starts, ended after `limit` seconds: (exit status, its output).

    One that is ended is asked first by SIGABRT, at which pytest writes where each thread stands.
    """
    with subprocess.Popen(command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True) as job:
        try:
            output, _ = job.communicate(timeout=limit)
            return job.returncode, output
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, signal.SIGABRT)
            try:
                output, _ = job.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                os.killpg(job.pid, signal.SIGKILL)
                output, _ = job.communicate()
            return TIMED_OUT, f"{output}\nstood still: ended after {limit:.0f} s"
        except BaseException:  # Ctrl-C reaches only us, since the program has a session of its own
            os.killpg(job.pid, signal.SIGKILL)
            raise


def run(target: str, extra: list[str]) -> tuple[int, str, float]:
    """One pytest process: (exit status, its output, seconds)."""
    start = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", *pytest_arguments(target), *extra]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "1"}
    status, output = run_limited(command, environment)
    return 0 if status == NO_TESTS_COLLECTED and extra else status, output, time.monotonic() - start


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 4), help="targets run at a time")
    parser.add_argument("--sample", action="store_true", help="every second test, none marked slow")
    argv = list(sys.argv[1:] if argv is None else argv)
    own, extra = (argv[:argv.index("--")], argv[argv.index("--") + 1:]) if "--" in argv else (argv, [])
    options = parser.parse_args(own)
    if options.sample:
        extra = [*SAMPLE, *extra]
    targets = options.targets or all_targets()
    for target in targets:
        pytest_arguments(target)
    print(f"run_tests: {len(targets)} targets, {options.jobs} at a time, Python {sys.version.split()[0]}", flush=True)
    results: dict[str, tuple[int, str]] = {}
    with ThreadPoolExecutor(options.jobs) as pool:
        waiting = {pool.submit(run, target, extra): target for target in targets}
        for done in as_completed(waiting):
            target = waiting[done]
            status, output, seconds = done.result()
            results[target] = status, summary_of(output)
            print(f"\n----- {target} ({seconds:.0f} s)\n{output.rstrip()}", flush=True)
    print("\n----- all")
    for target in targets:
        status, summary = results[target]
        print(f"{'ok  ' if status == 0 else 'FAIL'} {target:18s} {summary}")
    failed = [target for target in targets if results[target][0]]
    if failed:
        print(f"failed: {', '.join(failed)}; run one again with `python tools/run_tests.py {failed[0]} -- -x`")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
