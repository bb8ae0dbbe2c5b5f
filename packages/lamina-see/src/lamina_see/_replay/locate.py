"""Find the first equation of a program whose compiled result is not that of its NumPy evaluation.

The program is compiled again with all its intermediate values as results. Each equation is then evaluated with NumPy on the
operands of the compiled program. So rounding errors do not add up, and a wrong equation does not make later ones suspect.
Loops, branches and calls that differ are entered: iterations run one by one, the members of a map all at once.

If the difference exists only in the original program, where the compiler sees other results, it is searched for by
bisection: the shortest program whose last results differ.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from lamina_ir import (ClosedJaxpr, Eqn, Jaxpr, LaminaError, Literal, Source, Var, dce, dtypes, eqn_axis_names, evaluate)
from lamina_ir.extend import AxisPosition, LoopIteration, RegionView, format_axes, format_iterations
from lamina_ir.typing import AxisName, Value
from lamina_tracing import hooks
from lamina_runtime.extend import whole_value

from . import compare
from .equations import (drop_prints, evaluate_equation, expose_map, expose_values, is_map, map_axes, operand_vars,
                        single_equation)

__all__ = ["Difference", "find_difference", "host_value"]

_MAX_ITERATIONS = 10_000  # of one loop that are run one by one
Arrays = Sequence[np.ndarray]


class Difference(NamedTuple):
    """The first equation whose compiled result differs from its NumPy evaluation.

    Attributes:
      eqn: the equation.
      operands: its operands, one for each variable that it reads; on one member of a map.
      actual, expected: the result of the compiled program, and of NumPy.
      element: the index of the first element that differs.
      line: the source line, or that of the nearest enclosing equation with one.
      iterations: those of the enclosing loops, outermost first.
      axes: the position on the mapped axes.
      devices: the ids of the devices that hold differing elements, if the result is on several devices.
      is_alone: whether the equation differs by itself; otherwise only together with the operations before it.
    """

    eqn: Eqn
    operands: Arrays
    actual: np.ndarray
    expected: np.ndarray
    element: tuple[int, ...]
    line: Source | None = None
    iterations: tuple[LoopIteration, ...] = ()
    axes: tuple[AxisPosition, ...] = ()
    devices: tuple[int, ...] = ()
    is_alone: bool = True

    def text(self) -> str:
        """Return the description of the equation, without the name of the function."""
        at = f" at {self.line}" if self.line is not None else ""
        axes = f", at {format_axes(self.axes)}" if self.axes else ""
        ids = ", ".join(map(str, self.devices))
        devices = f", on device{'s' if len(self.devices) > 1 else ''} {ids}" if self.devices else ""
        element = f" in element {self.element}" if self.element else ""
        together = "" if self.is_alone else ", if it is compiled together with the operations before it"
        aval = f"{dtypes.long_name(self.actual.dtype)}{list(self.actual.shape)}"
        return (f"`{self.eqn.primitive.name}` gives {self.actual[self.element]} instead of {self.expected[self.element]}"
                f"{element} of {aval}{at}{format_iterations(self.iterations)}{axes}{devices}{together}")


def find_difference(program: ClosedJaxpr, arguments: Sequence[Value],
                    results: Sequence[Value] | None = None) -> Difference | None:
    """Find the first equation of a program that the compiled program computes otherwise than NumPy.

    Args:
      program: the program.
      arguments: one value per invar, placed as in the call.
      results: those of the call; they differ from the NumPy evaluation. None: unknown.
    Returns:
      The difference; None if there is none, or if rounding errors of the program explain it.
    """
    program = drop_prints(program)
    outs, found = _check(program, arguments, None, ())
    if found is not None or results is None:
        return found
    if not any(compare.is_roughly_different(host_value(a), b, 10) for a, b in zip(results, outs)):
        return None  # equal results, and each equation is right: rounding errors have grown
    return _bisect(program, arguments)


# --- one program --------------------------------------------------------------------------------------------------
def _run(program: ClosedJaxpr, arguments: Sequence[Value]) -> list[Value]:
    return list(hooks.evaluator.program(program, list(arguments)))


def host_value(x: Value) -> np.ndarray:
    """Return a value as a NumPy array; of an array over several processes all of them must call this."""
    return np.asarray(x) if getattr(x, "is_fully_addressable", True) else whole_value(x)


def _first(mask: np.ndarray) -> tuple[int, ...]:
    return tuple([int(i) for i in np.unravel_index(int(np.argmax(mask)), mask.shape)]) if mask.ndim else ()


def _devices_of(x: Value, mask: np.ndarray) -> tuple[int, ...]:
    """Return the ids of the devices that hold marked elements of an array; () if it is on one device."""
    shards = getattr(x, "addressable_shards", ())
    if len(shards) < 2:
        return ()
    return tuple(sorted([s.device.id for s in shards if mask[s.index].any()]))


def _check(program: ClosedJaxpr, arguments: Sequence[Value], line: Source | None,
           iterations: tuple[LoopIteration, ...]) -> tuple[Arrays, Difference | None]:
    """Run a program and compare each equation; return its results, and the first difference."""
    exposed, variables = expose_values(program)
    n, found = len(program.jaxpr.outvars), _run(exposed, arguments)
    on_device = dict(zip(variables, found[n:]))
    env: dict[Var, Arrays] = {v: [np.asarray(x)] for v, x in zip(program.jaxpr.constvars, program.consts)}
    env.update((v, [host_value(x)]) for v, x in zip(program.jaxpr.invars, arguments))
    env.update((v, [host_value(x)]) for v, x in on_device.items())
    outs = [host_value(x) for x in found[:n]]
    for e in exposed.eqns:
        difference = _check_equation(e, env, line, iterations)
        if difference is not None:
            x = next((on_device[v] for v in e.outvars if env[v][0] is difference.actual), None)
            if x is not None and not difference.devices and difference.actual.shape:
                mask = difference.actual != difference.expected
                difference = difference._replace(devices=_devices_of(x, mask))
            return outs, difference
    return outs, None


def _check_equation(e: Eqn, env: dict[Var, Arrays], line: Source | None,
                    iterations: tuple[LoopIteration, ...], axes: Sequence[tuple[AxisName, int]] = (),
                    member_devices: Sequence[int] = ()) -> Difference | None:
    """Compare one equation on each member of the mapped axes."""
    if not compare.is_compared(e):
        return None
    line = e.source or line
    expected = evaluate_equation(e, env, axes)
    for index, (v, members) in enumerate(zip(e.outvars, expected)):
        for i, want in enumerate(members):
            got, operands = env[v][i], [env[a][i] for a in operand_vars(e)]
            if e.primitive.subprograms:
                if compare.is_roughly_different(got, want):
                    found = _enter(e, operands, [env[v][i] for v in e.outvars], line, iterations, bool(axes))
                    if found is not None:
                        return _at_member(found, i, axes, member_devices)
                continue

            mask = compare.differing_elements(e, operands, got, want, index, partial(_evaluate_changed, e, env, i, axes))
            if mask is not None:
                return _at_member(Difference(e, operands, got, want, _first(mask), line, iterations), i, axes, member_devices)
    return None


def _evaluate_changed(e: Eqn, env: dict[Var, Arrays], i: int, axes: Sequence[tuple[AxisName, int]],
                      change: Callable[[int, np.ndarray], np.ndarray]) -> Arrays:
    """Evaluate an equation with changed operands on all members; return the results of member `i`."""
    new = {a: [change(k, x) for x in env[a]] for k, a in enumerate(operand_vars(e))}
    return [r[i] for r in evaluate_equation(e, new, axes)]


def _at_member(found: Difference, i: int, axes: Sequence[tuple[AxisName, int]], devices: Sequence[int]) -> Difference:
    if not axes or found.axes:
        return found
    positions = np.unravel_index(i, [n for _, n in axes])
    return found._replace(axes=tuple([AxisPosition(name, int(k), n) for (name, n), k in zip(axes, positions)]),
                          devices=(devices[i],) if i < len(devices) else found.devices)


# --- nested programs ----------------------------------------------------------------------------------------------
def _enter(e: Eqn, operands: Arrays, results: Arrays, line: Source | None, iterations: tuple[LoopIteration, ...],
           in_map: bool) -> Difference | None:
    """Search an equation with programs whose results differ."""
    itself = _difference_of(e, operands, results, line, iterations)
    if is_map(e):
        return _enter_map(e, operands, line, iterations) or itself
    if e.primitive.region_signature is None or (in_map and eqn_axis_names(e)):
        return itself
    values = dict(zip(operand_vars(e), operands))
    atoms: list[Value] = [np.asarray(a.val, a.aval.dtype) if type(a) is Literal else values[a] for a in e.invars]
    try:
        outs, found = _step(e, atoms, line, iterations)
    except LaminaError:
        # Inside a map the types of the program name axes, so it may not run by itself.
        return itself
    if found is not None or outs is None:
        return found
    # Every iteration is right by itself. So either the loop is wrong, or rounding errors have grown.
    different = any(compare.is_roughly_different(a, b, 10) for a, b in zip(results, outs))
    return itself if different else None


def _difference_of(e: Eqn, operands: Arrays, results: Arrays, line: Source | None,
                   iterations: tuple[LoopIteration, ...]) -> Difference | None:
    with np.errstate(all="ignore"):
        try:
            expected = evaluate(single_equation(e), *operands)
        except LaminaError:
            return None
    for got, want in zip(results, expected):
        if compare.is_roughly_different(got, want, 10):
            size = np.abs(got.astype(np.complex128) - want.astype(np.complex128)) if got.dtype != bool else got != want
            return Difference(e, operands, got, want, _first(np.asarray(size == np.max(size))), line, iterations)
    return None


def _step(e: Eqn, values: list[Value], line: Source | None,
          iterations: tuple[LoopIteration, ...]) -> tuple[Arrays | None, Difference | None]:
    """Run the programs of a call, branch or loop one by one; return its results (None: unknown) and the difference."""
    flow, w = e.primitive.region_signature, RegionView.of(e)
    assert flow is not None
    if w.selector is not None:
        index = int(values[w.selector])
        chosen = w.bodies[index if 0 <= index < len(w.bodies) else -1]
        return _check(chosen.program, [values[i] for i in chosen.ins], line, iterations)
    if not flow.loops:
        body = w.bodies[0]
        return _check(body.program, [values[i] for i in body.ins], line, iterations)
    state, scanned = list(values), [i for i, k in enumerate(w.kinds) if k == "scanned"]
    limit: Any = e.params[flow.length] if flow.length else e.params[flow.max_iters] if flow.max_iters else None
    is_reversed = bool(flow.reverse) and e.params[flow.reverse]
    body, stacked, count = w.bodies[0], [], 0
    while count != limit:
        if count == _MAX_ITERATIONS:
            return None, None
        index = limit - 1 - count if is_reversed else count
        inside = (*iterations, LoopIteration(e.primitive.name, index, line))
        if flow.test:
            test = w.regions[0]
            go, found = _check(test.program, [state[i] for i in test.ins], line, inside)
            if found is not None:
                return None, found
            if not go[0]:
                break
        for i in scanned:
            state[i] = np.asarray(values[i][index])
        outs, found = _check(body.program, [state[i] for i in body.ins], line, inside)
        if found is not None:
            return None, found
        state[w.carry] = outs[:w.n_carry]
        stacked.append(outs[w.n_carry:])
        count += 1
    if is_reversed:
        stacked.reverse()
    stacks = [np.stack([row[k] for row in stacked]) if stacked else np.zeros(v.aval.shape, v.aval.dtype)
              for k, v in enumerate(e.outvars[w.n_carry:])]
    return [*state[w.carry], *stacks], None


def _enter_map(e: Eqn, operands: Arrays, line: Source | None, iterations: tuple[LoopIteration, ...]) -> Difference | None:
    program, variables, eqns = expose_map(e)
    values = dict(zip(operand_vars(e), operands))
    found = _run(program, [values[a] for a in e.invars if type(a) is not Literal])[len(e.outvars):]
    axes, body = map_axes(e), e.params["call_jaxpr"]
    n = int(np.prod([size for _, size in axes]))
    env: dict[Var, Arrays] = {v: [np.asarray(c)] * n for v, c in zip(body.jaxpr.constvars, body.consts)}
    for v, x in zip(variables, found):
        a = host_value(x)
        # A shard of a map over a mesh has a leading axis of size 1, so members are along it in both cases.
        env[v] = [np.ascontiguousarray(a[i]).reshape(v.aval.shape) for i in range(n)]
    shards = sorted(getattr(found[0], "addressable_shards", ()), key=lambda s: s.index[0].start or 0) if found else []
    devices = [s.device.id for s in shards] if len(shards) == n else []
    for inner in eqns:
        difference = _check_equation(inner, env, line, iterations, axes, devices)
        if difference is not None:
            return difference
    return None


# --- differences of the whole program only ------------------------------------------------------------------------
def _bisect(program: ClosedJaxpr, arguments: Sequence[Value]) -> Difference | None:
    """Find the shortest program, of the first equations, whose last results differ from the NumPy evaluation."""
    exposed, variables = expose_values(program)
    with np.errstate(all="ignore"):
        host = [host_value(x) for x in arguments]
        expected = dict(zip(variables, evaluate(exposed, *host)[len(program.jaxpr.outvars):]))
        if _is_sensitive(program, host):
            return None
    consts = dict(zip(program.jaxpr.constvars, program.consts))

    def differs(count: int) -> tuple[Var, np.ndarray] | None:
        e = exposed.eqns[count - 1]
        part, used = dce(ClosedJaxpr(Jaxpr(program.jaxpr.constvars, program.jaxpr.invars, exposed.eqns[:count], e.outvars),
                                     list(consts.values())))
        outs = _run(part, [x for x, u in zip(arguments, used) if u])
        values = [host_value(x) for x in outs]
        return next(((v, x) for v, x in zip(e.outvars, values) if compare.is_roughly_different(x, expected[v], 10)), None)

    compared = [i + 1 for i, e in enumerate(exposed.eqns) if compare.is_compared(e) and e.outvars]
    low, high = 0, len(compared) - 1
    while low < high:
        middle = (low + high) // 2
        if differs(compared[middle]) is not None:
            high = middle
        else:
            low = middle + 1
    found = differs(compared[low]) if compared else None
    if found is None:
        return None
    e, (v, got) = exposed.eqns[compared[low] - 1], found
    values = {**dict(zip(program.jaxpr.invars, host)), **expected, **{c: np.asarray(x) for c, x in consts.items()}}
    size = np.abs(np.asarray(got, np.complex128) - np.asarray(expected[v], np.complex128))
    return Difference(e, [values[a] for a in operand_vars(e)], got, expected[v], _first(np.asarray(size == np.max(size))),
                      e.source, is_alone=False)


def _is_sensitive(program: ClosedJaxpr, arguments: Arrays) -> bool:
    """Return whether changes of the arguments by their rounding change the results as much as another order of operations."""
    rng = np.random.default_rng(0)

    def nudge(a: np.ndarray) -> np.ndarray:
        if not dtypes.is_inexact(a.dtype):
            return a
        return (a * (1 + 4 * float(dtypes.finfo(a.dtype).eps) * rng.choice([-1, 1], a.shape))).astype(a.dtype)

    first, second = evaluate(program, *arguments), evaluate(program, *map(nudge, arguments))
    return any(compare.is_roughly_different(b, a) for a, b in zip(first, second))
