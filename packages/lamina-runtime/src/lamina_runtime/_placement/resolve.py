"""Resolve the devices and shardings of a call: from its program, arguments and options to one `Placement`.

    one device                the default
    partitions                arguments are split over several devices, or the program contains maps; XLA partitions it
    one_member_per_device     the program consists of a single map; each device runs one member of the mapped axis

With several processes, a map uses the devices of all processes. Each process passes and gets its own part of the
arguments and results (the local view). All other programs run on devices of one process, unless their arguments are
global arrays.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from lamina_ir import ClosedJaxpr, Eqn, ShapeDtypeStruct, ShapedArray, prims, subprograms, walk
from lamina_ir.extend import (
    Grid, Placement, ProgramFacts, Tiles, collect_facts, count_devices, single_nested_map_eqn, place_nested_map,
    infer_arg_tiles)
from lamina_parallel import Mesh
from lamina_parallel.extend import parse_mesh, lower_xmaps
from lamina_ir.typing import Device, Sharding, Value
from lamina_ir.extend.unchecked import find_shard_maps, global_axis_size, place_map, single_map_eqn

from .._backend import backends
from .._sharding import shardings
from .._jaxlib import ArrayImpl, GSPMDSharding, SingleDeviceSharding
from .._typing import DeviceList, UserShardings

__all__ = ["ArgSpec", "check_args_process_local", "device_names", "is_multi_process_map",
           "is_multi_process_mesh_map", "iter_outermost_maps", "make_arg_spec",
           "program_mesh", "resolve_placement", "rows_permuted"]


class ArgSpec:
    """An argument without its data: its type, and the sharding of a committed array.

    It has the attributes of a jaxlib array that `resolve_placement` reads.
    """

    __slots__ = ("_sharding", "aval")
    _committed = True

    def __init__(self, aval: ShapedArray, sharding: Sharding) -> None:
        self.aval, self._sharding = aval, sharding


_PLACED = (ArrayImpl, ArgSpec)


def make_arg_spec(x: Value, aval: ShapedArray) -> ArgSpec | ShapedArray:
    """Return the data-free form of an argument for `resolve_placement`.

    Args:
      x: an array, a `ShapeDtypeStruct`, or any other value.
      aval: its type.
    Returns:
      An `ArgSpec` if the argument has a committed sharding, else `aval`.
    """
    if type(x) is ArrayImpl:
        return ArgSpec(aval, x._sharding) if x._committed else aval
    sharding = x.sharding if isinstance(x, ShapeDtypeStruct) else None
    if sharding is None:
        return aval
    if type(sharding) not in (SingleDeviceSharding, GSPMDSharding):
        raise TypeError("lower: the sharding of a ShapeDtypeStruct must be one that an array has as x.sharding; got "
                        f"{type(sharding).__name__}: {sharding!r:.60}")
    return ArgSpec(aval, shardings.resolve_sharding("lower", aval.shape, sharding))


class _Call(NamedTuple):
    """A call whose devices are chosen. The fields are those of `resolve_placement`; `facts` are those of `closed`."""

    kind: str
    name: str
    closed: ClosedJaxpr
    facts: ProgramFacts
    flat: Sequence[Value]
    donated: tuple[bool, ...]
    device: Device
    backend: str | None
    user_shardings: UserShardings | None
    format_size: Callable[[], str | None] | None
    format_arg: Callable[[int], str] | None

    @property
    def lead(self) -> str:
        """The beginning of messages."""
        return f"{self.kind} of `{self.name}`"

    @property
    def user_devices(self) -> tuple[Device, ...] | None:
        """The devices of in_shardings and out_shardings; None if there are none."""
        return None if self.user_shardings is None else self.user_shardings.devices


class _DeviceSource(NamedTuple):
    """The devices of a call, and what names them: subject and verb, for messages.

    `committed`: whether they were named, so that results are committed to them.
    """

    devices: tuple[Device, ...]
    description: str
    committed: bool = True


def resolve_placement(call: str, name: str, closed: ClosedJaxpr, flat: Sequence[Value], donated: tuple[bool, ...] = (),
                      device: Device = None, backend: str | None = None, user_shardings: UserShardings | None = None,
                      format_size: Callable[[], str | None] | None = None,
                      format_arg: Callable[[int], str] | None = None) -> Placement:
    """Choose the devices and shardings of a call.

    Args:
      call, name: the kind of call ("jit", "pmap", ...) and the function's name, for messages.
      closed: the program.
      flat: its arguments, `ArgSpec`s, or types.
      donated: for each argument whether its memory may be reused; (): none.
      device, backend: the options of the call.
      user_shardings: the `UserShardings` of in_shardings and out_shardings, or None.
      format_size: returns a text with the size of the mapped axis and the argument it comes from.
      format_arg: returns the name of an argument, by its flat index.
    Raises:
      ValueError: the arguments are committed to different devices, or there are too few devices for the maps inside.
    """
    facts = collect_facts(closed)
    request = _Call(call, name, closed, facts, flat, donated, device, backend, user_shardings, format_size, format_arg)
    # Most programs: no maps, constraints or keys, and no options. Then the arguments alone decide.
    if facts.is_plain and device is None and backend is None and user_shardings is None:
        devices = _argument_devices(request)
        if devices is None:
            return Placement((backends.default_device(),), donated=donated)
        return _place_on_devices(request, devices, True)
    for platform, lead in facts.backend_requests.items():
        _check_backend(lead, platform)
    # An xmap may become a shard_map, whose mesh names devices.
    if facts.has_xmap:
        closed = lower_xmaps(closed)
        request = request._replace(closed=closed, facts=collect_facts(closed))
    shard_maps = find_shard_maps(closed) if request.facts.has_shard_map else ()
    _check_backend(request.lead, backend)
    e = single_map_eqn(closed)
    # With in_shardings or out_shardings the arguments are global arrays, so a single map runs as a region too.
    if e is not None and request.user_devices is None:
        return _place_map(request, e)
    # The processes may be arranged along the mesh in any way, so their programs around the map differ.
    if any(e.params["here"] for e in shard_maps):
        raise NotImplementedError(f"{request.lead}: a program with other work around an xmap over several "
                                  "processes runs as several executables, so it cannot be lowered, and takes no "
                                  "in_shardings and out_shardings. Call it without these, or lower the xmap by itself")
    return _place_program(request, shard_maps, facts)


def _place_program(call: _Call, shard_maps: Sequence[Eqn], source_facts: ProgramFacts) -> Placement:
    """Place a program that is not a single map.

    Its devices are those of the first source that names some: options of the call, committed arguments, in_shardings
    and out_shardings, sharding constraints, the mesh of a `shard_map`, the maps inside. A later source may only name
    devices that fit those of the earlier ones.

    Args:
      shard_maps: the `shard_map`s in the program.
      source_facts: the facts of the program before xmaps were lowered, with their requests for platforms.
    """
    facts = call.facts
    chosen = _option_devices(call) or _argument_source(call, math.prod(facts.map_sizes) > 1)
    chosen = _user_sharding_devices(call, chosen)
    constrained = _constraint_devices(call)
    if chosen is None and constrained is not None:
        chosen = _DeviceSource(constrained, "with_sharding_constraint names")
    if shard_maps:
        chosen = _shard_map_devices(call, shard_maps[0], chosen)
    if facts.process_axis_sizes is not None:
        return _place_over_processes(call, constrained)
    if math.prod(facts.map_sizes) > 1:
        chosen = _map_devices(call, chosen, shard_maps)
    elif chosen is None:
        platform = next(iter(source_facts.backend_requests), None)
        chosen = _DeviceSource((backends.local_devices(backend=platform)[0] if platform else backends.default_device(),),
                               "the default device is", False)
    _check_conflicts(call, chosen, constrained, source_facts)
    return _place_on_devices(call, chosen.devices, chosen.committed)


def _place_on_devices(call: _Call, devices: tuple[Device, ...], committed: bool) -> Placement:
    """Return the placement of a program that is not a single map, given its devices."""
    n = len(devices)
    if n == 1:
        return Placement(devices, donated=call.donated, committed=committed)
    # An argument stays as it is sharded; the others get what the first map that reads them needs.
    ins = [_tiles_over(x, devices) for x in call.flat]
    axes: tuple[tuple[str, int], ...] = ()
    if math.prod(call.facts.map_sizes) > 1:
        grid = Grid.of(call.closed, n)
        ins, axes = [w if t is None else t for t, w in zip(ins, infer_arg_tiles(call.closed, grid, devices))], grid.axes()
    outs: tuple[Tiles | None, ...] = ()
    if call.user_shardings is not None:
        ins = [t if s is None else s.tiles for t, s in zip(ins, call.user_shardings.ins)]
        outs = tuple([None if s is None else s.tiles for s in call.user_shardings.outs])
    return Placement(devices, partitions=n, in_tiles=tuple([t or Tiles() for t in ins]), out_tiles=outs,
                     donated=call.donated, committed=committed, axes=axes)


def _check_conflicts(call: _Call, chosen: _DeviceSource, constrained: tuple[Device, ...] | None,
                     source_facts: ProgramFacts) -> None:
    """Raise ValueError if a nested call requests another platform, or a constraint names other devices."""
    devices, description, _ = chosen
    platform, lead = next(iter(source_facts.backend_requests.items()), (None, ""))
    if platform is not None and backends.client(platform).platform != devices[0].platform:
        raise ValueError(f"{call.lead}: {lead} has backend={platform!r}, but {description} "
                         f"{device_names(devices)}. Name one platform")
    if constrained is not None and {*constrained} != {*devices}:
        raise ValueError(f"{call.lead}: with_sharding_constraint names "
                         f"{device_names(constrained)}{_constraints(call.closed)[0][1]}; {description} "
                         f"{device_names(devices)}. Name one set of devices, or move the arguments with device_put")


# --- sources of devices, in the order of their priority -----------------------------------------------------------
def _option_devices(call: _Call) -> _DeviceSource | None:
    """Return the device of the options of the call."""
    if call.device is not None:
        return _DeviceSource((backends.resolve_device(call.device),), "device= and backend= name")
    if call.backend is not None:
        return _DeviceSource((backends.local_devices(backend=call.backend)[0],), "device= and backend= name")
    return None


def _argument_source(call: _Call, maps: bool) -> _DeviceSource | None:
    devices = _argument_devices(call, maps)
    return None if devices is None else _DeviceSource(devices, "arguments are committed to")


def _argument_devices(call: _Call, maps: bool = False) -> tuple[Device, ...] | None:
    """Return the devices of the committed arguments, None if no argument is committed.

    All must have the same devices. If the program contains maps, arguments may also be on a subset of them.
    """
    flat, format_arg = call.flat, call.format_arg
    found: tuple[Device, ...] | None = None
    known: DeviceList | None = None
    first = 0
    for i, x in enumerate(flat):
        if type(x) in _PLACED and x._committed:
            here = x._sharding._internal_device_list
            if known is None:
                known, found, first = here, tuple(here), i
            elif here is not known and here != known:
                ours, theirs = {*(found or ())}, {*here}
                # A program with maps runs on the largest set of devices, and moves arguments there from a subset.
                if maps and theirs > ours:
                    known, found, first = here, tuple(here), i
                elif ours != theirs and known.is_fully_addressable != here.is_fully_addressable:
                    one, other = (_format_arg(format_arg, n) for n in (first, i))
                    raise ValueError(f"{call.lead}: {one}, {flat[first].aval.str_long()}, and {other}, "
                                     f"{x.aval.str_long()}: one is a global array over devices of several processes, the "
                                     "other is on devices of one process and may be only a part. Make one global array "
                                     "of the parts with lamina.make_array_from_process_local_data, or pass "
                                     "np.asarray(x) if its value is the same in all processes")
                elif ours != theirs and not (maps and ours > theirs):
                    one, other = (_format_arg(format_arg, n) for n in (first, i))
                    raise ValueError(f"{call.lead}: arguments are committed to different devices: {one}, "
                                     f"{flat[first].aval.str_long()}, to {device_names(found or ())} and {other}, "
                                     f"{x.aval.str_long()}, to {device_names(tuple(here))}. Move them with device_put")
    return found


def _user_sharding_devices(call: _Call, chosen: _DeviceSource | None) -> _DeviceSource | None:
    """Return the devices of in_shardings and out_shardings; `chosen` if there are none."""
    devices = call.user_devices
    if devices is None:
        return chosen
    if chosen is not None and chosen.devices != devices:
        raise ValueError(f"{call.lead}: in_shardings and out_shardings name "
                         f"{device_names(devices)}; the call's other arguments, or device=, use "
                         f"{device_names(chosen.devices)}. Give one set of devices")
    need = math.prod(call.facts.map_sizes)
    if len(devices) < need:
        raise ValueError(f"{call.lead}: in_shardings and out_shardings name {device_names(devices)}; the "
                         f"maps inside take {need} devices")
    return _DeviceSource(devices, "in_shardings and out_shardings name")


def _constraint_devices(call: _Call) -> tuple[Device, ...] | None:
    """Return the devices named by the program's sharding constraints, in the order of the first; None if none."""
    found = _constraints(call.closed) if call.facts.has_constraints else []
    if not found:
        return None
    (first, at), *others = [(backends.devices_from_text(text), at) for text, at in found]
    for devices, there in others:
        if {*devices} != {*first}:
            raise ValueError(f"{call.lead}: with_sharding_constraint names {device_names(first)}{at}, and "
                             f"{device_names(devices)}{there}. Name one set of devices in a program")
    return first


