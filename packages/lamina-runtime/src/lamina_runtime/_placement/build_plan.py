"""Build the `Plan` of a lowered or compiled call.

Shardings come from the placement, axes from the program with named axes. Collectives are parsed from the HLO module, so
the report shows what XLA runs, not what this package would predict.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from lamina_ir import ClosedJaxpr, Eqn, ShapedArray, Source, UnnamedAxis, Var, prims, subprograms, trees
from lamina_ir.extend import Placement, Tiles, single_map_eqn, stack_depth
from lamina_lowering import Lowered, SourceLine, xla_computation
from lamina_parallel import Mesh
from lamina_parallel.extend import lower_xmaps, partition_spec_from_tiles
from lamina_tracing.extend import result_path
from lamina_ir.typing import Device
from lamina_ir.trees import PyTreeDef

from .._compile import executable_cache
from .hlo_collectives import CollectiveInstruction, parse_collectives
from .resolve import program_mesh, iter_outermost_maps
from .plan import ArrayPlan, AxisPlan, CollectivePlan, MemoryPlan, PhasePlan, Plan

__all__ = ["build_plan", "plan_array"]


def build_plan(lowered: Any, program: Any = None) -> Plan:
    """Return the plan of a lowered call, or of its compiled `executable.CompiledProgram`."""
    spec, staged, placement, low = lowered._spec, lowered._staged, lowered._place, lowered._lowered
    closed, lowered_program = staged.closed, lower_xmaps(staged.closed)
    here = placement.visible_devices
    mesh = _mesh(lowered, lowered_program)
    local = _local_part(mesh, here)
    if program is None:
        ins = placement.in_tiles or (Tiles(),) * len(closed.in_avals)
        outs = placement.out_tiles or ((None,) if placement.partitions > 1 else (Tiles(),)) * len(closed.out_avals)
    else:
        ins, outs = [tuple([s.tiles for s in shardings])
                     for shardings in (program.in_shardings, program.out_shardings[:len(closed.out_avals)])]

    def array(name: str, aval: ShapedArray, tiles: Tiles | None, read: bool = True) -> ArrayPlan:
        return _plan_array(name, aval, tiles, local, here, read)

    used_args = low.used_args
    names = _names(lowered._in_tree, 2, lambda i: spec.argument_path(lowered._in_tree, i))
    arguments = tuple([array(*each) for each in zip(names, closed.in_avals, ins, used_args)])
    names = _names(staged.out_tree, 0, lambda i: result_path(staged.out_tree, i))
    results = tuple([array(*each) for each in zip(names, closed.out_avals, outs)])
    axes = tuple(dict.fromkeys(_iter_axis_plans(closed)))
    return Plan(f"{spec.call} of `{spec.name}`", mesh, axes, tuple(_phases(lowered_program)), arguments, results,
                _collectives(lowered, program, mesh, axes, _user_collectives(closed, mesh)),
                program is not None or placement.one_member_per_device or len(placement.devices) == 1,
                _memory(low, lowered_program, placement, program, arguments, results), program is not None)


def plan_array(name: str, aval: ShapedArray, tiles: Tiles, mesh: Mesh | None, devices: Sequence[Device]) -> ArrayPlan:
    """Return the placement of one array.

    Args:
      name, aval: its name and type.
      tiles: the part on each of `devices`.
      mesh: names the axes along which it is split; None: no names.
      devices: the devices of the program in this process, or all.
    """
    local = None if mesh is None else _local_part(mesh, devices)
    return _plan_array(name, aval, tiles, local, tuple(devices))


def _plan_array(name: str, aval: ShapedArray, tiles: Tiles | None, local: Mesh | None, here: tuple[Device, ...],
                is_used: bool = True) -> ArrayPlan:
    if tiles is None or local is None:
        return ArrayPlan(name, aval, tiles, None, (), here, is_used)
    number = {d: i for i, d in enumerate(local.flat_devices)}
    split, copied = _split_axes(local, tiles.renumber([number[d] for d in here]), aval.ndim)
    return ArrayPlan(name, aval, tiles, split, copied, here, is_used)


def _names(tree: PyTreeDef, prefix_length: int, format_leaf: Callable[[int], str]) -> list[str]:
    """Return the name of each leaf of a tree in the user's function.

    `format_leaf(i)` returns the name of one leaf in time linear in the tree. To avoid quadratic time it is called once
    for all leaves that share the first `prefix_length` keys; the rest of the name is the key path.
    """
    names: list[str] = []
    prefixes: dict[tuple[object, ...], str] = {}
    for i, (path, _) in enumerate(trees.tree_leaves_with_path(trees.tree_unflatten(tree, range(tree.num_leaves)))):
        suffix = trees.keystr(path[prefix_length:])
        prefix = prefixes.get(path[:prefix_length])
        if prefix is None:
            prefix = prefixes[path[:prefix_length]] = format_leaf(i).removesuffix(suffix)
        names.append(prefix + suffix)
    return names


# --- devices --------------------------------------------------------------------------------------------------------
def _mesh(lowered: Any, lowered_program: ClosedJaxpr) -> Mesh:
    """Return a mesh of the devices of a call.

    Axis names come from its maps or shardings if these have a mesh over the same devices, else from nested pmaps.
    Without either there is one axis "devices".
    """
    placement, layout = lowered._place, lowered._layout
    arg_shardings = [getattr(x, "_sharding", None) for x in lowered._arg_specs]
    candidates = [program_mesh(lowered_program), None if layout is None else layout.mesh,
                  *[s._mesh for s in arg_shardings if s is not None]]
    for mesh in candidates:
        if mesh is not None and {*mesh.flat_devices} == {*placement.devices}:
            return mesh
    axes = [(_mesh_axis_name(name), size) for name, size in _nested_pmap_axes(lowered_program)]
    if len({name for name, _ in axes}) < len(axes) or math.prod([size for _, size in axes]) != len(placement.devices):
        axes = [("devices", len(placement.devices))]
    grid = np.empty(len(placement.devices), object)
    grid[:] = placement.devices
    return Mesh(grid.reshape([size for _, size in axes]), [name for name, _ in axes])


def _local_part(mesh: Mesh, here: Sequence[Device]) -> Mesh:
    """Return the part of the mesh with the devices of the local view: all devices, or those of this process."""
    if {*here} == {*mesh.flat_devices}:
        return mesh
    try:
        own = mesh.local_mesh
    except ValueError:  # the devices of this process are no block of the mesh
        return Mesh(here, "devices")
    return own if {*here} == {*own.flat_devices} else Mesh(here, "devices")


def _nested_pmap_axes(closed: ClosedJaxpr) -> list[tuple[Hashable, int]]:
    """Return (name, size) of the axes of the first pmap of a program and of the pmaps nested in it."""
    found: list[tuple[Hashable, int]] = []
    e = next(iter_outermost_maps(closed), None)
    while e is not None:
        found += e.primitive.region_signature.axes(e.params)  # type: ignore[union-attr]
        e = next(iter_outermost_maps(e.params["call_jaxpr"]), None)
    return found


def _mesh_axis_name(name: Hashable) -> Hashable:
    """Return a valid mesh axis name for the name of a mapped axis."""
    return "rows" if isinstance(name, UnnamedAxis) else str(name) if isinstance(name, tuple) else name


def _split_axes(mesh: Mesh, tiles: Tiles,
                ndim: int) -> tuple[tuple[tuple[Hashable, ...], ...] | None, tuple[Hashable, ...]]:
    """Return (for each dimension the mesh axes that split it, the mesh axes over which the array is replicated)."""
    spec = partition_spec_from_tiles(mesh, tiles)
    if spec is None:
        return None, ()
    dims = [() if e is None else e if type(e) is tuple else (e,) for e in spec]
    split = (*dims, *[()] * (ndim - len(dims)))
    return split, tuple([name for name, n in mesh.shape.items() if n > 1 and not any(name in axes for axes in split)])


# --- axes -----------------------------------------------------------------------------------------------------------
def _iter_axis_plans(closed: ClosedJaxpr) -> Iterator[AxisPlan]:
    for e, _ in _iter_maps_and_collectives(closed):
        params = e.params
        if not e.primitive.subprograms:
            continue
        mesh_axes = _mesh_axes_of(e)
        loops = dict(params.get("loops", ()))
        sizes = {} if params.get("mesh") is None else dict(zip(*params["mesh"][:2]))
        op = {prims.xla_pmap_p: "pmap"}.get(e.primitive, e.primitive.name)
        for name, size in e.primitive.region_signature.axes(params):  # type: ignore[union-attr]
            own_axes = mesh_axes.get(name, ())
            devices = math.prod([sizes.get(axis, size) for axis in own_axes])
            iterations = loops.get(name, 1)
            yield AxisPlan(_mesh_axis_name(name), size, own_axes, devices, iterations, size // devices // iterations,
                           f"{op} of `{params['name']}`")


@stack_depth.with_recursion_limit()
def _phases(closed: ClosedJaxpr) -> list[PhasePlan]:
    """Return the loops over serial axes, each once."""
    found: list[PhasePlan] = []
    _add_phases(closed, (), found, set())
    return found


def _add_phases(closed: ClosedJaxpr, enclosing: tuple[int, ...], found: list[PhasePlan],
                seen: set[tuple[ClosedJaxpr, tuple[int, ...]]]) -> None:
    if (closed, enclosing) in seen:
        return
    seen.add((closed, enclosing))
    for e in closed.jaxpr.eqns:
        if not e.primitive.subprograms:
            continue
        nested_lengths = enclosing
        if e.primitive is prims.scan_p:
            nested_lengths = (*enclosing, e.params["length"])
            scope = "" if e.source is None else e.source.scope
            *_, marker, name = ["", "", *scope.split("/")]
            if marker == "turns":  # the scope in which `lamina_parallel.serial_loop` runs its loops
                n, sizes = e.params["num_carry"], [v.aval.size * v.aval.dtype.itemsize for v in e.outvars]
                found.append(PhasePlan(name.replace("_", " "), nested_lengths, sum(sizes[:n]), sum(sizes[n:]),
                                       str(e.source)))
        for s in subprograms(e):
            _add_phases(s, nested_lengths, found, seen)


def _mesh_axes_of(e: Eqn) -> dict[Hashable, tuple[Hashable, ...]]:
    """Return, for each axis of a map, the mesh axes over which it is divided."""
    if e.primitive is prims.xmap_p:
        return dict(e.params["axis_resources"])
    return {name: (_mesh_axis_name(name),) for name,
            _ in e.primitive.region_signature.axes(e.params)}  # type: ignore[union-attr]


def _iter_maps_and_collectives(closed: ClosedJaxpr) -> Iterator[tuple[Eqn, dict[Hashable, tuple[Hashable, ...]]]]:
    """Yield each map and each collective of a program, with the mesh axes of the enclosing map axes.

    A nested program is visited once for each assignment of mesh axes.
    """
    todo: list[tuple[ClosedJaxpr, dict[Hashable, tuple[Hashable, ...]]]] = [(closed, {})]
    seen = set()
    for program, enclosing in todo:
        for e in program.jaxpr.eqns:
            p = e.primitive
            if p.family == "collectives" and p is not prims.axis_index_p:
                yield e, enclosing
            if not p.subprograms:
                continue
            inner = enclosing
            if p.region_signature is not None and p.region_signature.axis_binding is not None:
                yield e, enclosing
                inner = {**enclosing, **_mesh_axes_of(e)}
            key = frozenset(inner.items())
            fresh = [s for s in subprograms(e) if (s, key) not in seen]
            seen.update([(s, key) for s in fresh])
            todo += [(s, inner) for s in fresh]


# --- collectives ----------------------------------------------------------------------------------------------------
class _UserCollective(NamedTuple):
    """A collective in the user's program. `mesh_axes` are the mesh axes over which its axes are divided."""

    op: str
    axes: tuple[Hashable, ...]
    mesh_axes: frozenset[Hashable]
    source: Source | None


