"""What devices send each other, read off the text of an HLO module: of one just lowered, or of what the compiler made of it."""
from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from lamina_lowering import SourceLine, instruction_lines

__all__ = ["Move", "moves_of"]


class Move(NamedTuple):
    """A collective instruction.

    Attributes:
      kind: "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute" or "collective-broadcast".
      operand_bytes: what each device brings, in bytes.
      groups: the participants that meet, group by group, by their numbers; of a permute the pairs (from, to). (): one group of
        all of them; None: the text says it in a form that is not known here.
      times: how often it runs, with one turn for each loop of unknown length and every branch taken.
      looped: whether it stands in a loop of unknown length.
      branched: whether it stands in a branch.
      line: the user's, or None where the compiler added it.
    """

    kind: str
    operand_bytes: int
    groups: tuple[tuple[int, ...], ...] | None
    times: int
    looped: bool
    branched: bool
    line: SourceLine | None

    def sent(self, devices: int) -> int | None:
        """Bytes that a device sends, each time, where `devices` take part in all; None where the groups are not known.

        Those of an algorithm that sends the fewest, such as a ring. With n in a group and b bytes brought: 2 (n-1)/n b of an
        all-reduce, (n-1) b of an all-gather, (n-1)/n b of a reduce-scatter and an all-to-all, b of a permute and a broadcast.
        Rounded up.
        """
        if self.groups is None:
            return None
        b, n = self.operand_bytes, max(map(len, self.groups), default=devices)
        if self.kind == "collective-permute":
            return b if any(a != z for a, z in self.groups) else 0
        if n == 1:
            return 0
        times = {"all-reduce": 2 * (n - 1), "all-gather": n * (n - 1), "collective-broadcast": n}
        return -(-b * times.get(self.kind, n - 1) // n)


class _Instruction(NamedTuple):
    name: str
    type: str
    op: str
    rest: str  # the text from its operands on


Computation = dict[str, _Instruction]

_KINDS = "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute|collective-broadcast"


def moves_of(hlo: str, lines: Mapping[int, SourceLine]) -> tuple[Move, ...]:
    """The collectives of an HLO module, in the order of its text.

    Args:
      hlo: the module's text, with metadata, before or after optimisation.
      lines: number of an equation -> its line, as `source_map()` gives it.
    Returns:
      A `Move` for each instruction that can run.

    >>> found, = moves_of('''
    ... ENTRY %main (x: f32[2,3]) -> f32[2,3] {
    ...   %x = f32[2,3]{1,0} parameter(0)
    ...   ROOT %sum = f32[2,3]{1,0} all-reduce(%x), replica_groups=[2,4]<=[8], to_apply=%add
    ... }''', {})
    >>> found.kind, found.operand_bytes, found.groups, found.sent(8)
    ('all-reduce', 24, ((0, 1, 2, 3), (4, 5, 6, 7)), 36)
    """
    own_lines, (computations, entry) = instruction_lines(hlo, lines), _read(hlo)
    # A computation stands in the text before those that use it, so that going backwards each comes after all its uses.
    # name -> how often it runs, whether in a loop of unknown length, whether in a branch
    runs: dict[str, tuple[int, bool, bool]] = {entry: (1, False, False)}
    found: list[tuple[Move, ...]] = []
    for name, instructions in reversed(computations.items()):
        if name not in runs:
            continue
        times, looped, branched = runs[name]
        own = []
        for i in instructions.values():
            kind = re.fullmatch(rf"({_KINDS})(-start)?", i.op)
            if kind is not None:
                line = own_lines.get(i.name, (None,))[0]
                own.append(Move(kind[1], _operand_bytes(i, instructions), _groups(i.rest), times, looped, branched, line))
                continue
            turns = _turns(i, computations) if i.op == "while" else 1
            for other in _uses(i):
                before = runs.get(other, (0, False, False))
                runs[other] = (before[0] + times * (turns or 1), before[1] or looped or turns is None,
                               before[2] or branched or i.op == "conditional")
        found.append(tuple(own))
    return tuple([move for own in reversed(found) for move in own])


_INSTRUCTION = r"\s+(?:ROOT )?%?([\w.\-]+) = (.*?) ([a-z][a-z0-9\-]*)\((.*)$"
_OPENED = r"(ENTRY )?%?([\w.\-]+) .*\{\s*$"


def _read(hlo: str) -> tuple[dict[str, Computation], str]:
    """(name -> computation, the name of the one that runs first)."""
    instruction, opened = re.compile(_INSTRUCTION), re.compile(_OPENED)
    found: dict[str, Computation] = {}
    entry = inside = ""
    for row in hlo.splitlines():
        if row[:1] in ("%", "E") and (head := opened.match(row)):
            inside = head[2]
            found[inside] = {}
            if head[1]:
                entry = inside
        elif inside and (match := instruction.match(row)):
            found[inside][match[1]] = _Instruction(*match.groups())
    return found, entry


def _uses(i: _Instruction) -> list[str]:
    """The computations that an instruction runs."""
    listed = re.findall(r"(?:calls|branch_computations|called_computations)=\{([^}]*)\}", i.rest)
    names = re.findall(r"(?:calls|to_apply|body|condition|(?:true|false)_computation)=%?([\w.\-]+)", i.rest)
    return names + [name.strip().lstrip("%") for text in listed for name in text.split(",")]


def _turns(loop: _Instruction, computations: Mapping[str, Computation]) -> int | None:
    """How many turns a loop makes: the compiler has found it out, or it is a `scan`, which counts from 0 in equal steps."""
    known = re.search(r'"known_trip_count":\{"n":"(\d+)"\}', loop.rest)
    if known is not None:
        return int(known[1])
    name = re.search(r'op_name="([^"]*)"', loop.rest)
    if name is None or name[1].rpartition("/")[2] != "scan":
        return None
    test, body = [computations[_uses_as(loop, word)] for word in ("condition", "body")]
    limit = _constant(test, next((i for i in test.values() if i.op == "compare"), None))
    count = next(iter(_operands([*body.values()][-1])))  # of the tuple that is the body's result, the first
    step = _constant(body, body.get(count))
    return None if limit is None or not step else -(-limit // step)


def _uses_as(i: _Instruction, word: str) -> str:
    return (re.search(rf"{word}=%?([\w.\-]+)", i.rest) or ["", ""])[1]


def _constant(computation: Computation, user: _Instruction | None) -> int | None:
    """The one constant among the operands of an instruction."""
    given = [computation[name] for name in ([] if user is None else _operands(user)) if name in computation]
    found = [text[0] for i in given if i.op == "constant" and (text := re.match(r"\d+", i.rest))]
    return int(found[0]) if len(found) == 1 else None


def _operands(i: _Instruction) -> list[str]:
    return re.findall(r"([\w.\-]+)(?:,|$)", i.rest.partition(")")[0])


def _operand_bytes(i: _Instruction, around: Computation) -> int:
    given = i.rest.partition(")")[0] if "[" not in i.rest.partition(")")[0] else i.rest.partition("), ")[0]
    if "[" in given:  # older text has the types of operands
        return _bytes(given)
    return sum([_bytes(around[name].type) for name in _operands(i)])


def _bytes(types: str) -> int:
    """Of all arrays that a type speaks of."""
    total = 0
    for kind, dims in re.findall(r"\b([a-z]+\d*[a-z0-9]*)\[([\d,]*)\]", types):
        bits = 8 if kind == "pred" else int((re.search(r"\d+", kind) or ["0"])[0])
        total += -(-bits * math.prod([int(n) for n in dims.split(",") if n]) // 8)
    return total


_GROUPS = (r"(?:replica_groups|source_target_pairs)="
           r"(?:\{((?:\{[\d,\-]*\},?)*)\}|\[([\d,]+)\]<=(\[[\d,]+\](?:T\([\d,]+\))?))")
_MESH = r"replica_groups=mesh\[([^\]]*)\](?:, device_ids=\((.*?)\))? \{([^}]*)\}"


def _groups(text: str) -> tuple[tuple[int, ...], ...] | None:
    """`{{0,1},{2,3}}`, or `[2,2]<=[2,2]T(1,0)`: the numbers up to 4 in two rows, of the transposed grid; or
    `mesh['a'=2,'b'=2] {'b'}`: along an axis of a grid."""
    found = re.search(_GROUPS, text)
    if found is None:
        return _along(text)
    if found[2] is None:
        return tuple([tuple([n for n in _numbers(group) if n >= 0]) for group in re.findall(r"\{([\d,\-]*)\}", found[1])])
    return tuple(map(tuple, _counted(found[3]).reshape(_numbers(found[2])).tolist()))


def _counted(text: str) -> Any:
    """`[2,4]T(1,0)`: the numbers up to 8 in a grid, transposed."""
    sizes, _, order = text.strip("[)").replace("]T(", "]").partition("]")
    grid = np.arange(math.prod(_numbers(sizes))).reshape(_numbers(sizes))
    return grid.transpose(_numbers(order)) if order else grid


def _along(text: str) -> tuple[tuple[int, ...], ...] | None:
    found = re.search(_MESH, text)
    if found is None:
        return None if "replica_groups" in text else ()
    sizes = {name: int(n) for name, n in re.findall(r"'([^']*)'=(\d+)", found[1])}
    ids = np.arange(math.prod(sizes.values())) if found[2] is None else (
        _counted(found[2]) if found[2].startswith("[") else np.array(_numbers(found[2])))
    shape: list[int] = []
    last: list[int] = []  # the axes along which they meet
    # An axis may be named in part: 'a':(2)2 is the second factor of its size as 2 * 2 * ...
    parts = {name: (int(before or 1), int(size or sizes[name]))
             for name, before, size in re.findall(r"'([^']*)'(?::\((\d+)\)(\d+))?", found[3])}
    for name, n in sizes.items():
        before, size = parts.get(name, (1, 1))
        last += [len(shape) + 1] if name in parts else []
        shape += [before, size, n // before // size]
    grid = np.moveaxis(ids.reshape(shape), last, range(-len(last), 0))
    return tuple(map(tuple, grid.reshape(-1, math.prod([shape[a] for a in last])).tolist()))


def _numbers(text: str) -> list[int]:
    return [int(n) for n in text.split(",") if n]
