"""A report in a notebook: facts and the most expensive lines as plain HTML, and the page in a frame."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lamina_ir.extend.html import escape_html, fact_box, text_table

from .html import report_html

__all__ = ["notebook_html"]

_LINES = 8
_LARGEST_FRAME = 3 << 20  # bytes; a notebook keeps them in each saved output


def _time(nanoseconds: float | None) -> str:
    if nanoseconds is None:
        return "-"
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.0f} ns"


def _size(count: int | None) -> str:
    if count is None:
        return "-"
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} GiB"


def _place(report: Mapping[str, Any], row: Mapping[str, Any]) -> tuple[str, str]:
    if row["source"] is None:
        return "no line", ""
    source = report["sources"][row["source"]]
    at = row["line"] - source["first_line"]
    text = source["lines"][at].strip() if 0 <= at < len(source["lines"]) else ""
    return f"{source['file'].replace(chr(92), '/').rsplit('/', 1)[-1]}:{row['line']}", text


def notebook_html(report: Mapping[str, Any], frame: bool = True) -> str:
    """Return HTML that shows a report in the output of a notebook's cell.

    The facts and the most expensive lines are plain HTML, so a viewer that runs no scripts shows them. The page follows in a
    frame that can reach neither the notebook nor a network.

    Args:
      report: facts in the shape of `schema.json`.
      frame: whether to add the page. A page above 3 MiB is left out, because each saved output holds it.
    """
    facts: list[tuple[object, object]] = [("platform", f"{report['platform']}, {len(report['devices'])} device(s)")]
    bodies = []
    for f in report["functions"][:1]:
        facts.append(("function", f"{f['name']}({', '.join(f['signature'][:4])}{', ...' if len(f['signature']) > 4 else ''})"))
        facts.append(("step", _time(f["step"]["time"]) if f["step"] else "not measured"))
        facts.append(("peak of memory", _size(f["memory"]["peak"]) if f["memory"] else "unknown"))
        facts.append(("equations", len(f["equations"])))
        rows: list[list[object]] = [["line", "time" if f["step"] else "operations", "share", "source"]]
        for line in f["lines"][:_LINES]:
            place, text = _place(report, line)
            times = [line[f"time_{p}"] for p in ("forward", "backward", "recomputed")]
            cost = _time(sum(t or 0 for t in times)) if f["step"] else f"{line['flops']:,}"
            rows.append([place, cost, "-" if line["share"] is None else f"{line['share']:.1%}", text[:80]])
        bodies.append(text_table(rows))
    facts.append(("compilations", sum(c["memory_cache"] == "miss" for c in report["compilations"])))
    facts += [("problem", p) for p in report["problems"][:5]]
    if frame:
        page = report_html(report)
        if len(page) <= _LARGEST_FRAME:
            bodies.append('<details style="margin-top:6px"><summary style="cursor:pointer">all panes</summary>'
                          f'<iframe title="report" sandbox="allow-scripts" loading="lazy" srcdoc="{escape_html(page)}" '
                          'style="width:min(1200px,92vw);height:720px;border:1px solid rgba(128,128,128,.45);'
                          'border-radius:6px;background:white"></iframe></details>')
        else:
            bodies.append('<div style="opacity:.65">The page is too large for a notebook: report.save("report.html").</div>')
    return fact_box("Report", facts, *bodies)
