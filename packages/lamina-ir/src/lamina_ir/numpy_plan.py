"""A program made ready for NumPy, once: its values are numbered, its equations are steps that say which they read and write.

A `Plan` is remembered with its program. It holds no value but literals; meanings are looked up in the ops at each step, so what
`def_impl` says later holds.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .avals import ShapedArray
from .program import ClosedJaxpr, Eqn, Jaxpr, Literal, Var

__all__ = ["Plan", "Step", "last_uses"]

# (what has the meaning, operands: the first, the second if there are exactly two, all; results: number or numbers, type or
# types; values nothing reads later; the equation). A tuple, since unpacking one costs less than asking an object.
Step = tuple[Any, int, int, tuple[int, ...], Any, Any, tuple[int, ...], Eqn]


class _Call:
    """Stands for an op that takes more than its operands: `numpy(*arrays)` is its meaning with all else given."""

    __slots__ = ("numpy",)

    def __init__(self, numpy: Callable[..., Any]) -> None:
        self.numpy = numpy


def last_uses(jaxpr: Jaxpr) -> list[list[Var]]:
    """For each equation, the variables that nothing reads after it (its own unread results included)."""
    seen: set[Any] = {v for v in jaxpr.outvars if isinstance(v, Var)}
    dead: list[list[Var]] = []
    for e in reversed(jaxpr.eqns):
        here = []
        for v in (*e.outvars, *e.invars):
            if isinstance(v, Var) and v not in seen:
                seen.add(v)
                here.append(v)
        dead.append(here)
    dead.reverse()
    return dead


class Plan:
    """What is done to evaluate one program.

    Args:
      jaxpr: the program.
      call: `call(eqn)` gives the meaning of an equation that takes more than operands, as a function of these; None: the op's.

    Attributes:
      start: for each value its array, if it is a literal, else None. Constants come first, then arguments.
      steps: the equations, in order.
      outs: the results' numbers.
      most, where: the most bytes that values take at once, and the equation at which they do.
    """

    __slots__ = ("start", "steps", "outs", "most", "where")

    def __init__(self, jaxpr: Jaxpr, call: Callable[[Eqn], Callable[..., Any] | None]) -> None:
        self.start: list[np.ndarray | None] = []
        numbers: dict[Any, int] = {}

        def number(a: Any) -> int:
            if type(a) is Literal:
                array = np.array(a.val, a.aval.dtype)
                array.setflags(write=False)  # each run reads the same one
                self.start.append(array)
                return len(self.start) - 1
            if a not in numbers:
                numbers[a] = len(self.start)
                self.start.append(None)
            return numbers[a]

        for v in (*jaxpr.constvars, *jaxpr.invars):
            number(v)
        dead = last_uses(jaxpr)
        self.steps: list[Step] = []
        for e, gone in zip(jaxpr.eqns, dead):
            operands = tuple([number(a) for a in e.invars])
            meaning = call(e)
            outs: Any = tuple([number(v) for v in e.outvars])
            types: Any = [v.aval for v in e.outvars]
            if not e.primitive.multiple:
                outs, types = outs[0], types[0]
            self.steps.append((e.primitive if meaning is None else _Call(meaning), operands[0] if operands else -1,
                               operands[1] if len(operands) == 2 else -1, operands, outs, types,
                               tuple([numbers[v] for v in gone]), e))
        self.outs = [number(a) for a in jaxpr.outvars]
        self.most, self.where = _largest(jaxpr, dead)

    @staticmethod
    def of(program: ClosedJaxpr, call: Callable[[Eqn], Callable[..., Any] | None]) -> Plan:
        """The plan of a program, made at most once."""
        found: Plan = program.memo("numpy_plan", lambda: Plan(program.jaxpr, call))
        return found


def _largest(jaxpr: Jaxpr, dead: list[list[Var]]) -> tuple[int, Eqn | None]:
    def taken(vs: Iterable[Any]) -> int:
        return sum([_bytes(v.aval) for v in vs])

    live = most = taken([*jaxpr.constvars, *jaxpr.invars])
    where = None
    for e, gone in zip(jaxpr.eqns, dead):
        live += taken(e.outvars)
        if live > most:
            most, where = live, e
        live -= taken(gone)
    return most, where


def _bytes(aval: ShapedArray) -> int:
    return aval.size * aval.dtype.itemsize
