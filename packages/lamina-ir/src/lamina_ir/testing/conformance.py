"""Run the conformance tests of a layer, which are part of its wheel, on the selected implementation of the layer.

The conformance tests are the folder `conformance/` of a package: pytest modules that use public names only. `python -m
lamina_batching.conformance` runs them in a separate process, without configuration files; this module is also the
pytest plugin of that process.
"""
from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..layers import layers

__all__ = ["MARKS", "main", "run_with_implementation"]

MARKS = {
    "core": "behaviour required of every implementation; all tests without another mark",
    "collectives": "communication over named axes",
    "order": "nested derivatives, nested maps, ordered effects",
    "cost": "the work done for a result: the number of primitives bound, the residuals saved",
    "backward": "behaviour that only reverse mode can provide",
    "lines": "source lines of user code in equations and errors",
    "loss": "the end of another process is an exception",
    "reform": "after a loss the other processes form a smaller group",
    "agreement": "processes that launch different programs get an error",
    "rules": "rules that are added to the layer's rule tables, or overridden there, are used",
}
_DISTRIBUTION = "pytest>=8.2"


def folder_of(layer: str) -> Path:
    """Return the folder with a layer's conformance tests; raise ValueError if there is none."""
    spec = importlib.util.find_spec(layer)
    places = [Path(place) / "conformance" for place in (spec.submodule_search_locations or () if spec else ())]
    for folder in places:
        if any(folder.glob("test_*.py")):
            return folder
    raise ValueError(f"conformance tests of {layer}: expected a folder `conformance` with tests in the package; found none in "
                     f"{', '.join(str(p.parent) for p in places) or 'any installed package of that name'}")


def main(layer: str, argv: Sequence[str] | None = None) -> int:
    """Run a layer's conformance tests on its selected implementation.

    Args:
      layer: import name of the layer, such as `lamina_batching`.
      argv: arguments for pytest, such as `["-m", "not cost"]`, and `--json`; None for those of the command line.
    Returns:
      The exit status: 0 if all tests passed, 1 if one failed, 2 if pytest is not installed.
    """
    options, argv = _make_parser(layer).parse_known_args(None if argv is None else list(argv))
    if importlib.util.find_spec("pytest") is None:
        print(f"conformance tests of {layer}: pytest is not installed; pip install "
              f"'{layer.replace('_', '-')}[conformance]', or '{_DISTRIBUTION}'", file=sys.stderr)
        return 2
    if options.json:
        return _run_for_json(layer, argv)
    print(f"conformance tests of {layer}, on {describe_implementation(layer)}", flush=True)
    return subprocess.run(command_for(folder_of(layer), argv)).returncode


def _make_parser(layer: str) -> argparse.ArgumentParser:
    marks = [f"  {name}: {about}" for name, about in MARKS.items()]
    parser = argparse.ArgumentParser(
        prog=f"python -m {layer}.conformance", allow_abbrev=False, usage="%(prog)s [-h] [--json] [pytest arguments]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=f"Run the conformance tests of {layer} on the selected implementation of the layer.",
        epilog="\n".join(["Other arguments are passed to pytest: file names, -k EXPRESSION, -m MARK, and --every N to run",
                          "every N-th test. The marks:", *marks]))
    parser.add_argument("--json", action="store_true",
                        help="print one line of JSON on standard output: counts, and the names of failed tests; the "
                             "output of pytest goes to standard error")
    return parser