def program_mesh(closed: ClosedJaxpr) -> Any:
    """Return the mesh of the program's first `shard_map`, else the mesh named by its sharding constraints.

    None if the constraints name no mesh, or several.
    """
    facts = collect_facts(closed)
    if not facts.has_shard_map and not facts.has_constraints:
        return None
    return closed.memo("mesh", lambda: (_compute_program_mesh(closed),))[0]


def _compute_program_mesh(closed: ClosedJaxpr) -> Mesh | None:
    for e in find_shard_maps(closed):
        names, sizes, devices = e.params["mesh"]
        return Mesh(np.array(devices, object).reshape(sizes), names)
    texts = {e.params["sharding"].partition(" on ")[2] for e in walk(closed)
             if e.primitive is prims.sharding_constraint_p}
    # Only if all constraints name the same mesh, its names describe the results.
    found = {parse_mesh(text, backends.devices_from_text(text.partition(" of ")[0])) for text in texts if text}
    return found.pop() if len(found) == 1 else None


def _constraints(closed: ClosedJaxpr) -> list[tuple[str, str]]:
    """Return (text of the devices, source line) of the sharding constraints outside of maps; each text once."""
    return closed.memo("constraints", lambda: _collect_constraints(closed))


def _collect_constraints(closed: ClosedJaxpr) -> list[tuple[str, str]]:
    found: dict[str, str] = {}
    todo, seen = [closed], {closed}
    for program in todo:
        for e in program.jaxpr.eqns:
            if e.primitive is prims.sharding_constraint_p:
                _, on, devices = e.params["sharding"].partition(" on ")
                if on:
                    found.setdefault(devices.partition(" of ")[0], f" at {e.source}" if e.source else "")
            elif e.primitive.subprograms and e.primitive not in (prims.xla_pmap_p, prims.shard_map_p):
                fresh = [s for s in subprograms(e) if s not in seen]
                seen.update(fresh)
                todo += fresh
    return list(found.items())


