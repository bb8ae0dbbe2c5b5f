"""Placements of the intermediate values that the user names with `checkpoint_name`.

A name has no instruction of its own, and the compiler chooses the sharding of an intermediate value. So the program is
compiled once more with the named values as further results: the compiler reports the shardings of results. On one device,
and inside a map, where each device computes its own value, the placement is known without that.
"""
from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from lamina_ir import ClosedJaxpr, DropVar, Eqn, Jaxpr, Literal, ShapedArray, Var, prims, subprograms
from lamina_ir.extend import RegionView, Tiles

from ._equations import EquationTable, is_call
from ._progress import note_progress

__all__ = ["expose_names", "named_placement_rows"]

Row = dict[str, Any]
_MAX_NAMED = 200  # of one function
_MAPS = (prims.xla_pmap_p, prims.shard_map_p)


class _Named(NamedTuple):
    """A named value.

    Attributes:
      eqn: the equation that names it.
      loops: how many loops hold it; the exposed result has a leading axis for each.
      enclosing: the map or the branch that holds it, so that it is no result; None: it is one.
    """

    eqn: Eqn
    loops: int = 0
    enclosing: Eqn | None = None

    @property
    def is_result(self) -> bool:
        return self.enclosing is None


class _Exposer:
    """Builds a program with its named values as further results; calls are inlined."""

    def __init__(self) -> None:
        self.constvars: list[Var] = []
        self.consts: list[Any] = []
        self.eqns: list[Eqn] = []
        self.found: list[_Named] = []
        self.exposed: list[Var] = []

    def program(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        jaxpr = closed.jaxpr
        ins = [Var(v.aval) for v in jaxpr.invars]
        outs = self.emit(closed, ins)
        self._drop_dead(outs)
        return ClosedJaxpr(Jaxpr(self.constvars, ins, self.eqns, [*outs, *self.exposed]), self.consts)

    def _drop_dead(self, outs: Sequence[Any]) -> None:
        """Forget the names of values that no result needs, which the compiled program does not have."""
        needed: set[Any] = {v for v in outs if isinstance(v, Var)}
        live: list[Eqn] = []
        for e in reversed(self.eqns):
            if e.primitive.effectful or any(v in needed for v in e.outvars):
                live.append(e)
                needed.update([v for v in e.invars if isinstance(v, Var)])
        dead = {id(e) for e in self.eqns} - {id(e) for e in live}
        made = {v for e in live for v in e.outvars}
        kept = [v in made for v in self.exposed]
        is_kept = iter(kept)
        self.found = [named for named in self.found
                      if (next(is_kept) if named.is_result else id(named.enclosing) not in dead)]
        self.exposed = [v for v, keep in zip(self.exposed, kept) if keep]
        self.eqns = live[::-1]

    def emit(self, closed: ClosedJaxpr, ins: Sequence[Any]) -> list[Any]:
        """Add the equations of a program with the operands `ins`; return its results."""
        jaxpr = closed.jaxpr
        own = [Var(v.aval) for v in jaxpr.constvars]
        self.constvars += own
        self.consts += closed.consts
        env: dict[Var, Any] = {**dict(zip(jaxpr.constvars, own)), **dict(zip(jaxpr.invars, ins))}

        def read(a: Any) -> Any:
            return a if isinstance(a, Literal) else env[a]

        for e in jaxpr.eqns:
            operands = [read(a) for a in e.invars]
            if is_call(e):
                [body, *_] = RegionView.of(e).bodies
                env.update(zip(e.outvars, self.emit(body.program, [operands[i] for i in body.ins])))
                continue
            outs = [type(v)(v.aval) for v in e.outvars]
            if e.primitive is prims.name_p and not isinstance(e.outvars[0], DropVar):
                self._add(_Named(e), outs[0])
            elif e.primitive is prims.scan_p:
                e, outs = self._scan(e, outs)
            made = Eqn(e.primitive, operands, outs, e.params, e.source)
            if e.primitive.subprograms and e.primitive is not prims.scan_p:
                self.found += [_Named(inner, enclosing=made) for inner in _names_in(e)]
            env.update(zip(e.outvars, outs))
            self.eqns.append(made)
        return [read(a) for a in jaxpr.outvars]

    def _add(self, named: _Named, v: Var) -> None:
        self.found.append(named)
        self.exposed.append(v)

    def _scan(self, e: Eqn, outs: list[Var]) -> tuple[Eqn, list[Var]]:
        """Return a scan that stacks the named values of its body, and its results."""
        inner = _Exposer()
        body = inner.program(e.params["jaxpr"])
        if not inner.found:
            return e, outs
        stacked = [Var(ShapedArray((e.params["length"], *v.aval.shape), v.aval.dtype)) for v in inner.exposed]
        results = iter(stacked)
        for named in inner.found:
            if named.is_result:
                self._add(named._replace(loops=named.loops + 1), next(results))
            else:
                self.found.append(named)
        params = {**e.params, "jaxpr": body}
        return Eqn(e.primitive, e.invars, [*e.outvars, *stacked], params, e.source), [*outs, *stacked]


def _names_in(e: Eqn) -> Iterator[Eqn]:
    for s in subprograms(e):
        for inner in s.jaxpr.eqns:
            if inner.primitive is prims.name_p:
                yield inner
            elif inner.primitive.subprograms:
                yield from _names_in(inner)


def _has_names(closed: ClosedJaxpr) -> bool:
    seen: set[int] = set()
    todo = [closed]
    while todo:
        program = todo.pop()
        if id(program) in seen:
            continue
        seen.add(id(program))
        for e in program.eqns:
            if e.primitive is prims.name_p:
                return True
            if e.primitive.subprograms:
                todo += subprograms(e)
    return False


def expose_names(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[_Named]]:
    """Return a program with its named values as further results, and all its named values in order.

    Those inside a map, a while loop or a branch are no results.
    """
    exposer = _Exposer()
    program = exposer.program(closed)
    return program, exposer.found


def named_placement_rows(program: Any, closed: ClosedJaxpr, plan: Any, table: EquationTable,
                         problems: list[str]) -> list[Row]:
    """Return which device holds which block of each named value, and set the shardings of their values.

    Args:
      program: the `CompiledProgram`.
      closed: its program.
      plan: its `Plan`, or the placements of `plan_of_program`.
      table: the equations of the function.
      problems: collects sentences on values whose placement is unknown.
    """
    if not _has_names(closed):
        return []
    from lamina_runtime.extend import prepare_program  # noqa: PLC0415 (absent on the NumPy-only install)
    exposed, found = expose_names(prepare_program(closed))
    if len(found) > _MAX_NAMED:
        problems.append(f"`{program.name}` names {len(found)} values; the placements of the first {_MAX_NAMED} are reported.")
    results = _compile_exposed(program, exposed, found, problems)
    numbered = {(row.eqn.params["name"], row.eqn.source, row.number): row for row in table.rows
                if row.eqn.primitive is prims.name_p}
    rows: list[Row] = []
    names: dict[str, int] = {}
    unknown: dict[str, None] = {}
    for named in found[:_MAX_NAMED]:
        name = str(named.eqn.params["name"])
        placed = _place(program, named, results, plan)
        if placed is None:
            unknown[name] = None
            continue
        key = next((k for k in numbered if k[:2] == (name, named.eqn.source)), None)
        value = None
        if key is not None:
            row = numbered.pop(key)
            value = table.value(row.eqn.outvars[0])
            table.values[value]["sharding"] = placed[0]
            name += " (recomputed)" if row.phase == "recomputed" else ""
        names[name] = names.get(name, 0) + 1
        label = name if names[name] == 1 else f"{name} ({names[name]})"
        rows.append({"value": value, "name": label, "role": "named", "sharding": placed[0], "blocks": placed[1]})
    if unknown:
        listed = ", ".join([f"`{name}`" for name in unknown])
        problems.append(f"The placement of the named value{'s' * (len(unknown) > 1)} {listed} is unknown: "
                        "the compiler reports no sharding inside of a branch, a while loop or a map with automatic axes.")
    return rows


def _compile_exposed(program: Any, exposed: ClosedJaxpr, found: Sequence[_Named],
                     problems: list[str]) -> Iterator[tuple[ShapedArray, Tiles]] | None:
    """Return the type and the tiles of each exposed value; None if they are unknown, or not needed."""
    placement = program.placement
    if placement.partitions == 1 or not any(named.is_result for named in found):
        return None
    from lamina_runtime.extend import compile_variant  # noqa: PLC0415 (absent on the NumPy-only install)
    note_progress("compiling the program with named values as results")
    n = len(program.out_avals)
    more = len(exposed.out_avals) - n
    outs = (*placement.out_tiles, *[None] * more) if placement.out_tiles else ()
    try:
        variant = compile_variant(program, exposed, out_tiles=outs)
    except (Exception, KeyboardInterrupt) as e:
        what = "was interrupted" if isinstance(e, KeyboardInterrupt) else f"raised {type(e).__name__}"
        problems.append("The placements of named values are unknown, because compiling the program with them as results "
                        f"{what}.")
        return None
    return iter([(a, s.tiles) for a, s in zip(variant.out_avals[n:], variant.out_shardings[n:])])


def _place(program: Any, named: _Named, results: Iterator[tuple[ShapedArray, Tiles]] | None,
           plan: Any) -> tuple[str, list[Row]] | None:
    """Return (sharding as text, blocks) of a named value; None if unknown."""
    placement, aval = program.placement, named.eqn.outvars[0].aval
    devices = placement.visible_devices
    if named.is_result and results is not None:
        exposed, tiles = next(results)
        if any(n > 1 for n in tiles.counts[:named.loops]):
            return None
        if not tiles.is_replicated:
            tiles = tiles._replace(counts=tiles.counts[named.loops:])
        return _tiled(named, aval, tiles, plan, devices)
    if len(placement.devices) == 1:
        return _tiled(named, aval, Tiles(), plan, devices)
    return _place_in_map(named, aval, placement)


def _tiled(named: _Named, aval: ShapedArray, tiles: Tiles, plan: Any, devices: Sequence[Any]) -> tuple[str, list[Row]]:
    from lamina_runtime.extend import plan_array  # noqa: PLC0415 (absent on the NumPy-only install)
    array = plan_array(str(named.eqn.params["name"]), aval, tiles, getattr(plan, "mesh", None), devices)
    text = array.describe_sharding()
    blocks = [{"device": d.id, "slices": [[int(a), int(b)] for a, b in block]}
              for block, holders in array.blocks().items() for d in holders]
    return text, blocks


def _place_in_map(named: _Named, aval: ShapedArray, placement: Any) -> tuple[str, list[Row]] | None:
    """Return the placement of a value of each member of a map: the blocks have a leading dimension of members."""
    e = named.enclosing
    if e is None or e.primitive not in _MAPS or e.params.get("auto"):
        return None
    whole = [[0, int(n)] for n in aval.shape]
    if e.primitive is prims.shard_map_p:
        names, sizes, _ = e.params["mesh"]
        ids = np.asarray(_device_ids(e.params["mesh"][2], placement))
        axes = ", ".join([repr(n) for n in names])
        count = math.prod(sizes)
    else:
        name = e.params["axis_name"]
        axes, count = repr(name) if isinstance(name, str) else "the mapped axis", int(e.params["axis_size"])
        ids = np.asarray([d.id for d in placement.devices])
    if ids.size != count:
        return None  # a map inside of another one
    return (f"one value for each position of {axes}",
            [{"device": int(d), "slices": [[k, k + 1], *whole]} for k, d in enumerate(ids.reshape(-1))])


def _device_ids(found: Any, placement: Any) -> list[int]:
    """Return the ids of the devices of a mesh, in its order."""
    return [int(getattr(d, "id", d)) for d in np.asarray(found, object).reshape(-1)] if found else [
        d.id for d in placement.devices]
