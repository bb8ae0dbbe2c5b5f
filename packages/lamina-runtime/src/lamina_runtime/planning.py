"""Makes the `Plan` of a call that was lowered or compiled: from its placement, its program of named axes, and the collectives
of its module, which are read there and not worked out again."""
from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from lamina_ir import ClosedJaxpr, Eqn, UnnamedAxis, Var, prims, subprograms, trees
from lamina_ir.extend import Tiles, lone_map, stack_depth
from lamina_lowering import SourceLine, xla_computation
from lamina_parallel import Mesh
from lamina_parallel.extend import placed, spec_of
from lamina_tracing.extend import result_path

from . import compiling
from .moves import Move, moves_of
from .placing import mesh_told, outermost
from .plans import ArrayPlan, AxisPlan, CollectivePlan, MemoryPlan, PhasePlan, Plan

__all__ = ["plan_of"]


def plan_of(lowered: Any, program: Any = None) -> Plan:
    """The plan of a lowered call, or of what was compiled of it, an `execution.Program`."""
    spec, staged, place, low = lowered._spec, lowered._staged, lowered._place, lowered._lowered
    closed, written = staged.closed, placed(staged.closed)
    here = place.here
    mesh = _mesh(lowered, written)
    local = _local(mesh, here)
    if program is None:
        ins = place.ins or (Tiles(),) * len(closed.in_avals)
        outs = place.outs or ((None,) if place.partitions > 1 else (Tiles(),)) * len(closed.out_avals)
    else:
        ins, outs = [tuple([s.tiles for s in shardings])
                     for shardings in (program.in_shardings, program.out_shardings[:len(closed.out_avals)])]
    number = {d: i for i, d in enumerate(local.flat_devices)}
    to_mesh = [number[d] for d in here]

    def array(name: str, aval: Any, tiles: Tiles | None, read: bool = True) -> ArrayPlan:
        split, copied = (None, ()) if tiles is None else _split(local, tiles.renumbered(to_mesh), aval.ndim)
        return ArrayPlan(name, aval, tiles, split, copied, here, read)

    kept = low.kept_args
    called = _names(lowered._in_tree, 2, lambda i: spec.argument(lowered._in_tree, i))
    arguments = tuple([array(*each) for each in zip(called, closed.in_avals, ins, kept)])
    called = _names(staged.out_tree, 0, lambda i: result_path(staged.out_tree, i))
    results = tuple([array(*each) for each in zip(called, closed.out_avals, outs)])
    axes = tuple(dict.fromkeys(_axes(closed)))
    return Plan(f"{spec.call} of `{spec.name}`", mesh, axes, tuple(_phases(written)), arguments, results,
                _collectives(lowered, program, mesh, axes, _named(closed, mesh)),
                program is not None or place.members or len(place.devices) == 1,
                _memory(low, written, place, program, arguments, results), program is not None)


def _names(tree: Any, first: int, words: Callable[[int], str]) -> list[str]:
    """What the user calls each leaf. `words` tells it of one, in a time that grows with the tree, so it is asked once for
    those whose paths have the same `first` keys."""
    found: list[str] = []
    leads: dict[Any, str] = {}
    for i, (path, _) in enumerate(trees.tree_leaves_with_path(trees.tree_unflatten(tree, range(tree.num_leaves)))):
        rest = trees.keystr(path[first:])
        lead = leads.get(path[:first])
        if lead is None:
            lead = leads[path[:first]] = words(i).removesuffix(rest)
        found.append(lead + rest)
    return found


# --- devices --------------------------------------------------------------------------------------------------------
def _mesh(lowered: Any, written: ClosedJaxpr) -> Mesh:
    """The devices of a call, in the words of its maps, of its placements, or else in a row."""
    place, layout = lowered._place, lowered._layout
    mentioned = [getattr(x, "_sharding", None) for x in lowered._lying]
    told = [mesh_told(written), None if layout is None else layout.mesh, *[s._mesh for s in mentioned if s is not None]]
    for mesh in told:
        if mesh is not None and {*mesh.flat_devices} == {*place.devices}:
            return mesh
    axes = [(_word(name), size) for name, size in _nested(written)]
    if len({name for name, _ in axes}) < len(axes) or math.prod([size for _, size in axes]) != len(place.devices):
        axes = [("devices", len(place.devices))]
    grid = np.empty(len(place.devices), object)
    grid[:] = place.devices
    return Mesh(grid.reshape([size for _, size in axes]), [name for name, _ in axes])