def _tiles_over(x: Value, devices: tuple[Device, ...]) -> Tiles | None:
    """Return how an argument is tiled over `devices`; None unless it is placed on exactly these devices."""
    if type(x) not in _PLACED or len(x._sharding._internal_device_list) == 1:
        return None
    here = tuple(x._sharding._internal_device_list)
    if here == devices:
        return x._sharding.tiles
    # The same devices in another order: the tiles are numbered anew, and no data moves.
    number = {d: i for i, d in enumerate(devices)}
    return x._sharding.tiles.renumber([number[d] for d in here]) if {*here} == {*devices} else None


# --- programs with maps -------------------------------------------------------------------------------------------
def _place_map(call: _Call, e: Eqn) -> Placement:
    """Place a program that is a single map."""
    if e.primitive is prims.shard_map_p:
        return _place_shard_map(call, e)
    size, every, devices, group = e.params["axis_size"], global_axis_size(e), e.params["devices"], None
    lead, backend = f"pmap of `{e.params['name']}`", e.params["backend"] or call.backend
    _check_backend(lead, e.params["backend"])
    check_args_process_local(call.kind, call.name, call.flat, call.format_arg)
    if devices is not None:
        group = backends.checked_device_group(lead, devices)
        chosen: tuple[Device, ...] = group.devices
        sentence = (f"{lead}: compiling computation that requires {every} logical devices, but "
                    f"devices names {len(chosen)} (num_replicas={every}, num_partitions=1)")
        if len(chosen) < every:
            raise _too_few_devices(sentence, every, 1, call.format_size)
        if len(chosen) > every:
            raise ValueError(f"{sentence}: the mapped axis has {every} members, one for each device. Name as many "
                             "devices")
    # Without devices= the axis has the rows of all processes, each on the first devices of its own.
    elif every > size:
        chosen, own = _first_of_each_process(lead, size, every, backend, call.format_size)
        return place_map(call.closed, chosen, own, call.donated)
    else:
        # A jitted map runs where its arguments are. `pmap` itself always takes the first devices, as documented.
        committed = _argument_devices(call, True) if call.kind == "jit" else None
        chosen = committed if committed is not None and len(committed) == size else _first_local(
            lead, size, backend, size, call.format_size)
    return place_map(call.closed, chosen, group.local if every > size and group is not None else (), call.donated)


