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
from typing import Any

import numpy as np
from lamina_ir import ClosedJaxpr, Eqn, ShapeDtypeStruct, ShapedArray, prims, subprograms, walk
from lamina_ir.extend import (Grid, Placement, Tiles, count_devices, single_map_eqn, single_nested_map_eqn, place_map,
                              find_shard_maps, place_nested_map, global_axis_size, infer_arg_tiles)
from lamina_parallel import Mesh
from lamina_parallel.extend import parse_mesh, lower_xmaps

from .._backend import backends
from .._sharding import shardings
from .._jaxlib import ArrayImpl, GSPMDSharding, SingleDeviceSharding

__all__ = ["ArgSpec", "check_args_process_local", "device_names", "find_multi_process_axis_sizes",
           "is_multi_process_map", "is_multi_process_mesh_map", "iter_outermost_maps", "make_arg_spec",
           "program_mesh", "resolve_placement", "rows_permuted"]


class ArgSpec:
    """An argument without its data: its type, and the sharding of a committed array.

    It has the attributes of a jaxlib array that `resolve_placement` reads.
    """

    __slots__ = ("_sharding", "aval")
    _committed = True

    def __init__(self, aval: ShapedArray, sharding: Any) -> None:
        self.aval, self._sharding = aval, sharding


_PLACED = (ArrayImpl, ArgSpec)


def make_arg_spec(x: Any, aval: ShapedArray) -> Any:
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