def _local(mesh: Mesh, here: Sequence[Any]) -> Mesh:
    """The mesh of the devices that arguments and results are seen on: all, or those of this process."""
    if {*here} == {*mesh.flat_devices}:
        return mesh
    try:
        own = mesh.local_mesh
    except ValueError:  # they are no block of it
        return Mesh(here, "devices")
    return own if {*here} == {*own.flat_devices} else Mesh(here, "devices")


def _nested(closed: ClosedJaxpr) -> list[tuple[Hashable, int]]:
    """The axes of the pmaps in one another that a program begins with."""
    found: list[tuple[Hashable, int]] = []
    e = next(outermost(closed), None)
    while e is not None:
        found += e.primitive.flow.axes(e.params)  # type: ignore[union-attr]
        e = next(outermost(e.params["call_jaxpr"]), None)
    return found


def _word(name: Hashable) -> Hashable:
    """A name that may stand in a mesh."""
    return "rows" if isinstance(name, UnnamedAxis) else str(name) if isinstance(name, tuple) else name


def _split(mesh: Mesh, tiles: Tiles, ndim: int) -> tuple[tuple[tuple[Hashable, ...], ...] | None, tuple[Hashable, ...]]:
    """(for each dimension the axes that it is split over, those along which devices hold the same)."""
    spec = spec_of(mesh, tiles)
    if spec is None:
        return None, ()
    dims = [() if e is None else e if type(e) is tuple else (e,) for e in spec]
    split = (*dims, *[()] * (ndim - len(dims)))
    return split, tuple([name for name, n in mesh.shape.items() if n > 1 and not any(name in axes for axes in split)])