def _place_shard_map(call: _Call, e: Eqn) -> Placement:
    """Place a program that is a single `shard_map`: on the devices of its mesh."""
    here = e.params["here"]
    if not here:
        devices = _shard_map_devices(call, e, _argument_source(call, True)).devices
        return place_map(call.closed, devices, (), call.donated)
    check_args_process_local(call.kind, call.name, call.flat, call.format_arg, True)
    lead = f"xmap of `{e.params['name']}`"
    group = backends.checked_device_group(lead, e.params["mesh"][2])
    if len(group.local) != math.prod(here):
        raise RuntimeError(f"{lead}: when the program was traced, {math.prod(here)} devices of its "
                           f"mesh belonged to this process; now {len(group.local)} do. Trace it again")
    return place_map(call.closed, group.devices, group.local, call.donated)


def _shard_map_devices(call: _Call, e: Eqn, chosen: _DeviceSource | None) -> _DeviceSource:
    """Return the devices of a program with a `shard_map`: those of its mesh. Sources before it may only name these."""
    description = f"shard_map of `{e.params['name']}`{f' at {e.source}' if e.source else ''}"
    mesh_devices = backends.check_devices(description, e.params["mesh"][2])
    if call.facts.process_axis_sizes is not None:
        raise ValueError(f"{call.lead}: {description} takes global arrays, and a pmap in the same program takes "
                         "this process's part of the mapped axis. Call them one after the other")
    fixed = call.user_devices is not None
    if chosen is not None and ({*chosen.devices} != {*mesh_devices} if fixed else not {*chosen.devices} <= {*mesh_devices}):
        raise ValueError(f"{call.lead}: {chosen.description} {device_names(chosen.devices)}; the mesh of {description} is of "
                         f"{device_names(mesh_devices)}. Move the arguments there with device_put, or make the mesh of "
                         "the devices they are on")
    return _DeviceSource(chosen.devices if fixed and chosen is not None else mesh_devices,
                         "the mesh of a shard_map in it names")


