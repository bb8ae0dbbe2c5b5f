"""A program made ready for NumPy, once: its values are numbered, its equations are steps that say which they read and write.

A `Plan` is remembered with its program. It holds no values but literals. Meanings are looked up in the ops at each step, so
what `def_impl` says later holds; those of `prims` may say what can be done ahead (prims/_quiet.py).
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .avals import shaped
from .program import ClosedJaxpr, Eqn, Jaxpr, Literal, Var

__all__ = ["Plan", "Step", "last_uses"]

# (how many operands it is called with: 1, 2, or 0: any number and perhaps several results; what has the meaning; the first
# operand, the second, all; result or results; its type or types; what nothing reads later; the equation). A tuple: to unpack
# one costs less than to ask an object.
Step = tuple[int, Any, int, int, tuple[int, ...], Any, Any, tuple[int, ...], Eqn]


class _Call:
    """Stands for an op that is called with more than its operands, or with less ado: `numpy(*arrays)`."""

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
      whole: each value is computed as it is, because somebody looks at all of them.

    Attributes:
      start: for each value its array, if it is a literal, else None. Constants come first, then arguments.
      steps: the equations, in order.
      outs, gives_literals: the results' numbers, and whether some are literals.
      most, where: the most bytes that values take at once, and the equation at which they do.
    """

    __slots__ = ("start", "steps", "outs", "gives_literals", "most", "where")

    def __init__(self, jaxpr: Jaxpr, call: Callable[[Eqn], Callable[..., Any] | None], whole: bool = False) -> None:
        self.start: list[np.ndarray | None] = []
        written = jaxpr
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
        thin = set() if whole else _unrepeated(jaxpr)
        if thin:
            jaxpr = _without_rows(jaxpr, thin)
        dead = last_uses(jaxpr)
        self.steps: list[Step] = []
        for e, gone in zip(jaxpr.eqns, dead):
            operands = tuple([number(a) for a in e.invars])
            outs: Any = tuple([number(v) for v in e.outvars])
            types: Any = [v.aval for v in e.outvars]
            count = 0
            meaning: Callable[..., Any] | None
            if not e.primitive.multiple:
                outs, types = outs[0], types[0]
                count = len(operands) if len(operands) < 3 else 0
            if e.outvars and e.outvars[0] in thin:
                shape = _thin(e)
                meaning, types = _reshaping(shape), shaped(shape, types.dtype)
            else:
                meaning = _prepared(e) or call(e)
            self.steps.append((count, e.primitive if meaning is None else _Call(meaning), operands[0] if operands else -1,
                               operands[-1] if operands else -1, operands, outs, types, tuple([numbers[v] for v in gone]), e))
        self.outs = [number(a) for a in jaxpr.outvars]
        self.gives_literals = any(type(a) is Literal for a in jaxpr.outvars)
        self.most, self.where = _largest(written, last_uses(written) if thin else dead)

    @staticmethod
    def of(program: ClosedJaxpr, call: Callable[[Eqn], Callable[..., Any] | None], whole: bool = False) -> Plan:
        """The plan of a program, made at most once."""
        found: Plan = program.memo("whole_plan" if whole else "numpy_plan", lambda: Plan(program.jaxpr, call, whole))
        return found


def _reshaping(shape: tuple[int, ...]) -> Callable[..., Any]:
    return lambda x: x.reshape(shape)


def _prepared(e: Eqn) -> Callable[..., Any] | None:
    """What does the same as the meaning, on arrays of the types that the equation has."""
    prim, params, meaning = e.primitive, e.params, e.primitive.numpy
    prepare = getattr(meaning, "prepare", None)
    ready = prepare and prepare([a.aval for a in e.invars], **params)
    if ready is None:
        return None
    if len(e.invars) == 2:
        return lambda x, y: ready(x, y) if prim.numpy is meaning else prim.numpy(x, y, **params)
    return lambda *arrays: ready(*arrays) if prim.numpy is meaning else prim.numpy(*arrays, **params)


def _unrepeated(jaxpr: Jaxpr) -> set[Any]:
    """Results whose elements need not be repeated in memory: all who read them repeat them as they compute, since they have
    another operand of the full shape."""
    found = {e.outvars[0] for e in jaxpr.eqns if getattr(e.primitive.numpy, "unrepeated", None)}
    if not found:
        return found
    found.difference_update(a for a in jaxpr.outvars if type(a) is not Literal)
    repeated = frozenset(found)
    for e in jaxpr.eqns:
        thin = [a for a in e.invars if type(a) is not Literal and a in repeated]
        if thin:
            full = getattr(e.primitive.numpy, "stretches", False) and any(
                a.aval.shape == thin[0].aval.shape and (type(a) is Literal or a not in repeated) for a in e.invars)
            if not full:
                found.difference_update(thin)
    return found


def _thin(e: Eqn) -> tuple[int, ...]:
    shape: tuple[int, ...] = e.primitive.numpy.unrepeated([a.aval for a in e.invars], **e.params)  # type: ignore[attr-defined]
    return shape


def _without_rows(jaxpr: Jaxpr, thin: set[Any]) -> Jaxpr:
    """The program without equations that repeat a number, or a row along axes in front: NumPy does that of itself."""
    rows: dict[Any, Any] = {}
    for e in jaxpr.eqns:
        if e.outvars and e.outvars[0] in thin:
            shape, x = _thin(e), e.invars[0]
            if shape[len(shape) - len(x.aval.shape):] == x.aval.shape:
                rows[e.outvars[0]] = x
    if not rows:
        return jaxpr
    eqns = [e if rows.keys().isdisjoint(e.invars) else e.replace(invars=[rows.get(a, a) for a in e.invars])
            for e in jaxpr.eqns if not e.outvars or e.outvars[0] not in rows]
    return Jaxpr(jaxpr.constvars, jaxpr.invars, eqns, jaxpr.outvars, jaxpr.axis_names, jaxpr.effectful)


def _largest(jaxpr: Jaxpr, dead: list[list[Var]]) -> tuple[int, Eqn | None]:
    def taken(vs: Iterable[Any]) -> int:
        return sum([v.aval.size * v.aval.dtype.itemsize for v in vs])

    live = most = taken([*jaxpr.constvars, *jaxpr.invars])
    where = None
    for e, gone in zip(jaxpr.eqns, dead):
        live += taken(e.outvars)
        if live > most:
            most, where = live, e
        live -= taken(gone)
    return most, where
