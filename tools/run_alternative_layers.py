"""Test the alternative implementations of layers in examples/alternative_layers.

usage: python tools/run_alternative_layers.py [--sample] [--examples] [--jobs N] [name ... | name+name]

Each is installed into a folder that is put on the import path, so its entry points select it as for any user. Then run the
conformance tests of its layer, the JAX documentation pages, and the examples at small sizes (small_examples.py). What does not
apply to it is listed, with reasons, in `[tool.lamina-fork]` of its pyproject.toml. `a+b` runs two together. `--sample` runs
every eighth conformance test and one example, a different one for each; `--examples` runs only the examples.
"""
from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from functools import partial
from typing import Any

import run_tests
import small_examples
from packages import ROOT, alternative_layers

WORK = ROOT / ".alternative_layers"
PAIR = "loop-batching+forward-autodiff"
PAGES = "tests/jax_doc_pages"
DISTRIBUTIONS = ("fitting", "outside")  # examples with tests of their own


def settings(name: str) -> dict[str, Any]:
    """Return the settings in an implementation's pyproject.toml."""
    found: dict[str, Any] = alternative_layers()[name].settings["tool"]["lamina-fork"]
    return found


def install(name: str) -> None:
    """Install an implementation into a folder below WORK."""
    shutil.rmtree(WORK / name, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps",
                    "--no-build-isolation", "--target", str(WORK / name), str(alternative_layers()[name].folder)], check=True)


def examples_of(names: list[str]) -> list[str]:
    """Return the examples that apply; the list of each implementation starts at another one."""
    excluded = {example for name in names for example in settings(name).get("without", {})}
    examples = [name for name in [*small_examples.PROGRAMS, *DISTRIBUTIONS] if name not in excluded]
    first = list(alternative_layers()).index(names[0])
    return examples[first:] + examples[:first] if len(names) == 1 else examples[first:first + 1]


def commands(names: list[str], sample: bool, only_examples: bool = False) -> list[list[str]]:
    """Return the arguments for Python of all runs with these implementations together."""
    excluded = sorted({test for name in names for test in settings(name).get("without", {}) if test.startswith("test_")})
    selection = ["-k", f"not ({' or '.join(excluded)})"] if excluded else []
    needs_jaxlib = any(settings(name).get("jaxlib", True) for name in names)
    plugin = [] if needs_jaxlib else ["-p", "without_jaxlib"]
    found = []
    for name in names:
        marks = ["-m", settings(name)["marks"]] if "marks" in settings(name) else []
        for package in settings(name)["contracts"]:
            found.append(["-m", f"{package.replace('-', '_')}.conformance", "-q", *marks, *selection, *plugin,
                          *(["--every", "8"] if sample else [])])
    found = [] if only_examples else [*found, ["-m", "pytest", "-q", PAGES, *selection, *plugin]]
    examples = examples_of(names)[:1 if sample else None]
    if programs := [name for name in examples if name not in DISTRIBUTIONS]:
        found.append(["tools/small_examples.py", *([] if needs_jaxlib else ["--without-jaxlib"]), *programs])
    return found + [["-m", "pytest", "-q", f"examples/{name}/tests", *selection, *plugin] for name in examples
                    if name in DISTRIBUTIONS]


def environment(names: list[str]) -> dict[str, str]:
    """Return the environment variables that select implementations by their entry points."""
    sources = [ROOT / "examples" / name / "src" for name in DISTRIBUTIONS]
    paths = [str(path) for path in [*(WORK / name for name in names), ROOT / "tools", *sources]]
    return {"PYTHONPATH": os.pathsep.join([*paths, *filter(None, [os.environ.get("PYTHONPATH")])])}


def test(names: list[str], sample: bool, only_examples: bool) -> run_tests.Result:
    """Run everything with these implementations until a run fails."""
    outputs, seconds, status = [], 0.0, 0
    for command in commands(names, sample, only_examples):
        own = [settings(name).get("in_contracts", {}) for name in names] if command[1].endswith(".conformance") else []
        variables = {key: value for table in [environment(names), *own] for key, value in table.items()}
        status, output, took = run_tests.run([sys.executable, *command], **variables)
        seconds += took
        outputs.append(f"$ python {' '.join(command)}\n{output.rstrip() if status else output.rstrip().splitlines()[-1]}")
        if status:
            break
    return status, "\n".join(outputs), seconds


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"default: all, and {PAIR}")
    parser.add_argument("--sample", action="store_true", help="every eighth conformance test, one example")
    parser.add_argument("--examples", action="store_true", help="only the examples, all of them")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 4))
    options = parser.parse_args(argv)
    known = alternative_layers()
    combinations = options.names or [*known, PAIR]
    chosen = sorted({name for combination in combinations for name in combination.split("+")})
    if unknown := sorted(set(chosen) - set(known)):
        parser.error(f"unknown implementation {', '.join(unknown)}; expected {', '.join(known)}")
    for name in chosen:
        install(name)
    os.environ.pop("LAMINA_LAYERS", None)  # entry points make the choice
    jobs = {names: partial(test, names.split("+"), options.sample, options.examples) for names in combinations}
    return run_tests.run_all(jobs, options.jobs)


if __name__ == "__main__":
    sys.exit(main())
