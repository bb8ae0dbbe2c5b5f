"""Reports of what a program computes, costs and holds, by source line.

    report = see(step)(weights, batch)
    print(report)
    report.save("report.html")

The facts of a report are a tree of dicts and lists; `schema.json` in this package describes it.

Names are imported when one of them is read. So the command `python -m lamina` does not import the packages whose layers the
program may still choose.
"""
from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

from . import _version as _version  # first: it checks the versions of sibling packages
from ._version import __version__

if _TYPE_CHECKING:
    from . import replay
    from ._command import COMMANDS, main
    from ._compilations import CompilationLimitError, max_compiles
    from ._report import Report, ReportError, load
    from ._see import see

__all__ = ["COMMANDS", "CompilationLimitError", "Report", "ReportError", "__version__", "load", "main", "max_compiles",
           "replay", "see"]

_HOMES = {"COMMANDS": "_command", "CompilationLimitError": "_compilations", "Report": "_report", "ReportError": "_report",
          "load": "_report", "main": "_command", "max_compiles": "_compilations", "see": "_see"}


def __getattr__(name: str) -> object:
    if name == "replay":
        return _import_module(f"{__name__}.replay")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(_import_module(f"{__name__}.{home}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
