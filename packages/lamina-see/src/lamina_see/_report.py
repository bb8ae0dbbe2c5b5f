"""`Report`: the facts of a program as a tree of dicts, which prints, saves and shows itself."""
from __future__ import annotations

import datetime
import json
import os
import platform as python_platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar

import numpy as np
from lamina_ir import LaminaError
from typing_extensions import override

__all__ = ["SCHEMA_VERSION", "Report", "ReportError", "empty_report", "load"]

SCHEMA_VERSION = 1
_FUNCTION_KEYS = ("name", "kind", "signature", "donated", "defined_at", "called_from", "scopes", "equations", "values",
                  "arguments", "results", "lines", "step", "memory", "collectives", "placements")
Row = dict[str, Any]


class ReportError(LaminaError, ValueError):
    """A file is not a report, or has another version of the schema.

    Fix: make the report again with this version of lamina-see.
    """

    code: ClassVar[str] = "LAM1704"


def _version_of(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def empty_report(platform: str) -> Row:
    """Return a report without facts."""
    return {"schema_version": SCHEMA_VERSION,
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "versions": {"lamina": _version_of("lamina") or _version_of("lamina-ir") or "", "jaxlib": _version_of("jaxlib"),
                         "python": python_platform.python_version(), "numpy": np.__version__},
            "platform": platform, "command": None, "processes": 1, "devices": [], "sources": [], "functions": [],
            "timeline": [], "compilations": [], "meshes": [], "precision": None, "nonfinite": None, "problems": []}


class Report:
    """A report on a program.

    It prints as text. In notebooks it shows itself as a page.

    Args:
      facts: the facts, as `schema.json` of this package describes them.
    """

    def __init__(self, facts: Row) -> None:
        self._facts = facts

    def json(self) -> Row:
        """Return the facts as dicts and lists; `schema.json` of this package describes them."""
        return self._facts

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report to a file.

        Args:
          path: its extension chooses the form: `.html` a page, `.json` the facts, `.txt` the text, `.pftrace` or
            `.perfetto-trace` a trace for Perfetto.
        Raises:
          ValueError: the extension is another one.
          OSError: the file cannot be written.
        """
        path = os.fspath(path)
        extension = os.path.splitext(path)[1]
        if extension == ".html":
            from ._page import write_html  # noqa: PLC0415 (on demand: only pages need it)
            write_html(self._facts, path)
        elif extension in (".pftrace", ".perfetto-trace"):
            from ._page import write_perfetto  # noqa: PLC0415 (on demand: only traces need it)
            write_perfetto(self._facts, path)
        elif extension in (".json", ".txt"):
            text = json.dumps(self._facts, separators=(",", ":")) if extension == ".json" else f"{self}\n"
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        else:
            raise ValueError(f"save: path must be a file name that ends in .html, .json, .txt or .pftrace; got {path!r}")

    def tui(self) -> None:
        """Show the report in the terminal until the user ends it. Needs the extra `lamina-see[tui]`."""
        from ._tui import run_terminal  # noqa: PLC0415 (on demand: needs textual)
        run_terminal(self._facts)

    @override
    def __str__(self) -> str:
        from ._text import format_report  # noqa: PLC0415 (on demand: only printing needs it)
        return format_report(self._facts)

    @override
    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from ._page import notebook_html  # noqa: PLC0415 (on demand: only notebooks need it)
        return notebook_html(self._facts)


def load(path: str | os.PathLike[str]) -> Report:
    """Read a report that was saved as JSON.

    Args:
      path: the file.
    Raises:
      ReportError: it is not a report, or has another version of the schema.
      OSError: the file cannot be read.
    """
    path = os.fspath(path)
    with open(path, encoding="utf-8") as f:
        try:
            facts = json.load(f)
        except ValueError as e:
            raise ReportError(f"load: path must be a report saved as JSON; got {path!r}, which is not JSON: {e}") from None
    found = facts.get("schema_version") if isinstance(facts, dict) else None
    if found != SCHEMA_VERSION:
        what = "no report" if found is None else f"a report of version {found!r}"
        raise ReportError(f"load: path must be a report of version {SCHEMA_VERSION}; got {path!r}, {what}. Make it again with "
                          "this version of lamina-see")
    missing = [key for key in empty_report("") if key not in facts]
    missing += [f"functions.{key}" for f in facts.get("functions") or () for key in _FUNCTION_KEYS
                if not isinstance(f, dict) or key not in f]
    if missing:
        raise ReportError(f"load: path must be a report; got {path!r}, which lacks {', '.join(missing[:3])}. Make it again")
    return Report(facts)
