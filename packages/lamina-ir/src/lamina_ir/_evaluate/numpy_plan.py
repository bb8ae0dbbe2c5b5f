"""Compile a program once to a flat list of NumPy steps, which name the values they read and write by index.

A `NumpyPlan` is memoized with its program and holds no values except literals. A step looks up `Primitive.numpy` when
it runs, so a later `def_impl` takes effect. The implementations in `prims` may prepare work per equation
(prims/_numpy/ufunc_plans.py).
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .._types.avals import shaped
from .._core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from ..typing import Function

__all__ = ["NumpyPlan", "Step", "find_last_uses"]

# (operand count: 1, 2, or 0 for any number and perhaps several results; object whose `.numpy` is called; first operand;
# last operand; all operands; result or results; its type or types; values that die here; the equation).
# A tuple, because unpacking one is cheaper than reading attributes.
Step = tuple[int, Any, int, int, tuple[int, ...], Any, Any, tuple[int, ...], Eqn]


class _Call:
    """A step's function of the operands alone, as an object with `numpy`, so that steps treat it like a primitive."""

    __slots__ = ("numpy",)

    def __init__(self, numpy: Function) -> None:
        self.numpy = numpy


def find_last_uses(jaxpr: Jaxpr) -> list[list[Var]]:
    """List, for each equation, the variables that are dead after it (including its own unread results)."""
    seen: set[Var] = {v for v in jaxpr.outvars if isinstance(v, Var)}
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


class NumpyPlan:
    """The steps that evaluate one program.

    Args:
      jaxpr: the program.
      call: `call(eqn)` returns the NumPy implementation of an equation as a function of its operands, or None if
        `Primitive.numpy` is that function.
      whole: compute every value at its full shape, because an observer sees them all.

    Attributes:
      initial_values: for each value its array if it is a literal, else None. Constants come first, then arguments.
      steps: one per equation, in order.
      outs, has_literal_results: the indices of the results, and whether some are literals.
      peak_bytes, peak_eqn: the most bytes that live values take, and the equation where they do.
    """

    __slots__ = ("initial_values", "steps", "outs", "has_literal_results", "peak_bytes", "peak_eqn")

    def __init__(self, jaxpr: Jaxpr, call: Callable[[Eqn], Callable[..., Function] | None],
                 full_shapes: bool = False) -> None:
        self.initial_values: list[np.ndarray | None] = []
        original = jaxpr
        numbers: dict[Atom, int] = {}

        def number(a: Atom) -> int:
            if type(a) is Literal:
                array = np.array(a.val, a.aval.dtype)
                array.setflags(write=False)  # shared by all runs
                self.initial_values.append(array)
                return len(self.initial_values) - 1
            if a not in numbers:
                numbers[a] = len(self.initial_values)
                self.initial_values.append(None)
            return numbers[a]

        for v in (*jaxpr.constvars, *jaxpr.invars):
            number(v)
        unexpanded = set() if full_shapes else _find_unexpanded(jaxpr)
        if unexpanded:
            jaxpr = _drop_leading_broadcasts(jaxpr, unexpanded)
        dead = find_last_uses(jaxpr)
        self.steps: list[Step] = []
        for e, gone in zip(jaxpr.eqns, dead):
            operands = tuple([number(a) for a in e.invars])
            outs: Any = tuple([number(v) for v in e.outvars])
            types: Any = [v.aval for v in e.outvars]
            count = 0
            function: Function | None
            if not e.primitive.multiple:
                outs, types = outs[0], types[0]
                # One or two operands are read without building a list; see `_walk`.
                count = len(operands) if len(operands) < 3 else 0
            if e.outvars and e.outvars[0] in unexpanded:
                shape = _unexpanded_shape(e)
                function, types = _reshape_to(shape), shaped(shape, types.dtype)
            else:
                function = _prepare(e) or call(e)
            self.steps.append((count, e.primitive if function is None else _Call(function), operands[0] if operands else -1,
                               operands[-1] if operands else -1, operands, outs, types, tuple([numbers[v] for v in gone]), e))
        self.outs = [number(a) for a in jaxpr.outvars]
        self.has_literal_results = any(type(a) is Literal for a in jaxpr.outvars)
        # The memory limit is about the program as written, so it does not depend on these optimizations.
        self.peak_bytes, self.peak_eqn = _peak_memory(original, find_last_uses(original) if unexpanded else dead)

    @staticmethod
    def of(program: ClosedJaxpr, call: Callable[[Eqn], Callable[..., Function] | None],
           full_shapes: bool = False) -> NumpyPlan:
        """Return the memoized plan of a program."""
        key = "full_shape_plan" if full_shapes else "numpy_plan"
        found: NumpyPlan = program.memo(key, lambda: NumpyPlan(program.jaxpr, call, full_shapes))
        return found


