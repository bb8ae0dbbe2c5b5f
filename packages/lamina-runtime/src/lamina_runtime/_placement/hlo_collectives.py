"""Parse the collectives of an HLO module from its text, before or after optimization."""
from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from lamina_lowering import SourceLine, instruction_lines

__all__ = ["CollectiveInstruction", "parse_collectives"]


class CollectiveInstruction(NamedTuple):
    """A collective instruction.

    Attributes:
      kind: "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute" or "collective-broadcast".
      operand_bytes: size of the operands of each device, in bytes.
      groups: the numbers of the participants, by group; of a permute the pairs (from, to). (): one group of all
        participants; None: in a format that is not parsed here.
      executions: how often it runs; a loop of unknown length counts as one iteration, and all branches as taken.
      in_loop: whether it is in a loop of unknown length.
      in_branch: whether it is in a branch of a conditional.
      line: the user's line, or None if the compiler added the instruction.
    """

    kind: str
    operand_bytes: int
    groups: tuple[tuple[int, ...], ...] | None
    executions: int
    in_loop: bool
    in_branch: bool
    line: SourceLine | None

    def bytes_sent(self, devices: int) -> int | None:
        """Return the bytes that a device sends per execution, among `devices` devices; None if groups are unknown.

        Assumes an algorithm that sends the fewest bytes, such as a ring. With n devices in a group and operands of b
        bytes, rounded up: 2 (n-1)/n b for an all-reduce, (n-1) b for an all-gather. (n-1)/n b for a reduce-scatter or
        an all-to-all, b for a permute or a broadcast.
        """
        if self.groups is None:
            return None
        b, n = self.operand_bytes, max(map(len, self.groups), default=devices)
        if self.kind == "collective-permute":
            return b if any(a != z for a, z in self.groups) else 0
        if n == 1:
            return 0
        # b * times / n bytes. A ring all-reduce is a reduce-scatter followed by an all-gather of parts: 2 (n-1)/n b.
        times = {"all-reduce": 2 * (n - 1), "all-gather": n * (n - 1), "collective-broadcast": n}
        return -(-b * times.get(self.kind, n - 1) // n)


class _Instruction(NamedTuple):
    name: str
    type: str
    op: str
    rest: str  # the text from its operands on


Computation = dict[str, _Instruction]

_KINDS = "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute|collective-broadcast"


def parse_collectives(hlo: str, lines: Mapping[int, SourceLine]) -> tuple[CollectiveInstruction, ...]:
    """Return the collectives of an HLO module, in the order of its text.

    Args:
      hlo: the module's text, with metadata, before or after optimization.
      lines: number of an equation -> its source line, as `source_map()` returns it.
    Returns:
      A `CollectiveInstruction` for each instruction that can run.

    >>> found, = parse_collectives('''
    ... ENTRY %main (x: f32[2,3]) -> f32[2,3] {
    ...   %x = f32[2,3]{1,0} parameter(0)
    ...   ROOT %sum = f32[2,3]{1,0} all-reduce(%x), replica_groups=[2,4]<=[8], to_apply=%add
    ... }''', {})
    >>> found.kind, found.operand_bytes, found.groups, found.bytes_sent(8)
    ('all-reduce', 24, ((0, 1, 2, 3), (4, 5, 6, 7)), 36)
    """
    own_lines, (computations, entry) = instruction_lines(hlo, lines), _parse_computations(hlo)
    # HLO text defines each computation before those that use it. Iterating backwards therefore visits all uses of a
    # computation before the computation itself, so one pass is enough to multiply out the execution counts.
    # name -> (number of executions, in a loop of unknown length, in a branch)
    runs: dict[str, tuple[int, bool, bool]] = {entry: (1, False, False)}
    found: list[tuple[CollectiveInstruction, ...]] = []
    for name, instructions in reversed(computations.items()):
        if name not in runs:
            continue
        times, looped, branched = runs[name]
        own = []
        for i in instructions.values():
            kind = re.fullmatch(rf"({_KINDS})(-start)?", i.op)
            if kind is not None:
                line = own_lines.get(i.name, (None,))[0]
                own.append(CollectiveInstruction(kind[1], _operand_bytes(i, instructions), _parse_groups(i.rest), times, looped,
                                branched, line))
                continue
            # Counts multiply along nested loops and add up over call sites.
            trip_count = _trip_count(i, computations) if i.op == "while" else 1
            for other in _uses(i):
                before = runs.get(other, (0, False, False))
                runs[other] = (before[0] + times * (trip_count or 1), before[1] or looped or trip_count is None,
                               before[2] or branched or i.op == "conditional")
        found.append(tuple(own))
    return tuple([move for own in reversed(found) for move in own])


_INSTRUCTION = r"\s+(?:ROOT )?%?([\w.\-]+) = (.*?) ([a-z][a-z0-9\-]*)\((.*)$"
_COMPUTATION = r"(ENTRY )?%?([\w.\-]+) .*\{\s*$"


def _parse_computations(hlo: str) -> tuple[dict[str, Computation], str]:
    """Parse a module into (name -> computation, name of the entry computation)."""
    instruction, computation_head = re.compile(_INSTRUCTION), re.compile(_COMPUTATION)
    found: dict[str, Computation] = {}
    entry = inside = ""
    for line in hlo.splitlines():
        if line[:1] in ("%", "E") and (head := computation_head.match(line)):
            inside = head[2]
            found[inside] = {}
            if head[1]:
                entry = inside
        elif inside and (match := instruction.match(line)):
            found[inside][match[1]] = _Instruction(*match.groups())
    return found, entry


def _uses(i: _Instruction) -> list[str]:
    """Return the names of the computations that an instruction calls."""
    listed = re.findall(r"(?:calls|branch_computations|called_computations)=\{([^}]*)\}", i.rest)
    names = re.findall(r"(?:calls|to_apply|body|condition|(?:true|false)_computation)=%?([\w.\-]+)", i.rest)
    return names + [name.strip().lstrip("%") for text in listed for name in text.split(",")]


def _trip_count(loop: _Instruction, computations: Mapping[str, Computation]) -> int | None:
    """Return the trip count of a loop; None if unknown.

    The optimizer annotates the count. Before optimization it is known for a `scan`, which counts from 0 in equal steps.
    """
    known = re.search(r'"known_trip_count":\{"n":"(\d+)"\}', loop.rest)
    if known is not None:
        return int(known[1])
    name = re.search(r'op_name="([^"]*)"', loop.rest)
    if name is None or name[1].rpartition("/")[2] != "scan":
        return None
    test, body = [computations[_called_as(loop, attribute)] for attribute in ("condition", "body")]
    limit = _constant(test, next((i for i in test.values() if i.op == "compare"), None))
    count = next(iter(_operands([*body.values()][-1])))  # the first element of the result tuple is the counter
    step = _constant(body, body.get(count))
    return None if limit is None or not step else -(-limit // step)


def _called_as(i: _Instruction, attribute: str) -> str:
    return (re.search(rf"{attribute}=%?([\w.\-]+)", i.rest) or ["", ""])[1]


def _constant(computation: Computation, user: _Instruction | None) -> int | None:
    """Return the value of the constant operand of an instruction; None unless it has exactly one."""
    operands = [computation[name] for name in ([] if user is None else _operands(user)) if name in computation]
    found = [text[0] for i in operands if i.op == "constant" and (text := re.match(r"\d+", i.rest))]
    return int(found[0]) if len(found) == 1 else None


def _operands(i: _Instruction) -> list[str]:
    return re.findall(r"([\w.\-]+)(?:,|$)", i.rest.partition(")")[0])


def _operand_bytes(i: _Instruction, computation: Computation) -> int:
    operands = i.rest.partition(")")[0] if "[" not in i.rest.partition(")")[0] else i.rest.partition("), ")[0]
    if "[" in operands:  # older HLO text repeats the operand types
        return _bytes(operands)
    return sum([_bytes(computation[name].type) for name in _operands(i)])


def _bytes(types: str) -> int:
    """Return the size in bytes of all arrays in the text of a type."""
    total = 0
    for kind, dims in re.findall(r"\b([a-z]+\d*[a-z0-9]*)\[([\d,]*)\]", types):
        # The first number in the name of an element type is its bits, as in bf16, u4 and f8e4m3fn. Types below a byte
        # are packed.
        bits = 8 if kind == "pred" else int((re.search(r"\d+", kind) or ["0"])[0])
        total += -(-bits * math.prod([int(n) for n in dims.split(",") if n]) // 8)
    return total


_GROUPS = (r"(?:replica_groups|source_target_pairs)="
           r"(?:\{((?:\{[\d,\-]*\},?)*)\}|\[([\d,]+)\]<=(\[[\d,]+\](?:T\([\d,]+\))?))")
_MESH = r"replica_groups=mesh\[([^\]]*)\](?:, device_ids=\((.*?)\))? \{([^}]*)\}"


def _parse_groups(text: str) -> tuple[tuple[int, ...], ...] | None:
    """Parse the participant groups of a collective, in one of three formats.

    `{{0,1},{2,3}}`: the groups. `[2,2]<=[2,2]T(1,0)`: the numbers below 4 in a 2 x 2 grid, transposed; each row is a
    group. `mesh['a'=2,'b'=2] {'b'}`: the groups along axis b of a grid with named axes.
    """
    found = re.search(_GROUPS, text)
    if found is None:
        return _parse_mesh_groups(text)
    if found[2] is None:
        return tuple([tuple([n for n in _numbers(group) if n >= 0])
                      for group in re.findall(r"\{([\d,\-]*)\}", found[1])])
    return tuple(map(tuple, _parse_grid(found[3]).reshape(_numbers(found[2])).tolist()))


def _parse_grid(text: str) -> Any:
    """Parse `[2,4]T(1,0)`: the numbers below 8 in a 2 x 4 grid, transposed."""
    sizes, _, order = text.strip("[)").replace("]T(", "]").partition("]")
    grid = np.arange(math.prod(_numbers(sizes))).reshape(_numbers(sizes))
    return grid.transpose(_numbers(order)) if order else grid


def _parse_mesh_groups(text: str) -> tuple[tuple[int, ...], ...] | None:
    found = re.search(_MESH, text)
    if found is None:
        return None if "replica_groups" in text else ()
    sizes = {name: int(n) for name, n in re.findall(r"'([^']*)'=(\d+)", found[1])}
    ids = np.arange(math.prod(sizes.values())) if found[2] is None else (
        _parse_grid(found[2]) if found[2].startswith("[") else np.array(_numbers(found[2])))
    shape: list[int] = []
    group_dims: list[int] = []  # the dimensions of `shape` within a group
    # A group may span a part of an axis: 'a':(2)2 is the second factor if the size of 'a' is 2 * 2 * ...
    parts = {name: (int(before or 1), int(size or sizes[name]))
             for name, before, size in re.findall(r"'([^']*)'(?::\((\d+)\)(\d+))?", found[3])}
    for name, n in sizes.items():
        before, size = parts.get(name, (1, 1))
        group_dims += [len(shape) + 1] if name in parts else []
        shape += [before, size, n // before // size]
    grid = np.moveaxis(ids.reshape(shape), group_dims, range(-len(group_dims), 0))
    return tuple(map(tuple, grid.reshape(-1, math.prod([shape[a] for a in group_dims])).tolist()))


def _numbers(text: str) -> list[int]:
    return [int(n) for n in text.split(",") if n]
