"""Where a call runs: from a program, its arguments and what the user said to the one `Placement` of the call.

    one device       nothing says otherwise
    partitions       arguments are split over several devices, or maps stand inside: the compiler splits the program
    members          the program is a map and nothing else: each device runs one member of it

In several processes the devices of a map are those of all of them, and its arguments and results show their face, this
process's part. Everything else is of this process alone, but for programs whose arguments were placed over all devices.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from lamina_ir import ClosedJaxpr, Eqn, ShapeDtypeStruct, ShapedArray, prims, subprograms, walk
from lamina_ir.extend import (Grid, Placement, Tiles, devices_needed, lone_map, lone_nest, map_placement, meshes,
                              nest_placement, rows_everywhere, split_by_maps)
from lamina_parallel import Mesh
from lamina_parallel.extend import mesh_in_text, placed

from . import backends, shardings
from ._jaxlib import ArrayImpl, GSPMDSharding, SingleDeviceSharding

__all__ = ["Lying", "as_it_lies", "check_parts", "device_names", "is_across", "mesh_told", "outermost",
           "over_mesh", "placement_of", "rows_across", "turned"]


class Lying:
    """An argument without its numbers: its type, and where its array was put on purpose."""

    __slots__ = ("_sharding", "aval")
    _committed = True

    def __init__(self, aval: ShapedArray, sharding: Any) -> None:
        self.aval, self._sharding = aval, sharding


_PLACED = (ArrayImpl, Lying)


def as_it_lies(x: Any, aval: ShapedArray) -> Any:
    """What `placement_of` asks of an array, or of a type that names a sharding, and no more."""
    if type(x) is ArrayImpl:
        return Lying(aval, x._sharding) if x._committed else aval
    sharding = x.sharding if isinstance(x, ShapeDtypeStruct) else None
    if sharding is None:
        return aval
    if type(sharding) not in (SingleDeviceSharding, GSPMDSharding):
        raise TypeError("lower: the sharding of a ShapeDtypeStruct must be one that an array has as x.sharding; got "
                        f"{type(sharding).__name__}: {sharding!r:.60}")
    return Lying(aval, shardings.fitted("lower", aval.shape, sharding))


def placement_of(call: str, name: str, closed: ClosedJaxpr, flat: Sequence[Any], donated: tuple[bool, ...] = (),
                 device: Any = None, backend: str | None = None, layout: Any = None,
                 rows: Callable[[], str | None] | None = None, words: Callable[[int], str] | None = None) -> Placement:
    """The placement of a call.

    Args:
      call, name: who asks, for messages.
      closed: the program.
      flat: its arguments, or types where they are not known yet.
      donated: for each argument whether its memory may be reused; (): none.
      device, backend: what the call says.
      layout: the `layouts.Layout` of the user's shardings, or None.
      rows: what says how many rows are mapped, in the user's words; words: what an argument is called.
    Raises:
      ValueError: the arguments are committed to different devices, or there are too few devices for the maps inside.
    """
    said = _said_inside(closed)
    closed = placed(closed)
    e, named = lone_map(closed), meshes(closed)
    _check_backend(f"{call} of `{name}`", backend)
    if e is not None and (layout is None or layout.devices is None):
        return _of_map(call, name, closed, e, flat, donated, backend, rows, words)
    if any(e.params["here"] for e in named):
        raise NotImplementedError(f"{call} of `{name}`: a program with more than an xmap over several processes runs in "
                                  "pieces, and is no one program that could be lowered, or placed by in_shardings and "
                                  "out_shardings. Call it without these, or lower the xmap by itself")
    # What the call says comes first, then where its arguments were put on purpose, then the default.
    need = devices_needed(closed)
    chosen: tuple[Any, ...] | None
    by = "device= and backend= say"
    if device is not None:
        chosen = (backends.device_of(device),)
    elif backend is not None:
        chosen = (backends.local_devices(backend=backend)[0],)
    else:
        chosen, by = _committed(call, name, flat, need > 1, words), "arguments are committed to"
    if layout is not None and layout.devices is not None:
        if chosen is not None and chosen != layout.devices:
            raise ValueError(f"{call} of `{name}`: in_shardings and out_shardings name {device_names(layout.devices)}; the "
                             f"call's other arguments, or device=, say {device_names(chosen)}. Give one set of devices")
        chosen, by = layout.devices, "in_shardings and out_shardings name"
        if len(chosen) < need:
            raise ValueError(f"{call} of `{name}`: in_shardings and out_shardings name {device_names(chosen)}; the maps inside "
                             f"take {need} devices")
    told = _constrained(call, name, closed)
    if chosen is None and told is not None:
        chosen = told
    across = rows_across(closed)
    if named:
        chosen = _of_meshes(call, name, named[0], chosen, by, across is not None, layout)
        by = "the mesh of a shard_map in it names"
    committed = chosen is not None
    if across is not None:
        place = _over_processes(call, name, closed, need, across, flat, donated, backend, layout, rows, words)
        if told is not None and {*told} != {*place.face}:
            raise ValueError(f"{call} of `{name}`: with_sharding_constraint names {device_names(told)}"
                             f"{_constraints(closed)[0][1]}; of this process, whose view of the program it is in, the maps "
                             f"inside run on {device_names(place.face)}. Name these")
        return place
    if need > 1 and named:
        if len(chosen or ()) != need:
            raise ValueError(f"{call} of `{name}`: the pmaps inside take {need} devices together; the mesh of a shard_map "
                             f"in it names {device_names(chosen or ())}. A program runs on one set of devices: call the one "
                             "by itself")
    elif need > 1:
        found = _for_maps(call, name, closed, need, chosen, backend, rows)
        if found != chosen:
            by = "the maps inside run on"
        chosen, committed = found, True
    elif chosen is None:
        chosen = (backends.local_devices(backend=said[1])[0] if said else backends.default_device(),)
    assert chosen is not None
    n = len(chosen)
    if said and backends.client(said[1]).platform != chosen[0].platform:
        raise ValueError(f"{call} of `{name}`: {said[0]} says backend={said[1]!r}, but {by} {device_names(chosen)}. Name one "
                         "platform")
    if told is not None and {*told} != {*chosen}:
        raise ValueError(f"{call} of `{name}`: with_sharding_constraint names {device_names(told)}{_constraints(closed)[0][1]};"
                         f" {by} {device_names(chosen)}. Name one set of devices, or move the arguments with device_put")
    if n == 1:
        return Placement(chosen, donated=donated, committed=committed)
    ins = [_tiles_of(x, chosen) for x in flat]
    axes: tuple[tuple[str, int], ...] = ()
    if need > 1:
        grid = Grid.of(closed, n)
        ins, axes = [w if t is None else t for t, w in zip(ins, split_by_maps(closed, grid, chosen))], grid.axes()
    outs: tuple[Tiles | None, ...] = ()
    if layout is not None:
        ins = [t if s is None else s.tiles for t, s in zip(ins, layout.ins)]
        outs = tuple([None if s is None else s.tiles for s in layout.outs])
    return Placement(chosen, partitions=n, ins=tuple([t or Tiles() for t in ins]), outs=outs, donated=donated,
                     committed=committed, axes=axes)


def _committed(call: str, name: str, flat: Sequence[Any], maps: bool,
               words: Callable[[int], str] | None) -> tuple[Any, ...] | None:
    """The devices that the arguments were put on. A program with maps may take arguments of some of its devices."""
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
                    one, other = (_word(words, n) for n in (first, i))
                    raise ValueError(f"{call} of `{name}`: {one}, {flat[first].aval.long()}, and {other}, {x.aval.long()}: "
                                     "one is placed over devices of several processes, the other on one's alone, and may be a "
                                     "part where the first is the whole. lamina.make_array_from_process_local_data makes one "
                                     "array of all parts; np.asarray(x) is a value that is the same everywhere")
                elif ours != theirs and not (maps and ours > theirs):
                    one, other = (_word(words, n) for n in (first, i))
                    raise ValueError(f"{call} of `{name}`: arguments are committed to different devices: {one}, "
                                     f"{flat[first].aval.long()}, to {device_names(found or ())} and {other}, "
                                     f"{x.aval.long()}, to {device_names(tuple(here))}. Move them with device_put")
    return found


def _constrained(call: str, name: str, closed: ClosedJaxpr) -> tuple[Any, ...] | None:
    """The devices that a program's constraints name, in the order of the first."""
    found = _constraints(closed)
    if not found:
        return None
    (first, at), *others = [(backends.devices_called(text), at) for text, at in found]
    for devices, there in others:
        if {*devices} != {*first}:
            raise ValueError(f"{call} of `{name}`: with_sharding_constraint names {device_names(first)}{at}, and "
                             f"{device_names(devices)}{there}. Name one set of devices in a program")
    return first