def _reshape_to(shape: tuple[int, ...]) -> Function:
    return lambda x: x.reshape(shape)


def _prepare(e: Eqn) -> Function | None:
    """Return a faster equivalent of the NumPy implementation for the operand types of this equation, or None."""
    prim, params, implementation = e.primitive, e.params, e.primitive.numpy
    prepare = getattr(implementation, "prepare", None)
    prepared = prepare and prepare([a.aval for a in e.invars], **params)
    if prepared is None:
        return None
    # `def_impl` may replace `prim.numpy` later; the prepared function is only valid for the implementation it came
    # from.
    if len(e.invars) == 2:
        return lambda x, y: prepared(x, y) if prim.numpy is implementation else prim.numpy(x, y, **params)
    return lambda *arrays: prepared(*arrays) if prim.numpy is implementation else prim.numpy(*arrays, **params)


# --- broadcasts ---------------------------------------------------------------------------------------------------
def _find_unexpanded(jaxpr: Jaxpr) -> set[Var]:
    """Find broadcast results that need not be materialized: every reader has another operand of the full shape, so
    NumPy's own broadcasting expands them while computing."""
    found = {e.outvars[0] for e in jaxpr.eqns if getattr(e.primitive.numpy, "unexpanded_shape", None)}
    if not found:
        return found
    # The caller gets results in their full shape.
    found.difference_update(a for a in jaxpr.outvars if type(a) is not Literal)
    broadcast = frozenset(found)
    for e in jaxpr.eqns:
        small = [a for a in e.invars if type(a) is not Literal and a in broadcast]
        if small:
            has_full_operand = getattr(e.primitive.numpy, "broadcasts", False) and any(
                a.aval.shape == small[0].aval.shape and (type(a) is Literal or a not in broadcast) for a in e.invars)
            if not has_full_operand:
                found.difference_update(small)
    return found


def _unexpanded_shape(e: Eqn) -> tuple[int, ...]:
    """Return the operand's shape with as many axes as the result, and length 1 along the expanded ones."""
    shape: tuple[int, ...] = e.primitive.numpy.unexpanded_shape(  # type: ignore[attr-defined]
        [a.aval for a in e.invars], **e.params)
    return shape


def _drop_leading_broadcasts(jaxpr: Jaxpr, unexpanded: set[Var]) -> Jaxpr:
    """Remove broadcasts along leading axes only: NumPy adds leading axes itself, so not even a reshape is needed."""
    sources: dict[Atom, Atom] = {}
    for e in jaxpr.eqns:
        if e.outvars and e.outvars[0] in unexpanded:
            shape, x = _unexpanded_shape(e), e.invars[0]
            if shape[len(shape) - len(x.aval.shape):] == x.aval.shape:
                sources[e.outvars[0]] = x
    if not sources:
        return jaxpr
    eqns = [e if sources.keys().isdisjoint(e.invars) else e.replace(invars=[sources.get(a, a) for a in e.invars])
            for e in jaxpr.eqns if not e.outvars or e.outvars[0] not in sources]
    return Jaxpr(jaxpr.constvars, jaxpr.invars, eqns, jaxpr.outvars, jaxpr.axis_names, jaxpr.effectful)


def _peak_memory(jaxpr: Jaxpr, dead: list[list[Var]]) -> tuple[int, Eqn | None]:
    """Return the most bytes that live values take, and the equation where they do (None: the arguments alone)."""
    def size_in_bytes(vs: Iterable[Atom]) -> int:
        return sum([v.aval.size * v.aval.dtype.itemsize for v in vs])

    live = peak = size_in_bytes([*jaxpr.constvars, *jaxpr.invars])
    peak_eqn = None
    for e, gone in zip(jaxpr.eqns, dead):
        live += size_in_bytes(e.outvars)
        if live > peak:
            peak, peak_eqn = live, e
        live -= size_in_bytes(gone)
    return peak, peak_eqn