# --- axes -----------------------------------------------------------------------------------------------------------
def _axes(closed: ClosedJaxpr) -> Iterator[AxisPlan]:
    for e, _ in _mentions(closed):
        params = e.params
        if not e.primitive.subprograms:
            continue
        over = _over(e)
        turns = dict(params.get("loops", ()))
        sizes = {} if params.get("mesh") is None else dict(zip(*params["mesh"][:2]))
        op = {prims.xla_pmap_p: "pmap"}.get(e.primitive, e.primitive.name)
        for name, size in e.primitive.flow.axes(params):  # type: ignore[union-attr]
            mine = over.get(name, ())
            devices = math.prod([sizes.get(axis, size) for axis in mine])
            k = turns.get(name, 1)
            yield AxisPlan(_word(name), size, mine, devices, k, size // devices // k, f"{op} of `{params['name']}`")


@stack_depth.roomy()
def _phases(closed: ClosedJaxpr) -> list[PhasePlan]:
    """The loops over turns, each once."""
    found: list[PhasePlan] = []
    _add_phases(closed, (), found, set())
    return found


def _add_phases(closed: ClosedJaxpr, around: tuple[int, ...], found: list[PhasePlan], seen: set[Any]) -> None:
    if (closed, around) in seen:
        return
    seen.add((closed, around))
    for e in closed.jaxpr.eqns:
        if not e.primitive.subprograms:
            continue
        inner = around
        if e.primitive is prims.scan_p:
            inner = (*around, e.params["length"])
            scope = "" if e.source is None else e.source.scope
            *_, turns, name = ["", "", *scope.split("/")]
            if turns == "turns":  # as `lamina_parallel.turns` marks its loops
                n, sizes = e.params["num_carry"], [v.aval.size * v.aval.dtype.itemsize for v in e.outvars]
                found.append(PhasePlan(name.replace("_", " "), inner, sum(sizes[:n]), sum(sizes[n:]), str(e.source)))
        for s in subprograms(e):
            _add_phases(s, inner, found, seen)


def _over(e: Eqn) -> dict[Hashable, tuple[Hashable, ...]]:
    """Axis of a map -> the axes of the mesh that it is divided over."""
    if e.primitive is prims.xmap_p:
        return dict(e.params["axis_resources"])
    return {name: (_word(name),) for name, _ in e.primitive.flow.axes(e.params)}  # type: ignore[union-attr]


def _mentions(closed: ClosedJaxpr) -> Iterator[tuple[Eqn, dict[Hashable, tuple[Hashable, ...]]]]:
    """Each map and each collective of a program, with what the axes around are divided over."""
    todo: list[tuple[ClosedJaxpr, dict[Hashable, tuple[Hashable, ...]]]] = [(closed, {})]
    seen = set()
    for program, around in todo:
        for e in program.jaxpr.eqns:
            p = e.primitive
            if p.family == "collectives" and p is not prims.axis_index_p:
                yield e, around
            if not p.subprograms:
                continue
            inside = around
            if p.flow is not None and p.flow.binds is not None:
                yield e, around
                inside = {**around, **_over(e)}
            key = frozenset(inside.items())
            fresh = [s for s in subprograms(e) if (s, key) not in seen]
            seen.update([(s, key) for s in fresh])
            todo += [(s, inside) for s in fresh]


# --- collectives ----------------------------------------------------------------------------------------------------
class _Named(NamedTuple):
    """A collective as the user wrote it."""

    op: str
    axes: tuple[Hashable, ...]
    over: frozenset[Hashable]
    source: Any


def _named(closed: ClosedJaxpr, mesh: Mesh) -> list[_Named]:
    found = []
    for e, around in _mentions(closed):
        if e.primitive.family == "collectives":
            given = [e.params[param] for param in e.primitive.axis_params]
            axes = [n for v in given for n in (v if type(v) is tuple else (v,)) if type(n) is not int]
            over = frozenset([m for name in axes for m in around.get(name, ()) if mesh.shape.get(m) != 1])
            found.append(_Named(e.primitive.name, tuple(map(_word, axes)), over, e.source))
    return found


def _collectives(lowered: Any, program: Any, mesh: Mesh, axes: Sequence[AxisPlan],
                 named: list[_Named]) -> tuple[CollectivePlan, ...]:
    low = lowered._lowered if program is None else program.lowered
    devices = lowered._place.devices
    found: list[CollectivePlan] = []
    if len(devices) > 1:
        compiling.check_size(low)
        text = (xla_computation(low).get_hlo_module().to_string() if program is None else
                "\n".join([m.to_string() for m in program.executable.hlo_modules()]))
        number = {d: i for i, d in enumerate(mesh.flat_devices)}
        places = np.stack(np.unravel_index([number[d] for d in devices], mesh.devices.shape), -1)
        lines = low.source_map()
        for move in moves_of(text, lines):
            # A module of one op has no lines, see `lamina_lowering.Lowered.lines`.
            here = [c for c in named if not lines or _is_at(c.source, move.line)]
            found.append(_met(move, mesh, places, axes, here))
    alone = dict.fromkeys([c for c in named if not c.over])
    found += [CollectivePlan(c.op, c.axes, (), None, 0, "" if c.source is None else str(c.source)) for c in alone]
    return tuple(found)


def _met(move: Move, mesh: Mesh, places: np.ndarray, axes: Sequence[AxisPlan], named: list[_Named]) -> CollectivePlan:
    """A collective of the module, with the user's words for it, who wrote those that are `named` at its line."""
    line, over = move.line, _met_over(move, mesh, places)
    op = "" if line is None else line.op.rpartition("/")[2]
    here = [c for c in named if over is not None and c.over == {*over}]
    # Where no axes of the mesh say who meets whom, those of the one such op of the line do.
    same = [c for c in named if c.over and c.op == op]
    alike = same[:1] if len({c.axes for c in same}) == 1 else []
    best = next((c for c in (*here, *alike) if c.op == op), here[0] if here else None)
    each = move.sent(len(places))
    sent = None if each is None else each * move.times
    if best is not None and (line is None or op in _OPS):
        return CollectivePlan(best.op, best.axes, over, move, sent, _line(line) or str(best.source or ""))
    if op not in _OPS:
        return CollectivePlan("", (), over, move, sent, _line(line))
    # A transformation has made it: of the axes that these of the mesh were given to, if it can be told which.
    taken = {a.name: {m for m in a.over if mesh.shape.get(m) != 1} for a in axes}
    own = [name for name, mine in taken.items() if mine and mine <= {*(over or ())}]
    names = own if sum([len(taken[name]) for name in own]) == len(over or ()) else over or ()
    return CollectivePlan(op, tuple(names), over, move, sent, _line(line))


_OPS = frozenset([p.name for p in prims.ALL if p.family == "collectives"])


def _line(line: SourceLine | None) -> str:
    if line is None or not line.file:
        return ""
    return f"{line.file}:{line.line} ({line.function})" + (f" [{line.part}]" if line.part else "")


def _is_at(source: Any, line: SourceLine | None) -> bool:
    return line is not None and source is not None and (source.file, source.line, source.function) == (
        line.file, line.line, line.function)


def _met_over(move: Move, mesh: Mesh, places: np.ndarray) -> tuple[Hashable, ...] | None:
    """The axes of the mesh along which devices meet, `places` their places in it; None where no axes say who meets whom."""
    names, sizes = mesh.axis_names, mesh.devices.shape
    groups = move.groups or (tuple(range(len(places))),)
    if move.groups is None or len({*map(len, groups)}) > 1 or max([n for group in groups for n in group]) >= len(places):
        return None
    at = places[np.array(groups)]  # [groups, members, axes]
    differs = (at != at[:, :1]).any(1)  # [groups, axes]
    along = differs.any(0)
    if move.kind != "collective-permute" and (
            (differs != along).any() or len(groups[0]) != math.prod([n for n, yes in zip(sizes, along) if yes])):
        return None
    return tuple([name for name, yes in zip(names, along) if yes])


# --- memory ---------------------------------------------------------------------------------------------------------
def _memory(low: Any, written: ClosedJaxpr, place: Any, program: Any, arguments: Sequence[ArrayPlan],
            results: Sequence[ArrayPlan]) -> MemoryPlan | None:
    if program is not None:
        m = program.executable.get_compiled_memory_stats()
        return MemoryPlan(m.argument_size_in_bytes, m.output_size_in_bytes, m.temp_size_in_bytes, m.alias_size_in_bytes, False)
    own = written
    if place.members:
        own = lone_map(written).params["call_jaxpr"]  # type: ignore[union-attr]
    elif len(place.devices) > 1:
        return None
    given = sum([a.shard_bytes or 0 for a in arguments if a.read])
    given += sum([a.size * a.dtype.itemsize for a in low.in_avals[:len(low.const_args)]])
    made = sum([a.shard_bytes or 0 for a in results])
    shared = sum([results[k].shard_bytes or 0 for _, k in low.donation if k is not None])
    return MemoryPlan(given, made, max(0, most_alive(own) - made), shared, True)


@stack_depth.roomy()
def most_alive(closed: ClosedJaxpr) -> int:
    """Bytes of the values that a program makes, where most of them are needed at once, as if each took memory."""
    return _most_alive(closed)


def _most_alive(closed: ClosedJaxpr) -> int:
    return closed.memo("most alive", lambda: _count_alive(closed))


def _count_alive(closed: ClosedJaxpr) -> int:
    jaxpr = closed.jaxpr
    end = len(jaxpr.eqns)
    last = {v: k for k, e in enumerate(jaxpr.eqns) for v in e.invars if isinstance(v, Var)}
    last.update({v: end for v in jaxpr.outvars if isinstance(v, Var)})
    gone: dict[int, int] = {}  # number of an equation -> bytes that nobody needs behind it
    alive = most = 0
    for k, e in enumerate(jaxpr.eqns):
        made, flow = 0, e.primitive.flow
        for v in e.outvars:
            n = v.aval.size * v.aval.dtype.itemsize
            made += n
            gone[last.get(v, k)] = gone.get(last.get(v, k), 0) + n
        inside = max(map(_most_alive, subprograms(e)), default=0) if e.primitive.subprograms else 0
        # What a call makes is what its program makes; a loop's program makes it again in each turn.
        most = max(most, alive + (made + inside if flow is not None and flow.loops else max(made, inside)))
        alive += made - gone.get(k, 0)
    return most
