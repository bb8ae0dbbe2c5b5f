"""Programs with maps over several processes that are not one compiled program, run piece by piece.

Where the processes have different numbers of rows, each has a program of its own: what stands beside the maps is of other
shapes. Beside an xmap over a mesh it is its own too, as the processes may lie along its axes in any way. Nothing holds the
collectives of two such programs in one order, so each map is launched by itself, as it is where it is the whole program, and
what stands between maps is compiled for this process alone. Loops, branches and calls around maps are followed here: what
decides on them is read by the host.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from lamina_ir import (CallbackError, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, calls_host, dce, eqn_effectful,
                       has_ordered_effects, prims, subprograms)
from lamina_ir.extend import STACKED, Tiles, Turn, Wired, lone_map, lone_nest, stack_depth, turns_text
from lamina_parallel.extend import placed
from lamina_tracing import slots

from . import backends, debug, effects, execution, jointly, placing, shardings, transfers
from ._jaxlib import ArrayImpl

__all__ = ["Pieces", "in_pieces"]

_AT_ONCE = 64  # rows put together in one program


def in_pieces(closed: ClosedJaxpr) -> bool:
    """Whether a program is run piece by piece."""
    if placing.rows_across(closed) is None:
        return False
    closed = placed(closed)
    if lone_map(closed) is not None or lone_nest(closed) is not None:
        return False
    if any(map(placing.over_mesh, placing.outermost(closed))):
        return True
    if has_ordered_effects(closed):
        return True  # each process has an order of its own, and one device for it
    # A look for a NaN counts the rows of all in order of the processes, or in the order of one map.
    turned = placing.turned(closed)
    return turned is None or turned and debug.wanted()


# --- how they are cut ---------------------------------------------------------------------------------------------
class _Step(NamedTuple):
    """A program to be run, a map among these, or an equation around maps.

    Attributes:
      program: the one to be run; None: an equation around maps.
      eqn: that equation, or the map.
      ins, outs: what it reads, and gives.
      dead: what nobody reads after it.
      meets: whether it is a map over processes.
      hosts: whether it calls the host.
    """

    program: ClosedJaxpr | None
    eqn: Eqn | None
    ins: Sequence[Any]
    outs: Sequence[Any]
    dead: Sequence[Any]
    meets: bool = False
    hosts: bool = False


def _steps(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[_Step]]:
    """The program without what nobody needs, and its steps."""
    return closed.memo("pieces", lambda: _cut(dce(closed, instantiate=True)[0]))


def _cut(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[_Step]]:
    jaxpr = closed.jaxpr
    eqns, consts = jaxpr.eqns, dict(zip(jaxpr.constvars, closed.consts))
    last = {v: i for i, e in enumerate(eqns) for v in e.invars if type(v) is not Literal}
    last |= {v: len(eqns) for v in jaxpr.outvars if type(v) is not Literal}
    around = [placing.is_across(e) or any(placing.rows_across(s) is not None for s in subprograms(e)) for e in eqns]
    steps: list[_Step] = []
    start = 0

    def step(end: int, program: ClosedJaxpr | None, eqn: Eqn | None, ins: Sequence[Any], outs: Sequence[Any],
             hosts: bool = False) -> None:
        dead = {v for v in (*ins, *outs) if type(v) is not Literal and v not in consts and last.get(v, -1) < end}
        steps.append(_Step(program, eqn, ins, outs, [*dead], eqn is not None and program is not None, hosts))

    def work(end: int) -> None:
        """What stands from `start` to there needs no other process."""
        run = eqns[start:end]
        made = [v for e in run for v in e.outvars]
        read = dict.fromkeys([v for e in run for v in e.invars if type(v) is not Literal])
        held: list[Any] = [v for v in read if v in consts]
        ins: list[Any] = [v for v in read if v not in consts and v not in {*made}]
        outs = [v for v in made if last.get(v, -1) >= end]
        if outs or any(map(eqn_effectful, run)):
            program = ClosedJaxpr(Jaxpr(held, ins, run, outs), [consts[v] for v in held])
            step(end, program, None, ins, outs, calls_host(program))

    for i, (e, apart) in enumerate(zip(eqns, around)):
        if not apart:
            continue
        work(i)
        start = i + 1
        if not placing.is_across(e):
            step(i + 1, None, e, e.invars, e.outvars)
            continue
        ins, outs = [Var(v.aval) for v in e.invars], [Var(v.aval) for v in e.outvars]
        params = {**e.params, "donated_invars": (False,) * len(ins)}
        step(i + 1, ClosedJaxpr(Jaxpr((), ins, [Eqn(e.primitive, ins, outs, params, e.source)], outs)), e, e.invars, e.outvars)
    work(len(eqns))
    return closed, steps


# --- how they are run ---------------------------------------------------------------------------------------------
class Pieces:
    """A program run piece by piece, with what a caller asks of a `Program`.

    Args:
      call, name: who asks, and the function.
      closed: the program.
      flat: its arguments; words: what one of them is called.
      overrides: the user's settings of the compiler.
    Raises:
      ValueError: an argument is split over devices of several processes.
    """

    window = together = None
    const_args = ()

    def __init__(self, call: str, name: str, closed: ClosedJaxpr, flat: Sequence[Any],
                 words: Callable[[int], str] | None = None, overrides: tuple[tuple[str, Any], ...] = ()) -> None:
        placing.check_parts(call, name, flat, words, any(map(placing.over_mesh, placing.outermost(closed))))
        self.closed, self.name = closed, name = placed(closed), name
        self._call, self._overrides = call, overrides
        across = [e for e in placing.outermost(closed) if placing.is_across(e)]
        for e in across:
            if e.primitive is prims.xla_pmap_p:
                placing.check_rows(e)
        found = [_devices(e) for e in across]
        # Where this process has its values: on all devices that its maps run on; and who meets.
        self._here = tuple(dict.fromkeys([d for _, own in found for d in own]))
        self._home = shardings.tiled(self._here, Tiles())
        self._everyone = found[0][0]
        self._looks = debug.wanted() or calls_host(closed)
        self._turns: list[Turn] = []

    def fast_path(self, flat: Sequence[Any], out_tree: Any, layout: Any = None) -> None:
        """Each call comes here."""

    @stack_depth.roomy()
    def run(self, flat: Sequence[Any], layout: Any = None) -> list[Any]:
        """Run on flat arguments, wherever they are; the user has placed none."""
        closed = self.closed
        outs = self._program(closed, flat)
        # What is an argument, or a number, comes back as an array of its own.
        jaxpr = _steps(closed)[0].jaxpr
        given = {*jaxpr.invars, *jaxpr.constvars}
        alone = [i for i, a in enumerate(jaxpr.outvars) if type(a) is Literal or a in given]
        if alone:
            rest = closed.memo("pieces: passed on", lambda: ClosedJaxpr(
                Jaxpr(jaxpr.constvars, jaxpr.invars, (), [jaxpr.outvars[i] for i in alone]), _steps(closed)[0].consts))
            for i, x in zip(alone, self._run(rest, flat)):
                outs[i] = x
        self._settle(None)
        return outs

    def _program(self, closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
        if placing.rows_across(closed) is None:
            return self._work(closed, args, calls_host(closed)) if closed.jaxpr.eqns else self._run(closed, args)
        closed, steps = _steps(closed)
        env: dict[Any, Any] = dict(zip(closed.jaxpr.constvars, closed.consts))
        env.update(zip(closed.jaxpr.invars, args))

        def read(a: Any) -> Any:
            return np.asarray(a.val, a.aval.dtype) if type(a) is Literal else env[a]

        for s in steps:
            values = [read(a) for a in s.ins]
            if s.program is None:
                outs = self._around(s.eqn, values)  # type: ignore[arg-type]  # one of the two is there
            elif s.meets:
                self._settle(None)
                outs = self._run(s.program, values)
            else:
                outs = self._work(s.program, values, s.hosts)
            env.update(zip(s.outs, outs))
            for v in s.dead:
                env.pop(v, None)
        return [read(a) for a in closed.jaxpr.outvars]

    def _run(self, program: ClosedJaxpr, values: Sequence[Any]) -> list[Any]:
        given = [self._at_home(x) for x in values]
        if not self._overrides:
            run: Any = slots.evaluator.program  # the runtime's own, which takes a name too
            return list(run(program, given, self.name))
        place = placing.placement_of(self._call, self.name, program, given)
        return execution.program_for(self._call, program, self.name, place, overrides=self._overrides).run(given)

    def _at_home(self, x: Any) -> Any:
        """What was put on some devices on purpose meets what the maps give."""
        if type(x) is not ArrayImpl or not x._committed or {*shardings.sharding_devices(x._sharding)} == {*self._here}:
            return x
        return transfers._move(x, self._home)

    def _work(self, program: ClosedJaxpr, values: Sequence[Any], hosts: bool) -> list[Any]:
        """What needs no other process. If it fails the others hear of it where they wait for this one."""
        try:
            outs = self._alone(program, values) if hosts and has_ordered_effects(program) else self._run(program, values)
            if hosts:
                for x in outs:
                    x.block_until_ready()
                effects.effects_barrier()
            return outs
        except (CallbackError, FloatingPointError) as e:
            told = type(e)(f"{e}{turns_text(self._turns)}, in process {backends.process_index()}")
            self._settle(told)
            raise told from e.__cause__

    def _alone(self, program: ClosedJaxpr, values: Sequence[Any]) -> list[Any]:
        """What a program gives on one device, as ordered effects need it."""
        place = placing.placement_of(self._call, self.name, program, (), device=self._here[0])
        return execution.program_for(self._call, program, self.name, place, overrides=self._overrides).run(
            [transfers.device_put(x, self._here[0]) for x in values])

    def _settle(self, failure: Exception | None) -> None:
        """Where somebody looks on, all hear whether something failed in one of them since they last met."""
        if self._looks:
            jointly.settle(self._everyone, failure, None, None)

    def _around(self, e: Eqn, values: Sequence[Any]) -> list[Any]:
        """An equation with maps inside, along its flow."""
        flow = e.primitive.flow
        if flow is None or flow.binds or not flow.operands:
            raise NotImplementedError(f"{e.primitive.name}: an xmap over processes, or a map over processes with different "
                                      f"numbers of rows, cannot stand in this{f', at {e.source}' if e.source else ''}. Call it "
                                      "by itself, or name as many devices of each process")
        w = Wired.of(e)
        if w.chooser is not None:
            index, branches = int(np.asarray(values[w.chooser])), w.bodies
            chosen = branches[index if 0 <= index < len(branches) else -1]
            return self._program(chosen.program, [values[i] for i in chosen.ins])
        if not flow.loops:
            body = w.bodies[0]
            return self._program(body.program, [values[i] for i in body.ins])
        state, rows = list(values), [i for i, k in enumerate(w.kinds) if k == STACKED]
        body, made, turn = w.bodies[0], [], 0
        most: Any = e.params[flow.length] if flow.length else e.params[flow.bound] if flow.bound else None
        backwards = bool(flow.reverse) and e.params[flow.reverse]
        while turn != most:
            number = most - 1 - turn if backwards else turn
            self._turns.append(Turn(e.primitive.name, number, e.source))
            if flow.test:
                go, = self._program(w.wires[0].program, [state[i] for i in w.wires[0].ins])
                if not bool(np.asarray(go)):
                    self._turns.pop()
                    break
            for i in rows:
                state[i] = _row(values[i], number)
            outs = self._program(body.program, [state[i] for i in body.ins])
            state[w.carry] = outs[:w.n_carry]
            made.append(outs[w.n_carry:])
            self._turns.pop()
            turn += 1
        if backwards:
            made.reverse()
        stacked = [np.zeros(v.aval.shape, v.aval.dtype) if not made else _stacked([m[k] for m in made])
                   for k, v in enumerate(e.outvars[w.n_carry:])]
        return [*state[w.carry], *stacked]


def _devices(e: Eqn) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The devices of a map over processes, and those of this one."""
    named = e.params["mesh"][2] if placing.over_mesh(e) else e.params["devices"]
    if not named:
        return backends.first_of_each(e.params["axis_size"], e.params["backend"])
    ours = backends.ours_of(named)
    return ours.devices, ours.own


def _row(x: Any, number: int) -> Any:
    shape, of = x.shape[1:], slots.evaluator.primitive
    starts = [np.int32(number), *[np.int32(0)] * len(shape)]
    row = of(prims.dynamic_slice_p, [x, *starts], {"slice_sizes": (1, *shape)})
    return of(prims.reshape_p, [row], {"new_sizes": shape, "dimensions": None})


def _stacked(rows: Sequence[Any]) -> Any:
    shape, of = rows[0].shape, slots.evaluator.primitive
    rows = [of(prims.reshape_p, [x], {"new_sizes": (1, *shape), "dimensions": None}) for x in rows]
    while len(rows) > 1:
        rows = [of(prims.concatenate_p, rows[k:k + _AT_ONCE], {"dimension": 0}) for k in range(0, len(rows), _AT_ONCE)]
    return rows[0]