def _first_of_each_process(lead: str, size: int, every: int, backend: str | None,
                           format_size: Callable[[], str | None] | None) -> tuple[tuple[Device, ...], tuple[Device, ...]]:
    """Return (the first `size` devices of every process, in process order; those of this process).

    `every` is the size of the mapped axis over all processes.
    """
    processes = backends.devices_by_process(backend)
    if every != size * len(processes):
        raise RuntimeError(f"{lead}: the program was traced for {every // size} processes; there are "
                           f"{len(processes)} now. Trace it again")
    found = backends.first_devices_of_processes(size, backend)
    if len(found[0]) < every:
        p, theirs = next((p, theirs) for p, theirs in enumerate(processes) if len(theirs) < size)
        raise _too_few_devices(f"{lead}: compiling computation that requires {size} logical devices in "
                               f"each of {len(processes)} processes, but only {len(theirs)} XLA devices are available "
                               f"in process {p} (num_replicas={every}, num_partitions=1)", size, 1, format_size)
    return found


def _map_devices(call: _Call, chosen: _DeviceSource | None, shard_maps: Sequence[Eqn]) -> _DeviceSource:
    """Return devices for a program that contains maps which take several.

    These are the devices named by the maps, else those of the sources before if they are enough, else the first local
    devices.
    """
    need, devices = math.prod(call.facts.map_sizes), () if chosen is None else chosen.devices
    if shard_maps:
        if len(devices) != need:
            raise ValueError(f"{call.lead}: the pmaps inside take {need} devices together; the mesh of a "
                             f"shard_map in it names {device_names(devices)}. A program runs on one set of "
                             "devices: call the pmaps and the shard_map separately")
        assert chosen is not None
        return chosen
    named = call.facts.map_devices
    if named is not None:
        found = backends.check_devices(call.lead, named)
        if len(found) < need:
            raise ValueError(f"{call.lead}: the maps inside take {need} devices together; one of them names "
                             f"{device_names(found)}. Name {need} devices at the outermost map, or none")
    elif chosen is not None and len(devices) >= need:
        return chosen
    else:
        outermost = max([e.params["axis_size"] for e in call.closed.jaxpr.eqns if e.primitive is prims.xla_pmap_p], default=0)
        backend = devices[0].platform if devices and call.backend is None else call.backend
        found = _first_local(call.lead, need, backend, outermost or need, call.format_size)
    return chosen if chosen is not None and found == devices else _DeviceSource(found, "the maps inside run on")


