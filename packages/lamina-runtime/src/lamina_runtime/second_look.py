"""A program that gave a bad value is run once more, op by op, until the first one: where, from what, in which turns of the
loops around, on which device, at which places of the mapped axes, in which process.

By itself it runs on its device, as `_step` does; maps run in lockstep by the ops' NumPy meanings, those over several processes
on the rows of all.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from lamina_ir import ClosedJaxpr, Eqn, Literal, dtypes, evaluate_primitive, evaluate_spmd, rewrite
from lamina_ir.extend import (PROCESSES, Grid, OnAxis, Placement, Turn, axes_text, lone_map, meshes, of_rows,
                              rows_apart, running_places, running_turns, turns_text, watching)
from lamina_tracing import slots
from lamina_tracing.extend import batch_position

from . import arrays
from ._jaxlib import ArrayImpl
from .mesh_parts import put_together

__all__ = ["Found", "bad_value", "look", "look_over", "quiet"]

Axes = tuple[OnAxis, ...]


class Found(NamedTuple):
    """A bad result: whose, what, from what; where in the user's code, in which example of a batch, in which turns of the loops
    around (outermost first), where on the mapped axes, on which device."""

    eqn: Eqn
    kind: str
    operands: Sequence[Any]
    line: Any
    batch: str = ""
    turns: tuple[Turn, ...] = ()
    axes: Axes = ()
    device: Any = None
    process: int | None = None

    def text(self, name: str) -> str:
        """What is said of it; `name` is of the function."""
        given = ", ".join(map(_range, self.operands))
        where = "" if self.device is None else f" on device {self.device}"
        axes = axes_text([a for a in self.axes if a.name is not PROCESSES])
        if axes:
            where += f", at {axes}" if where else f" at {axes}"
        if self.process is not None:
            where += f"{',' if where else ''} in process {self.process}"
        return (f"`{self.eqn.primitive.name}` produced {self.kind} in its result {self.eqn.outvars[0].aval.long()}"
                + (f" at {self.line}" if self.line else "") + (f", {self.batch}" if self.batch else "") + turns_text(self.turns)
                + f", in `{name}`{where}; its operands were {given}")


def _range(x: Any) -> str:
    value = np.asarray(x)
    if value.size == 0 or not (value.dtype.kind in "fiub" or dtypes.is_float(value.dtype)):
        return f"{value.dtype.name}{list(value.shape)}"
    wide = value.astype(np.float64)
    if value.ndim == 0:
        return f"{value.dtype.name}[] {float(wide):g}"
    known = wide[~np.isnan(wide)]
    some = f"in [{known.min():g}, {known.max():g}]" if known.size else "all NaN"
    return f"{value.dtype.name}{list(value.shape)} {some}" + (" and NaN" if 0 < known.size < wide.size else "")


def bad_value(value: np.ndarray, nans: bool, infs: bool) -> str | None:
    """'a NaN' or 'an infinity', if the array holds one that is looked for."""
    if not dtypes.is_inexact(value.dtype):
        return None
    if nans and np.isnan(value).any():
        return "a NaN"
    return "an infinity" if infs and np.isinf(value).any() else None


def quiet(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program without the effects that give nothing: they have been had."""
    return rewrite(closed, lambda e: [] if e.primitive.effectful and not e.outvars else None)


class _Stop(Exception):
    """A bad result has been found."""


Where = Callable[[Axes], tuple[Any, int | None]]  # places on mapped axes -> the device, and the process


