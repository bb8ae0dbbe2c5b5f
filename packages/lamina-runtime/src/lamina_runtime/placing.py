"""Where a call runs: from a program, its arguments and what the user said to the one `Placement` of the call.

    one device       nothing says otherwise
    partitions       arguments are split over several devices, or maps stand inside: the compiler splits the program
    members          the program is a map and nothing else: each device runs one member of it
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lamina_ir import ClosedJaxpr, Eqn, prims, walk
from lamina_ir.extend import Grid, Placement, Tiles, devices_needed, lone_map, split_by_maps

from . import backends
from ._jaxlib import ArrayImpl

__all__ = ["device_names", "placement_of"]


def placement_of(call: str, name: str, closed: ClosedJaxpr, flat: Sequence[Any], donated: tuple[bool, ...] = (),
                 device: Any = None, backend: str | None = None, layout: Any = None,
                 rows: Callable[[], str] | None = None) -> Placement:
    """The placement of a call.

    Args:
      call, name: who asks, for messages.
      closed: the program.
      flat: its arguments, or types where they are not known yet.
      donated: for each argument whether its memory may be reused; (): none.
      device, backend: what the call says.
      layout: the `layouts.Layout` of the user's shardings, or None.
      rows: what says how many rows are mapped, in the user's words.
    Raises:
      ValueError: the arguments are committed to different devices, or there are too few devices for the maps inside.
    """
    e = lone_map(closed)
    if e is not None and (layout is None or layout.devices is None):
        return _of_map(call, name, closed, e, flat, donated, backend, rows)
    # What the call says comes first, then where its arguments were put on purpose, then the default.
    need = devices_needed(closed)
    chosen: tuple[Any, ...] | None
    if device is not None:
        chosen = (backends.device_of(device),)
    elif backend is not None:
        chosen = (backends.local_devices(backend=backend)[0],)
    else:
        chosen = _committed(call, name, flat, need > 1)
    if layout is not None and layout.devices is not None:
        if chosen is not None and chosen != layout.devices:
            raise ValueError(f"{call} of `{name}`: in_shardings and out_shardings name {device_names(layout.devices)}; the "
                             f"call's other arguments, or device=, say {device_names(chosen)}. Give one set of devices")
        chosen = layout.devices
        if len(chosen) < need:
            raise ValueError(f"{call} of `{name}`: in_shardings and out_shardings name {device_names(chosen)}; the maps inside "
                             f"take {need} devices")
    committed = chosen is not None
    if need > 1:
        _check_reach(call, name, closed, backend)
        chosen, committed = _for_maps(call, name, closed, need, chosen, backend, rows), True
    elif chosen is None:
        chosen = (backends.default_device(),)
    n = len(chosen)
    if n == 1:
        return Placement(chosen, donated=donated, committed=committed)
    ins = [_as_it_lies(x, chosen) for x in flat]
    if need > 1:
        ins = [w if t is None else t for t, w in zip(ins, split_by_maps(closed, Grid.of(closed, n)))]
    outs: tuple[Tiles | None, ...] = ()
    if layout is not None:
        ins = [t if s is None else s.tiles for t, s in zip(ins, layout.ins)]
        outs = tuple([None if s is None else s.tiles for s in layout.outs])
    return Placement(chosen, partitions=n, ins=tuple([t or Tiles() for t in ins]), outs=outs, donated=donated,
                     committed=committed)


def _committed(call: str, name: str, flat: Sequence[Any], maps: bool) -> tuple[Any, ...] | None:
    """The devices that the arguments were put on. A program with maps may take arguments of some of its devices."""
    found: tuple[Any, ...] | None = None
    known: Any = None
    for x in flat:
        if type(x) is ArrayImpl and x._committed:
            here = x._sharding._internal_device_list
            if known is None:
                known, found = here, tuple(here)
            elif here is not known and here != known:
                ours, theirs = {*(found or ())}, {*here}
                if maps and theirs > ours:
                    known, found = here, tuple(here)
                elif ours != theirs and not (maps and ours > theirs):
                    raise ValueError(f"{call} of `{name}`: arguments are committed to different devices: "
                                     f"{device_names(found or ())} and {device_names(tuple(here))} ({x.aval.long()}). Move "
                                     "them with device_put")
    return found


def _as_it_lies(x: Any, devices: tuple[Any, ...]) -> Tiles | None:
    """How an argument lies that is spread over just these devices."""
    if type(x) is not ArrayImpl or len(x._sharding._internal_device_list) == 1:
        return None
    here = tuple(x._sharding._internal_device_list)
    if here == devices:
        return x._sharding.tiles
    return x._sharding.tiles.renumbered([devices.index(d) for d in here]) if {*here} == {*devices} else None


# --- programs with maps -------------------------------------------------------------------------------------------
def _of_map(call: str, name: str, closed: ClosedJaxpr, e: Eqn, flat: Sequence[Any], donated: tuple[bool, ...],
            backend: str | None, rows: Callable[[], str] | None) -> Placement:
    size, devices = e.params["axis_size"], e.params["devices"]
    _check_reach(call, name, closed, e.params["backend"] or backend)
    if devices is not None:
        chosen = backends.check_devices(f"pmap of `{e.params['name']}`", devices)
        sentence = (f"pmap of `{e.params['name']}`: compiling computation that requires {size} logical devices, but devices "
                    f"names {len(chosen)} (num_replicas={size}, num_partitions=1)")
        if len(chosen) < size:
            raise _too_few(sentence, size, 1, rows)
        if len(chosen) > size:
            raise ValueError(f"{sentence}: the mapped axis has {size} rows, one for each device. Name as many devices")
    else:
        put = _committed(call, name, flat, True) if call == "jit" else None
        chosen = put if put is not None and len(put) == size else _first(
            "pmap", e.params["name"], size, e.params["backend"] or backend, size, rows)
    axes: dict[Any, int | None] = dict(zip(e.invars, e.params["in_axes"]))  # of arguments that nobody reads there is none
    ins = [_rows(v.aval.ndim, axes.get(v), size) for v in closed.jaxpr.invars]
    ends: dict[Any, int | None] = dict(zip(e.outvars, e.params["out_axes"]))
    outs = [_rows(v.aval.ndim, ends[v], size) for v in closed.jaxpr.outvars]
    return Placement(chosen, replicas=size, members=True, ins=tuple(ins), outs=tuple(outs), donated=donated, committed=True)


def _rows(rank: int, axis: int | None, size: int) -> Tiles:
    if axis is None or size == 1:
        return Tiles()
    return Tiles(tuple([size if d == axis else 1 for d in range(rank)]))


def _for_maps(call: str, name: str, closed: ClosedJaxpr, need: int, chosen: tuple[Any, ...] | None,
              backend: str | None, rows: Callable[[], str] | None) -> tuple[Any, ...]:
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
           rows: Callable[[], str] | None) -> tuple[Any, ...]:
    every = backends.local_devices(backend=backend)
    if len(every) < need:
        raise _too_few(f"{call} of `{name}`: compiling computation that requires {need} logical devices, but only "
                       f"{len(every)} XLA devices are available (num_replicas={need}, num_partitions=1)", size, need // size,
                       rows)
    return tuple(every[:need])


def _too_few(sentence: str, size: int, each: int, rows: Callable[[], str] | None) -> ValueError:
    """More rows than devices; `each` is how many devices the maps inside take for a row."""
    said = f"the mapped axis has {size} rows" if rows is None else rows()
    inside = "" if each == 1 else f", times {each} of the maps inside"
    return ValueError(f"{sentence}: {said}{inside}, one for each device. lamina.parallel.padded maps any number of rows, in "
                      "rounds")


def _check_reach(call: str, name: str, closed: ClosedJaxpr, backend: str | None) -> None:
    if backends.process_count(backend) > 1 and closed.memo("meets", lambda: any(
            e.primitive.axis_params and e.invars for e in walk(closed))):
        if _named_by_maps(closed) is None:
            raise RuntimeError(f"{call} of `{name}`: in several processes the mapped axis covers this process's devices only, "
                               "and its collectives would not reach the others. Say so with devices=lamina.local_devices(), or "
                               "use jit on arrays placed over all devices")


def device_names(where: Sequence[Any]) -> str:
    """`[cpu:0, cpu:1]`."""
    return "[" + ", ".join(map(str, where)) + "]"
