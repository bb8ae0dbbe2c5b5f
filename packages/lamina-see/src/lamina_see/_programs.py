"""The equations of a program by number, with the scope, phase and number of executions of each.

A compiled program gives its equations as `lamina_lowering` numbered them, so that instructions can be found by number.
Without a compiled program the equations are numbered here, in the same order.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, prims, subprograms

__all__ = ["Block", "Numbered", "Scope", "number_program", "read_blocks"]


class Block(NamedTuple):
    """Equations with consecutive numbers: see `lamina_lowering`'s `EquationBlock`."""

    program: Jaxpr
    eqns: Sequence[Eqn]
    path: str | None
    parent_number: int


@dataclass
class Scope:
    """A named scope, called function or loop: `repeated` times in each execution of its parent."""

    name: str
    parent: int | None
    repeated: int


@dataclass
class Numbered:
    """An equation with its place in the program.

    Attributes:
      number, eqn: the equation.
      parent: the number of the equation whose program holds it; 0 if there is none.
      scope: the index of its scope.
      count: its executions.
      phase: `forward`, `backward` or `recomputed`.
    """

    number: int
    eqn: Eqn
    parent: int
    scope: int = 0
    count: int = 1
    phase: str = "forward"


@dataclass
class _Counts:
    """Executions of blocks: each block with the blocks that hold its callers, and how often these run it."""

    callers: list[list[tuple[int, int]]]
    found: dict[int, int] = field(default_factory=dict)

    def of(self, block: int) -> int:
        todo = [block]
        while todo:  # not recursive, because calls may be nested deeply
            b = todo[-1]
            missing = [c for c, _ in self.callers[b] if c not in self.found and c != b]
            if missing and len(todo) <= len(self.callers) + 1:
                todo += missing
                continue
            self.found[b] = sum([self.found.get(c, 1) * times for c, times in self.callers[b]]) or 1
            todo.pop()
        return self.found[block]


def number_program(closed: ClosedJaxpr) -> list[Block]:
    """Number the equations of a program and of its nested programs; those of a program that is called often once."""
    blocks: list[Block] = []
    seen: set[int] = set()
    todo: list[tuple[Jaxpr, int]] = [(closed.jaxpr, 0)]
    number = 1
    while todo:
        jaxpr, parent = todo.pop(0)
        if id(jaxpr) in seen:
            continue
        seen.add(id(jaxpr))
        blocks.append(Block(jaxpr, jaxpr.eqns, None, parent))
        for e in jaxpr.eqns:
            if e.primitive.subprograms:
                todo += [(s.jaxpr, number) for s in subprograms(e)]
            number += 1
    return blocks


def _iterations(e: Eqn) -> tuple[int, bool]:
    """Return how often an equation runs its program, and whether that is known."""
    signature = e.primitive.region_signature
    if signature is None:
        return 1, True
    if signature.length:
        return int(e.params[signature.length]), True
    if signature.loops:
        found = e.params[signature.max_iters] if signature.max_iters else None
        return (1, False) if found is None else (int(found), True)
    return math.prod([size for _, size in signature.axes(e.params)]), True