def resolve_placement(call: str, name: str, closed: ClosedJaxpr, flat: Sequence[Any], donated: tuple[bool, ...] = (),
                 device: Any = None, backend: str | None = None, user_shardings: Any = None,
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
    request = nested_backend_request(closed)
    closed = lower_xmaps(closed)
    e, mesh_maps = single_map_eqn(closed), find_shard_maps(closed)
    _check_backend(f"{call} of `{name}`", backend)
    if e is not None and (user_shardings is None or user_shardings.devices is None):
        return _place_map(call, name, closed, e, flat, donated, backend, format_size, format_arg)
    if any(e.params["here"] for e in mesh_maps):
        raise NotImplementedError(f"{call} of `{name}`: a program with other work around an xmap over several "
                                  "processes runs as several executables, so it cannot be lowered, and takes no "
                                  "in_shardings and out_shardings. Call it without these, or lower the xmap by itself")
    # Priority: the options of the call, then the devices of committed arguments, then the default device.
    need = count_devices(closed)
    chosen: tuple[Any, ...] | None
    source = "device= and backend= name"
    if device is not None:
        chosen = (backends.resolve_device(device),)
    elif backend is not None:
        chosen = (backends.local_devices(backend=backend)[0],)
    else:
        chosen, source = _committed(call, name, flat, need > 1, format_arg), "arguments are committed to"
    if user_shardings is not None and user_shardings.devices is not None:
        if chosen is not None and chosen != user_shardings.devices:
            raise ValueError(f"{call} of `{name}`: in_shardings and out_shardings name "
                             f"{device_names(user_shardings.devices)}; the call's other arguments, or device=, use "
                             f"{device_names(chosen)}. Give one set of devices")
        chosen, source = user_shardings.devices, "in_shardings and out_shardings name"
        if len(chosen) < need:
            raise ValueError(f"{call} of `{name}`: in_shardings and out_shardings name {device_names(chosen)}; the "
                             f"maps inside take {need} devices")
    constrained = _constraint_devices(call, name, closed)
    if chosen is None and constrained is not None:
        chosen = constrained
    across = find_multi_process_axis_sizes(closed)
    if mesh_maps:
        chosen = _shard_map_devices(call, name, mesh_maps[0], chosen, source, across is not None, user_shardings)
        source = "the mesh of a shard_map in it names"
    committed = chosen is not None
    if across is not None:
        placement = _place_over_processes(call, name, closed, need, across, flat, donated, backend, user_shardings,
                                          format_size, format_arg)
        if constrained is not None and {*constrained} != {*placement.local_devices}:
            raise ValueError(f"{call} of `{name}`: with_sharding_constraint names {device_names(constrained)}"
                             f"{_constraints(closed)[0][1]}; in this process the maps inside run on "
                             f"{device_names(placement.local_devices)}. Name these devices")
        return placement
    if need > 1 and mesh_maps:
        if len(chosen or ()) != need:
            raise ValueError(f"{call} of `{name}`: the pmaps inside take {need} devices together; the mesh of a "
                             f"shard_map in it names {device_names(chosen or ())}. A program runs on one set of "
                             "devices: call the pmaps and the shard_map separately")
    elif need > 1:
        found = _devices_for_maps(call, name, closed, need, chosen, backend, format_size)
        if found != chosen:
            source = "the maps inside run on"
        chosen, committed = found, True
    elif chosen is None:
        chosen = (backends.local_devices(backend=request[1])[0] if request else backends.default_device(),)
    assert chosen is not None
    n = len(chosen)
    if request and backends.client(request[1]).platform != chosen[0].platform:
        raise ValueError(f"{call} of `{name}`: {request[0]} has backend={request[1]!r}, but {source} "
                         f"{device_names(chosen)}. Name one platform")
    if constrained is not None and {*constrained} != {*chosen}:
        raise ValueError(f"{call} of `{name}`: with_sharding_constraint names "
                         f"{device_names(constrained)}{_constraints(closed)[0][1]}; {source} {device_names(chosen)}. "
                         "Name one set of devices, or move the arguments with device_put")
    if n == 1:
        return Placement(chosen, donated=donated, committed=committed)
    ins = [_tiles_over(x, chosen) for x in flat]
    axes: tuple[tuple[str, int], ...] = ()
    if need > 1:
        grid = Grid.of(closed, n)
        ins, axes = [w if t is None else t for t, w in zip(ins, infer_arg_tiles(closed, grid, chosen))], grid.axes()
    outs: tuple[Tiles | None, ...] = ()
    if user_shardings is not None:
        ins = [t if s is None else s.tiles for t, s in zip(ins, user_shardings.ins)]
        outs = tuple([None if s is None else s.tiles for s in user_shardings.outs])
    return Placement(chosen, partitions=n, in_tiles=tuple([t or Tiles() for t in ins]), out_tiles=outs, donated=donated,
                     committed=committed, axes=axes)


def _committed(call: str, name: str, flat: Sequence[Any], maps: bool,
               format_arg: Callable[[int], str] | None) -> tuple[Any, ...] | None:
    """Return the devices of the committed arguments, None if no argument is committed.

    All must have the same devices. If the program contains maps, arguments may also be on a subset of them.
    """
    found: tuple[Any, ...] | None = None
    known: Any = None
    first = 0
    for i, x in enumerate(flat):
        if type(x) in _PLACED and x._committed:
            here = x._sharding._internal_device_list
            if known is None:
                known, found, first = here, tuple(here), i
            elif here is not known and here != known:
                ours, theirs = {*(found or ())}, {*here}
                if maps and theirs > ours:
                    known, found, first = here, tuple(here), i
                elif ours != theirs and known.is_fully_addressable != here.is_fully_addressable:
                    one, other = (_format_arg(format_arg, n) for n in (first, i))
                    raise ValueError(f"{call} of `{name}`: {one}, {flat[first].aval.str_long()}, and {other}, "
                                     f"{x.aval.str_long()}: one is a global array over devices of several processes, the "
                                     "other is on devices of one process and may be only a part. Make one global array "
                                     "of the parts with lamina.make_array_from_process_local_data, or pass "
                                     "np.asarray(x) if its value is the same in all processes")
                elif ours != theirs and not (maps and ours > theirs):
                    one, other = (_format_arg(format_arg, n) for n in (first, i))
                    raise ValueError(f"{call} of `{name}`: arguments are committed to different devices: {one}, "
                                     f"{flat[first].aval.str_long()}, to {device_names(found or ())} and {other}, "
                                     f"{x.aval.str_long()}, to {device_names(tuple(here))}. Move them with device_put")
    return found


def _constraint_devices(call: str, name: str, closed: ClosedJaxpr) -> tuple[Any, ...] | None:
    """Return the devices named by the program's sharding constraints, in the order of the first; None if none."""
    found = _constraints(closed)
    if not found:
        return None
    (first, at), *others = [(backends.devices_from_text(text), at) for text, at in found]
    for devices, there in others:
        if {*devices} != {*first}:
            raise ValueError(f"{call} of `{name}`: with_sharding_constraint names {device_names(first)}{at}, and "
                             f"{device_names(devices)}{there}. Name one set of devices in a program")
    return first


def program_mesh(closed: ClosedJaxpr) -> Any:
    """Return the mesh of the program's first `shard_map`, else the mesh named by its sharding constraints.

    None if the constraints name no mesh, or several.
    """
    return closed.memo("mesh", lambda: (_compute_program_mesh(closed),))[0]


def _compute_program_mesh(closed: ClosedJaxpr) -> Any:
    for e in find_shard_maps(closed):
        names, sizes, devices = e.params["mesh"]
        return Mesh(np.array(devices, object).reshape(sizes), names)
    texts = {e.params["sharding"].partition(" on ")[2] for e in walk(closed)
             if e.primitive is prims.sharding_constraint_p}
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


def _tiles_over(x: Any, devices: tuple[Any, ...]) -> Tiles | None:
    """Return how an argument is tiled over `devices`; None unless it is placed on exactly these devices."""
    if type(x) not in _PLACED or len(x._sharding._internal_device_list) == 1:
        return None
    here = tuple(x._sharding._internal_device_list)
    if here == devices:
        return x._sharding.tiles
    number = {d: i for i, d in enumerate(devices)}
    return x._sharding.tiles.renumber([number[d] for d in here]) if {*here} == {*devices} else None


# --- programs with maps -------------------------------------------------------------------------------------------
def _place_map(call: str, name: str, closed: ClosedJaxpr, e: Eqn, flat: Sequence[Any], donated: tuple[bool, ...],
               backend: str | None, format_size: Callable[[], str | None] | None,
               format_arg: Callable[[int], str] | None) -> Placement:
    if e.primitive is prims.shard_map_p and e.params["here"]:
        check_args_process_local(call, name, flat, format_arg, True)
        lead = f"xmap of `{e.params['name']}`"
        group = backends.checked_device_group(lead, e.params["mesh"][2])
        if len(group.local) != math.prod(e.params["here"]):
            raise RuntimeError(f"{lead}: when the program was traced, {math.prod(e.params['here'])} devices of its "
                               f"mesh belonged to this process; now {len(group.local)} do. Trace it again")
        return place_map(closed, group.devices, group.local, donated)
    if e.primitive is prims.shard_map_p:
        committed = _committed(call, name, flat, True, format_arg)
        where = _shard_map_devices(call, name, e, committed, "arguments are committed to", False, None)
        return place_map(closed, where, (), donated)
    size, every, devices, group_of_devices = e.params["axis_size"], global_axis_size(e), e.params["devices"], None
    _check_backend(f"pmap of `{e.params['name']}`", e.params["backend"])
    check_args_process_local(call, name, flat, format_arg)
    if devices is not None:
        group_of_devices = backends.checked_device_group(f"pmap of `{e.params['name']}`", devices)
        chosen: tuple[Any, ...] = group_of_devices.devices
        sentence = (f"pmap of `{e.params['name']}`: compiling computation that requires {every} logical devices, but "
                    f"devices names {len(chosen)} (num_replicas={every}, num_partitions=1)")
        if len(chosen) < every:
            raise _too_few_devices(sentence, every, 1, format_size)
        if len(chosen) > every:
            raise ValueError(f"{sentence}: the mapped axis has {every} members, one for each device. Name as many "
                             "devices")
    elif every > size:
        chosen, own = _first_of_each_process("pmap", e.params["name"], size, every, e.params["backend"] or backend,
                                             format_size)
        return place_map(closed, chosen, own, donated)
    else:
        committed = _committed(call, name, flat, True, format_arg) if call == "jit" else None
        chosen = committed if committed is not None and len(committed) == size else _first_local(
            "pmap", e.params["name"], size, e.params["backend"] or backend, size, format_size)
    return place_map(closed, chosen, group_of_devices.local if every > size and group_of_devices is not None else (),
                         donated)


def _shard_map_devices(call: str, name: str, e: Eqn, chosen: tuple[Any, ...] | None, source: str, across: bool,
                       user_shardings: Any) -> tuple[Any, ...]:
    """Return the devices of a program with a `shard_map`: those of its mesh.

    Arguments and options of the call may only name these.

    Args:
      e: the `shard_map`.
      chosen: the devices of the arguments and options, or None; source: where they come from, for messages.
      across: whether the program also contains a map over several processes.
    """
    description = f"shard_map of `{e.params['name']}`{f' at {e.source}' if e.source else ''}"
    mesh_devices = backends.check_devices(description, e.params["mesh"][2])
    if across:
        raise ValueError(f"{call} of `{name}`: {description} takes global arrays, and a pmap in the same program takes "
                         "this process's part of the mapped axis. Call them one after the other")
    fixed = user_shardings is not None and user_shardings.devices is not None
    if chosen is not None and ({*chosen} != {*mesh_devices} if fixed else not {*chosen} <= {*mesh_devices}):
        raise ValueError(f"{call} of `{name}`: {source} {device_names(chosen)}; the mesh of {description} is of "
                         f"{device_names(mesh_devices)}. Move the arguments there with device_put, or make the mesh of "
                         "the devices they are on")
    return chosen if fixed and chosen is not None else mesh_devices


def _first_of_each_process(call: str, name: str, size: int, every: int, backend: str | None,
                           format_size: Callable[[], str | None] | None) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return (the first `size` devices of every process, in process order; those of this process).

    `every` is the size of the mapped axis over all processes.
    """
    processes = backends.devices_by_process(backend)
    if every != size * len(processes):
        raise RuntimeError(f"{call} of `{name}`: the program was traced for {every // size} processes; there are "
                           f"{len(processes)} now. Trace it again")
    found = backends.first_devices_of_processes(size, backend)
    if len(found[0]) < every:
        p, theirs = next((p, theirs) for p, theirs in enumerate(processes) if len(theirs) < size)
        raise _too_few_devices(f"{call} of `{name}`: compiling computation that requires {size} logical devices in "
                               f"each of {len(processes)} processes, but only {len(theirs)} XLA devices are available "
                               f"in process {p} (num_replicas={every}, num_partitions=1)", size, 1, format_size)
    return found


def _devices_for_maps(call: str, name: str, closed: ClosedJaxpr, need: int, chosen: tuple[Any, ...] | None,
                      backend: str | None, format_size: Callable[[], str | None] | None) -> tuple[Any, ...]:
    """Return devices for a program that contains maps.

    These are the devices named by the maps, else those of the arguments if they are enough, else the first local
    devices.
    """
    named = _devices_named_by_maps(closed)
    if named is not None:
        found = backends.check_devices(f"{call} of `{name}`", named)
        if len(found) < need:
            raise ValueError(f"{call} of `{name}`: the maps inside take {need} devices together; one of them names "
                             f"{device_names(found)}. Name {need} devices at the outermost map, or none")
        return found
    if chosen is not None and len(chosen) >= need:
        return chosen
    outermost = max([e.params["axis_size"] for e in closed.jaxpr.eqns if e.primitive is prims.xla_pmap_p], default=0)
    if chosen is not None and backend is None:
        backend = chosen[0].platform
    return _first_local(call, name, need, backend, outermost or need, format_size)


def _devices_named_by_maps(closed: ClosedJaxpr) -> tuple[Any, ...] | None:
    return closed.memo("devices", lambda: next((e.params["devices"] for e in walk(closed)
                                                if e.primitive is prims.xla_pmap_p and e.params["devices"]), None))


def _first_local(call: str, name: str, need: int, backend: str | None, size: int,
                 format_size: Callable[[], str | None] | None) -> tuple[Any, ...]:
    every = backends.local_devices(backend=backend)
    if len(every) < need:
        raise _too_few_devices(f"{call} of `{name}`: compiling computation that requires {need} logical devices, but "
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


def check_args_process_local(call: str, name: str, flat: Sequence[Any], format_arg: Callable[[int], str] | None,
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


def find_multi_process_axis_sizes(closed: ClosedJaxpr) -> tuple[int, int] | None:
    """Return (global size, local size) of the mapped axis of a multi-process map in the program; None if there is none.

    For a map over a mesh, return the number of its devices and of those in this process.
    """
    return closed.memo("across", lambda: (next(filter(None, map(_axis_sizes, walk(closed))), None),))[0]


def _axis_sizes(e: Eqn) -> tuple[int, int] | None:
    if is_multi_process_mesh_map(e):
        return math.prod(e.params["mesh"][1]), math.prod(e.params["here"])
    if e.primitive is not prims.xla_pmap_p or global_axis_size(e) == e.params["axis_size"]:
        return None
    return global_axis_size(e), e.params["axis_size"]


def is_multi_process_map(e: Eqn) -> bool:
    """Return whether an equation is a map over several processes, each with its own part of operands and results."""
    return _axis_sizes(e) is not None


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
        known_groups = known_groups or groups
        if {*known_groups} != {*groups}:
            return None
        permuted = permuted or tuple(devices) != tuple([d for group in known_groups for d in group])
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


def _place_over_processes(call: str, name: str, closed: ClosedJaxpr, need: int, across: tuple[int, int],
                          flat: Sequence[Any],
                          donated: tuple[bool, ...], backend: str | None, user_shardings: Any,
                          format_size: Callable[[], str | None] | None,
                          format_arg: Callable[[int], str] | None) -> Placement:
    """Return the placement of a program with multi-process maps and other work around them.

    All processes use the same number of devices. Each process has its own local view of the program, which its own
    devices split. `need` is the number of devices that the maps take in one process.
    """
    every, here = across
    check_args_process_local(call, name, flat, format_arg)
    if user_shardings is not None and user_shardings.devices is not None:
        raise ValueError(f"{call} of `{name}`: in_shardings and out_shardings are not supported for a program with a "
                         "map over several processes, because each process has its own local view of the program. "
                         "Leave them out, or pass this process's devices to the map as devices=")
    nested = single_nested_map_eqn(closed)
    if nested is not None and nested.params["devices"] and rows_permuted(closed) is not False:
        check_member_devices(nested)
        group = backends.checked_device_group(f"{call} of `{name}`", nested.params["devices"])
        return place_nested_map(closed, group.devices, group.local, [_tiles_over(x, group.local) for x in flat], donated)
    if rows_permuted(closed) is None:
        # All processes take this branch or none does: if only some raised, the others would wait for them forever.
        raise ValueError(f"{call} of `{name}`: the mapped axis has different sizes in the processes, here {here} of "
                         f"{every}, or the maps use different devices, so the program runs as several executables and "
                         "cannot be lowered. Call it instead, or pass the same devices to each map, equally many of "
                         "each process")
    named = _devices_named_by_maps(closed)
    if named is None:
        devices, own = _first_of_each_process(call, name, need, every // here * need, backend, format_size)
    else:
        group = backends.checked_device_group(f"{call} of `{name}`", named)
        devices, own = group.in_process_order, group.local
    grid = Grid.of(closed, need)
    arg_tiles = [_tiles_over(x, own) for x in flat]
    ins = [w if t is None or grid.axes_from_tiles(t) is None else t for t, w in zip(arg_tiles, infer_arg_tiles(closed, grid))]
    return Placement(devices, partitions=len(devices), in_tiles=tuple(ins), donated=donated, committed=True,
                     axes=grid.axes(len(devices) // need), local_devices=own)


def nested_backend_request(closed: ClosedJaxpr) -> tuple[str, str] | None:
    """Return (description of the call, platform) of the first nested xmap or jit with backend=; None if there is none.

    Raises RuntimeError if a platform is not available.
    """
    calls = {prims.xmap_p: "xmap", prims.xla_call_p: "jit"}
    found = closed.memo("platforms", lambda: {
        e.params["backend"]: f"{calls[e.primitive]} of `{e.params['name']}`" for e in walk(closed)
        if e.primitive in calls and e.params["backend"]})
    for backend, lead in found.items():
        _check_backend(lead, backend)
    return next(((lead, backend) for backend, lead in found.items()), None)


def _check_backend(lead: str, backend: str | None) -> None:
    if backend is not None:
        try:
            backends.client(backend)
        except RuntimeError as e:
            raise RuntimeError(f"{lead}: backend={backend!r}: {e}") from e.__cause__


def _format_arg(format_arg: Callable[[int], str] | None, i: int) -> str:
    return f"argument {i}" if format_arg is None else format_arg(i)


def device_names(where: Sequence[Any]) -> str:
    """`[cpu:0, cpu:1]`."""
    return "[" + ", ".join(map(str, where)) + "]"
