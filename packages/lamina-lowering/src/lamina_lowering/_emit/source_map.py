"""Map compiled instructions back to the user's source lines.

Each operation of a module has the location `equation:<number>`. XLA preserves it through optimization, in the metadata
of HLO instructions and in profiles. The number is the equation's index in lowering order, where the equations of a
program precede those of its nested programs. So modules do not change when source lines move. The source line of each
equation is stored next to the module and looked up here.
"""
from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lamina_ir import Eqn, Jaxpr, Source
from typing_extensions import override

__all__ = ["EQUATION_FILE", "EquationBlock", "SourceLine", "instruction_lines", "resolve_source_lines", "scoped_name"]

EQUATION_FILE = "equation"
_MAX_NAME = 400  # maximum length of a name in the compiler's metadata


class EquationBlock(NamedTuple):
    """Equations with consecutive numbers: those of one program that are emitted.

    Attributes:
      program: the program.
      eqns: its equations without dead ones. Passes of lowering may have replaced some.
      path: the names of the enclosing calls; None outside of named calls.
      parent_number: the number of the equation whose program this is; 0 if there is none. A program that becomes a
        function has the number of its first call.
    """

    program: Jaxpr
    eqns: Sequence[Eqn]
    path: str | None
    parent_number: int


def scoped_name(path: str | None, source: Source | None, name: str) -> str:
    """Return `name` prefixed by the names of enclosing calls and the scopes of its source line."""
    name = "/".join(filter(None, (path, source.scope if source is not None else "", name)))
    if len(name) > _MAX_NAME:  # with hundreds of nested calls the names would take quadratic space
        name = f"{name[:_MAX_NAME // 2]}...{name[-_MAX_NAME // 2:]}"
    return name


class SourceLine(NamedTuple):
    """The line of user code from which an operation comes.

    Attributes:
      file, line: the source line; "" and 0 if unknown (programs parsed from text).
      function: name of the enclosing function.
      op: the primitive, prefixed by the names of enclosing scopes and calls, as "encoder/dot_general".
      part: "" or "backward": see `lamina_ir.Source`.
    """

    file: str
    line: int
    function: str
    op: str
    part: str

    @override
    def __str__(self) -> str:
        return f"{self.file}:{self.line} ({self.function}) {self.op}" + (f" [{self.part}]" if self.part else "")


def resolve_source_lines(bodies: Sequence[EquationBlock]) -> dict[int, SourceLine]:
    """Return the source line of each equation: its own, or that of the nearest enclosing call that has one."""
    rows = [(body, e.primitive, e.source) for body in bodies for e in body.eqns]
    found = {}
    for number, (body, op, source) in enumerate(rows, 1):
        name = scoped_name(body.path, source, op.name)
        part = source.part if source is not None else ""
        parent = body.parent_number
        # Generated equations have no line of their own; `part` may be known only at the call, which is what was
        # differentiated.
        while parent and not (source is not None and part):
            body, _, outer = rows[parent - 1]
            parent = body.parent_number
            source = source or outer
            part = part or (outer.part if outer is not None else "")
        found[number] = (SourceLine("", 0, "", name, part) if source is None else
                         SourceLine(source.file, source.line, source.function, name, part))
    return found


# Compiled at their rare uses: compiling all of them would add a millisecond to every import.
_INSTRUCTION = r"^\s*(?:ROOT )?%?([\w.\-]+) = .*?(?:metadata=\{(.*?)\}(?:,|$|\s)|$)"
_CALLED = r"(?:calls|to_apply|body|condition)=%?([\w.\-]+)"
_COMPUTATION = r"^(?:ENTRY )?%?([\w.\-]+) \(.*\{\s*$"
_TABLE = r"^(\d+) \{(.*)\}\s*$"


def _parse_fields(text: str) -> dict[str, str]:
    return dict(re.findall(r'(\w+)="?([^"\s}]+)"?', text))


def instruction_lines(hlo: str, lines: Mapping[int, SourceLine]) -> dict[str, tuple[SourceLine, ...]]:
    """Return the source lines of each instruction of an optimized HLO module.

    Args:
      hlo: the module's text, as `Compiled.as_text()` gives it.
      lines: number of an equation -> its line, as `source_map()` gives it.
    Returns:
      Instruction name -> lines: its own first, then those of the instructions fused into it, without duplicates.
      Instructions that the compiler inserts (copies, constants) are left out.
    """
    numbers = _parse_frames(hlo)
    # own: instruction -> the equation of its location. holds: computation -> its instructions. called: fusion -> its
    # fused computations. Loops and branches are not entered, because their instructions are listed separately.
    own: dict[str, int] = {}
    called: dict[str, list[str]] = {}
    holds: dict[str, list[str]] = {}
    inside = ""
    instruction, callees, computation = re.compile(_INSTRUCTION), re.compile(_CALLED), re.compile(_COMPUTATION)
    for text_line in hlo.splitlines():
        opened = computation.match(text_line)
        if opened:
            inside = opened[1]
            holds[inside] = []
            continue
        found = instruction.match(text_line)
        if found is None or not inside:
            continue
        name = found[1]
        holds[inside].append(name)
        called[name] = callees.findall(text_line) if " fusion(" in text_line else []
        # Older HLO text gives file and line at the instruction, newer text a stack frame of the table at the
        # beginning.
        data = _parse_fields(found[2] or "")
        number = numbers.get(data.get("stack_frame_id", ""), 0)
        if data.get("source_file") == EQUATION_FILE:
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


def _parse_frames(hlo: str) -> dict[str, int]:
    """Return stack frame -> equation, from the tables that newer compilers write at the beginning of a module."""
    files: dict[str, str] = {}
    locations: dict[str, int] = {}
    frames: dict[str, int] = {}
    table = ""
    for text_line in hlo.splitlines():
        if text_line in ("FileNames", "FunctionNames", "FileLocations", "StackFrames"):
            table = text_line
        elif table == "FileNames" and text_line[:1].isdigit():
            number, _, name = text_line.partition(" ")
            files[number] = name.strip('"')
        elif table in ("FileLocations", "StackFrames") and (found := re.match(_TABLE, text_line)):
            data = _parse_fields(found[2].replace("=", '="').replace(" ", '" ') + '"')
            if table == "FileLocations" and files.get(data["file_name_id"]) == EQUATION_FILE:
                locations[found[1]] = int(data["line"])
            elif table == "StackFrames":
                frames[found[1]] = locations.get(data["file_location_id"], 0)
        elif text_line.startswith(("ENTRY", "%")):
            break
    return frames
