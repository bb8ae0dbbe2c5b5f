"""The facts of one compiled function: equations, lines, memory, collectives, placements, and times if it was measured."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from lamina_ir import ClosedJaxpr

from . import _named_values, _placements
from ._equations import EquationTable, Sources, value_bytes
from ._hlo import Module
from ._memory import Buffer, buffers_of, live_bytes
from ._profile import StepTimes
from ._programs import Block, number_program, read_blocks

__all__ = ["Measured", "compiled_function", "read_module", "traced_function"]

Row = dict[str, Any]


class Measured(NamedTuple):
    """The times of a function: of the median run, in nanoseconds.

    Attributes:
      step, runs: the time of the run, and the number of runs.
      times: where it went.
    """

    step: float
    runs: int
    times: StepTimes


def read_module(program: Any) -> Module:
    """Return the optimized module of a compiled program."""
    return Module(program.executable.hlo_modules()[0].as_serialized_hlo_module_proto())


class _Function:
    """Common parts of a compiled and a traced function."""

    def __init__(self, name: str, kind: str, blocks: Sequence[Any], parts: dict[int, str], members: int, sources: Sources,
                 problems: list[str], called: Row | None) -> None:
        self.sources, self.problems = sources, problems
        rows, self.scopes, unknown = read_blocks(blocks, name, parts, members)
        problems += [f"`{name}`: {text[0].lower()}{text[1:]}" for text in unknown]
        self.table = EquationTable(rows, blocks, sources, called)
        self.row: Row = {"name": name, "kind": kind}
        self.blocks = blocks

    def add_arguments(self, main: Any, names: Sequence[str], result_names: Sequence[str]) -> None:
        """Name the values of the arguments and results of the program `main`."""
        table = self.table
        self.arguments = [table.value(v) for v in main.invars]
        for k, name in zip(self.arguments, names):
            table.values[k]["name"] = name
        self.results = []
        for v, name in zip(main.outvars, result_names):
            if hasattr(v, "val"):  # a literal
                self.results.append(len(table.values))
                table.values.append({"name": name, "type": v.aval.str_long(), "bytes": value_bytes(v.aval),
                                     **table.line_of(0), "sharding": None})
            else:
                self.results.append(table.value(v))

    def finish(self, signature: Sequence[str], donated: Sequence[int], defined: Row | None, called: Row | None,
               measured: Measured | None, weights: dict[str, dict[int, float]], memory: Row | None,
               collectives: list[Row], placements: list[Row]) -> Row:
        """Return the row of the function."""
        times = None if measured is None else self._divide(measured.times.instructions, weights)
        if times is not None:
            for number, time in times.items():
                index = self.table.row_of.get(number)
                if index is not None:
                    self.table.equations[index]["time"] = int(time)
        lines = self.table.lines(times, 0.0 if measured is None else measured.step)
        step = None
        if measured is not None:
            attributed = sum([line["share"] for line in lines if line["source"] is not None])
            nowhere = sum([line["share"] for line in lines if line["source"] is None]) * measured.step
            rest = {**measured.times.rest}
            rest["unattributed"] = rest.get("unattributed", 0.0) + nowhere
            step = {"time": int(measured.step), "runs": measured.runs, "attributed": round(min(attributed, 1.0), 6),
                    "rest": [{"name": name, "time": int(time)} for name, time in rest.items()]}
        return {**self.row, "signature": list(signature), "donated": list(donated), "defined_at": defined,
                "called_from": called,
                "scopes": [{"name": s.name, "parent": s.parent, "repeated": s.repeated} for s in self.scopes],
                "equations": self.table.equations, "values": self.table.values, "arguments": self.arguments,
                "results": self.results, "lines": lines, "step": step, "memory": memory, "collectives": collectives,
                "placements": placements}

    def _divide(self, instructions: dict[str, float], weights: dict[str, dict[int, float]]) -> dict[int, float]:
        """Divide the times of instructions among their equations."""
        found: dict[int, float] = {}
        known = len(self.table.rows)
        for name, time in instructions.items():
            parts = {1: 1.0} if known == 1 else weights.get(name, {})
            for n, part in parts.items():
                if 0 < n <= known:
                    found[n] = found.get(n, 0.0) + time * part
        return found


def compiled_function(program: Any, closed: ClosedJaxpr | None, sources: Sources, problems: list[str], *, kind: str = "",
                      plan: Any = None, donated: Sequence[int] = (), measured: Measured | None = None,
                      module: Module | None = None, defined: Row | None = None, called: Row | None = None,
                      equation_rows: dict[int, int] | None = None) -> Row:
    """Return the row of a compiled program.

    Args:
      program: the `CompiledProgram`.
      closed: its program, if the lowering gives no equations.
      sources: collects the files.
      problems: collects sentences on what is unknown.
      kind: how it is called; "": as the program says.
      plan: its `Plan`, for names and placements; None: unknown.
      donated: flat positions of donated arguments.
      measured: its times; None: not measured.
      module: its compiled module, if it was read already.
      defined, called: lines of its definition and of its call.
      equation_rows: gets id of an equation -> index of its row.
    """
    module = read_module(program) if module is None else module
    lowered = program.lowered
    blocks = list(lowered.equation_blocks()) if hasattr(lowered, "equation_blocks") else []
    if not blocks and closed is not None:  # a single primitive has no numbers
        blocks = [Block(closed.jaxpr, closed.jaxpr.eqns, None, 0)]
    members = program.placement.replicas if program.placement.one_member_per_device else 1
    parts = {n: line.part for n, line in lowered.source_map().items()}
    f = _Function(program.name, kind or program.call, blocks, parts, members, sources, problems, called)
    if equation_rows is not None:
        equation_rows.update(f.table.row_of_eqn)
    main = blocks[0].program if blocks else None
    if main is not None:
        names = [a.name for a in plan.arguments] if plan is not None else [f"argument {i}" for i in range(len(main.invars))]
        results = [a.name for a in plan.results] if plan is not None else [f"result {i}" for i in range(len(main.outvars))]
        f.add_arguments(main, names, results)
    else:
        f.arguments, f.results = [], []
    memory = _memory(program, module, f, problems)
    times = None if measured is None else measured.times.instructions
    collectives = _placements.collective_rows(program, plan, module, times, sources)
    placements = [] if plan is None else _placements.placement_rows(plan, f.table, f.arguments, f.results)
    if plan is not None and closed is not None:
        placements += _named_values.named_placement_rows(program, closed, plan, f.table, problems)
    return f.finish([a.str_long() for a in program.in_avals], donated, defined, called, measured, module.weights, memory,
                    collectives, placements)


def _memory(program: Any, module: Module, f: _Function, problems: list[str]) -> Row | None:
    stats = program.executable.get_compiled_memory_stats()
    assignment = getattr(stats, "serialized_buffer_assignment_proto", b"")
    try:
        instructions, buffers = buffers_of(module, assignment)
    except ValueError:
        problems.append(f"`{program.name}`: memory by instruction is unknown, because this compiler reports no buffers.")
        return None
    table = f.table
    position = {i.name: k for k, i in enumerate(instructions)}
    for name, numbers in module.numbers.items():
        for n in numbers if name in position else ():
            index = table.row_of.get(n)
            if index is not None:
                table.equations[index]["instruction"].append(position[name])
    if len(table.rows) == 1 and table.equations:
        table.equations[0]["instruction"] = [k for k, i in enumerate(instructions) if i.opcode != "parameter"]
    live = live_bytes(len(instructions), buffers)
    lines = {i.name: table.line_of(module.numbers.get(i.name, (0,))[0]) for i in instructions}
    xla = (stats.argument_size_in_bytes + stats.output_size_in_bytes + stats.temp_size_in_bytes
           - stats.alias_size_in_bytes)
    of_parameter = _argument_values(program, f)
    return {"peak": max(live, default=0), "xla_peak": int(xla), "peak_at": live.index(max(live)) if live else 0,
            "instructions": [{"name": i.name, "operation": i.opcode, **lines[i.name], "live": n}
                             for i, n in zip(instructions, live)],
            "buffers": [_buffer_row(b, module, table, of_parameter) for b in buffers], "savings": []}


def _argument_values(program: Any, f: _Function) -> dict[int, int]:
    """Return number of an argument of the module -> its value. Large constants come before the arguments."""
    constants = len(program.const_args)
    kept = [k for k, is_used in enumerate(program.used_args) if is_used]
    return {constants + i: f.arguments[k] for i, k in enumerate(kept) if k < len(f.arguments)}


def _buffer_row(b: Buffer, module: Module, table: EquationTable, of_parameter: dict[int, int]) -> Row:
    value, name, line = None, b.name, table.line_of(0)
    if b.parameter is not None:
        value = of_parameter.get(b.parameter)
        name = "constant" if value is None else table.values[value]["name"]
        line = line if value is None else {k: table.values[value][k] for k in ("source", "line")}
    elif (numbers := module.numbers.get(b.name)):
        line = table.line_of(numbers[0])
        index = table.row_of.get(numbers[0])
        for k in () if index is None else table.equations[index]["results"]:
            if table.values[k]["type"] == b.type or table.values[k]["bytes"] == b.nbytes:
                value, name = k, f"{b.name} ({table.values[k]['name']})"
                break
    return {"value": value, "name": name, "type": b.type, "bytes": b.nbytes, "first": b.first, "last": b.last, **line,
            "kind": b.kind}


def traced_function(closed: ClosedJaxpr, name: str, sources: Sources, problems: list[str], *, kind: str = "jit",
                    argument_names: Sequence[str] = (), result_names: Sequence[str] = (), donated: Sequence[int] = (),
                    defined: Row | None = None, called: Row | None = None) -> Row:
    """Return the row of a program that is not compiled: its memory follows from the order of its equations.

    Args:
      closed: the program.
      name, kind, donated, defined, called: as in the report.
      sources, problems: as for `compiled_function`.
      argument_names, result_names: names of its arguments and results.
    """
    blocks = number_program(closed)
    f = _Function(name, kind, blocks, {}, 1, sources, problems, called)
    jaxpr = closed.jaxpr
    f.add_arguments(jaxpr, argument_names or [f"argument {i}" for i in range(len(jaxpr.invars))],
                    result_names or [f"result {i}" for i in range(len(jaxpr.outvars))])
    memory = _program_memory(f)
    return f.finish([a.str_long() for a in closed.in_avals], donated, defined, called, None, {}, memory, [], [])


def _program_memory(f: _Function) -> Row:
    """Return memory by equation, as if each value took memory from its equation to its last use."""
    table, end = f.table, max(0, len(f.table.equations) - 1)
    first: dict[int, int] = dict.fromkeys(f.arguments, 0)
    last: dict[int, int] = dict.fromkeys(f.arguments, end)
    for at, row in enumerate(table.equations):
        row["instruction"] = [at]
        for k in row["results"]:
            first.setdefault(k, at)
            last[k] = max(last.get(k, at), at)
        for k in row["operands"]:
            first.setdefault(k, at)
            last[k] = max(last.get(k, at), at)
    for k in f.results:
        first.setdefault(k, 0)
        last[k] = end
    kinds = {**dict.fromkeys(f.results, "result"), **dict.fromkeys(f.arguments, "argument")}
    buffers = [Buffer(table.values[k]["name"], table.values[k]["type"], table.values[k]["bytes"], first[k], last[k],
                      kinds.get(k, "temporary")) for k in first]
    live = live_bytes(len(table.equations) or 1, buffers)
    rows = [{"value": k, "name": b.name, "type": b.type, "bytes": b.nbytes, "first": b.first, "last": b.last,
             "source": table.values[k]["source"], "line": table.values[k]["line"], "kind": b.kind}
            for k, b in zip(first, buffers)]
    instructions = [{"name": f"{row['primitive']}.{at}", "operation": row["primitive"], "source": row["source"],
                     "line": row["line"], "live": live[at]} for at, row in enumerate(table.equations)]
    return {"peak": max(live), "xla_peak": None, "peak_at": live.index(max(live)), "instructions": instructions,
            "buffers": rows, "savings": []}