def _user_collectives(closed: ClosedJaxpr, mesh: Mesh) -> list[_UserCollective]:
    found = []
    for e, enclosing in _iter_maps_and_collectives(closed):
        if e.primitive.family == "collectives":
            axis_params = [e.params[param] for param in e.primitive.axis_params]
            axes = [n for v in axis_params for n in (v if type(v) is tuple else (v,)) if type(n) is not int]
            mesh_axes = frozenset([m for name in axes for m in enclosing.get(name, ()) if mesh.shape.get(m) != 1])
            found.append(_UserCollective(e.primitive.name, tuple(map(_mesh_axis_name, axes)), mesh_axes, e.source))
    return found


def _collectives(lowered: Any, program: Any, mesh: Mesh, axes: Sequence[AxisPlan],
                 named: list[_UserCollective]) -> tuple[CollectivePlan, ...]:
    low = lowered._lowered if program is None else program.lowered
    devices = lowered._place.devices
    found: list[CollectivePlan] = []
    if len(devices) > 1:
        executable_cache.check_size(low)
        text = (xla_computation(low).get_hlo_module().to_string() if program is None else
                "\n".join([m.to_string() for m in program.executable.hlo_modules()]))
        number = {d: i for i, d in enumerate(mesh.flat_devices)}
        places = np.stack(np.unravel_index([number[d] for d in devices], mesh.devices.shape), -1)
        lines = low.source_map()
        for move in parse_collectives(text, lines):
            # A module of a single operation has no source lines, see `lamina_lowering.Lowered.lines`.
            candidates = [c for c in named if not lines or _is_at_line(c.source, move.line)]
            found.append(_describe_collective(move, mesh, places, axes, candidates))
    without_devices = dict.fromkeys([c for c in named if not c.mesh_axes])
    found += [CollectivePlan(c.op, c.axes, (), None, 0, "" if c.source is None else str(c.source))
              for c in without_devices]
    return tuple(found)


