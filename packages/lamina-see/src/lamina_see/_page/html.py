"""One HTML file of a report: markup, style, script and compressed facts, without network access.

The content security policy of the file admits only the script of the file, by its hash, so a browser runs nothing else
and loads nothing.
"""
from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping
from importlib import resources
from typing import Any

from lamina_ir.extend.html import escape_html

from ._files import write_whole
from .comparison import compare_reports
from .packing import pack_report

__all__ = ["comparison_html", "report_html", "write_comparison", "write_html"]


def _asset(name: str) -> str:
    return (resources.files(__package__) / "assets" / name).read_text(encoding="utf-8")


def _document(title: str, facts: Any) -> str:
    script = _asset("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    policy = (f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
              "base-uri 'none'; form-action 'none'")
    return (f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="color-scheme" content="light dark">\n'
            f'<title>{escape_html(title)}</title>\n<style>{_asset("page.css")}</style>\n</head>\n<body>\n'
            '<noscript>This page needs JavaScript. It loads nothing from a network.</noscript>\n'
            f'<script type="text/plain" id="facts">{pack_report(facts)}</script>\n'
            f'<script>{script}</script>\n</body>\n</html>\n')


def _title(report: Mapping[str, Any]) -> str:
    names = [f["name"] for f in report["functions"]]
    return str(report["command"] or (names[0] if names else "report"))


def report_html(report: Mapping[str, Any]) -> str:
    """Return the page of a report.

    Args:
      report: facts in the shape of `schema.json`.
    Returns:
      The text of an HTML file that needs no other file and no network.
    """
    return _document(f"{_title(report)} - lamina", {"kind": "report", "report": report})


def comparison_html(a: Mapping[str, Any], b: Mapping[str, Any]) -> str:
    """Return the page that compares two reports.

    Args:
      a, b: facts in the shape of `schema.json`; b is the later one.
    Returns:
      The text of an HTML file that needs no other file and no network.
    """
    facts = {"kind": "comparison", "comparison": compare_reports(a, b)}
    return _document(f"{_title(a)} and {_title(b)} - lamina", facts)


def write_html(report: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write the page of a report to a file; see `report_html`.

    Raises:
      OSError: the file cannot be written.
    """
    write_whole(path, report_html(report).encode("utf-8", "replace"))


def write_comparison(a: Mapping[str, Any], b: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write the page that compares two reports to a file; see `comparison_html`.

    Raises:
      OSError: the file cannot be written.
    """
    write_whole(path, comparison_html(a, b).encode("utf-8", "replace"))