def mesh_told(closed: ClosedJaxpr) -> Any:
    """The mesh of a program's first `shard_map`; without one, the one that its constraints speak of, of the devices they name;
    None where they speak of none or several."""
    return closed.memo("mesh", lambda: (_ask_mesh(closed),))[0]


def _ask_mesh(closed: ClosedJaxpr) -> Any:
    for e in meshes(closed):
        names, sizes, devices = e.params["mesh"]
        return Mesh(np.array(devices, object).reshape(sizes), names)
    told = {e.params["sharding"].partition(" on ")[2] for e in walk(closed) if e.primitive is prims.sharding_constraint_p}
    found = {mesh_in_text(text, backends.devices_called(text.partition(" of ")[0])) for text in told if text}
    return found.pop() if len(found) == 1 else None


def _constraints(closed: ClosedJaxpr) -> list[tuple[str, str]]:
    """What the constraints outside of maps name: each text once, with its line."""
    return closed.memo("constraints", lambda: _ask_constraints(closed))


def _ask_constraints(closed: ClosedJaxpr) -> list[tuple[str, str]]:
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


def _tiles_of(x: Any, devices: tuple[Any, ...]) -> Tiles | None:
    """How an argument lies that is spread over just these devices."""
    if type(x) not in _PLACED or len(x._sharding._internal_device_list) == 1:
        return None
    here = tuple(x._sharding._internal_device_list)
    if here == devices:
        return x._sharding.tiles
    number = {d: i for i, d in enumerate(devices)}
    return x._sharding.tiles.renumbered([number[d] for d in here]) if {*here} == {*devices} else None


