"""Reduce a failing program to a small one that fails in the same way.

Each step proposes smaller programs and keeps those that still fail:

1. one equation alone, if it is known which one failed;
2. calls inlined; one result instead of all; the first equations only;
3. equations replaced by their recorded values, which become arguments (delta debugging over sets of equations);
4. a nested program in place of its loop, branch or call, with the operands of one iteration; a loop that begins at a later
   iteration, or has fewer;
5. equations anywhere replaced by one of their operands, or by zeros;
6. smaller sizes.

The steps are repeated until none helps.
"""
from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from lamina_ir import (Atom, ClosedJaxpr, DropVar, Eqn, Jaxpr, LaminaError, Literal, ShapedArray, Var, check, dce,
                       eqn_has_effects, evaluate, inline_calls, prims, rewrite, shaped, subprograms, walk)
from lamina_ir.extend import RegionView, SCANNED

from .equations import expose_values, operand_vars, single_equation

__all__ = ["Shrunk", "count_equations", "shrink"]

Arrays = Sequence[np.ndarray]
Fails = Callable[[ClosedJaxpr, Arrays], bool]
_MAX_ITERATIONS = 256  # of a loop, whose operands are tried
_ERRORS = (LaminaError, ValueError, TypeError, LookupError, AttributeError, MemoryError, ArithmeticError, RecursionError)


class Case(NamedTuple):
    """A program with its arguments."""

    program: ClosedJaxpr
    arguments: Arrays


class Shrunk(NamedTuple):
    """The result of `shrink`.

    Attributes:
      program, arguments: the smallest failing program, and its arguments.
      tests: the number of programs that were tried.
      is_complete: whether no step makes it smaller; False if time ran out before.
    """

    program: ClosedJaxpr
    arguments: Arrays
    tests: int
    is_complete: bool


def count_equations(program: ClosedJaxpr) -> int:
    """Return the number of equations of a program and its nested programs."""
    return sum(1 for _ in walk(program))


def _size(case: Case) -> tuple[int, int, int]:
    jaxpr = case.program.jaxpr
    values = sum(v.aval.size for e in walk(case.program) for v in e.outvars) + sum(np.size(a) for a in case.arguments)
    return count_equations(case.program), values + sum(np.size(c) for c in case.program.consts), \
        len(jaxpr.outvars) + len(jaxpr.invars)