def _first_local(lead: str, need: int, backend: str | None, size: int,
                 format_size: Callable[[], str | None] | None) -> tuple[Device, ...]:
    every = backends.local_devices(backend=backend)
    if len(every) < need:
        raise _too_few_devices(f"{lead}: compiling computation that requires {need} logical devices, but "
                               f"only {len(every)} XLA devices are available (num_replicas={need}, num_partitions=1)",
                               size, need // size,
                               format_size)
    return tuple(every[:need])


def _too_few_devices(sentence: str, size: int, each: int, format_size: Callable[[], str | None] | None) -> ValueError:
    """Build the error for a mapped axis with more members than devices.

    `each` is the number of devices that the maps inside take for one member.
    """
    size_text = format_size() if format_size is not None else None
    if size_text is None:
        size_text = f"the mapped axis has {size} members"
    inside = "" if each == 1 else f", times {each} of the maps inside"
    return ValueError(f"{sentence}: {size_text}{inside}, one for each device. lamina.parallel.padded maps an axis of "
                      "any size, in rounds")


def check_args_process_local(call: str, name: str, flat: Sequence[Value], format_arg: Callable[[int], str] | None,
                mesh: bool = False) -> None:
    """Raise ValueError if an argument is split over devices of several processes.

    A map over several processes takes from each process its own part of the arguments, so a global array does not fit.
    `mesh`: the map is an xmap over a mesh, which accepts global arrays under jit; the message then says so.
    """
    for i, x in enumerate(flat):
        if type(x) in _PLACED and not x._sharding.is_fully_addressable and not shardings.is_replicated(x._sharding):
            raise ValueError(f"{call} of `{name}`: {_format_arg(format_arg, i)}, {x.aval.str_long()}, is split over "
                             "devices of several processes, but each process must pass its own part to a map. Convert "
                             "it with lamina.experimental.multihost_utils.global_array_to_host_local_array(x)"
                             + (", or call the xmap in a jitted function that takes the global array" if mesh else ""))