def _run_for_json(layer: str, argv: Sequence[str]) -> int:
    """Run the tests and print their results as one line of JSON."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results.json"
        status = subprocess.run([*command_for(folder_of(layer), argv), f"--results-file={path}"], stdout=2).returncode
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    print(json.dumps({"layer": layer, "implementation": describe_implementation(layer), "status": status, **found}))
    return status


def describe_implementation(layer: str) -> str:
    """Describe the selected implementation in one line: `yourlab_batching (LAMINA_LAYERS), /path/to/__init__.py`."""
    for found in layers():
        if f"lamina_{found.layer}" == layer:
            by = f"{found.distribution} {found.version}" if found.version else found.chosen
            return f"{found.module} ({by}), {found.file or 'not imported yet'}"
    module = sys.modules.get(layer)  # lamina_ir is not selectable; alternatives have the same import name
    return f"{layer} ({getattr(module, '__version__', 'no version')}), {getattr(module, '__file__', 'not imported yet')}"


def command_for(folder: Path, argv: Sequence[str]) -> list[str]:
    """Return the command that runs the tests in `folder`, or the test files that `argv` names.

    It ignores configuration files, conftest files and caches of a repository, so that the result is the same for an
    installed wheel.
    """
    named = [a for a in argv if a.split("::")[0].endswith(".py")]
    rest = [a for a in argv if a not in named]
    targets = [str(folder / a) for a in named] or [str(folder)]
    return [sys.executable, "-m", "pytest", f"--rootdir={folder}", f"--confcutdir={folder}", "-c", os.devnull,
            "--import-mode=importlib", "--strict-markers", "-p", "no:cacheprovider", "-p", __name__, "-o", _WARNINGS, *rest,
            *targets]


# Warnings are errors, except the warning of lamina_tracing that 64-bit data is narrowed: it is given once per process,
# so it hits an arbitrary test.
_WARNINGS = "filterwarnings=error\nignore:(float64|complex128|u?int64) (data|numbers) of NumPy's:UserWarning"


def run_with_implementation(layer: str, implementation: Path | None, argv: Sequence[str] = ()) -> tuple[int, str]:
    """Run a layer's conformance tests on an alternative implementation that is one file or one package.

    An alternative of `lamina_ir`, which other packages import by name, is a module that replaces functions of it; an
    alternative of a higher layer is selected by `LAMINA_LAYERS`.

    Args:
      layer: import name of the layer.
      implementation: the file, or the folder of the package; None: the implementation that is selected already.
      argv: arguments for pytest.
    Returns:
      (exit status, output).
    """
    environment = dict(os.environ)
    if implementation is not None:
        paths = [str(implementation.resolve().parent), *filter(None, [environment.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
        if layer == "lamina_ir":
            argv = ["-p", implementation.stem, *argv]
        else:
            environment["LAMINA_LAYERS"] = f"{layer.removeprefix('lamina_')}={implementation.stem}"
    done = subprocess.run(command_for(folder_of(layer), argv), env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace")
    return done.returncode, done.stdout


# --- the pytest plugin --------------------------------------------------------------------------------------------
_skipped: list[str] = []


def pytest_addoption(parser: Any) -> None:
    """Add the options `--every N`, to run a sample of the tests, and `--results-file`."""
    parser.addoption("--every", type=int, default=1, metavar="N", help="run only every N-th test")
    parser.addoption("--results-file", metavar="PATH", help="write counts and the names of failed tests as JSON")


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Deselect all tests except every N-th of those that other options select."""
    every = config.getoption("--every")
    if every > 1:
        config.hook.pytest_deselected(items=[item for i, item in enumerate(items) if i % every])
        items[:] = items[::every]


def pytest_configure(config: Any) -> None:
    """Register the marks."""
    for name, meaning in MARKS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")


def pytest_itemcollected(item: Any) -> None:
    """Mark tests without one of the marks as `core`."""
    if not any(mark.name in MARKS for mark in item.iter_markers()):
        item.add_marker("core")


def pytest_runtest_logreport(report: Any) -> None:
    """Record skipped tests: a skipped conformance test proves nothing."""
    if report.skipped:
        _skipped.append(report.nodeid)


def pytest_sessionfinish(session: Any) -> None:
    """Treat skipped tests as failures."""
    if _skipped and not session.exitstatus:
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter: Any, config: Any) -> None:
    """List the skipped tests, and write the file of results."""
    stats = terminalreporter.stats
    if path := config.getoption("--results-file"):
        failed = [report.nodeid for kind in ("failed", "error") for report in stats.get(kind, ())]
        Path(path).write_text(json.dumps({"passed": len(stats.get("passed", ())), "failed": failed, "skipped": _skipped}),
                              encoding="utf-8")
    for name in _skipped:
        terminalreporter.write_line(f"FAILED {name}: skipped; conformance tests must not be skipped")
