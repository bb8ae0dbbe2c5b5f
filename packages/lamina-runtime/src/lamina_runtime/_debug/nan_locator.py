"""Locate the first NaN or infinity of a program by running it again, primitive by primitive.

The report has the primitive, its operands and source line, and the iterations of the enclosing loops. It also has the
device, the position on the mapped axes and the process. Code outside of maps runs on its device. Maps run with the
NumPy evaluator, all members in lockstep; multi-process maps run with the arguments of all processes.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from lamina_ir import (Atom, ClosedJaxpr, Eqn, Literal, ShapedArray, Source, Var, dtypes, evaluate_primitive, evaluate_spmd,
                       prims, rewrite)
from lamina_ir.extend import (PROCESSES, Grid, AxisPosition, Placement, LoopIteration, format_axes, single_map_eqn,
                              find_shard_maps, first_member_program, find_per_member_map, running_axis_positions,
                              running_iterations, format_iterations, observing_equations)
from lamina_tracing import hooks
from lamina_tracing.extend import describe_batch_position
from lamina_ir.typing import Device, Value

from .._array import arrays
from .._jaxlib import ArrayImpl
from .._placement.process_shards import assemble_global_program

__all__ = ["NonFiniteResult", "describe_operands", "drop_resultless_effects", "find_nonfinite", "locate_nan",
           "locate_nan_multi_process"]

Axes = tuple[AxisPosition, ...]


class NonFiniteResult(NamedTuple):
    """The first result with a NaN or an infinity.

    Attributes:
      eqn, operands: the equation that produced it, and its operands.
      kind: "a NaN" or "an infinity".
      line: the line in the user's code.
      batch: a text with the example of the batch; "": unknown.
      iterations: the iterations of the enclosing loops, outermost first.
      axes, device, process: where it occurred: positions on the mapped axes, device, number of the process.
    """

    eqn: Eqn
    kind: str
    operands: Sequence[Value]
    line: Source | None
    batch: str = ""
    iterations: tuple[LoopIteration, ...] = ()
    axes: Axes = ()
    device: Device = None
    process: int | None = None

    def text(self, name: str) -> str:
        """Return the error text; `name` is the name of the function."""
        device_text = "" if self.device is None else f" on device {self.device}"
        axes = format_axes([a for a in self.axes if a.name is not PROCESSES])
        if axes:
            device_text += f", at {axes}" if device_text else f" at {axes}"
        if self.process is not None:
            device_text += f"{',' if device_text else ''} in process {self.process}"
        line_text = f" at {self.line}" if self.line else ""
        batch_text = f", {self.batch}" if self.batch else ""
        return (f"`{self.eqn.primitive.name}` produced {self.kind} in its result {self.eqn.outvars[0].aval.str_long()}"
                f"{line_text}{batch_text}{format_iterations(self.iterations)}, in `{name}`{device_text}; "
                f"its operands were {describe_operands(self.operands, [a.aval for a in self.eqn.invars])}")


def describe_operands(operands: Sequence[Value], avals: Sequence[ShapedArray]) -> str:
    """Return the types of operands with their values or the range of their values, if these are real and in this process.

    The types are those of the program: a Python number in it has the dtype in which it is computed.
    """
    return ", ".join(map(_describe_value, operands, avals))


def _describe_value(x: Value, aval: ShapedArray) -> str:
    text, dtype = aval.str_long(), aval.dtype
    if type(x) is ArrayImpl and (x.is_deleted() or not x.is_fully_addressable):
        return text
    if aval.size == 0 or not (dtypes.is_float(dtype) or dtypes.is_integer(dtype) or dtypes.is_bool(dtype)):
        return text
    values = np.asarray(arrays.host_value(x) if type(x) is ArrayImpl else x).astype(np.float64)
    if values.ndim == 0:
        return f"{text} {float(values):g}"
    numbers = values[~np.isnan(values)]
    range_text = f"in [{numbers.min():g}, {numbers.max():g}]" if numbers.size else "all NaN"
    nan_text = " and NaN" if 0 < numbers.size < values.size else ""
    return f"{text} {range_text}{nan_text}"


def find_nonfinite(value: np.ndarray, nans: bool, infs: bool) -> str | None:
    """Return 'a NaN' if `nans` and the array has one, 'an infinity' if `infs` and it has one, else None."""
    if not dtypes.is_inexact(value.dtype):
        return None
    if nans and np.isnan(value).any():
        return "a NaN"
    return "an infinity" if infs and np.isinf(value).any() else None


def drop_resultless_effects(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Remove effects without results (prints, callbacks) from a program: they happened in the first run."""
    return rewrite(closed, lambda e: [] if e.primitive.effectful and not e.outvars else None)


