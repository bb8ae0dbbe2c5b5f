"""Compare two reports: totals, source lines, memory and compilations of the functions that both have."""
from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["compare_reports"]

Facts = Mapping[str, Any]
_POINTS = 400  # of a curve of memory


def compare_reports(a: Facts, b: Facts) -> dict[str, Any]:
    """Compare two reports.

    Functions are paired by name, then by signature, then in order. Lines are paired by an alignment of the source text of
    each file, so lines that only moved are still paired.

    Args:
      a, b: facts in the shape of `schema.json`; b is the later one.
    Returns:
      A dict: `about` (of a and of b), `totals`, `functions` (each with `lines` and `memory`) and `compilations`. A fact of
      both reports is a pair [of a, of b], with None for unknown or absent.
    """
    return {"about": [_about(a), _about(b)], "totals": _totals(a, b), "functions": _functions(a, b),
            "compilations": _compilations(a, b)}


def _about(report: Facts) -> dict[str, Any]:
    command = report["command"] or ", ".join([f"lamina.see({f['name']})" for f in report["functions"][:1]])
    return {**{k: report[k] for k in ("created", "versions", "platform", "problems")}, "command": command}


def _sum(values: Iterable[Any]) -> Any:
    known = [v for v in values if v is not None]
    return sum(known) if known else None


def _main_programs(report: Facts) -> list[Facts]:
    """Return the first program of each function: the slowest one of those that were compiled for other types."""
    found: dict[Any, Facts] = {}
    for f in report["functions"]:
        found.setdefault((f["name"], f["kind"], str(f["defined_at"])), f)
    return list(found.values())


def _totals(a: Facts, b: Facts) -> list[dict[str, Any]]:
    def both(name: str, unit: str, of: Any) -> dict[str, Any]:
        return {"name": name, "unit": unit, "values": [of(a), of(b)]}

    def phase(name: str) -> Any:
        return lambda r: _sum(line[f"time_{name}"] for f in _main_programs(r) for line in f["lines"])

    return [
        both("time of the steps", "ns", lambda r: _sum(f["step"] and f["step"]["time"] for f in _main_programs(r))),
        both("forward", "ns", phase("forward")), both("backward", "ns", phase("backward")),
        both("recomputed", "ns", phase("recomputed")),
        both("largest peak of memory", "B",
             lambda r: max((f["memory"]["peak"] for f in r["functions"] if f["memory"]), default=None)),
        both("operations", "flop", lambda r: _sum(line["flops"] for f in _main_programs(r) for line in f["lines"])),
        both("equations", "", lambda r: sum(len(f["equations"]) for f in _main_programs(r))),
        both("collectives", "", lambda r: sum(c["count"] for f in _main_programs(r) for c in f["collectives"])),
        both("compilations", "", lambda r: sum(c["memory_cache"] == "miss" for c in r["compilations"])),
        both("time of compilation", "ns",
             lambda r: _sum(c[k] for c in r["compilations"] for k in ("trace", "lower", "xla"))),
    ]


def _pair(a: list[Facts], b: list[Facts]) -> list[tuple[Facts | None, Facts | None]]:
    """Pair functions by name and signature, then the rest by name, in order."""
    pairs: list[tuple[Facts | None, Facts | None]] = []
    left_a, left_b = list(a), list(b)
    for key in (lambda f: (f["name"], f["kind"], *f["signature"]), lambda f: (f["name"], f["kind"])):
        for f in list(left_a):
            g = next((g for g in left_b if key(g) == key(f)), None)
            if g is not None:
                pairs.append((f, g))
                left_a.remove(f)
                left_b.remove(g)
    return pairs + [(f, None) for f in left_a] + [(None, g) for g in left_b]


def _functions(a: Facts, b: Facts) -> list[dict[str, Any]]:
    alignment = _align(a["sources"], b["sources"])
    found = []
    for f, g in _pair(a["functions"], b["functions"]):
        some = f or g or {}
        found.append({
            "name": some["name"], "kind": some["kind"], "signatures": [h and list(h["signature"]) for h in (f, g)],
            "time": [h and h["step"] and h["step"]["time"] for h in (f, g)],
            "peak": [h and h["memory"] and h["memory"]["peak"] for h in (f, g)],
            "equations": [h and len(h["equations"]) for h in (f, g)],
            "lines": _lines(a, b, f, g, alignment), "memory": [_curve(f), _curve(g)]})
    return sorted(found, key=lambda row: -max(v or 0 for v in row["time"]))


def _text(report: Facts, source: int | None, line: int) -> str:
    if source is None:
        return ""
    found = report["sources"][source]
    at = line - found["first_line"]
    return str(found["lines"][at]) if 0 <= at < len(found["lines"]) else ""