def _describe_collective(move: CollectiveInstruction, mesh: Mesh, places: np.ndarray, axes: Sequence[AxisPlan],
                         named: list[_UserCollective]) -> CollectivePlan:
    """Describe an HLO collective by the matching collective of the user's program.

    Args:
      move: the HLO instruction.
      places: [devices, mesh axes]: the position of each participant in the mesh.
      named: the collectives of the user's program at the line of the instruction.
    """
    line, mesh_axes = move.line, _group_axes(move, mesh, places)
    op = "" if line is None else line.op.rpartition("/")[2]
    same_axes = [c for c in named if mesh_axes is not None and c.mesh_axes == {*mesh_axes}]
    # Candidates: first collectives over the same mesh axes. If the groups are not expressible by mesh axes, use the
    # collectives of this kind at the line, provided they agree on the axes.
    same_kind = [c for c in named if c.mesh_axes and c.op == op]
    agreeing = same_kind[:1] if len({c.axes for c in same_kind}) == 1 else []
    best = next((c for c in (*same_axes, *agreeing) if c.op == op), same_axes[0] if same_axes else None)
    bytes_once = move.bytes_sent(len(places))
    sent = None if bytes_once is None else bytes_once * move.executions
    if best is not None and (line is None or op in _OPS):
        return CollectivePlan(best.op, best.axes, mesh_axes, move, sent, _format_line(line) or str(best.source or ""))
    if op not in _OPS:
        return CollectivePlan("", (), mesh_axes, move, sent, _format_line(line))
    # Made by a transformation, e.g. the transpose of another collective. Map its mesh axes back to the named axes that
    # were assigned to them; if that is ambiguous, report the mesh axes.
    assigned = {a.name: {m for m in a.mesh_axes if mesh.shape.get(m) != 1} for a in axes}
    axis_names = [name for name, its_axes in assigned.items() if its_axes and its_axes <= {*(mesh_axes or ())}]
    names = axis_names if sum([len(assigned[name]) for name in axis_names]) == len(mesh_axes or ()) else mesh_axes or ()
    return CollectivePlan(op, tuple(names), mesh_axes, move, sent, _format_line(line))