class _Stop(Exception):
    """Raised to stop the evaluation when a bad result is found."""


FindDevice = Callable[[Axes], tuple[Any, int | None]]  # positions on mapped axes -> (device, process)


class _Search:
    """One search for the first bad result.

    Attributes:
      nans: whether it searches for a NaN; otherwise for an infinity.
      line: the line of the call.
      find_device: primitive of a map -> function from positions on its axes to (device, process).
      found: the result; None until one is found.
    """

    def __init__(self, nans: bool, line: Source | None, find_device: dict[str, FindDevice]) -> None:
        self.nans, self.line, self.find_device = nans, line, find_device
        self.found: NonFiniteResult | None = None

    def find_bad(self, x: Value) -> str | None:
        return find_nonfinite(np.asarray(x), self.nans, not self.nans)

    def describe_example(self, eqn: Eqn, x: Value) -> str:
        """Return a text with the bad example of a batch; "" if unknown."""
        value = np.asarray(x)
        return describe_batch_position(eqn.source, eqn.primitive, np.isnan(value) if self.nans else np.isinf(value))

    # --- in lockstep, by NumPy ----------------------------------------------------------------------------------------
    def run_lockstep(self, run: Callable[[], object], iterations: Sequence[LoopIteration] = (),
                     op: str = "xla_pmap") -> None:
        """Call `run()`, which evaluates maps of primitive `op` with NumPy; stop at the first bad result."""
        find_device = self.find_device[op]

        def observe(eqn: Eqn, operands: Value, results: Value) -> None:
            # NumPy evaluates a map in lockstep: each value is a list with one entry per member.
            for members in results:
                for i, x in enumerate(members):
                    kind = self.find_bad(x)
                    if kind:
                        axes = running_axis_positions(i)
                        self.found = NonFiniteResult(eqn, kind, [xs[i] for xs in operands], eqn.source or self.line,
                                           self.describe_example(eqn, x),
                                           (*iterations, *running_iterations()), axes, *find_device(axes))
                        raise _Stop

        try:
            # NumPy would warn of the very values that are searched.
            with observing_equations(observe), np.errstate(all="ignore"):
                run()
        except _Stop:
            pass

    # --- one primitive at a time, on the device -----------------------------------------------------------------------
    def run_program(self, closed: ClosedJaxpr, args: Sequence[Value], line: Source | None,
                    iterations: Sequence[LoopIteration] = ()) -> list[Value]:
        """Run a program and return its results. At the first bad result set `found` and stop.

        `line` is the line of the call, used for equations of library functions, which have no line of their own.
        `iterations` are those of the enclosing loops.
        """
        jaxpr = closed.jaxpr
        env: dict[Var, Value] = dict(zip(jaxpr.constvars, closed.consts))
        env.update(zip(jaxpr.invars, args))

        def read(a: Atom) -> Value:
            return a.val if type(a) is Literal else env[a]

        for eqn in jaxpr.eqns:
            prim = eqn.primitive
            values = [read(a) for a in eqn.invars]
            # Nested programs first: the bad equation is inside of the call or loop that returns the bad value.
            nested_outs = self.run_nested(eqn, values, eqn.source or line, iterations)
            if self.found:
                return []
            if nested_outs is not None:
                outs: Sequence[Value] = nested_outs
            else:
                out = hooks.evaluator.primitive(prim, values, eqn.params)
                outs = out if prim.multiple else (out,)
                kind = next((k for k in map(self._find_bad_in_array, outs) if k), None)
                if kind:
                    batch = self.describe_example(eqn, outs[0]) if len(outs) == 1 else ""
                    self.found = NonFiniteResult(eqn, kind, values, eqn.source or line, batch, tuple(iterations))
                    return []
            env.update(zip(eqn.outvars, outs))
        return [read(a) for a in jaxpr.outvars]

    def _find_bad_in_array(self, x: Value) -> str | None:
        # A NumPy value is an operand or constant of the user, not a result of this evaluation.
        if type(x) is not ArrayImpl or not dtypes.is_inexact(x.aval.dtype):
            return None
        return self.find_bad(arrays.host_value(x))

    def run_nested(self, eqn: Eqn, values: list[Value], line: Source | None,
                   iterations: Sequence[LoopIteration]) -> list[Value] | None:
        """Run the nested programs of a call or of control flow one primitive at a time; None for other primitives."""
        prim, params = eqn.primitive, eqn.params

        def run(program: ClosedJaxpr, args: Sequence[Value], iteration: int | None = None) -> list[Value]:
            running = iterations if iteration is None else (*iterations, LoopIteration(prim.name, iteration, line))
            return self.run_program(program, args, line, running)

        if prim is prims.xla_pmap_p or prim is prims.shard_map_p:
            # Members communicate, so they cannot be run one after the other. If nothing is found, the map runs on its
            # devices (None).
            self.run_lockstep(lambda: evaluate_primitive(prim, [np.asarray(x) for x in values], params),
                              iterations, prim.name)
            return None
        if "call_jaxpr" in prim.subprograms:
            return run(params["call_jaxpr"], values)
        if prim is prims.cond_p:
            branches, index = params["branches"], int(values[0])
            return run(branches[index if 0 <= index < len(branches) else -1], values[1:])
        if prim is prims.while_p:
            a, b = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
            carry = values[b:]
            # The test is part of an iteration: its equations may produce the bad value, too.
            count = 0
            while count != params.get("max_iters"):
                go = run(params["cond_jaxpr"], values[:a] + carry, count)
                if self.found or not bool(go[0]):
                    break
                carry = run(params["body_jaxpr"], values[a:b] + carry, count)
                if self.found:
                    break
                count += 1
            return carry
        if prim is prims.scan_p:
            # Run the iterations up to the first bad one. If there is none, get the stacked results from the primitive.
            n, m = params["num_consts"], params["num_consts"] + params["num_carry"]
            carry, slices = values[n:m], [np.asarray(x) for x in values[m:]]
            indices = range(params["length"])
            for i in reversed(indices) if params["reverse"] else indices:
                outs = run(params["jaxpr"], values[:n] + carry + [x[i] for x in slices], i)
                if self.found:
                    return []
                carry = outs[:params["num_carry"]]
            return list(hooks.evaluator.primitive(prim, values, params))
        return None