# --- programs with maps -------------------------------------------------------------------------------------------
def _of_map(call: str, name: str, closed: ClosedJaxpr, e: Eqn, flat: Sequence[Any], donated: tuple[bool, ...],
            backend: str | None, rows: Callable[[], str | None] | None, words: Callable[[int], str] | None) -> Placement:
    if e.primitive is prims.shard_map_p and e.params["here"]:
        check_parts(call, name, flat, words, True)
        lead = f"xmap of `{e.params['name']}`"
        found = backends.checked(lead, e.params["mesh"][2])
        if len(found.own) != math.prod(e.params["here"]):
            raise RuntimeError(f"{lead}: the program was traced where {math.prod(e.params['here'])} devices of its mesh were "
                               f"of this process; {len(found.own)} are now. Trace it again")
        return map_placement(closed, found.devices, found.own, donated)
    if e.primitive is prims.shard_map_p:
        put = _committed(call, name, flat, True, words)
        where = _of_meshes(call, name, e, put, "arguments are committed to", False, None)
        return map_placement(closed, where, (), donated)
    size, every, devices, ours = e.params["axis_size"], rows_everywhere(e), e.params["devices"], None
    _check_backend(f"pmap of `{e.params['name']}`", e.params["backend"])
    check_parts(call, name, flat, words)
    if devices is not None:
        ours = backends.checked(f"pmap of `{e.params['name']}`", devices)
        chosen: tuple[Any, ...] = ours.devices
        sentence = (f"pmap of `{e.params['name']}`: compiling computation that requires {every} logical devices, but devices "
                    f"names {len(chosen)} (num_replicas={every}, num_partitions=1)")
        if len(chosen) < every:
            raise _too_few(sentence, every, 1, rows)
        if len(chosen) > every:
            raise ValueError(f"{sentence}: the mapped axis has {every} rows, one for each device. Name as many devices")
    elif every > size:
        chosen, own = _first_of_each("pmap", e.params["name"], size, every, e.params["backend"] or backend, rows)
        return map_placement(closed, chosen, own, donated)
    else:
        put = _committed(call, name, flat, True, words) if call == "jit" else None
        chosen = put if put is not None and len(put) == size else _first(
            "pmap", e.params["name"], size, e.params["backend"] or backend, size, rows)
    return map_placement(closed, chosen, ours.own if every > size and ours is not None else (), donated)