def is_multi_process_map(e: Eqn) -> bool:
    """Return whether an equation is a map over several processes, each with its own part of operands and results."""
    return is_multi_process_mesh_map(e) or e.primitive is prims.xla_pmap_p and global_axis_size(e) != e.params["axis_size"]


def is_multi_process_mesh_map(e: Eqn) -> bool:
    """Return whether an equation is a map over a mesh with devices of several processes."""
    return e.primitive in (prims.xmap_p, prims.shard_map_p) and bool(e.params["here"])


def iter_outermost_maps(closed: ClosedJaxpr) -> Iterator[Eqn]:
    """Yield the outermost maps of a program: pmaps and maps over multi-process meshes that are in no other map.

    Breadth first; each nested program is visited once.
    """
    todo, seen = [closed], {closed}
    for program in todo:
        for e in program.jaxpr.eqns:
            if e.primitive is prims.xla_pmap_p or is_multi_process_mesh_map(e):
                yield e
            elif e.primitive.subprograms:
                fresh = [s for s in subprograms(e) if s not in seen]
                seen.update(fresh)
                todo += fresh


def rows_permuted(closed: ClosedJaxpr) -> bool | None:
    """Return whether the mapped axes of multi-process maps are ordered differently from the processes.

    None if one executable cannot hold the maps of the program. One executable needs the same devices for all maps, in
    the same order within each process, and equally many in each process.
    """
    return closed.memo("turned", lambda: _compute_permuted(closed))


def _compute_permuted(closed: ClosedJaxpr) -> bool | None:
    maps, need = [*iter_outermost_maps(closed)], count_devices(closed)
    known_groups, permuted = None, False
    if any(getattr(e.params["axis_name"], "apart", False) for e in maps):  # set by `lamina.parallel.padded`
        return None
    for e in [e for e in maps if e.params["devices"]]:
        devices, each = e.params["devices"], count_devices(e.params["call_jaxpr"])
        groups = backends.device_group(devices).process_groups
        members = [{d.process_index for d in devices[k:k + each]} for k in range(0, len(devices), each)]
        if not is_multi_process_map(e) or any(len(group) != need for group in groups) or any(len(g) > 1 for g in members):
            return None
        # The first map with devices= decides; all others must have the same devices in each process.
        known_groups = known_groups or groups
        if {*known_groups} != {*groups}:
            return None
        permuted = permuted or tuple(devices) != tuple([d for group in known_groups for d in group])
    # All maps must have the same number of rows in each process.
    if known_groups and any(
            is_multi_process_map(e) and global_axis_size(e) != e.params["axis_size"] * len(known_groups) for e in maps):
        return None
    # A map without devices= orders its axis by process, so it cannot share an executable with maps in another order.
    order = [group[0].process_index for group in known_groups or ()]
    return None if order != sorted(order) and any(is_multi_process_map(e) and not e.params["devices"]
                                                  for e in maps) else permuted