class _Look:
    """One look: for what, and what it has found."""

    def __init__(self, nans: bool, line: Any, places: dict[str, Where]) -> None:
        self.nans, self.line, self.places = nans, line, places
        self.found: Found | None = None

    def bad(self, x: Any) -> str | None:
        return bad_value(np.asarray(x), self.nans, not self.nans)

    def place(self, eqn: Eqn, x: Any) -> str:
        """Which example of a batch is bad, where that is known."""
        value = np.asarray(x)
        return batch_position(eqn.source, eqn.primitive, np.isnan(value) if self.nans else np.isinf(value))

    # --- in lockstep, by NumPy ----------------------------------------------------------------------------------------
    def lockstep(self, run: Callable[[], Any], turns: Sequence[Turn] = (), op: str = "xla_pmap") -> None:
        """`run()` evaluates maps of this op with NumPy, until one gives a bad result."""
        where = self.places[op]

        def see(eqn: Eqn, operands: Any, results: Any) -> None:
            for rows in results:
                for i, x in enumerate(rows):
                    kind = self.bad(x)
                    if kind:
                        axes = running_places(i)
                        self.found = Found(eqn, kind, [xs[i] for xs in operands], eqn.source or self.line, self.place(eqn, x),
                                           (*turns, *running_turns()), axes, *where(axes))
                        raise _Stop

        try:
            with watching(see), np.errstate(all="ignore"):
                run()
        except _Stop:
            pass

    # --- op by op, on the device --------------------------------------------------------------------------------------
    def steps(self, closed: ClosedJaxpr, args: Sequence[Any], line: Any, turns: Sequence[Turn] = ()) -> list[Any]:
        """The program's results; as soon as an op gives a bad one, it is `found` and the walk stops.

        `line` is where the program is called, for equations of our own functions, which have no line in it; `turns` says
        which turns of which loops run.
        """
        jaxpr = closed.jaxpr
        env: dict[Any, Any] = dict(zip(jaxpr.constvars, closed.consts))
        env.update(zip(jaxpr.invars, args))

        def read(a: Any) -> Any:
            return a.val if type(a) is Literal else env[a]

        for eqn in jaxpr.eqns:
            prim = eqn.primitive
            values = [read(a) for a in eqn.invars]
            inner = self.inside(eqn, values, eqn.source or line, turns)
            if self.found:
                return []
            if inner is not None:
                outs: Any = inner
            else:
                out = slots.evaluator.primitive(prim, values, eqn.params)
                outs = out if prim.multiple else (out,)
                kind = next((k for k in map(self._of_array, outs) if k), None)
                if kind:
                    batch = self.place(eqn, outs[0]) if len(outs) == 1 else ""
                    self.found = Found(eqn, kind, values, eqn.source or line, batch, tuple(turns))
                    return []
            env.update(zip(eqn.outvars, outs))
        return [read(a) for a in jaxpr.outvars]

    def _of_array(self, x: Any) -> str | None:
        if type(x) is not ArrayImpl or not dtypes.is_inexact(x.aval.dtype):
            return None
        return self.bad(arrays.host_value(x))

    def inside(self, eqn: Eqn, values: list[Any], line: Any, turns: Sequence[Turn]) -> list[Any] | None:
        """The results of a call or of control flow, its programs run op by op; None for anything else."""
        name, params = eqn.primitive.name, eqn.params

        def run(program: ClosedJaxpr, args: Sequence[Any], turn: int | None = None) -> list[Any]:
            return self.steps(program, args, line, turns if turn is None else (*turns, Turn(name, turn, line)))

        if name in ("xla_pmap", "shard_map"):
            self.lockstep(lambda: evaluate_primitive(eqn.primitive, [np.asarray(x) for x in values], params), turns, name)
            return None
        if "call_jaxpr" in eqn.primitive.subprograms:
            return run(params["call_jaxpr"], values)
        if name == "cond":
            branches, index = params["branches"], int(values[0])
            return run(branches[index if 0 <= index < len(branches) else -1], values[1:])
        if name == "while":
            a, b = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
            carry = values[b:]
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
        if name == "scan":
            # Turn by turn until one is bad; the stacked results are those of the whole op, wanted only if none is.
            n, m = params["num_consts"], params["num_consts"] + params["num_carry"]
            carry, rows = values[n:m], [np.asarray(x) for x in values[m:]]
            steps = range(params["length"])
            for i in reversed(steps) if params["reverse"] else steps:
                outs = run(params["jaxpr"], values[:n] + carry + [x[i] for x in rows], i)
                if self.found:
                    return []
                carry = outs[:params["num_carry"]]
            return list(slots.evaluator.primitive(eqn.primitive, values, params))
        return None


# --- where a place on the mapped axes is --------------------------------------------------------------------------------
def _nowhere(axes: Axes) -> tuple[Any, int | None]:
    return None, None


def _devices(placement: Placement | None, closed: ClosedJaxpr, across: bool) -> dict[str, Where]:
    """For each kind of map what tells device and process of a place on its axes."""
    if placement is None:
        return {"xla_pmap": _nowhere, "shard_map": _nowhere}
    return {"xla_pmap": _of_maps(placement, across), "shard_map": _of_meshes(closed, across)}


def _of_meshes(closed: ClosedJaxpr, across: bool) -> Where:
    grids = {e.params["mesh"][0]: e.params["mesh"] for e in reversed(meshes(closed))}  # of the shard_maps, by their axes

    def of_mesh(axes: Axes) -> tuple[Any, int | None]:
        at = {a.name: a.number for a in axes}
        mesh = next((m for names, m in grids.items() if {*names} == {*at}), None)
        if mesh is None:
            return None, None
        d = mesh[2][int(np.ravel_multi_index([at[name] for name in mesh[0]], mesh[1]))]
        return d, d.process_index if across else None

    return of_mesh


