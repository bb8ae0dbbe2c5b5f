"""Tries the stand-ins under `forks/`: each is installed by itself, keeps its layer's contract, runs seed pages and examples.

usage: python tools/run_forks.py [--sample] [--examples] [fork ... | fork+fork]

A fork is installed into a folder of its own that is put on the path, so its entry points choose it as they would for
anybody who installs it. Its `[tool.lamina-fork]` says which contracts it keeps, and which marks, tests and examples are for
others, each with its reason. Examples run at small sizes and come to the stock's figures (tools/small_examples.py). `a+b`
tries two together. `--sample` takes every eighth test of a contract and one example, another for each fork; `--examples` all
examples, and nothing else.
"""
from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import run_tests
import small_examples

ROOT = Path(__file__).resolve().parent.parent
FORKS, WORK = ROOT / "forks", ROOT / ".forks"
PAIR = "loop-batching+forward-autodiff"
SEEDS = "tests/seeds"
GUESTS = ("fitting", "outside")  # examples that are distributions, with tests of their own


def forks() -> list[str]:
    """Names of all stand-ins."""
    return sorted(path.parent.name for path in FORKS.glob("*/pyproject.toml"))


def settings(fork: str) -> dict[str, Any]:
    """What its pyproject says to this tool."""
    return tomllib.loads((FORKS / fork / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["lamina-fork"]


def install(fork: str) -> Path:
    """Build a fork's wheel and unpack it into a folder of its own; the folder."""
    home = WORK / fork
    shutil.rmtree(home, ignore_errors=True)
    wheels = home.with_suffix(".wheels")
    for command in ([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)],
                    [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps",
                     "--no-index", "--find-links", str(wheels), "--target", str(home), fork]):
        done = subprocess.run(command, cwd=FORKS / fork, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"run_forks: {fork} does not build:\n{done.stdout}{done.stderr}")
    shutil.rmtree(wheels)
    return home


def examples_of(chosen: list[str]) -> list[str]:
    """Those that these forks run, each fork's list beginning at another one; of two together, the first alone."""
    left = {name for fork in chosen for name in settings(fork).get("without", {})}
    names = [name for name in [*small_examples.PROGRAMS, *GUESTS] if name not in left]
    first = forks().index(chosen[0])
    return names[first:] + names[:first] if len(chosen) == 1 else names[first:first + 1]


def commands(chosen: list[str], sample: bool, examples_alone: bool = False) -> list[list[str]]:
    """What is run with these forks together: their contracts, the seed pages, the examples."""
    said = [settings(fork) for fork in chosen]
    left = sorted({name for s in said for name in s.get("without", {}) if name.startswith("test_")})
    chosen_tests = ["-k", f"not ({' or '.join(left)})"] if left else []
    bare = all(s.get("jaxlib", True) for s in said)
    refusing = [] if bare else ["-p", "without_jaxlib"]
    found = []
    for s in said:
        for package in s["contracts"]:
            marks = ["-m", s["marks"]] if "marks" in s else []
            found.append(["-m", f"{package.replace('-', '_')}.contract", "-q", *marks, *chosen_tests, *refusing,
                          *(["--every", "8"] if sample else [])])
    found.append(["-m", "pytest", "-q", SEEDS, *chosen_tests, *refusing])
    if examples_alone:
        found = []
    examples = examples_of(chosen)[:1 if sample else None]
    programs = [name for name in examples if name not in GUESTS]
    if programs:
        found.append(["tools/small_examples.py", *([] if bare else ["--without-jaxlib"]), *programs])
    found += [["-m", "pytest", "-q", f"examples/{name}/tests", *chosen_tests, *refusing] for name in examples if name in GUESTS]
    return found


def environment(homes: list[Path]) -> dict[str, str]:
    """The forks' folders on the path, and no choice made by hand."""
    kept = {key: value for key, value in os.environ.items() if key != "LAMINA_LAYERS"}
    guests = [str(ROOT / "examples" / name / "src") for name in GUESTS]
    paths = [*map(str, homes), str(ROOT / "tools"), *guests, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**kept, "PYTHONPATH": os.pathsep.join(paths), "TF_CPP_MIN_LOG_LEVEL": "1"}


def try_forks(name: str, sample: bool, examples_alone: bool) -> tuple[int, str, float]:
    """(exit status, output, seconds) of `a` or `a+b`."""
    start = time.monotonic()
    chosen = name.split("+")
    homes = [WORK / fork for fork in chosen]
    env = environment(homes)
    special = {key: value for fork in chosen for key, value in settings(fork).get("in_contracts", {}).items()}
    texts = []
    for command in commands(chosen, sample, examples_alone):
        here = {**env, **special} if command[1].endswith(".contract") else env
        status, output = run_tests.run_limited([sys.executable, *command], here)
        texts.append(f"$ python {' '.join(command)}\n{output.rstrip()[-4000:] if status else output.rstrip().splitlines()[-1]}")
        if status:
            return status, "\n".join(texts), time.monotonic() - start
    return 0, "\n".join(texts), time.monotonic() - start


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forks", nargs="*", help=f"default: all, and {PAIR}")
    parser.add_argument("--sample", action="store_true", help="every eighth test of a contract, one example")
    parser.add_argument("--examples", action="store_true", help="all examples, and nothing else")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 4))
    options = parser.parse_args(argv)
    names = options.forks or [*forks(), PAIR]
    unknown = sorted({fork for name in names for fork in name.split("+")} - set(forks()))
    if unknown:
        parser.error(f"no fork {', '.join(unknown)}; there are {', '.join(forks())}")
    for fork in sorted({fork for name in names for fork in name.split("+")}):
        install(fork)
    failed = []
    with ThreadPoolExecutor(options.jobs) as pool:
        waiting = {pool.submit(try_forks, name, options.sample, options.examples): name for name in names}
        for done in as_completed(waiting):
            status, output, seconds = done.result()
            print(f"\n----- {waiting[done]} ({seconds:.0f} s)\n{output}", flush=True)
            if status:
                failed.append(waiting[done])
    print(f"\nforks: {'failed: ' + ', '.join(sorted(failed)) if failed else f'{len(names)} stand in'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