def _align(a: list[Facts], b: list[Facts]) -> dict[tuple[int, int], tuple[int, int]]:
    """Return (source, line) of b -> (source, line) of a, for lines with equal or replaced text."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for j, new in enumerate(b):
        i = _same_file(new["file"], a)
        if i is None:
            continue
        old = a[i]
        matcher = difflib.SequenceMatcher(None, old["lines"], new["lines"], autojunk=False)
        for kind, a1, a2, b1, b2 in matcher.get_opcodes():
            if kind == "equal" or (kind == "replace" and a2 - a1 == b2 - b1):
                for k in range(b2 - b1):
                    found[j, new["first_line"] + b1 + k] = i, old["first_line"] + a1 + k
    return found


def _same_file(file: str, sources: list[Facts]) -> int | None:
    """Return the source with the same path, else the only one with the same name."""
    paths = [s["file"] for s in sources]
    if file in paths:
        return paths.index(file)
    name = file.replace("\\", "/").rsplit("/", 1)[-1]
    same = [k for k, path in enumerate(paths) if path.replace("\\", "/").rsplit("/", 1)[-1] == name]
    return same[0] if len(same) == 1 else None


def _time(line: Facts | None) -> Any:
    return line and _sum(line[f"time_{p}"] for p in ("forward", "backward", "recomputed"))


def _at_peak(function: Facts | None) -> dict[tuple[int | None, int], int]:
    """Return the bytes that are alive at the peak, by line."""
    memory: Any = None if function is None else function["memory"]
    found: dict[tuple[int | None, int], int] = {}
    for buffer in memory["buffers"] if memory else ():
        if buffer["first"] <= memory["peak_at"] <= buffer["last"]:
            key = buffer["source"], buffer["line"]
            found[key] = found.get(key, 0) + buffer["bytes"]
    return found


def _lines(a: Facts, b: Facts, f: Facts | None, g: Facts | None,
           alignment: dict[tuple[int, int], tuple[int, int]]) -> list[dict[str, Any]]:
    """Return a row for each line that has facts in a or b, the largest change of time first."""
    old = {(line["source"], line["line"]): line for line in f["lines"]} if f else {}
    new = {(line["source"], line["line"]): line for line in g["lines"]} if g else {}
    peak_f, peak_g = _at_peak(f), _at_peak(g)
    partner: dict[Any, Any] = {
        key: alignment.get(key, (None, 0) if key[0] is None else None)  # type: ignore[arg-type]  # keys without a file
        for key in new.keys() | peak_g.keys()}
    matched = {key for key in partner.values() if key is not None}
    keys: list[tuple[Any, Any]] = [(partner[key], key) for key in partner]
    keys += [(key, None) for key in old.keys() | peak_f.keys() if key not in matched]
    rows = []
    for p, q in keys:
        x, y = old.get(p) if p else None, new.get(q) if q else None
        rows.append({
            "file": (b["sources"][q[0]]["file"] if q and q[0] is not None else
                     a["sources"][p[0]]["file"] if p and p[0] is not None else ""),
            "line": [p[1] if p else None, q[1] if q else None],
            "text": [_text(a, *p) if p else None, _text(b, *q) if q else None],
            "time": [_time(x), _time(y)], "flops": [x and x["flops"], y and y["flops"]],
            "equations": [x["equations"] if x else 0, y["equations"] if y else 0],
            "at_peak": [peak_f.get(p, 0) if p else 0, peak_g.get(q, 0) if q else 0]})
    return sorted(rows, key=lambda r: (-abs((r["time"][1] or 0) - (r["time"][0] or 0)),
                                       -abs(r["at_peak"][1] - r["at_peak"][0]), str(r["file"]), r["line"][1] or 0))


def _curve(function: Facts | None) -> dict[str, Any] | None:
    """Return the live bytes over the schedule: of a long one the largest of each part."""
    memory: Any = None if function is None else function["memory"]
    if not memory or not memory["instructions"]:
        return None
    live = [i["live"] for i in memory["instructions"]]
    n = len(live)
    points = min(n, _POINTS)
    return {"instructions": n, "peak": memory["peak"],
            "live": [max(live[k * n // points:(k + 1) * n // points]) for k in range(points)]}


def _compilations(a: Facts, b: Facts) -> list[dict[str, Any]]:
    """Return counts and times by function, the largest number of compilations first."""
    found: dict[str, list[dict[str, Any]]] = {}
    for side, report in enumerate((a, b)):
        for row in report["compilations"]:
            pair = found.setdefault(row["function"], [{"count": 0, "time": 0, "reasons": []} for _ in "ab"])
            at = pair[side]
            at["count"] += row["memory_cache"] == "miss"
            at["time"] += sum(row[k] or 0 for k in ("trace", "lower", "xla"))
            if row["reason"] and row["reason"] not in at["reasons"]:
                at["reasons"].append(row["reason"])
    rows = [{"function": name, "count": [p["count"] for p in pair], "time": [p["time"] for p in pair],
             "reasons": [p["reasons"] for p in pair]} for name, pair in found.items()]
    return sorted(rows, key=lambda r: (-max(r["count"]), r["function"]))