class _Shrinker:
    """One search for a smaller program.

    Attributes:
      best: the smallest failing program so far.
      tests: the number of programs that were tried.
    """

    def __init__(self, case: Case, fails: Fails, seconds: float) -> None:
        self.best, self.fails, self.tests = case, fails, 0
        self.deadline = time.monotonic() + seconds

    @property
    def is_out_of_time(self) -> bool:
        return time.monotonic() > self.deadline

    def accept(self, case: Case | None) -> bool:
        """Keep a case if it is smaller and fails; return whether it was kept."""
        if case is None or self.is_out_of_time:
            return False
        try:
            case = _tidy(case)
            if _size(case) >= _size(self.best):
                return False
            check(case.program)
            self.tests += 1
            if not self.fails(case.program, case.arguments):
                return False
        except _ERRORS:
            return False
        self.best = case
        return True

    def run(self) -> None:
        """Repeat all steps until none helps."""
        steps = (self._inline, self._keep_one_result, self._cut_end, self._replace_by_values, self._enter, self._shorten_loops,
                 self._drop_equations, self._reduce_sizes)
        changed = True
        while changed and not self.is_out_of_time:
            successes = [step() for step in steps]
            changed = any(successes)

    # --- the steps ------------------------------------------------------------------------------------------------
    def _inline(self) -> bool:
        program, arguments = self.best
        flat = inline_calls(program)
        return flat is not program and self.accept(Case(flat, arguments))

    def _keep_one_result(self) -> bool:
        program, arguments = self.best
        n = len(program.jaxpr.outvars)
        return n > 1 and any(self.accept(_with_results(self.best, [a])) for a in program.jaxpr.outvars)

    def _cut_end(self) -> bool:
        """Return the results of an earlier equation, without the equations after it."""
        eqns, changed = self.best.program.eqns, False
        low, high = 0, len(eqns) - 1
        # If each longer program fails too, this finds the first equation after which it fails.
        while low < high:
            middle = (low + high) // 2
            if self.accept(self._prefix(eqns, middle + 1)):
                changed, eqns = True, self.best.program.eqns
                low, high = min(low, len(eqns) - 1), min(middle, len(eqns) - 1)
            else:
                low = middle + 1
        return changed

    def _prefix(self, eqns: Sequence[Eqn], n: int) -> Case:
        program, arguments = self.best
        outs = [v for v in eqns[n - 1].outvars if not isinstance(v, DropVar)]
        jaxpr = Jaxpr(program.jaxpr.constvars, program.jaxpr.invars, eqns[:n], outs)
        return Case(ClosedJaxpr(jaxpr, program.consts), arguments)

    def _replace_by_values(self) -> bool:
        """Make values arguments, and drop the equations that compute them: sets of equations, in halves (ddmin)."""
        values = _record(self.best)
        if values is None:
            return False
        changed, parts = False, 2
        eqns = list(self.best.program.eqns)
        while len(eqns) > 1 and not self.is_out_of_time:
            size = max(1, len(eqns) // parts)
            chunks = [eqns[i:i + size] for i in range(0, len(eqns), size)]
            for chunk in chunks:
                dropped = {id(e) for e in chunk}
                kept = [e for e in eqns if id(e) not in dropped]
                if kept and self.accept(_from_values(self.best, kept, values)):
                    alive = {v for e in self.best.program.eqns for v in e.outvars}
                    eqns = [e for e in kept if eqn_has_effects(e) or any(v in alive for v in e.outvars)]
                    changed, parts = True, max(parts - 1, 2)
                    break
            else:
                if size == 1:
                    break
                parts = min(len(eqns), parts * 2)
        return changed

    def _enter(self) -> bool:
        """Replace a program that is one loop, branch, call or map by its body, with the operands of an iteration."""
        program, arguments = self.best
        nested = [e for e in program.eqns if e.primitive.subprograms]
        if not nested:
            return False
        values = _record(self.best)
        if values is None:
            return False
        for e in nested:
            atoms = [np.asarray(a.val, a.aval.dtype) if type(a) is Literal else values[a] for a in e.invars]
            for body, ins in _iterations(e, atoms):
                if self.is_out_of_time:
                    return False
                if self.accept(Case(body, [np.asarray(x, a.dtype) for x, a in zip(ins, body.in_avals)])):
                    return True
        return False

    def _shorten_loops(self) -> bool:
        """Let loops begin later, and scans have fewer iterations."""
        changed = False
        for e in list(self.best.program.eqns):
            if e.primitive is prims.scan_p and e in self.best.program.eqns:
                changed = self._shorten_scan(e) or changed
        return changed

    def _shorten_scan(self, e: Eqn) -> bool:
        values = _record(self.best)
        if values is None or len(self.best.program.eqns) > 1:
            return False
        n_const, n_carry = e.params["num_consts"], e.params["num_carry"]
        first = n_const + n_carry
        changed = False
        while True:
            length = e.params["length"]
            atoms = [a if type(a) is Literal else values[a] for a in e.invars]
            for n in sorted({1, 2, length // 2, length - 1}):
                if 0 < n < length and self.accept(_shorter_scan(e, atoms, first, n)):
                    break
            else:
                return changed
            changed, (e,) = True, self.best.program.eqns
            values = _record(self.best)
            if values is None:
                return changed

    def _drop_equations(self) -> bool:
        """Replace equations, also nested ones, by an operand or by zeros."""
        changed, index = False, 0
        while index < count_equations(self.best.program) and not self.is_out_of_time:
            for way in range(4):
                if self.accept(_without_equation(self.best, index, way)):
                    changed = True
                    break
            else:
                index += 1
        return changed

    def _reduce_sizes(self) -> bool:
        changed = False
        sizes = sorted({n for a in self.best.arguments for n in a.shape if n > 1}, reverse=True)
        for size in sizes:
            for new in sorted({1, 2, size // 2}):
                if 0 < new < size and self.accept(_resized(self.best, size, new)):
                    changed = True
                    break
        return changed


def shrink(program: ClosedJaxpr, arguments: Arrays, fails: Fails, suspects: Sequence[tuple[Eqn, Arrays]] = (),
           seconds: float = 60.0) -> Shrunk:
    """Reduce a failing program.

    Args:
      program, arguments: the program and its arguments.
      fails: `fails(program, arguments)` returns whether a program fails in the same way. Errors count as "no".
      suspects: equations that may fail alone, with the values of the variables that they read.
      seconds: the time after which the best program so far is returned.
    """
    found = _Shrinker(Case(program, list(arguments)), fails, seconds)
    for e, operands in suspects:
        if found.accept(Case(single_equation(e), operands)):
            break
    found.run()
    return Shrunk(*found.best, found.tests, not found.is_out_of_time)


# --- smaller programs -------------------------------------------------------------------------------------------------
def _tidy(case: Case) -> Case:
    """Drop dead code and unused arguments."""
    program, used = dce(case.program)
    return Case(program, [x for x, u in zip(case.arguments, used) if u])


def _with_results(case: Case, outs: Sequence[Atom]) -> Case:
    jaxpr = case.program.jaxpr
    return Case(ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.eqns, list(outs)), case.program.consts), case.arguments)


def _record(case: Case) -> dict[Var, np.ndarray] | None:
    """Return the value of each variable of a program, by NumPy; None if NumPy cannot run it."""
    program = case.program
    quiet = rewrite(program, lambda e: [] if e.primitive.effectful and not e.outvars else None)  # a check would raise
    exposed, variables = expose_values(quiet)
    try:
        with np.errstate(all="ignore"):
            outs = evaluate(exposed, *case.arguments)
    except _ERRORS:
        return None
    values: dict[Var, np.ndarray] = {v: np.asarray(c) for v, c in zip(program.jaxpr.constvars, program.consts)}
    values.update(zip(program.jaxpr.invars, case.arguments))
    values.update(zip(variables, outs[len(program.jaxpr.outvars):]))
    return values


def _from_values(case: Case, kept: Sequence[Eqn], values: dict[Var, np.ndarray]) -> Case | None:
    """Return the program of the kept equations; the values of the others are arguments."""
    bound = {v for e in kept for v in e.outvars}
    outs = [a for a in case.program.jaxpr.outvars if a in bound]
    if not outs:
        outs = [v for e in kept for v in e.outvars if not isinstance(v, DropVar)]
    free = list(dict.fromkeys([a for e in kept for a in operand_vars(e) if a not in bound]))
    if any(v not in values for v in free):
        return None
    return Case(ClosedJaxpr(Jaxpr((), free, list(kept), outs)), [values[v] for v in free])


def _iterations(e: Eqn, values: list[Any]) -> Iterator[tuple[ClosedJaxpr, list[Any]]]:
    """Iterate over the programs that an equation runs, with their operands, by NumPy."""
    flow = e.primitive.region_signature
    if flow is None:
        for sub in subprograms(e):
            if [a.shape for a in sub.in_avals] == [np.shape(x) for x in values]:
                yield sub, values
        return
    w = RegionView.of(e)
    if w.selector is not None:
        index = int(values[w.selector])
        chosen = w.bodies[index if 0 <= index < len(w.bodies) else -1]
        yield chosen.program, [values[i] for i in chosen.ins]
        return
    body = w.bodies[0]
    if not flow.loops:
        if [a.shape for a in body.program.in_avals] == [np.shape(values[i]) for i in body.ins]:
            yield body.program, [values[i] for i in body.ins]
        return
    state, scanned = list(values), [i for i, k in enumerate(w.kinds) if k == SCANNED]
    length: Any = e.params[flow.length] if flow.length else None
    is_reversed = bool(flow.reverse) and e.params[flow.reverse]
    for count in range(_MAX_ITERATIONS if length is None else min(length, _MAX_ITERATIONS)):
        for i in scanned:
            state[i] = np.asarray(values[i][length - 1 - count if is_reversed else count])
        if flow.test:
            test = w.regions[0]
            yield test.program, [state[i] for i in test.ins]
            with np.errstate(all="ignore"):
                if not evaluate(test.program, *[state[i] for i in test.ins])[0]:
                    return
        ins = [state[i] for i in body.ins]
        yield body.program, ins
        with np.errstate(all="ignore"):
            state[w.carry] = evaluate(body.program, *ins)[:w.n_carry]


def _shorter_scan(e: Eqn, atoms: list[Any], first: int, n: int) -> Case:
    """Return a program of one scan over the first `n` slices (the last ones, if it is reversed)."""
    length = e.params["length"]
    part = slice(length - n, length) if e.params["reverse"] else slice(0, n)
    values = [x if i < first or type(x) is Literal else x[part] for i, x in enumerate(atoms)]
    ins = [x if type(x) is Literal else Var(shaped(x.shape, a.aval.dtype, a.aval.weak_type)) for x, a in zip(values, e.invars)]
    params = {**e.params, "length": n}
    outs = [Var(a) for a in e.primitive.infer(*[v.aval for v in ins], **params)]
    kept = [Var(o.aval) if not isinstance(v, DropVar) else DropVar(o.aval) for v, o in zip(e.outvars, outs)]
    program = ClosedJaxpr(Jaxpr((), [v for v in ins if type(v) is not Literal], [Eqn(e.primitive, ins, kept, params, e.source)],
                                [v for v in kept if not isinstance(v, DropVar)]))
    return Case(program, [x for x in values if type(x) is not Literal])


def _zero(aval: ShapedArray) -> tuple[list[Eqn], Atom]:
    zero = Literal(np.zeros((), aval.dtype)[()], shaped((), aval.dtype, aval.weak_type))
    if not aval.shape:
        return [], zero
    v = Var(aval)
    return [Eqn(prims.broadcast_in_dim_p, [zero], [v], {"shape": aval.shape, "broadcast_dimensions": ()})], v


def _without_equation(case: Case, index: int, way: int) -> Case | None:
    """Replace equation `index`, in the order of `walk` of a rewriting; `way` 0 to 2: by an operand, 3: by zeros."""
    position = -1
    is_changed = False

    def change(e: Eqn) -> tuple[list[Eqn], list[Atom]] | list[Eqn] | None:
        nonlocal position, is_changed
        position += 1
        if position != index:
            return None
        if not e.outvars:
            is_changed = way == 3
            return [] if is_changed else None
        if way < 3:
            same = [a for a in e.invars if len(e.outvars) == 1 and a.aval == e.outvars[0].aval]
            if way >= len(same):
                return None
            is_changed = True
            return [], [same[way]]
        if e.primitive is prims.broadcast_in_dim_p and type(e.invars[0]) is Literal:
            return None
        is_changed = True
        eqns, atoms = [], []
        for v in e.outvars:
            more, a = _zero(v.aval)
            eqns += more
            atoms.append(a)
        return eqns, atoms

    changed = rewrite(case.program, change)
    return Case(changed, case.arguments) if is_changed else None


# --- sizes ------------------------------------------------------------------------------------------------------------
def _resized(case: Case, old: int, new: int) -> Case:
    """Return the program with `new` in place of the size `old`: in types, params and arguments. It may be ill-formed."""
    def resize_value(x: Any) -> np.ndarray:
        a = np.asarray(x)
        for axis, n in enumerate(a.shape):
            if n == old:
                a = np.take(a, np.arange(new), axis)
        return a

    def resize_param(value: Any) -> Any:
        if type(value) is int:
            return new if value == old else value
        if type(value) is tuple:
            return tuple(map(resize_param, value))
        if isinstance(value, ClosedJaxpr):
            return resize(value)
        return value

    def resize(program: ClosedJaxpr) -> ClosedJaxpr:
        env: dict[Atom, Var] = {}
        jaxpr = program.jaxpr

        def renew(v: Var) -> Var:
            shape = tuple([new if n == old else n for n in v.aval.shape])
            env[v] = Var(shaped(shape, v.aval.dtype, v.aval.weak_type).with_varying_axes(v.aval.varying_axes))
            return env[v]

        constvars, invars, eqns = [*map(renew, jaxpr.constvars)], [*map(renew, jaxpr.invars)], []
        for e in jaxpr.eqns:
            ins = [a if type(a) is Literal else env[a] for a in e.invars]
            params = {k: resize_param(v) for k, v in e.params.items()}
            found = e.primitive.infer(*[a.aval for a in ins], **params)
            outs = []
            for v, a in zip(e.outvars, found if e.primitive.multiple else [found]):
                outs.append(DropVar(a) if isinstance(v, DropVar) else Var(a))
                env[v] = outs[-1]
            eqns.append(Eqn(e.primitive, ins, outs, params, e.source))
        return ClosedJaxpr(Jaxpr(constvars, invars, eqns, [a if type(a) is Literal else env[a] for a in jaxpr.outvars]),
                           [resize_value(c) for c in program.consts])

    return Case(resize(case.program), [resize_value(a) for a in case.arguments])