_OPS = frozenset([p.name for p in prims.ALL if p.family == "collectives"])


def _format_line(line: SourceLine | None) -> str:
    if line is None or not line.file:
        return ""
    return f"{line.file}:{line.line} ({line.function})" + (f" [{line.part}]" if line.part else "")


def _is_at_line(source: Source | None, line: SourceLine | None) -> bool:
    return line is not None and source is not None and (source.file, source.line, source.function) == (
        line.file, line.line, line.function)


def _group_axes(move: CollectiveInstruction, mesh: Mesh, places: np.ndarray) -> tuple[Hashable, ...] | None:
    """Return the mesh axes spanned by the groups of a collective; None if no axes express the groups.

    `places` has the position of each participant in the mesh: [devices, mesh axes].
    """
    names, sizes = mesh.axis_names, mesh.devices.shape
    groups = move.groups or (tuple(range(len(places))),)
    if (move.groups is None or len({*map(len, groups)}) > 1
            or max([n for group in groups for n in group]) >= len(places)):
        return None
    positions = places[np.array(groups)]  # [groups, members, axes]
    varies = (positions != positions[:, :1]).any(1)  # [groups, axes]
    varying = varies.any(0)
    if move.kind != "collective-permute" and (
            (varies != varying).any() or len(groups[0]) != math.prod([n for n, yes in zip(sizes, varying) if yes])):
        return None
    return tuple([name for name, yes in zip(names, varying) if yes])


