"""Run the programs of `programs/`, and two libraries' own tests, on lamina; compare the numbers with those of JAX.

usage: python tests/libraries/run.py [--set YEAR] [--sample] [--no-suites] [program ...]

The set follows from the installed jaxlib: 2026 for jaxlib 0.12 and later, else 2024. Two programs run at a time. `--sample`
runs some of the programs and the smaller suite: those that start within 60 s; it passes if the package index cannot be reached.
`--write-page` updates the tables in docs/how-to/libraries.md.
"""
from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from pathlib import Path

from library_sets import (
    HERE, PROGRAMS, ROOT, SETS, LibrarySet, NoPackageIndexError, build_environment, differences, environment_variables,
    run_program,
)
from page import write_page

# Programs of different libraries, with the slowest first. Together they use custom primitives and their rules, custom
# derivatives, own traces, programs that are read and run, loops, lifted scans, checkpoints, states and checks.
SAMPLE = ("diffrax_ode", "quax_units", "flax_linen_sequence", "equinox_mlp", "haiku_attention", "numpyro_svi", "chex_checks",
          "optax_adamw")
SAMPLE_LIMIT = 60  # seconds
SAMPLE_SUITES = ("einops",)
Job = partial[tuple[bool, str]]
TOLERANCE = 1e-3
# Iterations that amplify rounding.
TOLERANCES: dict[str, float] = {}


def set_of_jaxlib() -> str:
    """Return the year of the set that fits the installed jaxlib."""
    return "2026" if tuple(map(int, version("jaxlib").split(".")[:2])) >= (0, 12) else "2024"


def check_program(chosen: LibrarySet, libraries: Path, program: str) -> tuple[bool, str]:
    """Run a program; return whether it gave JAX's numbers, and a line of the report."""
    command = [sys.executable, "-m", "lamina", "--as", chosen.level]
    printed, errors, seconds = run_program(program, command, libraries)
    if printed is None:
        return False, f"FAILED {program} ({seconds:.1f} s)\n{errors.rstrip()}"
    recorded = json.loads(chosen.recording.read_text())["programs"].get(program, {})
    wrong = differences(printed["numbers"], recorded, TOLERANCES.get(program, TOLERANCE))
    if wrong:
        return False, f"FAILED {program} ({seconds:.1f} s): other numbers than JAX's\n  " + "\n  ".join(wrong)
    times = printed["times"]
    steps = "".join(f", {text} {times[name] * scale:.{digits}f} {unit}" for name, text, scale, digits, unit in (
        ("first_step", "first step after", 1, 1, "s"), ("step", "then", 1e3, 2, "ms")) if name in times)
    return True, f"PASSED {program} ({seconds:.1f} s{steps})"


def find_test_files(path: Path) -> list[Path]:
    """Return the test files of a folder; the path itself if it is a file."""
    return sorted([*path.rglob("*_test.py"), *path.rglob("test_*.py")]) if path.is_dir() else [path]


def check_suite(chosen: LibrarySet, libraries: Path, library: str) -> tuple[bool, str]:
    """Run a library's own tests; return whether as many passed as recorded, and a line of the report."""
    start = time.monotonic()
    paths = [str(file) for path in chosen.suites[library] for file in find_test_files(libraries / path)]
    variables = {**environment_variables(libraries), "LAMINA_AS_JAX": chosen.level, "EINOPS_TEST_BACKENDS": "numpy,jax"}
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "lamina.as_jax", "-p", "no:cacheprovider", "--tb=line",
                           "-c", "/dev/null", "--rootdir", str(libraries), *paths],
                          env=variables, text=True, capture_output=True, cwd=libraries)
    counts = {kind: int(number) for number, kind in re.findall(r"(\d+) (passed|failed|skipped|error)", done.stdout)}
    recorded = json.loads((HERE / "suites.json").read_text())[chosen.year][library]
    ok = counts.get("passed", 0) >= recorded
    line = (f"{'PASSED' if ok else 'FAILED'} tests of {library} ({time.monotonic() - start:.0f} s): {counts}; "
            f"{recorded} tests must pass")
    return ok, line if ok else f"{line}\n{done.stdout[-6000:]}{done.stderr[-2000:]}"


def main(argv: list[str] | None = None) -> int:
    """Run what is selected; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=SETS, default=set_of_jaxlib())
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--no-suites", action="store_true")
    parser.add_argument("--write-page", action="store_true")
    parser.add_argument("programs", nargs="*", metavar="program", help=", ".join(PROGRAMS))
    options = parser.parse_intermixed_args(argv)
    if options.write_page:
        write_page(ROOT)
        return 0
    chosen = SETS[options.set]
    try:
        libraries = build_environment(chosen, sys.executable)
    except NoPackageIndexError as e:
        print(f"{e}\nThe package index cannot be reached: the programs of libraries were not run")
        return 0 if options.sample else 1
    programs = options.programs or [name for name in chosen.programs if name not in chosen.failing]
    suites = [] if options.no_suites or options.programs else list(chosen.suites)
    if options.sample:
        programs = [name for name in SAMPLE if name in programs]
        suites = [name for name in suites if name in SAMPLE_SUITES]
    return run_jobs([partial(check_program, chosen, libraries, name) for name in programs]
                    + [partial(check_suite, chosen, libraries, name) for name in suites],
                    SAMPLE_LIMIT if options.sample else math.inf)


def run_jobs(jobs: list[Job], limit: float) -> int:
    """Run jobs two at a time, print their lines, and skip those that do not start within `limit` seconds; return the status."""
    start = time.monotonic()

    def run(job: Job) -> tuple[bool | None, str]:
        if time.monotonic() - start > limit:
            return None, f"SKIPPED {job.args[-1]}: {limit} s are over"
        return job()
    counts = Counter[bool | None]()
    with ThreadPoolExecutor(2) as pool:
        for ok, line in pool.map(run, jobs):
            counts[ok] += 1
            print(line, flush=True)
    print(f"===== {counts[False]} failed, {counts[True]} passed, {counts[None]} skipped in "
          f"{time.monotonic() - start:.2f}s =====")
    return 1 if counts[False] else 0


if __name__ == "__main__":
    sys.exit(main())