# --- devices of positions on the mapped axes --------------------------------------------------------------------------
def _unknown_device(axes: Axes) -> tuple[Device, int | None]:
    return None, None


def _make_device_finders(placement: Placement | None, closed: ClosedJaxpr, across: bool) -> dict[str, FindDevice]:
    """Return, for each kind of map, a function from a position on its axes to (device, process).

    `across`: the program is a multi-process program, so the process is reported.
    """
    if placement is None:
        return {"xla_pmap": _unknown_device, "shard_map": _unknown_device}
    return {"xla_pmap": _make_pmap_finder(placement, across), "shard_map": _make_shard_map_finder(closed, across)}


def _make_shard_map_finder(closed: ClosedJaxpr, across: bool) -> FindDevice:
    # Axis names -> mesh of a shard_map. If two have the same names, the first one in the program counts.
    grids = {e.params["mesh"][0]: e.params["mesh"] for e in reversed(find_shard_maps(closed))}

    def of_mesh(axes: Axes) -> tuple[Device, int | None]:
        numbers = {a.name: a.number for a in axes}
        mesh = next((m for names, m in grids.items() if {*names} == {*numbers}), None)
        if mesh is None:
            return None, None
        d = mesh[2][int(np.ravel_multi_index([numbers[name] for name in mesh[0]], mesh[1]))]
        return d, d.process_index if across else None

    return of_mesh