def read_blocks(blocks: Sequence[Any], name: str, parts: dict[int, str],
                members: int = 1) -> tuple[list[Numbered], list[Scope], list[str]]:
    """Return the equations of a program by number, its scopes, and sentences on what is unknown.

    Args:
      blocks: the blocks, in the order of numbers.
      name: of the function.
      parts: number -> part of a derivative, see `lamina_ir.Source`.
      members: how many devices run the program, each on its own arguments.
    """
    rows: list[Numbered] = []
    holder: list[int] = []  # the block of each equation
    for k, block in enumerate(blocks):
        rows += [Numbered(len(rows) + 1 + i, e, block.parent_number) for i, e in enumerate(block.eqns)]
        holder += [k] * len(block.eqns)
    problems: list[str] = []
    counts = _count_blocks(blocks, rows, holder, members, problems)
    scopes = [Scope(name, None, 1)]
    known: dict[tuple[int, str], int] = {}
    block_scope: list[int] = []

    def enter(parent: int, label: str, repeated: int = 1) -> int:
        found = known.get((parent, label))
        if found is None:
            found = known[parent, label] = len(scopes)
            scopes.append(Scope(label, parent, repeated))
        return found

    is_recomputing: list[bool] = []
    at = 0
    for k, block in enumerate(blocks):
        parent = rows[block.parent_number - 1] if block.parent_number else None
        recomputes = False
        if parent is None:
            block_scope.append(0)
        else:
            outer = holder[parent.number - 1]
            e = parent.eqn
            label = str(e.params.get("name") or e.primitive.name)
            repeated = max(1, counts[k] // max(1, counts[outer]))
            block_scope.append(enter(parent.scope, label, repeated))
            recomputes = is_recomputing[outer] or _recomputes(e)
        is_recomputing.append(recomputes)
        for row in rows[at:at + len(block.eqns)]:
            scope, source = block_scope[k], row.eqn.source
            for label in filter(None, source.scope.split("/") if source is not None else ()):
                scope = enter(scope, label)
            row.scope, row.count = scope, counts[k]
            own = "" if source is None else source.part
            row.phase = ("recomputed" if recomputes and not own else
                         "backward" if own or parts.get(row.number, "") else "forward")
        at += len(block.eqns)
    problems += _mixed_phases(blocks, rows, holder, is_recomputing)
    return rows, scopes, problems


def _recomputes(e: Eqn) -> bool:
    """Return whether an equation computes values again for the backward pass."""
    return e.primitive is prims.remat_p and bool(e.params["differentiated"])


def _mixed_phases(blocks: Sequence[Any], rows: Sequence[Numbered], holder: Sequence[int],
                  is_recomputing: Sequence[bool]) -> list[str]:
    """Return a sentence on functions that are emitted once, and called in the first computation and in the second one."""
    of_program = {id(block.program): k for k, block in reversed(list(enumerate(blocks)))}
    names: dict[str, None] = {}
    for row in rows:
        for s in subprograms(row.eqn) if row.eqn.primitive.subprograms else ():
            k = of_program.get(id(s.jaxpr))
            again = is_recomputing[holder[row.number - 1]] or _recomputes(row.eqn)
            if k is not None and blocks[k].parent_number != row.number and again != is_recomputing[k]:
                names[str(row.eqn.params.get("name") or row.eqn.primitive.name)] = None
    if not names:
        return []
    listed = ", ".join([f"`{name}`" for name in names])
    return [f"The compiled program has one copy of {listed} for the first computation and the recomputation, so the time of "
            "both counts as that of the first call."]


def _count_blocks(blocks: Sequence[Any], rows: Sequence[Numbered], holder: Sequence[int], members: int,
                  problems: list[str]) -> list[int]:
    """Return the executions of each block."""
    of_program: dict[int, int] = {}
    children: dict[int, set[int]] = {}
    for k, block in enumerate(blocks):
        of_program.setdefault(id(block.program), k)
        children.setdefault(block.parent_number, set()).add(id(block.program))
    callers: list[list[tuple[int, int]]] = [[] for _ in blocks]
    for k, block in enumerate(blocks):
        if block.parent_number:
            parent = rows[block.parent_number - 1]
            callers[k].append((holder[parent.number - 1], _iterations(parent.eqn)[0]))
    unknown: list[Numbered] = []
    for row in rows:
        if not row.eqn.primitive.subprograms:
            continue
        times, is_known = _iterations(row.eqn)
        if not is_known:
            unknown.append(row)
        own = children.get(row.number, set())
        for s in subprograms(row.eqn):
            shared = of_program.get(id(s.jaxpr))
            if id(s.jaxpr) not in own and shared is not None and shared != holder[row.number - 1]:
                callers[shared].append((holder[row.number - 1], times))
    if unknown:
        problems.append(f"The number of iterations of {len(unknown)} while loop{'s' * (len(unknown) > 1)} is unknown, so "
                        "flops, bytes and counts in it are those of one iteration.")
    counts = _Counts(callers)
    found = [counts.of(k) for k in range(len(blocks))]
    return [n * members for n in found]
