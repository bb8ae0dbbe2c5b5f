"""Reports of what a program computes, costs and holds, by source line.

    report = see(step)(weights, batch)
    print(report)
    report.save("report.html")

The facts of a report are a tree of dicts and lists; `schema.json` in this package describes it.
"""
from . import _version as _version  # first: it checks the versions of sibling packages
from ._version import __version__

__all__ = ["__version__"]
