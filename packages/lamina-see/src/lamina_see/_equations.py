"""Rows of the report on equations, values and lines."""
from __future__ import annotations

import linecache
from collections.abc import Sequence
from typing import Any

from lamina_ir import Eqn, Literal, Source, Var, eqn_cost, subprograms
from lamina_ir.extend import RegionView

from ._programs import Numbered

__all__ = ["EquationTable", "Sources", "is_call", "value_bytes"]

_MAX_FILE_LINES, _MARGIN = 2000, 40
_MAX_PARAMETERS = 200  # characters
Row = dict[str, Any]


class Sources:
    """The files that facts name, in the order of their first use."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._ranges: dict[str, tuple[int, int]] = {}

    @property
    def numbers(self) -> dict[str, int]:
        """File -> its number."""
        return self._numbers

    def place(self, file: str, line: int) -> Row:
        """Return `source` and `line` of a row; both empty if there is no file."""
        if not file:
            return {"source": None, "line": 0}
        number = self._numbers.setdefault(file, len(self._numbers))
        first, last = self._ranges.get(file, (line, line))
        self._ranges[file] = min(first, line), max(last, line)
        return {"source": number, "line": int(line)}

    def of(self, source: Source | None) -> Row:
        """Return `source` and `line` of an equation's source."""
        return self.place("", 0) if source is None else self.place(source.file, source.line)

    def rows(self) -> list[Row]:
        """Return the text of each file: all of it, or of a long file the range of its lines."""
        found = []
        for file, (first, last) in self._ranges.items():
            lines = [text.rstrip("\n") for text in linecache.getlines(file)]
            start = 1
            if len(lines) > _MAX_FILE_LINES:
                start = max(1, first - _MARGIN)
                lines = lines[start - 1:min(last + _MARGIN, start + _MAX_FILE_LINES)]
            found.append({"file": file, "first_line": start, "lines": lines})
        return found


def value_bytes(aval: Any) -> int:
    """Return the size of a value in bytes; 0 if its type has none."""
    try:
        return int(aval.size) * int(aval.dtype.itemsize)
    except (AttributeError, TypeError):
        return 0


def _letters(n: int) -> str:
    """Return the n-th variable name: a, b, ..., z, aa, ab, ..."""
    name = ""
    n += 1
    while n:
        n, rest = divmod(n - 1, 26)
        name = chr(97 + rest) + name
    return name


def is_call(e: Eqn) -> bool:
    """Return whether an equation runs one program once, so that its body stands for it."""
    signature = e.primitive.region_signature
    return (signature is not None and bool(signature.operands) and not signature.loops and signature.axis_binding is None
            and not any(g.kind == "selector" for g in signature.operands))