# --- memory ---------------------------------------------------------------------------------------------------------
def _memory(low: Lowered, lowered_program: ClosedJaxpr, placement: Placement, program: Any,
            arguments: Sequence[ArrayPlan], results: Sequence[ArrayPlan]) -> MemoryPlan | None:
    if program is not None:
        m = program.executable.get_compiled_memory_stats()
        return MemoryPlan(m.argument_size_in_bytes, m.output_size_in_bytes, m.temp_size_in_bytes, m.alias_size_in_bytes,
                          False)
    program_of_device = lowered_program
    if placement.one_member_per_device:
        program_of_device = single_map_eqn(lowered_program).params["call_jaxpr"]  # type: ignore[union-attr]
    elif len(placement.devices) > 1:
        return None
    argument_bytes = sum([a.shard_bytes or 0 for a in arguments if a.is_used])
    argument_bytes += sum([a.size * a.dtype.itemsize for a in low.in_avals[:len(low.const_args)]])
    result_bytes = sum([a.shard_bytes or 0 for a in results])
    aliased = sum([results[k].shard_bytes or 0 for _, k in low.donation if k is not None])
    return MemoryPlan(argument_bytes, result_bytes, max(0, estimate_peak_bytes(program_of_device) - result_bytes),
                      aliased, True)


@stack_depth.with_recursion_limit()
def estimate_peak_bytes(closed: ClosedJaxpr) -> int:
    """Return the peak size of the live values of a program in bytes, as if each value took memory."""
    return _peak_bytes(closed)


def _peak_bytes(closed: ClosedJaxpr) -> int:
    return closed.memo("most alive", lambda: _compute_peak_bytes(closed))


def _compute_peak_bytes(closed: ClosedJaxpr) -> int:
    jaxpr = closed.jaxpr
    end = len(jaxpr.eqns)
    last = {v: k for k, e in enumerate(jaxpr.eqns) for v in e.invars if isinstance(v, Var)}
    last.update({v: end for v in jaxpr.outvars if isinstance(v, Var)})
    freed: dict[int, int] = {}  # index of an equation -> bytes whose last use it is
    live = peak = 0
    for k, e in enumerate(jaxpr.eqns):
        output_bytes, flow = 0, e.primitive.region_signature
        for v in e.outvars:
            n = v.aval.size * v.aval.dtype.itemsize
            output_bytes += n
            freed[last.get(v, k)] = freed.get(last.get(v, k), 0) + n
        nested_bytes = max(map(_peak_bytes, subprograms(e)), default=0) if e.primitive.subprograms else 0
        # The outputs of a call are values of its nested program, so count only the larger. The outputs of a loop are
        # stacked, apart from the values of its current iteration, so count both.
        is_loop = flow is not None and flow.loops
        peak = max(peak, live + (output_bytes + nested_bytes if is_loop else max(output_bytes, nested_bytes)))
        live += output_bytes - freed.get(k, 0)
    return peak
