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
    for f, *others in _group_programs(facts["functions"]):
        tables += [_lines_table(facts, f), *_memory_tables(facts, f), *_device_tables(facts, f), _others_table(f, others)]
    tables += [_compilations_table(facts), *_value_tables(facts)]
    return [(f"{title}; {limit} of {len(rows)} rows" if len(rows) > limit else title, head, rows[:limit])
            for title, head, rows in tables if rows]


def _group_programs(functions: Sequence[Row]) -> list[list[Row]]:
    """Return the programs of each function, in the order of the report: one for each signature that was compiled."""
    groups: dict[Any, list[Row]] = {}
    for f in functions:
        groups.setdefault((f["name"], f["kind"], str(f["defined_at"])), []).append(f)
    return list(groups.values())


def _others_table(f: Row, others: Sequence[Row]) -> Table:
    """Return the table of the other programs of a function, whose lines are not shown."""
    rows = []
    for other in others:
        changed = [k for k, (a, b) in enumerate(zip(f["signature"], other["signature"])) if a != b]
        names = [other["values"][k]["name"] for k in other["arguments"]]
        if len(f["signature"]) != len(other["signature"]) or len(names) != len(other["signature"]):
            text = ", ".join(other["signature"])
        else:
            text = ", ".join([f"{names[k]} {other['signature'][k]}" for k in changed]) or "equal types; see the reason below"
        rows.append([text[:60], format_time(other["step"] and other["step"]["time"]),
                     format_bytes(other["memory"] and other["memory"]["peak"])])
    return f"Other programs of {f['name']}: {len(rows)}; the page has their lines", ["arguments", "time", "peak"], rows


def _compilations_table(facts: Row) -> Table:
    made = facts["compilations"]
    rows = [[f"{c['kind']} {c['function']}", _where(facts, c), format_time(c["trace"]), format_time(c["lower"]),
             format_time(c["xla"]), c["memory_cache"], c["disk_cache"] or "", c["reason"] or c["signature"][:60]] for c in made]
    total = sum([c[phase] or 0 for c in made for phase in ("trace", "lower", "xla")])
    return (f"Compilations: {len(rows)}, which took {format_time(total)}",
            ["function", "line", "trace", "lower", "XLA", "memory", "disk", "reason"], rows)


def _lines_table(facts: Row, f: Row) -> Table:
    step = f["step"]
    title = f"{f['kind']} {f['name']}({', '.join(f['signature'][:4])}{', ...' if len(f['signature']) > 4 else ''})"
    if step is not None:
        rest = ", ".join([f"{r['name']} {format_time(r['time'])}" for r in step["rest"] if r["time"] > 0.001 * step["time"]])
        title += (f": {format_time(step['time'])}, {step['attributed']:.1%} in lines{'; ' if rest else ''}{rest}; median of "
                  f"{step['runs']} run{'s' * (step['runs'] != 1)}")
    rows = [[_where(facts, row), "" if row["share"] is None else f"{row['share']:.1%}", format_time(row["time_forward"]),
             format_time(row["time_backward"]), format_time(row["time_recomputed"]), str(row["equations"]),
             _format_count(row["flops"]), format_bytes(row["bytes"]), _code(facts, row)] for row in f["lines"]]
    return title, ["line", "share", "forward", "backward", "recomputed", "equations", "flops", "bytes", "code"], rows


def _memory_tables(facts: Row, f: Row) -> list[Table]:
    memory = f["memory"]
    if memory is None:
        return []
    at = memory["peak_at"]
    alive = sorted([b for b in memory["buffers"] if b["first"] <= at <= b["last"]], key=lambda b: -b["bytes"])
    where = memory["instructions"][at]["name"] if memory["instructions"] else ""
    title = f"Memory of {f['name']}: {format_bytes(memory['peak'])} at the peak, while {where} runs"
    if memory["xla_peak"]:
        title += f"; XLA allocates {format_bytes(memory['xla_peak'])}"
    rows = [[format_bytes(b["bytes"]), b["type"], b["kind"], _where(facts, b), b["name"]] for b in alive]
    tables: list[Table] = [(title, ["bytes", "type", "kind", "line", "value"], rows)]
    saved = [[format_bytes(s["bytes"]), s["kind"], s["what"], _where(facts, s), s["how"]] for s in memory["savings"]]
    return [*tables, (f"What would save memory in {f['name']}", ["bytes", "kind", "value", "line", "how"], saved)]


def _device_tables(facts: Row, f: Row) -> list[Table]:
    moves = [[c["kind"], c["axis"], format_bytes(c["bytes"]), str(c["devices"]), str(c["count"]), format_time(c["time"]),
              _where(facts, c)] for c in f["collectives"]]
    placed = [] if len(facts["devices"]) < 2 else [
        [p["role"], p["name"], p["sharding"], str(len({str(b["slices"]) for b in p["blocks"]}))]
        for p in sorted(f["placements"], key=lambda p: p["role"] != "named")]
    return [(f"Collectives of {f['name']}", ["kind", "axis", "bytes", "devices", "count", "time", "line"], moves),
            (f"Placements of {f['name']}", ["role", "value", "sharding", "blocks"], placed)]


def _value_tables(facts: Row) -> list[Table]:
    tables: list[Table] = []
    bad = facts["nonfinite"]
    if bad is not None:
        name = "infinity" if bad["kind"] == "inf" else "NaN"
        tables.append((f"First {name}: {_where(facts, bad)} {_code(facts, bad)}", ["before it", "type", "line", "values"], [
            [b["name"], b["type"], _where(facts, b), b["summary"]] for b in bad["before"]] or [["", "", "", ""]]))
    errors = [[_where(facts, p), f"{p['relative_error']:.2g}", f"{p['born']:.2g}", f"{p['digits_lost']:.1f}",
               "yes" if p["overflow"] else "", _code(facts, p)] for p in facts["precision"] or ()]
    tables.append(("Precision: the largest errors against 64 bits",
                   ["line", "relative error", "born here", "digits lost", "overflow", "code"], errors))
    return tables


def format_report(facts: Row) -> str:
    """Return a report as text."""
    count = len(_group_programs(facts["functions"]))
    lines = [f"lamina-see: {count} function{'s' * (count != 1)} on {facts['platform']}, "
             f"{facts['processes']} process{'es' * (facts['processes'] != 1)}"]
    for title, head, rows in report_tables(facts):
        lines += ["", title, *format_table(head, rows)]
    if facts["problems"]:
        lines += ["", "Not measured", *[f"  {text}" for text in facts["problems"]]]
    return "\n".join(lines)