def _make_pmap_finder(placement: Placement, across: bool) -> FindDevice:
    devices = placement.devices

    def of_member(axes: Axes) -> tuple[Device, int | None]:
        d = devices[axes[0].number]
        return d, d.process_index if across else None

    if placement.one_member_per_device:
        return of_member
    here = len(placement.visible_devices)
    grid = Grid.from_axes(placement.axes) if placement.axes else None

    def of_place(axes: Axes) -> tuple[Device, int | None]:
        block, local_axes = 0, list(axes)
        if across and local_axes:
            first = local_axes[0]
            # The outermost axis spans the processes, with equally many members in each.
            block = first.number if first.name is PROCESSES else first.number * (len(devices) // here) // first.size
            if first.name is PROCESSES:
                del local_axes[0]
            else:  # a multi-process map: convert the global index to an index in its process
                local_size = first.size * here // len(devices)
                local_axes[0] = AxisPosition(first.name, first.number % local_size, local_size)
        process = devices[block * here].process_index if across else None
        if grid is None or not local_axes:
            return None, process
        free_axes, positions = tuple(range(len(grid.sizes))), [0] * len(grid.sizes)
        for a in local_axes:
            # The same assignment of mesh axes as in lowering (`lower_map`), outermost map first.
            grid_axes = grid.allocate_axes(free_axes, a.size)
            for axis, i in zip(grid_axes, np.unravel_index(a.number, [grid.sizes[t] for t in grid_axes])):
                positions[axis] = int(i)
            free_axes = tuple([f for f in free_axes if f not in grid_axes])
        device_number = int(np.ravel_multi_index(positions, grid.sizes)) if positions else 0
        return devices[block * here + device_number], process

    return of_place


# --- entry points -----------------------------------------------------------------------------------------------------
def locate_nan(closed: ClosedJaxpr, flat: Sequence[Value], nans: bool, line: Source | None,
               placement: Placement | None) -> NonFiniteResult | None:
    """Find the first bad result of a program that runs in this process.

    Args:
      closed: the program.
      flat: its arguments.
      nans: whether to search for a NaN; otherwise for an infinity.
      line: the line of the call.
      placement: its placement; None: on one device.
    Returns:
      The result; None if this run produces none, e.g. because the compiler had reordered operations.
    """
    search = _Search(nans, line, _make_device_finders(placement, closed, False))
    # Replicas of a pmap: their body is evaluated for all members in lockstep, as its collectives need.
    if placement is not None and placement.one_member_per_device and not find_shard_maps(closed):
        _run_single_map(search, closed, [[np.asarray(x) for x in flat]], placement)
    else:
        search.run_program(closed, flat, line)
    return search.found


def locate_nan_multi_process(closed: ClosedJaxpr, parts: Sequence[Sequence[np.ndarray]], nans: bool,
                             line: Source | None, placement: Placement) -> NonFiniteResult | None:
    """Find the first bad result of a multi-process program, in any process.

    Args:
      closed, nans, line, placement: as for `locate_nan`.
      parts: the arguments of each process, in the order of their first devices in the placement. For a program with
        global arrays: one list with these.
    """
    nested_map = find_per_member_map(closed, placement)
    if nested_map is not None:
        parts = _member_args(closed, nested_map, parts, placement)
        closed, placement = first_member_program(closed, placement)
    search = _Search(nans, line, _make_device_finders(placement, closed, True))
    if placement.one_member_per_device and not find_shard_maps(closed):
        _run_single_map(search, closed, parts, placement)
    elif placement.one_member_per_device and placement.local_devices:
        e = single_map_eqn(closed)
        assert e is not None
        search.run_program(*assemble_global_program(closed, e, parts), line)
    elif placement.local_devices:
        search.run_lockstep(lambda: evaluate_spmd(closed, [(PROCESSES, len(parts))], [*zip(*parts)]))
    else:
        search.run_program(closed, parts[0], line)
    return search.found


def _member_processes(devices: Sequence[Device]) -> tuple[list[int], list[int]]:
    """Return (process, index within the process) of each member, given its first device.

    Processes are numbered in order of appearance.
    """
    order: dict[int, int] = {}
    owners = [order.setdefault(d.process_index, len(order)) for d in devices]
    return owners, [owners[:k].count(p) for k, p in enumerate(owners)]


def _member_args(closed: ClosedJaxpr, e: Eqn, parts: Sequence[Sequence[np.ndarray]],
                 placement: Placement) -> list[list[np.ndarray]]:
    """Return the arguments of each member of a nested map, as if each member had a process of its own."""
    axes = dict(zip(e.invars, e.params["in_axes"]))
    firsts = placement.devices[::len(placement.visible_devices) // placement.local_members]
    return [[x if axes.get(v) is None else np.take(x, [i], axes[v]) for v, x in zip(closed.jaxpr.invars, parts[p])]
            for p, i in zip(*_member_processes(firsts))]


def _run_single_map(search: _Search, closed: ClosedJaxpr, parts: Sequence[Sequence[np.ndarray]],
                    placement: Placement) -> None:
    """Run a program that consists of a single map, with one member per device, in lockstep."""
    e = single_map_eqn(closed)
    assert e is not None
    owners, numbers = _member_processes(placement.devices)
    arg_index: dict[Atom, int] = {v: i for i, v in enumerate(closed.jaxpr.invars)}
    consts: dict[Atom, Value] = dict(zip(closed.jaxpr.constvars, closed.consts))
    args = []
    for v, axis in zip(e.invars, e.params["in_axes"]):
        if v in arg_index:
            args.append([parts[p][arg_index[v]] if axis is None
                         else np.asarray(np.take(parts[p][arg_index[v]], i, axis))
                         for p, i in zip(owners, numbers)])
        else:
            args.append([v.val if type(v) is Literal else np.asarray(consts[v])] * len(owners))
    search.run_lockstep(lambda: evaluate_spmd(e.params["call_jaxpr"], [(e.params["axis_name"], len(owners))], args))
