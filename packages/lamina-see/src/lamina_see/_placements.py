"""Rows of the report on collectives, placements and meshes, from the plan of a compiled call."""
from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from ._equations import EquationTable, Sources
from ._hlo import Module

__all__ = ["collective_rows", "mesh_rows", "placement_rows", "plan_of_program"]

Row = dict[str, Any]
_MAX_BLOCKS = 4096  # per array


def collective_rows(program: Any, plan: Any, module: Module, times: dict[str, float] | None, sources: Sources) -> list[Row]:
    """Return the collectives between devices of a compiled program.

    Args:
      program: the compiled program.
      plan: its `Plan`; None: the axes are unknown.
      module: the compiled module.
      times: name of an instruction -> nanoseconds; None: not measured.
      sources: collects the files.
    """
    if len(program.placement.devices) < 2:
        return []
    if plan is None or plan.collectives is None:
        from lamina_runtime.extend import parse_collectives  # noqa: PLC0415 (absent on the NumPy-only install)
        text = "\n".join([m.to_string() for m in program.executable.hlo_modules()])
        moves = [(move, "") for move in parse_collectives(text, program.lowered.source_map())]
    else:
        moves = [(c.instruction, ", ".join(map(str, c.axes or c.mesh_axes or ()))) for c in plan.collectives
                 if c.instruction is not None]
    lines = program.lowered.source_map()
    of_line: dict[tuple[str, str, int], float] = {}
    for name, time in (times or {}).items():
        i = module.by_name.get(name)
        kind = "" if i is None else i.opcode.removesuffix("-start").removesuffix("-done")
        if i is not None and kind in _KINDS:
            line = next((lines[n] for n in module.numbers.get(name, ()) if n in lines), None)
            place = kind, "" if line is None else line.file, 0 if line is None else line.line
            of_line[place] = of_line.get(place, 0.0) + time
    places = [(move.kind, "" if move.line is None else move.line.file, 0 if move.line is None else move.line.line)
              for move, _ in moves]
    rows = []
    for (move, axis), place in zip(moves, places):
        rows.append({"kind": move.kind, "axis": axis, "bytes": int(move.operand_bytes),
                     "devices": max(map(len, move.groups or ()), default=0) or len(program.placement.devices),
                     **sources.place(place[1], place[2]), "count": int(move.executions),
                     "time": None if times is None else int(of_line.get(place, 0.0) / places.count(place))})
    return rows


_KINDS = frozenset(("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute",
                    "collective-broadcast", "ragged-all-to-all"))


def placement_rows(plan: Any, table: EquationTable, arguments: Sequence[int], results: Sequence[int]) -> list[Row]:
    """Return which device holds which block of each argument and result, and set the shardings of their values."""
    rows: list[Row] = []
    for role, arrays, values in (("argument", plan.arguments, arguments), ("result", plan.results, results)):
        for array, value in zip(arrays, values):
            text = array.describe_sharding() + ("" if array.is_used else " (unused)")
            table.values[value]["sharding"] = text
            blocks = [{"device": d.id, "slices": [[int(a), int(b)] for a, b in block]}
                      for block, devices in array.blocks().items() for d in devices]
            rows.append({"value": value, "name": array.name, "role": role, "sharding": text, "blocks": blocks[:_MAX_BLOCKS]})
    return rows


def plan_of_program(program: Any, names: Sequence[str]) -> Any:
    """Return the placements of a compiled program, as a plan has them: `arguments` and `results`.

    Args:
      program: the `CompiledProgram`.
      names: of its arguments.
    """
    from lamina_runtime.plans import ArrayPlan  # noqa: PLC0415 (absent on the NumPy-only install)
    here = program.placement.visible_devices
    arguments = [ArrayPlan(name, aval, s.tiles, None, (), here, used)
                 for name, aval, s, used in zip(names, program.in_avals, program.in_shardings, program.used_args)]
    results = [ArrayPlan(f"output {i}", aval, s.tiles, None, (), here)
               for i, (aval, s) in enumerate(zip(program.out_avals, program.out_shardings))]
    return SimpleNamespace(arguments=arguments, results=results, collectives=None)


def mesh_rows(meshes: Sequence[Any]) -> list[Row]:
    """Return the meshes, each once."""
    rows: list[Row] = []
    for mesh in meshes:
        devices = mesh.devices
        ids = [d.id for d in devices.flat]
        nested: Any = ids
        for size in reversed(devices.shape[1:]):
            nested = [nested[k:k + size] for k in range(0, len(nested), size)]
        row = {"axes": [{"name": str(name), "size": int(size)} for name, size in mesh.shape.items()], "devices": nested}
        if row not in rows:
            rows.append(row)
    return rows