def _of_maps(placement: Placement, across: bool) -> Where:
    devices = placement.devices

    def of_member(axes: Axes) -> tuple[Any, int | None]:
        d = devices[axes[0].number]
        return d, d.process_index if across else None

    if placement.members:
        return of_member
    here = len(placement.here)
    grid = Grid.along(placement.axes) if placement.axes else None

    def of_place(axes: Axes) -> tuple[Any, int | None]:
        block, local = 0, list(axes)
        if across and local:
            first = local[0]
            block = first.number if first.name is PROCESSES else first.number * (len(devices) // here) // first.size
            if first.name is PROCESSES:
                del local[0]
            else:  # of a map that spans the processes, the rows of this one
                rows = first.size * here // len(devices)
                local[0] = OnAxis(first.name, first.number % rows, rows)
        process = devices[block * here].process_index if across else None
        if grid is None or not local:
            return None, process
        free, at = tuple(range(len(grid.sizes))), [0] * len(grid.sizes)
        for a in local:
            taken = grid.take(free, a.size)
            for axis, i in zip(taken, np.unravel_index(a.number, [grid.sizes[t] for t in taken])):
                at[axis] = int(i)
            free = tuple([f for f in free if f not in taken])
        number = int(np.ravel_multi_index(at, grid.sizes)) if at else 0
        return devices[block * here + number], process

    return of_place


# --- looks --------------------------------------------------------------------------------------------------------------
def look(closed: ClosedJaxpr, flat: Sequence[Any], nans: bool, line: Any, placement: Placement | None) -> Found | None:
    """The first bad result of a program of this process.

    Args:
      closed: the program.
      flat: its arguments.
      nans: whether a NaN is looked for; else an infinity.
      line: where it is called.
      placement: how it lay on devices; None: on one.
    """
    this = _Look(nans, line, _devices(placement, closed, False))
    if placement is not None and placement.members and not meshes(closed):
        _members(this, closed, [[np.asarray(x) for x in flat]], placement)
    else:
        this.steps(closed, flat, line)
    return this.found


def look_over(closed: ClosedJaxpr, parts: Sequence[Sequence[np.ndarray]], nans: bool, line: Any,
              placement: Placement) -> Found | None:
    """The first bad result of a program over several processes, of whichever.

    Args:
      parts: the arguments of each process, in the order of their first devices in the placement; of a program that sees
        arrays whole, those.
    """
    nest = rows_apart(closed, placement)
    if nest is not None:
        parts = _by_rows(closed, nest, parts, placement)
        closed, placement = of_rows(closed, placement)
    this = _Look(nans, line, _devices(placement, closed, True))
    if placement.members and not meshes(closed):
        _members(this, closed, parts, placement)
    elif placement.members and placement.face:
        e = lone_map(closed)
        assert e is not None
        this.steps(*put_together(closed, e, parts), line)
    elif placement.face:
        this.lockstep(lambda: evaluate_spmd(closed, [(PROCESSES, len(parts))], [*zip(*parts)]))
    else:
        this.steps(closed, parts[0], line)
    return this.found


def _owners(devices: Sequence[Any]) -> tuple[list[int], list[int]]:
    """For each row, whose first device is given, which process has it, these counted as they come, and its number there."""
    order: dict[int, int] = {}
    owners = [order.setdefault(d.process_index, len(order)) for d in devices]
    return owners, [owners[:k].count(p) for k, p in enumerate(owners)]


def _by_rows(closed: ClosedJaxpr, e: Eqn, parts: Sequence[Sequence[np.ndarray]],
             placement: Placement) -> list[list[np.ndarray]]:
    """The arguments of each row of a map whose rows are apart, as those of a process with that row alone."""
    axes = dict(zip(e.invars, e.params["in_axes"]))
    firsts = placement.devices[::len(placement.here) // placement.rows]
    return [[x if axes.get(v) is None else np.take(x, [i], axes[v]) for v, x in zip(closed.jaxpr.invars, parts[p])]
            for p, i in zip(*_owners(firsts))]


def _members(this: _Look, closed: ClosedJaxpr, parts: Sequence[Sequence[np.ndarray]], placement: Placement) -> None:
    """A program that is one map: a row for each device, of the process that has it."""
    e = lone_map(closed)
    assert e is not None
    owners, numbers = _owners(placement.devices)
    place: dict[Any, int] = {v: i for i, v in enumerate(closed.jaxpr.invars)}
    consts: dict[Any, Any] = dict(zip(closed.jaxpr.constvars, closed.consts))
    args = []
    for v, axis in zip(e.invars, e.params["in_axes"]):
        if v in place:
            args.append([parts[p][place[v]] if axis is None else np.asarray(np.take(parts[p][place[v]], i, axis))
                         for p, i in zip(owners, numbers)])
        else:
            args.append([v.val if type(v) is Literal else np.asarray(consts[v])] * len(owners))
    this.lockstep(lambda: evaluate_spmd(e.params["call_jaxpr"], [(e.params["axis_name"], len(owners))], args))