def _of_meshes(call: str, name: str, e: Eqn, chosen: tuple[Any, ...] | None, by: str, across: bool,
               layout: Any) -> tuple[Any, ...]:
    """The devices of a program with a `shard_map`: those of its mesh, which are all that arguments and the call may name."""
    words = f"shard_map of `{e.params['name']}`{f' at {e.source}' if e.source else ''}"
    devices = backends.check_devices(words, e.params["mesh"][2])
    if across:
        raise ValueError(f"{call} of `{name}`: {words} takes whole arrays, and a pmap in the same program its process's "
                         "rows. Call them one after the other")
    fixed = layout is not None and layout.devices is not None
    if chosen is not None and ({*chosen} != {*devices} if fixed else not {*chosen} <= {*devices}):
        raise ValueError(f"{call} of `{name}`: {by} {device_names(chosen)}; the mesh of {words} is of {device_names(devices)}. "
                         "Move the arguments there with device_put, or make the mesh of the devices they are on")
    return chosen if fixed and chosen is not None else devices


def _first_of_each(call: str, name: str, size: int, every: int, backend: str | None,
                   rows: Callable[[], str | None] | None) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The first devices of each process, the processes in order, and those of this one."""
    processes = backends.by_process(backend)
    if every != size * len(processes):
        raise RuntimeError(f"{call} of `{name}`: the program was traced for {every // size} processes; there are "
                           f"{len(processes)} now. Trace it again")
    found = backends.first_of_each(size, backend)
    if len(found[0]) < every:
        p, theirs = next((p, theirs) for p, theirs in enumerate(processes) if len(theirs) < size)
        raise _too_few(f"{call} of `{name}`: compiling computation that requires {size} logical devices in each of "
                       f"{len(processes)} processes, but only {len(theirs)} XLA devices are available in process {p} "
                       f"(num_replicas={every}, num_partitions=1)", size, 1, rows)
    return found


def _for_maps(call: str, name: str, closed: ClosedJaxpr, need: int, chosen: tuple[Any, ...] | None,
              backend: str | None, rows: Callable[[], str | None] | None) -> tuple[Any, ...]:
    """Devices for a program with maps inside: those the maps name, else where the arguments are if these are enough."""
    named = _named_by_maps(closed)
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
    return _first(call, name, need, backend, outermost or need, rows)


def _named_by_maps(closed: ClosedJaxpr) -> tuple[Any, ...] | None:
    return closed.memo("devices", lambda: next((e.params["devices"] for e in walk(closed)
                                                if e.primitive is prims.xla_pmap_p and e.params["devices"]), None))


def _first(call: str, name: str, need: int, backend: str | None, size: int,
           rows: Callable[[], str | None] | None) -> tuple[Any, ...]:
    every = backends.local_devices(backend=backend)
    if len(every) < need:
        raise _too_few(f"{call} of `{name}`: compiling computation that requires {need} logical devices, but only "
                       f"{len(every)} XLA devices are available (num_replicas={need}, num_partitions=1)", size, need // size,
                       rows)
    return tuple(every[:need])


def _too_few(sentence: str, size: int, each: int, rows: Callable[[], str | None] | None) -> ValueError:
    """More rows than devices; `each` is how many devices the maps inside take for a row."""
    said = rows() if rows is not None else None
    if said is None:
        said = f"the mapped axis has {size} rows"
    inside = "" if each == 1 else f", times {each} of the maps inside"
    return ValueError(f"{sentence}: {said}{inside}, one for each device. lamina.parallel.padded maps any number of rows, in "
                      "rounds")


def check_parts(call: str, name: str, flat: Sequence[Any], words: Callable[[int], str] | None, mesh: bool = False) -> None:
    """ValueError for an argument that lies in parts on devices of several processes, where these give their own parts; `mesh`
    says that an xmap over a mesh takes them, which can see it whole."""
    for i, x in enumerate(flat):
        if type(x) in _PLACED and not x._sharding.is_fully_addressable and not shardings.is_replicated(x._sharding):
            raise ValueError(f"{call} of `{name}`: {_word(words, i)}, {x.aval.long()}, is split over devices of several "
                             "processes; each process gives a map its own rows, as "
                             "lamina.experimental.multihost_utils.global_array_to_host_local_array(x) is"
                             + (". Under jit an xmap takes it whole: jit the function that is given it" if mesh else ""))


def rows_across(closed: ClosedJaxpr) -> tuple[int, int] | None:
    """(rows of all processes, those of this one) of a map in the program that spans processes; None where none does. Over a
    mesh these are devices."""
    return closed.memo("across", lambda: (next(filter(None, map(_rows_across, walk(closed))), None),))[0]


def _rows_across(e: Eqn) -> tuple[int, int] | None:
    if over_mesh(e):
        return math.prod(e.params["mesh"][1]), math.prod(e.params["here"])
    if e.primitive is not prims.xla_pmap_p or rows_everywhere(e) == e.params["axis_size"]:
        return None
    return rows_everywhere(e), e.params["axis_size"]


def is_across(e: Eqn) -> bool:
    """Whether an equation is a map that spans processes, each of which has its part of operands and results."""
    return _rows_across(e) is not None


def over_mesh(e: Eqn) -> bool:
    """Whether it is one over a mesh."""
    return e.primitive in (prims.xmap_p, prims.shard_map_p) and bool(e.params["here"])


def outermost(closed: ClosedJaxpr) -> Iterator[Eqn]:
    """The pmaps of a program, and the maps over meshes of several processes, that stand in no other."""
    todo, seen = [closed], {closed}
    for program in todo:
        for e in program.jaxpr.eqns:
            if e.primitive is prims.xla_pmap_p or over_mesh(e):
                yield e
            elif e.primitive.subprograms:
                fresh = [s for s in subprograms(e) if s not in seen]
                seen.update(fresh)
                todo += fresh


def turned(closed: ClosedJaxpr) -> bool | None:
    """Whether the rows of maps over processes beside other work are in another order than that of the processes. None: no one
    program holds these maps, as they are not on the same devices, in the same order in each process, and as many in each."""
    return closed.memo("turned", lambda: _turned(closed))


def _turned(closed: ClosedJaxpr) -> bool | None:
    maps, need = [*outermost(closed)], devices_needed(closed)
    known, found = None, False
    if any(getattr(e.params["axis_name"], "apart", False) for e in maps):  # `padded` says so
        return None
    for e in [e for e in maps if e.params["devices"]]:
        devices, each = e.params["devices"], devices_needed(e.params["call_jaxpr"])
        rows = backends.ours_of(devices).rows
        groups = [{d.process_index for d in devices[k:k + each]} for k in range(0, len(devices), each)]
        if not is_across(e) or any(len(theirs) != need for theirs in rows) or any(len(g) > 1 for g in groups):
            return None
        known = known or rows
        if {*known} != {*rows}:
            return None
        found = found or tuple(devices) != tuple([d for theirs in known for d in theirs])
    if known and any(is_across(e) and rows_everywhere(e) != e.params["axis_size"] * len(known) for e in maps):
        return None
    # A map that names none has its rows in order of the processes.
    order = [theirs[0].process_index for theirs in known or ()]
    return None if order != sorted(order) and any(is_across(e) and not e.params["devices"] for e in maps) else found


def check_rows(e: Eqn) -> None:
    """ValueError unless a map over processes that holds maps names devices for each of its rows, of one process."""
    devices, each, rows = e.params["devices"], devices_needed(e.params["call_jaxpr"]), rows_everywhere(e)
    if not devices or each == 1:
        return
    lead = f"pmap of `{e.params['name']}`: devices"
    if len(devices) != rows * each:
        raise ValueError(f"{lead} names {len(devices)}; its {rows} rows take {each} each, for the maps inside. Name "
                         f"{rows * each}")
    for k in range(rows):
        row = devices[k * each:k * each + each]
        owners = sorted({d.process_index for d in row})
        if len(owners) > 1:
            raise ValueError(f"{lead}: row {k} takes {device_names(row)}, as the maps inside need {each} for each row, and "
                             f"these are of the processes {owners}; a row is of the process that gives it. Name the devices of "
                             f"a process one after the other, {each} for each of its rows")


def _over_processes(call: str, name: str, closed: ClosedJaxpr, need: int, across: tuple[int, int], flat: Sequence[Any],
                    donated: tuple[bool, ...], backend: str | None, layout: Any,
                    rows: Callable[[], str | None] | None, words: Callable[[int], str] | None) -> Placement:
    """The placement of a program with maps over processes beside other work: as many devices of each, whose own views of the
    program these split."""
    every, here = across
    check_parts(call, name, flat, words)
    if layout is not None and layout.devices is not None:
        raise ValueError(f"{call} of `{name}`: in_shardings and out_shardings are of whole programs; this one holds a map over "
                         "several processes, and each of these has its own view of it. Leave them out, or name this process's "
                         "devices at the map")
    nest = lone_nest(closed)
    if nest is not None and nest.params["devices"] and turned(closed) is not False:
        check_rows(nest)
        found = backends.checked(f"{call} of `{name}`", nest.params["devices"])
        return nest_placement(closed, found.devices, found.own, [_tiles_of(x, found.own) for x in flat], donated)
    if turned(closed) is None:  # every process sees the same of this, or some would wait for those that raise
        raise ValueError(f"{call} of `{name}`: processes have different numbers of rows, here {here} of {every}, or maps run "
                         "on different devices, so that the program runs in pieces, and cannot be lowered. Call it, or name as "
                         "many devices of each process, the same at each map")
    named = _named_by_maps(closed)
    if named is None:
        devices, own = _first_of_each(call, name, need, every // here * need, backend, rows)
    else:
        found = backends.checked(f"{call} of `{name}`", named)
        devices, own = found.whole, found.own
    grid = Grid.of(closed, need)
    lies = [_tiles_of(x, own) for x in flat]
    ins = [w if t is None or grid.spelled(t) is None else t for t, w in zip(lies, split_by_maps(closed, grid))]
    return Placement(devices, partitions=len(devices), ins=tuple(ins), donated=donated, committed=True,
                     axes=grid.axes(len(devices) // need), face=own)


def _said_inside(closed: ClosedJaxpr) -> tuple[str, str] | None:
    """(the call in words, the platform) of the first xmap or jit in a program that names one; RuntimeError where there is none
    such."""
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


def _word(words: Callable[[int], str] | None, i: int) -> str:
    return f"argument {i}" if words is None else words(i)


def device_names(where: Sequence[Any]) -> str:
    """`[cpu:0, cpu:1]`."""
    return "[" + ", ".join(map(str, where)) + "]"
