"""Reports of what a program computes, costs and holds, by source line.

    report = see(step)(weights, batch)
    print(report)
    report.save("report.html")

The facts of a report are a tree of dicts and lists; `schema.json` in this package describes it.
"""
from . import _version as _version  # first: it checks the versions of sibling packages
from lamina_tracing.extend import hide_frames_of as _hide_frames_of

from ._command import COMMANDS, main
from ._compilations import CompilationLimitError, max_compiles
from ._report import Report, ReportError, load
from ._see import see
from ._version import __version__

__all__ = ["COMMANDS", "CompilationLimitError", "Report", "ReportError", "__version__", "load", "main", "max_compiles", "see"]

_hide_frames_of(__file__.rsplit("/", 1)[0])
