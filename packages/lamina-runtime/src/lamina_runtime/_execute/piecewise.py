"""Run programs with multi-process maps that cannot be one executable, as a sequence of executables.

If the size of the mapped axis differs between processes, the code around the maps has different shapes in each process.
So each process has its own program. The same holds for code around an xmap over a mesh, because the processes may be
arranged along the mesh axes in any way. Executables of different programs do not run their collectives in the same
order. Therefore each map is launched as a separate executable, the same in all processes. The code between maps is
compiled for this process only. Loops, branches and calls that contain maps are interpreted here; their predicates are
read to the host.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from lamina_ir import (
    Atom, CallbackError, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, has_host_callbacks, dce, eqn_has_effects,
    has_ordered_effects, prims, subprograms)
from lamina_ir.extend import (SCANNED, Tiles, LoopIteration, RegionView, collect_facts, single_map_eqn,
                              single_nested_map_eqn, stack_depth, format_iterations)
from lamina_parallel.extend import lower_xmaps
from lamina_tracing import hooks
from lamina_ir.trees import PyTreeDef
from lamina_ir.typing import Device, Function, Value

from .._backend import backends
from .._debug import nan_checks
from . import effects, executable
from .._launch import error_consensus
from .._placement import resolve
from .._sharding import shardings
from .._array import transfer
from .._jaxlib import ArrayImpl
from .._typing import Array, OptionPairs

__all__ = ["PiecewiseProgram", "must_run_piecewise"]

_MAX_CONCATENATED = 64  # operands of one concatenate


def must_run_piecewise(closed: ClosedJaxpr) -> bool:
    """Return whether a program must run as several executables."""
    if collect_facts(closed).process_axis_sizes is None:
        return False
    closed = lower_xmaps(closed)
    if single_map_eqn(closed) is not None or single_nested_map_eqn(closed) is not None:
        return False
    if any(map(resolve.is_multi_process_mesh_map, resolve.iter_outermost_maps(closed))):
        return True
    if has_ordered_effects(closed):
        return True  # they need a single device, so the code around the maps must run on one device of the process
    # The NaN locator supports only axes in the order of the processes, or the order of a single map.
    turned = resolve.rows_permuted(closed)
    return turned is None or turned and nan_checks.is_enabled()


# --- splitting ----------------------------------------------------------------------------------------------------
class _Step(NamedTuple):
    """One step: a program, a multi-process map, or an equation that contains such maps.

    Attributes:
      program: the program to run; None for an equation that contains maps.
      eqn: that equation, or the map; None for a program without maps.
      ins, outs: the variables that it reads and writes.
      dead: the variables that are not used after it.
      is_map: whether it is a multi-process map.
      calls_host: whether it has host callbacks.
    """

    program: ClosedJaxpr | None
    eqn: Eqn | None
    ins: Sequence[Atom]
    outs: Sequence[Var]
    dead: Sequence[Var]
    is_map: bool = False
    calls_host: bool = False


def _get_steps(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[_Step]]:
    """Return the program without dead code, and its steps."""
    return closed.memo("pieces", lambda: _split(dce(closed, instantiate=True)[0]))


def _split(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[_Step]]:
    jaxpr = closed.jaxpr
    eqns, consts = jaxpr.eqns, dict(zip(jaxpr.constvars, closed.consts))
    last_use = {v: i for i, e in enumerate(eqns) for v in e.invars if type(v) is not Literal}
    last_use |= {v: len(eqns) for v in jaxpr.outvars if type(v) is not Literal}
    contains_map = [resolve.is_multi_process_map(e) or any(
        collect_facts(s).process_axis_sizes is not None for s in subprograms(e)) for e in eqns]
    steps: list[_Step] = []
    start = 0

    def add_step(end: int, program: ClosedJaxpr | None, eqn: Eqn | None, ins: Sequence[Atom], outs: Sequence[Var],
                 calls_host: bool = False) -> None:
        # Values are dropped after their last use, as a compiled program would free their buffers.
        dead = {v for v in (*ins, *outs) if type(v) is not Literal and v not in consts and last_use.get(v, -1) < end}
        steps.append(_Step(program, eqn, ins, outs, [*dead], eqn is not None and program is not None, calls_host))

    def add_program(end: int) -> None:
        """Add the equations from `start` to `end` as one program of this process."""
        segment = eqns[start:end]
        outputs = [v for e in segment for v in e.outvars]
        inputs = dict.fromkeys([v for e in segment for v in e.invars if type(v) is not Literal])
        const_vars: list[Var] = [v for v in inputs if v in consts]
        ins: list[Var] = [v for v in inputs if v not in consts and v not in {*outputs}]
        # Only values that a later step or the result reads leave the segment.
        outs = [v for v in outputs if last_use.get(v, -1) >= end]
        if outs or any(map(eqn_has_effects, segment)):
            program = ClosedJaxpr(Jaxpr(const_vars, ins, segment, outs), [consts[v] for v in const_vars])
            add_step(end, program, None, ins, outs, has_host_callbacks(program))

    for i, (e, has_map) in enumerate(zip(eqns, contains_map)):
        if not has_map:
            continue
        add_program(i)
        start = i + 1
        if not resolve.is_multi_process_map(e):
            add_step(i + 1, None, e, e.invars, e.outvars)
            continue
        ins, outs = [Var(v.aval) for v in e.invars], [Var(v.aval) for v in e.outvars]
        # An operand may be read by a later step, so nothing is donated.
        params = {**e.params, "donated_invars": (False,) * len(ins)}
        add_step(i + 1, ClosedJaxpr(Jaxpr((), ins, [Eqn(e.primitive, ins, outs, params, e.source)], outs)), e, e.invars,
                 e.outvars)
    add_program(len(eqns))
    return closed, steps


# --- running ------------------------------------------------------------------------------------------------------
class PiecewiseProgram:
    """A program that runs as several executables. It has the interface of a `CompiledProgram`.

    Args:
      call, name: the kind of call, and the function's name.
      closed: the program.
      flat: its arguments.
      format_arg: returns the name of an argument, by its flat index.
      compiler_options: options of the compiler.
    Raises:
      ValueError: an argument is split over devices of several processes.
    """

    window = launcher = None
    is_replaced_later = False
    const_args = ()

    def __init__(self, call: str, name: str, closed: ClosedJaxpr, flat: Sequence[Value],
                 format_arg: Callable[[int], str] | None = None, compiler_options: OptionPairs = ()) -> None:
        resolve.check_args_process_local(call, name, flat, format_arg,
                                         any(map(resolve.is_multi_process_mesh_map, resolve.iter_outermost_maps(closed))))
        self.closed, self.name = closed, name = lower_xmaps(closed), name
        self._call, self._overrides = call, compiler_options
        across = [e for e in resolve.iter_outermost_maps(closed) if resolve.is_multi_process_map(e)]
        for e in across:
            if e.primitive is prims.xla_pmap_p:
                resolve.check_member_devices(e)
        found = [_get_map_devices(e) for e in across]
        # Values between the maps are replicated over all devices of this process that the maps use. Errors are
        # exchanged between the devices of the first map.
        self._local_devices = tuple(dict.fromkeys([d for _, own in found for d in own]))
        self._sharding = shardings.tiled_sharding(self._local_devices, Tiles())
        self._exchange_devices = found[0][0]
        self._has_checks = nan_checks.is_enabled() or has_host_callbacks(closed)
        self._iterations: list[LoopIteration] = []

    def fast_path(self, flat: Sequence[Value], out_tree: PyTreeDef,
                  user_shardings: executable.UserShardingsLike | None = None) -> executable.FastPath | None:
        """Return None: there is no single executable that jaxlib could run."""

    @stack_depth.with_recursion_limit()
    def run(self, flat: Sequence[Value], user_shardings: executable.UserShardingsLike | None = None) -> list[Array]:
        """Run on flat arguments with any placement. There are no user shardings."""
        closed = self.closed
        outs = self._run_program(closed, flat)
        # Outputs that are arguments, constants or literals are copied by a program, so that no output aliases an
        # argument.
        jaxpr = _get_steps(closed)[0].jaxpr
        inputs = {*jaxpr.invars, *jaxpr.constvars}
        passed_on = [i for i, a in enumerate(jaxpr.outvars) if type(a) is Literal or a in inputs]
        if passed_on:
            passing_program = closed.memo("pieces: passed on", lambda: ClosedJaxpr(
                Jaxpr(jaxpr.constvars, jaxpr.invars, (), [jaxpr.outvars[i] for i in passed_on]),
                _get_steps(closed)[0].consts))
            for i, x in zip(passed_on, self._run(passing_program, flat)):
                outs[i] = x
        self._exchange_errors(None)
        return outs

    def _run_program(self, closed: ClosedJaxpr, args: Sequence[Value]) -> list[Array]:
        if collect_facts(closed).process_axis_sizes is None:
            return self._run_local(closed, args, has_host_callbacks(closed)) if closed.jaxpr.eqns else self._run(closed, args)
        closed, steps = _get_steps(closed)
        env: dict[Var, Value] = dict(zip(closed.jaxpr.constvars, closed.consts))
        env.update(zip(closed.jaxpr.invars, args))

        def read(a: Atom) -> Value:
            return np.asarray(a.val, a.aval.dtype) if type(a) is Literal else env[a]

        for s in steps:
            values = [read(a) for a in s.ins]
            if s.program is None:
                assert s.eqn is not None
                outs = self._interpret(s.eqn, values)
            elif s.is_map:
                # The last point at which a failure can be reported: in the map the others would wait for this
                # process.
                self._exchange_errors(None)
                outs = self._run(s.program, values)
            else:
                outs = self._run_local(s.program, values, s.calls_host)
            env.update(zip(s.outs, outs))
            for v in s.dead:
                env.pop(v, None)
        return [read(a) for a in closed.jaxpr.outvars]

    def _run(self, program: ClosedJaxpr, values: Sequence[Value]) -> list[Array]:
        placed_args = [self._move_to_maps(x) for x in values]
        if not self._overrides:
            run: Function = hooks.evaluator.program  # this package's evaluator, whose `program` also takes a name
            return list(run(program, placed_args, self.name))
        place = resolve.resolve_placement(self._call, self.name, program, placed_args)
        return executable.get_or_compile(self._call, program, self.name, place,
                                         compiler_options=self._overrides).run(placed_args)

    def _move_to_maps(self, x: Value) -> Array:
        """Move an array that is committed to other devices to those of the maps, to combine it with their results."""
        if type(x) is not ArrayImpl or not x._committed:
            return x
        if {*shardings.sharding_devices(x._sharding)} == {*self._local_devices}:
            return x
        return transfer._move_array(x, self._sharding)

    def _run_local(self, program: ClosedJaxpr, values: Sequence[Value], has_callbacks: bool) -> list[Array]:
        """Run a program of this process only.

        If it fails, the other processes get the error at the next exchange, where they wait for this process.
        """
        try:
            run = self._run_on_one_device if has_callbacks and has_ordered_effects(program) else self._run
            outs = run(program, values)
            if has_callbacks:
                # Callbacks may raise late, on the device. The error must be known before the next exchange.
                for x in outs:
                    x.block_until_ready()
                effects.effects_barrier()
            return outs
        except (CallbackError, FloatingPointError) as e:
            error = type(e)(f"{e}{format_iterations(self._iterations)}, in process {backends.process_index()}")
            self._exchange_errors(error)
            raise error from e.__cause__

    def _run_on_one_device(self, program: ClosedJaxpr, values: Sequence[Value]) -> list[Array]:
        """Run a program on a single device, as ordered effects require."""
        place = resolve.resolve_placement(self._call, self.name, program, (), device=self._local_devices[0])
        return executable.get_or_compile(self._call, program, self.name, place, compiler_options=self._overrides).run(
            [transfer.device_put(x, self._local_devices[0]) for x in values])

    def _exchange_errors(self, failure: Exception | None) -> None:
        """If checks or callbacks are on, exchange with all processes whether one failed since the last exchange."""
        if self._has_checks:
            error_consensus.exchange_errors(self._exchange_devices, failure, None, None)

    def _interpret(self, e: Eqn, values: Sequence[Value]) -> list[Array]:
        """Interpret an equation that contains maps, following its region signature."""
        flow = e.primitive.region_signature
        if flow is None or flow.axis_binding or not flow.operands:
            line_text = f", at {e.source}" if e.source else ""
            raise NotImplementedError(f"{e.primitive.name}: cannot contain an xmap over several processes, or a map "
                                      f"whose axis size differs between processes{line_text}. Call the map outside of "
                                      "it, or use equally many devices of each process")
        w = RegionView.of(e)
        if w.selector is not None:
            index, branches = int(np.asarray(values[w.selector])), w.bodies
            # Clamped as in `cond`: an index out of range selects the last branch.
            chosen = branches[index if 0 <= index < len(branches) else -1]
            return self._run_program(chosen.program, [values[i] for i in chosen.ins])
        if not flow.loops:
            body = w.bodies[0]
            return self._run_program(body.program, [values[i] for i in body.ins])
        state, scanned = list(values), [i for i, k in enumerate(w.kinds) if k == SCANNED]
        body, outputs, iteration = w.bodies[0], [], 0
        max_iterations: Any = e.params[flow.length] if flow.length else e.params[flow.max_iters] if flow.max_iters else None
        # A reversed scan runs from the last row to the first and stacks its results in the order of the rows.
        is_reversed = bool(flow.reverse) and e.params[flow.reverse]
        while iteration != max_iterations:
            index = max_iterations - 1 - iteration if is_reversed else iteration
            self._iterations.append(LoopIteration(e.primitive.name, index, e.source))
            if flow.test:
                go, = self._run_program(w.regions[0].program, [state[i] for i in w.regions[0].ins])
                if not bool(np.asarray(go)):
                    self._iterations.pop()
                    break
            for i in scanned:
                state[i] = _slice_row(values[i], index)
            outs = self._run_program(body.program, [state[i] for i in body.ins])
            state[w.carry] = outs[:w.n_carry]
            outputs.append(outs[w.n_carry:])
            self._iterations.pop()
            iteration += 1
        if is_reversed:
            outputs.reverse()
        # Without an iteration the stacks have length 0.
        stacked = [np.zeros(v.aval.shape, v.aval.dtype) if not outputs else _stack([m[k] for m in outputs])
                   for k, v in enumerate(e.outvars[w.n_carry:])]
        return [*state[w.carry], *stacked]


Program: TypeAlias = executable.CompiledProgram | PiecewiseProgram


def _get_map_devices(e: Eqn) -> tuple[tuple[Device, ...], tuple[Device, ...]]:
    """Return (all devices of a multi-process map, those of this process)."""
    devices = e.params["mesh"][2] if resolve.is_multi_process_mesh_map(e) else e.params["devices"]
    if not devices:
        return backends.first_devices_of_processes(e.params["axis_size"], e.params["backend"])
    ours = backends.device_group(devices)
    return ours.devices, ours.local


def _slice_row(x: Array, index: int) -> Array:
    shape, run_primitive = x.shape[1:], hooks.evaluator.primitive
    starts = [np.int32(index), *[np.int32(0)] * len(shape)]
    row = run_primitive(prims.dynamic_slice_p, [x, *starts], {"slice_sizes": (1, *shape)})
    return run_primitive(prims.reshape_p, [row], {"new_sizes": shape, "dimensions": None})


def _stack(rows: Sequence[Array]) -> Array:
    shape, run_primitive = rows[0].shape, hooks.evaluator.primitive
    rows = [run_primitive(prims.reshape_p, [x], {"new_sizes": (1, *shape), "dimensions": None}) for x in rows]
    while len(rows) > 1:
        rows = [run_primitive(prims.concatenate_p, rows[k:k + _MAX_CONCATENATED], {"dimension": 0})
                for k in range(0, len(rows), _MAX_CONCATENATED)]
    return rows[0]
