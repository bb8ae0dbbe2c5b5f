"""The text of a report: a table for each kind of facts."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["format_bytes", "format_report", "format_table", "format_time", "report_tables"]

Row = dict[str, Any]
_MAX_ROWS = 15
Table = tuple[str, list[str], list[list[str]]]  # title, head, rows


def format_time(ns: float | None) -> str:
    """Return a time as text, such as `1.50 ms`; "" if it is None.

    >>> format_time(1_500_000), format_time(None)
    ('1.50 ms', '')
    """
    if ns is None:
        return ""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}" if ns >= 100 * size else f"{ns / size:.2f} {unit}"
    return f"{ns:.0f} ns"


def format_bytes(n: float | None) -> str:
    """Return a size as text, such as `1.5 MiB`; "" if it is None.

    >>> format_bytes(1_572_864)
    '1.5 MiB'
    """
    if n is None:
        return ""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(n) < 1024 or unit == "GiB":
            break
        n /= 1024
    return f"{n:.0f} B" if unit == "B" else f"{n:.1f} {unit}"


def _format_count(n: float) -> str:
    power = 0
    while n >= 1000 and power < 4:
        n, power = n / 1000, power + 1
    return f"{n:.1f}{'kMGT'[power - 1]}" if power else f"{n:.0f}"


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table; columns are aligned, the last one is not padded."""
    every = [list(head), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*every)]
    return ["  " + "  ".join([text.ljust(w) for text, w in zip(row, widths)]).rstrip() for row in every]


def _where(facts: Row, row: Row) -> str:
    if row.get("source") is None:
        return ""
    return f"{facts['sources'][row['source']]['file'].replace(chr(92), '/').rpartition('/')[2]}:{row['line']}"


def _code(facts: Row, row: Row) -> str:
    if row.get("source") is None:
        return ""
    source = facts["sources"][row["source"]]
    at = row["line"] - source["first_line"]
    return source["lines"][at].strip()[:60] if 0 <= at < len(source["lines"]) else ""


def report_tables(facts: Row, limit: int = _MAX_ROWS) -> list[Table]:
    """Return the tables of a report: (title, head, rows), at most `limit` rows each."""
    tables: list[Table] = []
    for f in facts["functions"]:
        tables += [_lines_table(facts, f, limit), *_memory_tables(facts, f, limit), *_device_tables(facts, f, limit)]
    rows = [[f"{c['kind']} {c['function']}", _where(facts, c), c["signature"][:40], format_time(c["trace"]),
             format_time(c["lower"]), format_time(c["xla"]), c["memory_cache"], c["disk_cache"] or "", c["reason"] or ""]
            for c in facts["compilations"]]
    if rows:
        tables.append((f"Compilations: {len(rows)}", ["function", "line", "signature", "trace", "lower", "XLA", "memory",
                                                      "disk", "reason"], rows[:limit]))
    tables += _value_tables(facts, limit)
    return [table for table in tables if table[2]]


def _lines_table(facts: Row, f: Row, limit: int) -> Table:
    step = f["step"]
    title = f"{f['kind']} {f['name']}({', '.join(f['signature'][:4])}{', ...' if len(f['signature']) > 4 else ''})"
    if step is not None:
        rest = ", ".join([f"{r['name']} {format_time(r['time'])}" for r in step["rest"] if r["time"] > 0.001 * step["time"]])
        title += (f": {format_time(step['time'])}, {step['attributed']:.1%} in lines{'; ' if rest else ''}{rest}; median of "
                  f"{step['runs']} runs")
    rows = [[_where(facts, row), "" if row["share"] is None else f"{row['share']:.1%}", format_time(row["time_forward"]),
             format_time(row["time_backward"]), format_time(row["time_recomputed"]), str(row["equations"]),
             _format_count(row["flops"]), format_bytes(row["bytes"]), _code(facts, row)] for row in f["lines"][:limit]]
    return title, ["line", "share", "forward", "backward", "recomputed", "equations", "flops", "bytes", "code"], rows


def _memory_tables(facts: Row, f: Row, limit: int) -> list[Table]:
    memory = f["memory"]
    if memory is None:
        return []
    at = memory["peak_at"]
    alive = sorted([b for b in memory["buffers"] if b["first"] <= at <= b["last"]], key=lambda b: -b["bytes"])
    where = memory["instructions"][at]["name"] if memory["instructions"] else ""
    title = f"Memory of {f['name']}: {format_bytes(memory['peak'])} at the peak, while {where} runs"
    if memory["xla_peak"]:
        title += f"; {format_bytes(memory['xla_peak'])} by XLA's report"
    rows = [[format_bytes(b["bytes"]), b["type"], b["kind"], _where(facts, b), b["name"]] for b in alive[:limit]]
    tables: list[Table] = [(title, ["bytes", "type", "kind", "line", "value"], rows)]
    saved = [[format_bytes(s["bytes"]), s["kind"], s["what"], _where(facts, s), s["how"]] for s in memory["savings"]]
    return [*tables, (f"What would save memory in {f['name']}", ["bytes", "kind", "value", "line", "how"], saved[:limit])]


def _device_tables(facts: Row, f: Row, limit: int) -> list[Table]:
    moves = [[c["kind"], c["axis"], format_bytes(c["bytes"]), str(c["devices"]), str(c["count"]), format_time(c["time"]),
              _where(facts, c)] for c in f["collectives"]]
    placed = [] if len(facts["devices"]) < 2 else [
        [p["role"], p["name"], p["sharding"], str(len({str(b["slices"]) for b in p["blocks"]}))]
        for p in sorted(f["placements"], key=lambda p: p["role"] != "named")]
    return [(f"Collectives of {f['name']}", ["kind", "axis", "bytes", "devices", "count", "time", "line"], moves[:limit]),
            (f"Placements of {f['name']}", ["role", "value", "sharding", "blocks"], placed[:limit])]


def _value_tables(facts: Row, limit: int) -> list[Table]:
    tables: list[Table] = []
    bad = facts["nonfinite"]
    if bad is not None:
        name = "infinity" if bad["kind"] == "inf" else "NaN"
        tables.append((f"First {name}: {_where(facts, bad)} {_code(facts, bad)}", ["before it", "type", "line", "values"], [
            [b["name"], b["type"], _where(facts, b), b["summary"]] for b in bad["before"]] or [["", "", "", ""]]))
    errors = [[_where(facts, p), f"{p['relative_error']:.2g}", f"{p['born']:.2g}", f"{p['digits_lost']:.1f}",
               "yes" if p["overflow"] else "", _code(facts, p)] for p in facts["precision"] or ()]
    tables.append(("Precision: the largest errors against 64 bits",
                   ["line", "relative error", "born here", "digits lost", "overflow", "code"], errors[:limit]))
    return tables


def format_report(facts: Row) -> str:
    """Return a report as text."""
    lines = [f"lamina-see: {len(facts['functions'])} function{'s' * (len(facts['functions']) != 1)} on {facts['platform']}, "
             f"{facts['processes']} process{'es' * (facts['processes'] != 1)}"]
    for title, head, rows in report_tables(facts):
        lines += ["", title, *format_table(head, rows)]
    if facts["problems"]:
        lines += ["", "Not measured", *[f"  {text}" for text in facts["problems"]]]
    return "\n".join(lines)