def check_member_devices(e: Eqn) -> None:
    """Raise ValueError if the devices of one member of a multi-process map belong to several processes.

    Applies to maps that name devices and contain maps, so that each member takes several devices.
    """
    devices, each, rows = e.params["devices"], count_devices(e.params["call_jaxpr"]), global_axis_size(e)
    if not devices or each == 1:
        return
    lead = f"pmap of `{e.params['name']}`: devices"
    if len(devices) != rows * each:
        raise ValueError(f"{lead} names {len(devices)}; the {rows} members of its axis take {each} each, for the maps "
                         f"inside. Name {rows * each}")
    for k in range(rows):
        member = devices[k * each:k * each + each]
        owners = sorted({d.process_index for d in member})
        if len(owners) > 1:
            raise ValueError(f"{lead}: member {k} takes {device_names(member)}, because the maps inside need {each} "
                             f"devices, but these belong to processes {owners}; they must belong to one process. Name "
                             f"the devices of each process consecutively, {each} for each of its members")


def _place_over_processes(call: _Call, constrained: tuple[Device, ...] | None) -> Placement:
    """Return the placement of a program with multi-process maps and other work around them.

    All processes use the same number of devices. Each process has its own local view of the program, which its own
    devices split.
    """
    check_args_process_local(call.kind, call.name, call.flat, call.format_arg)
    if call.user_devices is not None:
        raise ValueError(f"{call.lead}: in_shardings and out_shardings are not supported for a program with a "
                         "map over several processes, because each process has its own local view of the program. "
                         "Leave them out, or pass this process's devices to the map as devices=")
    placement = _place_local_views(call)
    if constrained is not None and {*constrained} != {*placement.local_devices}:
        raise ValueError(f"{call.lead}: with_sharding_constraint names {device_names(constrained)}"
                         f"{_constraints(call.closed)[0][1]}; in this process the maps inside run on "
                         f"{device_names(placement.local_devices)}. Name these devices")
    return placement


def _place_local_views(call: _Call) -> Placement:
    closed, need = call.closed, math.prod(call.facts.map_sizes)
    every, here = call.facts.process_axis_sizes or (1, 1)
    nested = single_nested_map_eqn(closed)
    if nested is not None and nested.params["devices"] and rows_permuted(closed) is not False:
        check_member_devices(nested)
        group = backends.checked_device_group(call.lead, nested.params["devices"])
        return place_nested_map(closed, group.devices, group.local, [_tiles_over(x, group.local) for x in call.flat],
                                call.donated)
    if rows_permuted(closed) is None:
        # All processes take this branch or none does: if only some raised, the others would wait for them forever.
        raise ValueError(f"{call.lead}: the mapped axis has different sizes in the processes, here {here} of "
                         f"{every}, or the maps use different devices, so the program runs as several executables and "
                         "cannot be lowered. Call it instead, or pass the same devices to each map, equally many of "
                         "each process")
    named = call.facts.map_devices
    if named is None:
        devices, own = _first_of_each_process(call.lead, need, every // here * need, call.backend, call.format_size)
    else:
        group = backends.checked_device_group(call.lead, named)
        # The mesh has an axis of processes, so devices are listed process by process. The order of the rows is an
        # order of members.
        devices, own = group.in_process_order, group.local
    grid = Grid.of(closed, need)
    # In the local view an argument is an array over the devices of this process.
    arg_tiles = [_tiles_over(x, own) for x in call.flat]
    ins = [w if t is None or grid.axes_from_tiles(t) is None else t for t, w in zip(arg_tiles, infer_arg_tiles(closed, grid))]
    return Placement(devices, partitions=len(devices), in_tiles=tuple(ins), donated=call.donated, committed=True,
                     axes=grid.axes(len(devices) // need), local_devices=own)


def _check_backend(lead: str, backend: str | None) -> None:
    if backend is not None:
        try:
            backends.client(backend)
        except RuntimeError as e:
            raise RuntimeError(f"{lead}: backend={backend!r}: {e}") from e.__cause__


def _format_arg(format_arg: Callable[[int], str] | None, i: int) -> str:
    return f"argument {i}" if format_arg is None else format_arg(i)


def device_names(where: Sequence[Device]) -> str:
    """`[cpu:0, cpu:1]`."""
    return "[" + ", ".join(map(str, where)) + "]"
