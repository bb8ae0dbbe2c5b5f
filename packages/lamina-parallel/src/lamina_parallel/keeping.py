"""Which phases make the values of a program, so that as little as can be is kept for later ones.

What is kept has all positions at once. So an equation waits for the phase that reads it where that keeps less (`put_off`), and
what a few cheap ones make of what is there anyway they make again (`with_repeated`).
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from lamina_ir import Eqn
from lamina_ir.extend import FEW, is_cheap

__all__ = ["phase_of", "put_off", "with_repeated"]

_FAR = 64  # equations that are looked at together


def put_off(mine: Sequence[Eqn], others: Sequence[tuple[int, Eqn]], phase: dict[Any, int], whole: set[Any]) -> None:
    """Equations wait for the first phase that reads what they make, where no more has to be kept for them than for that.
    What is `whole` is kept in any case."""
    due: dict[Any, int] = {}  # the phase by which something has to be made
    for at, e in others:
        for v in e.invars:
            due[v] = min(at - 1, due.get(v, at))
    made: dict[Any, Eqn] = {v: e for e in mine for v in e.outvars}
    readers: dict[Any, Counter[int]] = {}  # in which phases something is read, and by how many equations
    for e in mine:
        for v in {*e.invars}:
            readers.setdefault(v, Counter())[phase_of(e, phase)] += 1

    def first(e: Eqn) -> int | None:
        """The first phase that reads what an equation makes."""
        asked = [p for v in e.outvars for p, n in readers.get(v, {}).items() if n]
        return min([*asked, *[due[v] for v in e.outvars if v in due]], default=None)

    def move(e: Eqn, old: int, new: int) -> None:
        for v in {*e.invars}:
            readers[v][old] -= 1
            readers[v][new] += 1

    def lost(v: Any) -> bool:
        """Whether what a phase makes is read by none behind it."""
        return v not in whole and not any(n and p > phase[v] for p, n in readers.get(v, {}).items())

    for e in reversed(mine):
        new = first(e)
        if new is None or new <= phase_of(e, phase):
            continue
        # The equation, and with it those whose results nothing else needs before, until what they read is no more.
        group, old = [e], {id(e): phase_of(e, phase)}
        gain = _bytes([v for v in e.outvars if v not in whole and not any(
            n and p > new for p, n in readers.get(v, {}).items())])
        edge = {v for v in e.invars if v in phase and lost(v)}
        move(e, old[id(e)], new)
        while edge and _bytes(edge) > gain and len(group) < _FAR:
            more = next((made[v] for v in edge if (first(made[v]) or 0) >= new), None)
            if more is None:
                break
            group.append(more)
            old[id(more)] = phase_of(more, phase)
            edge = edge.difference(more.outvars) | {v for v in more.invars if v in phase and lost(v)}
            move(more, old[id(more)], new)
        moves = gain and _bytes(edge) <= gain
        for e in group:
            if moves:
                phase.update(dict.fromkeys(e.outvars, new))
            else:
                move(e, new, old[id(e)])


def with_repeated(mine: Sequence[Eqn], phase: dict[Any, int], whole: set[Any], count: int) -> list[list[Eqn]]:
    """The equations of each phase, and with them those of earlier ones that are cheap to repeat, where what they read is there:
    then what they make is not kept. What is `whole` is kept in any case."""
    later = whole | {v for e in mine for v in e.invars if v in phase and phase[v] < phase_of(e, phase)}
    recipes: dict[Any, tuple[int, ...] | None] = {}  # how to make a value of what is kept; (): it is; None: by too much work
    for i, e in enumerate(mine):
        parts = [recipes[v] for v in e.invars if v in recipes]
        recipe = None
        if is_cheap(e) and None not in parts:
            recipe = tuple(sorted({i}.union(*parts)))  # type: ignore[arg-type]
        for v in e.outvars:
            small = recipe is not None and len(recipe) <= FEW and v not in whole
            recipes[v] = recipe if small else () if v in later else None
    inside: list[set[int]] = [set() for _ in range(count)]
    for i, e in enumerate(mine):
        at = phase_of(e, phase)
        inside[at].add(i)
        for a in e.invars:
            if a in phase and phase[a] < at:
                inside[at].update(recipes[a] or ())
    return [[mine[i] for i in sorted(numbers)] for numbers in inside]


def phase_of(e: Eqn, phase: dict[Any, int]) -> int:
    return max([phase[v] for v in e.outvars], default=0)


def _bytes(values: Iterable[Any]) -> int:
    return sum([v.aval.size * v.aval.dtype.itemsize for v in values])
