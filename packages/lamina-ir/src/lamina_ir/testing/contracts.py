"""Runs a layer's contract: the tests in its wheel that say what the layer means, tried on whatever implementation is in force.

A contract is the folder `contract/` of a room: pytest modules that use public names only. `python -m lamina_batching.contract`
runs it in a process of its own, with no file of settings but what is said here; this module is also the plugin in that process.
"""
from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..layers import layers

__all__ = ["MARKS", "main", "try_stand_in"]

MARKS = {
    "core": "what every implementation must do; each test that has no other mark",
    "collectives": "communication over named axes",
    "order": "derivatives of derivatives, maps of maps, effects one after another",
    "cost": "how much is done for a result: how often an op is bound, what is kept",
    "backward": "what only a walk from results to arguments can give",
    "lines": "what is known of the user's source lines",
    "rows": "rows of the layer's tables, added or replaced, are obeyed",
}
_DISTRIBUTION = "pytest>=8.2"


def folder_of(layer: str) -> Path:
    """The folder of a layer's contract. ValueError where it has none."""
    spec = importlib.util.find_spec(layer)
    places = [Path(place) / "contract" for place in (spec.submodule_search_locations or () if spec else ())]
    for folder in places:
        if any(folder.glob("test_*.py")):
            return folder
    raise ValueError(f"contract of {layer}: expected a folder `contract` with tests beside its modules; found none in "
                     f"{', '.join(str(p.parent) for p in places) or 'any installed package of that name'}")


def main(layer: str, argv: Sequence[str] | None = None) -> int:
    """Run a layer's contract on the implementation that is in force.

    Args:
      layer: import name of the layer, such as `lamina_batching`.
      argv: arguments for pytest, such as `["-m", "not cost"]`; None for those of the command line.
    Returns:
      The exit status: 0 if all tests passed, 1 if one failed, 2 where there is no pytest.
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    if importlib.util.find_spec("pytest") is None:
        print(f"contract of {layer}: needs pytest, which is not installed here; pip install "
              f"'{layer.replace('_', '-')}[contract]', or '{_DISTRIBUTION}'", file=sys.stderr)
        return 2
    print(f"contract of {layer}, tried on {under_test(layer)}", flush=True)
    return subprocess.run(command_for(folder_of(layer), argv)).returncode


def under_test(layer: str) -> str:
    """One line that says what is in force: `yourlab_batching (LAMINA_LAYERS), /path/to/yourlab_batching/__init__.py`."""
    for found in layers():
        if f"lamina_{found.layer}" == layer:
            by = f"{found.distribution} {found.version}" if found.version else found.chosen
            return f"{found.module} ({by}), {found.file or 'not imported yet'}"
    module = sys.modules.get(layer)  # lamina_ir, whose forks keep its name
    return f"{layer} ({getattr(module, '__version__', 'no version')}), {getattr(module, '__file__', 'not imported yet')}"


def command_for(folder: Path, argv: Sequence[str]) -> list[str]:
    """The command that runs the tests in `folder`, or those of them that `argv` names.

    A repository's own settings, conftest files and caches have no part in it: an installed wheel is tried in the same way.
    """
    named = [a for a in argv if a.split("::")[0].endswith(".py")]
    rest = [a for a in argv if a not in named]
    targets = [str(folder / a) for a in named] or [str(folder)]
    return [sys.executable, "-m", "pytest", f"--rootdir={folder}", f"--confcutdir={folder}", "-c", os.devnull,
            "--import-mode=importlib", "--strict-markers", "-p", "no:cacheprovider", "-p", __name__, "-o", _WARNINGS, *rest,
            *targets]


# Warnings are errors, but for the one of lamina_tracing that comes once per process, to any test that brings 64-bit data.
_WARNINGS = "filterwarnings=error\nignore:(float64|complex128|u?int64) (data|numbers) of NumPy's:UserWarning"


def try_stand_in(layer: str, stand_in: Path | None, argv: Sequence[str] = ()) -> tuple[int, str]:
    """Run a layer's contract on a stand-in that is one file or one package, as `test_contract.py` in the rooms does.

    A stand-in of `lamina_ir`, whose name others import, is a module that puts other functions in its place; a stand-in of a
    layer above is chosen by `LAMINA_LAYERS`.

    Args:
      layer: import name of the layer.
      stand_in: the file, or the package's folder; None: what is in force already.
      argv: arguments for pytest.
    Returns:
      (exit status, output).
    """
    environment = dict(os.environ)
    if stand_in is not None:
        paths = [str(stand_in.resolve().parent), *filter(None, [environment.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
        if layer == "lamina_ir":
            argv = ["-p", stand_in.stem, *argv]
        else:
            environment["LAMINA_LAYERS"] = f"{layer.removeprefix('lamina_')}={stand_in.stem}"
    done = subprocess.run(command_for(folder_of(layer), argv), env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace")
    return done.returncode, done.stdout


# --- the plugin ---------------------------------------------------------------------------------------------------
_skipped: list[str] = []


def pytest_addoption(parser: Any) -> None:
    """`--every N`: a sample."""
    parser.addoption("--every", type=int, default=1, metavar="N", help="run every N-th test alone")


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """The sample, of what other options leave."""
    every = config.getoption("--every")
    if every > 1:
        config.hook.pytest_deselected(items=[item for i, item in enumerate(items) if i % every])
        items[:] = items[::every]


def pytest_configure(config: Any) -> None:
    """The marks."""
    for name, meaning in MARKS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")


def pytest_itemcollected(item: Any) -> None:
    """A test without a mark of ours is `core`."""
    if not any(mark.name in MARKS for mark in item.iter_markers()):
        item.add_marker("core")


def pytest_runtest_logreport(report: Any) -> None:
    """Notes what was left out: a contract that is skipped says nothing."""
    if report.skipped:
        _skipped.append(report.nodeid)


def pytest_sessionfinish(session: Any) -> None:
    """Skipped tests are failures."""
    if _skipped and not session.exitstatus:
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Says which tests were left out."""
    for name in _skipped:
        terminalreporter.write_line(f"FAILED {name}: skipped, and a contract holds as a whole")