class EquationTable:
    """The rows `values`, `equations` and `lines` of a function.

    Args:
      rows: its equations by number.
      blocks: their blocks.
      sources: collects the files.
      fallback: the line of equations that have none, such as those of a library function: that of the call.

    Attributes:
      values, equations: the rows.
      row_of: number of an equation -> index of its row. A call whose body is listed has none.
      row_of_eqn: id of an equation -> index of its row.
    """

    def __init__(self, rows: Sequence[Numbered], blocks: Sequence[Any], sources: Sources, fallback: Row | None = None) -> None:
        self.values: list[Row] = []
        self.equations: list[Row] = []
        self.row_of: dict[int, int] = {}
        self.row_of_eqn: dict[int, int] = {}
        self.rows = rows
        self._sources = sources
        self._ids: dict[Any, int] = {}
        self._lines = self._resolve_lines(rows, fallback)
        bodies = {block.parent_number for block in blocks if block.parent_number}
        self._costs: dict[int, tuple[int, int]] = {}
        at = 0
        for block in blocks:
            for row in rows[at:at + len(block.eqns)]:
                self._add(row, row.number in bodies)
            at += len(block.eqns)
        self._alias_results(blocks)

    def _resolve_lines(self, rows: Sequence[Numbered], fallback: Row | None) -> dict[int, Row]:
        """Return the line of each equation: its own, else that of the equation whose program holds it."""
        found: dict[int, Row] = {0: fallback or self._sources.place("", 0)}
        for row in rows:
            found[row.number] = (self._sources.of(row.eqn.source) if row.eqn.source is not None else
                                 found.get(row.parent, found[0]))
        return found

    def line_of(self, number: int) -> Row:
        """Return `source` and `line` of an equation."""
        return self._lines.get(number, self._lines[0])

    def value(self, var: Any, name: str | None = None, line: Row | None = None) -> int:
        """Return the index of a variable's value, which is added if it is new."""
        found = self._ids.get(var)
        if found is None:
            found = self._ids[var] = len(self.values)
            self.values.append({"name": name or _letters(found), "type": var.aval.str_long(), "bytes": value_bytes(var.aval),
                                **(line or self._lines[0]), "sharding": None})
        return found

    def _add(self, row: Numbered, has_body: bool) -> None:
        e, line = row.eqn, self.line_of(row.number)
        if has_body and e.primitive.subprograms and e.primitive.region_signature is not None:
            self._bind_arguments(e)
            if is_call(e):
                return
        operands = [self.value(v) for v in e.invars if not isinstance(v, Literal)]
        results = [self.value(v, None, line) for v in e.outvars]
        signature = e.primitive.region_signature
        flops, size = (0, 0) if signature is not None and signature.operands else self._cost(e)
        self.row_of[row.number] = self.row_of_eqn[id(e)] = len(self.equations)
        self.equations.append({
            "primitive": e.primitive.name, "scope": row.scope, **line, "operands": operands, "results": results,
            "flops": flops * row.count, "bytes": size * row.count, "count": row.count, "phase": row.phase, "time": None,
            "parameters": _parameters(e), "instruction": []})

    def _bind_arguments(self, e: Eqn) -> None:
        """Let the arguments of a nested program be the operands of its equation, if they have the same type."""
        if not e.primitive.region_signature or not e.primitive.region_signature.operands:
            return
        for region in RegionView.of(e).regions:
            for v, i in zip(region.program.jaxpr.invars, region.ins):
                outer = e.invars[i]
                if not isinstance(outer, Literal) and v not in self._ids and outer.aval.shape == v.aval.shape:
                    self._ids[v] = self.value(outer)

    def _alias_results(self, blocks: Sequence[Any]) -> None:
        """Let the results of a call whose body is listed be those of the body."""
        aliases: dict[int, int] = {}
        for row in self.rows:
            e = row.eqn
            if row.number in self.row_of or not is_call(e):
                continue
            body = RegionView.of(e).bodies[0].program.jaxpr
            for v, inner in zip(e.outvars, body.outvars):
                if isinstance(inner, Var) and inner in self._ids:
                    used = self._ids.get(v)
                    if used is not None:
                        aliases[used] = self._ids[inner]
                    self._ids[v] = self._ids[inner]
        if not aliases:
            return

        def final(k: int) -> int:
            for _ in range(64):
                if k not in aliases or aliases[k] == k:
                    break
                k = aliases[k]
            return k

        for made in self.equations:
            made["operands"] = [final(k) for k in made["operands"]]
        self._ids = {v: final(k) for v, k in self._ids.items()}

    def _cost(self, e: Eqn) -> tuple[int, int]:
        found = self._costs.get(id(e))
        if found is None:
            cost = eqn_cost(e)
            found = self._costs[id(e)] = cost.flops + cost.transcendentals, cost.bytes
        return found

    def lines(self, times: dict[int, float] | None, step: float) -> list[Row]:
        """Return the rows on source lines.

        Args:
          times: number of an equation -> nanoseconds; None: not measured.
          step: nanoseconds of the step.
        """
        found: dict[tuple[int | None, int], Row] = {}
        for row in self.rows:
            line = self.line_of(row.number)
            at = found.get((line["source"], line["line"]))
            if at is None:
                start = None if times is None else 0.0
                at = found[line["source"], line["line"]] = {
                    **line, "equations": 0, "flops": 0, "bytes": 0, "time_forward": start, "time_backward": start,
                    "time_recomputed": start, "share": None}
            index = self.row_of.get(row.number)
            if index is not None:
                at["equations"] += 1
                at["flops"] += self.equations[index]["flops"]
                at["bytes"] += self.equations[index]["bytes"]
            if times is not None:
                at[f"time_{row.phase}"] += times.get(row.number, 0.0)
        for at in found.values() if times is not None else ():
            total = at["time_forward"] + at["time_backward"] + at["time_recomputed"]
            at["share"] = round(total / step, 6) if step else 0.0
            for phase in ("time_forward", "time_backward", "time_recomputed"):
                at[phase] = int(at[phase])
        return sorted([at for at in found.values() if at["equations"] or at["share"]],
                      key=lambda at: (-(at["share"] or 0), -at["flops"], -at["bytes"]))


def _parameters(e: Eqn) -> str:
    """Return the parameters as text, without nested programs and functions."""
    nested = {id(s) for s in subprograms(e)} if e.primitive.subprograms else set()
    texts = []
    for name, value in e.params.items():
        held = value if isinstance(value, tuple) else (value,)
        if value is None or value == () or any(id(v) in nested or callable(v) for v in held):
            continue
        texts.append(f"{name}={getattr(value, 'name', None) or value}")
    text = " ".join(texts)
    return text if len(text) <= _MAX_PARAMETERS else text[:_MAX_PARAMETERS - 3] + "..."
