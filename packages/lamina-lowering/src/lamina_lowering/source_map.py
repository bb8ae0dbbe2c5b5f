"""From what the compiler made back to the user's lines.

Each operation of a module is located at `equation:<number>`; XLA carries that through its optimisation, into the metadata
of HLO instructions and into profiles. The number is the equation's place in the order of lowering, a program's equations
before those of the programs inside of them, so modules do not change when lines move. Which line an equation comes from is
kept beside the module, and looked up here.
"""
from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lamina_ir import Primitive, Source

__all__ = ["FILE", "Body", "SourceLine", "instruction_lines", "resolve", "scoped_name"]

FILE = "equation"
_LONGEST = 400  # characters of a name in the compiler's metadata


class Body(NamedTuple):
    """Equations that were lowered one after the other, numbered in a row.

    Attributes:
      ops, sources: of each equation.
      path: names of the calls around; None outside of named ones.
      around: the number of the equation whose program this is; 0: of none.
    """

    ops: list[Primitive]
    sources: list[Source | None]
    path: str | None
    around: int


def scoped_name(path: str | None, source: Source | None, name: str) -> str:
    """`name` after the names of the calls around and those of the scopes of its line."""
    name = "/".join(filter(None, (path, source.scope if source is not None else "", name)))
    if len(name) > _LONGEST:  # of hundreds of calls in one another: else names alone are quadratic
        name = f"{name[:_LONGEST // 2]}...{name[-_LONGEST // 2:]}"
    return name


class SourceLine(NamedTuple):
    """Where in a user's code an operation comes from.

    Attributes:
      file, line: the place; "" and 0 where it is not known (programs read from text).
      function: name of the function it stands in.
      op: the primitive, after the names of the scopes and calls it stands in, as "encoder/dot_general".
      part: "" or "backward": see `lamina_ir.Source`.
    """

    file: str
    line: int
    function: str
    op: str
    part: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} ({self.function}) {self.op}" + (f" [{self.part}]" if self.part else "")


def resolve(bodies: Sequence[Body]) -> dict[int, SourceLine]:
    """The place of each equation: its own, or that of the nearest call around it that has one."""
    rows = [(body, op, source) for body in bodies for op, source in zip(body.ops, body.sources)]
    found = {}
    for number, (body, op, source) in enumerate(rows, 1):
        name = scoped_name(body.path, source, op.name)
        part = source.part if source is not None else ""
        around = body.around
        while around and not (source is not None and part):
            body, _, outer = rows[around - 1]
            around = body.around
            source = source or outer
            part = part or (outer.part if outer is not None else "")
        found[number] = (SourceLine("", 0, "", name, part) if source is None else
                         SourceLine(source.file, source.line, source.function, name, part))
    return found


# Compiled where they are used, which is seldom: together a millisecond of every import.
_INSTRUCTION = r"^\s*(?:ROOT )?%?([\w.\-]+) = .*?(?:metadata=\{(.*?)\}(?:,|$|\s)|$)"
_CALLED = r"(?:calls|to_apply|body|condition)=%?([\w.\-]+)"
_COMPUTATION = r"^(?:ENTRY )?%?([\w.\-]+) \(.*\{\s*$"
_TABLE = r"^(\d+) \{(.*)\}\s*$"


def _fields(text: str) -> dict[str, str]:
    return dict(re.findall(r'(\w+)="?([^"\s}]+)"?', text))


def instruction_lines(hlo: str, lines: Mapping[int, SourceLine]) -> dict[str, tuple[SourceLine, ...]]:
    """Which lines each instruction of an optimised HLO module comes from.

    Args:
      hlo: the module's text, as `Compiled.as_text()` gives it.
      lines: number of an equation -> its line, as `source_map()` gives it.
    Returns:
      Instruction name -> lines: its own first, then those of the instructions fused into it, each once. Instructions
      that the compiler made for itself (copies, constants) are left out.
    """
    numbers = _frames(hlo)
    # own: instruction -> equation it is located at. holds: computation -> instructions; called: fusion -> computations that
    # were fused. Loops and branches are not entered: their instructions are listed by themselves.
    own: dict[str, int] = {}
    called: dict[str, list[str]] = {}
    holds: dict[str, list[str]] = {}
    inside = ""
    instruction, callees, computation = re.compile(_INSTRUCTION), re.compile(_CALLED), re.compile(_COMPUTATION)
    for row in hlo.splitlines():
        opened = computation.match(row)
        if opened:
            inside = opened[1]
            holds[inside] = []
            continue
        found = instruction.match(row)
        if found is None or not inside:
            continue
        name = found[1]
        holds[inside].append(name)
        called[name] = callees.findall(row) if " fusion(" in row else []
        # Older text names file and line beside the instruction, newer a stack frame of the table in front.
        data = _fields(found[2] or "")
        number = numbers.get(data.get("stack_frame_id", ""), 0)
        if data.get("source_file") == FILE:
            number = int(data["source_line"])
        if number:
            own[name] = number

    def all_of(name: str) -> Sequence[int]:
        first = [own[name]] if name in own else []
        return first + [n for c in called.get(name, ()) for inner in holds.get(c, ()) for n in all_of(inner)]

    found_lines = {}
    for name in called:
        mine = dict.fromkeys([lines[n] for n in all_of(name) if n in lines])
        if mine:
            found_lines[name] = tuple(mine)
    return found_lines


def _frames(hlo: str) -> dict[str, int]:
    """Stack frame -> equation, from the tables that newer compilers write in front of a module."""
    files: dict[str, str] = {}
    places: dict[str, int] = {}
    frames: dict[str, int] = {}
    table = ""
    for row in hlo.splitlines():
        if row in ("FileNames", "FunctionNames", "FileLocations", "StackFrames"):
            table = row
        elif table == "FileNames" and row[:1].isdigit():
            number, _, name = row.partition(" ")
            files[number] = name.strip('"')
        elif table in ("FileLocations", "StackFrames") and (found := re.match(_TABLE, row)):
            data = _fields(found[2].replace("=", '="').replace(" ", '" ') + '"')
            if table == "FileLocations" and files.get(data["file_name_id"]) == FILE:
                places[found[1]] = int(data["line"])
            elif table == "StackFrames":
                frames[found[1]] = places.get(data["file_location_id"], 0)
        elif row.startswith(("ENTRY", "%")):
            break
    return frames
