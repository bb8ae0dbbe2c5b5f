"""Placement of a map over processes that contains maps over devices, with any number of members in each process.

All processes must run the same compiled program on a mesh over all devices. But the processes may have different
numbers of devices, because they have different numbers of members, so they do not form a mesh. The members do: each
member uses the same number of devices. The algorithm therefore treats each member as if it were a process of its own:

1. `first_member_program` rewrites the program for a process with one member (`axis_size` 1). It is the same program in
   all processes, so they compile the same module. The mesh is (members of all processes) x (grid of one member).
2. In a process with m members, an argument that is mapped along an axis has length m along it. It is split into its m
   members along this axis, and each of these is split as in the one-member program, over the devices of that member.
   `_join_members` concatenates the device arrays of the members' tiles along the axis accordingly.
3. The tiles of results, known for the first member, are extended to all local members in the same way
   (`join_member_tiles`).

Example with one member in process 0, and two in process 1; each member has a map over 2 devices:

    devices = [p0:0 p0:1, p1:0 p1:1, p1:2 p1:3]     mesh: processes=3, d0=2     local_devices: 2 in p0, 4 in p1
"""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import prims
from .._core.arg_checks import CLOSED_JAXPR, ITEMS, ArgType, instance_of, check_args
from .._types.avals import shaped
from ..errors import ShapeError
from .placement import Grid, Placement, can_split_arguments, count_devices, global_axis_size, infer_arg_tiles
from .._core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Var
from .tiles import Tiles, make_tiles
from ..typing import Device

__all__ = ["find_per_member_map", "first_member_program", "join_member_tiles", "place_nested_map",
           "single_nested_map_eqn"]


_PLACEMENT = instance_of("a Placement", Placement)
_TILES = ArgType("a list of Tiles", lambda v: isinstance(v, (tuple, list)) and all(isinstance(t, Tiles) for t in v))


@check_args(closed=CLOSED_JAXPR)
def single_nested_map_eqn(closed: ClosedJaxpr) -> Eqn | None:
    """Return the map if a program consists of a single map over processes that contains maps over devices, else None.

    Each mapped operand must be an argument of the program, used once; the results must be those of the program.

    Args:
      closed: the program.
    Returns:
      The equation, or None.

    >>> from lamina_ir import parse
    >>> single_nested_map_eqn(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }")) is None
    True
    """
    return closed.memo("single nested map", lambda: _find_single_nested_map(closed))


def _find_single_nested_map(closed: ClosedJaxpr) -> Eqn | None:
    jaxpr = closed.jaxpr
    e = jaxpr.eqns[0] if len(jaxpr.eqns) == 1 else None
    if e is None or e.primitive is not prims.xla_pmap_p or global_axis_size(e) == e.params["axis_size"]:
        return None
    if count_devices(e.params["call_jaxpr"]) == 1 or not {*jaxpr.outvars} <= {*e.outvars}:
        return None
    return e if can_split_arguments(closed, e, [axis is not None for axis in e.params["in_axes"]]) else None


@check_args(closed=CLOSED_JAXPR, devices=ITEMS, local_devices=ITEMS, arg_tiles=ITEMS, donated=ITEMS)
def place_nested_map(closed: ClosedJaxpr, devices: Sequence[Device], local_devices: Sequence[Device],
                     arg_tiles: Sequence[Tiles | None] = (), donated: tuple[bool, ...] = ()) -> Placement:
    """Place a program that is a `single_nested_map_eqn`.

    Args:
      closed: the program.
      devices: the devices of all members, member by member.
      local_devices: the devices of the members in this process.
      arg_tiles: for each argument its current tiles on `local_devices`, or None; (): unknown. They are kept if they
        split each member in a way that the grid can express.
      donated: for each argument, whether its memory may be reused; (): none.
    Returns:
      A `Placement` with partitions.
    Raises:
      ShapeError: the program is not such a map, or the number of devices does not fit.

    >>> from lamina_ir import parse
    >>> mapped = ("xla_pmap[axis_name=%s axis_size=2 backend=None call_jaxpr=%s devices=None donated_invars=(False,) "
    ...           "global_arg_shapes=(None,) global_axis_size=%d in_axes=(0,) name=f out_axes=(0,)]")
    >>> inner = mapped % ("j", "{ lambda ; e:f32[]{i, j}. let f:f32[]{i, j} = sin e in (f,) }", 2)
    >>> outer = mapped % ("i", "{ lambda ; c:f32[2]{i}. let d:f32[2]{i} = %s c in (d,) }" % inner, 3)
    >>> two_of_three = parse("{ lambda ; a:f32[2,2]. let b:f32[2,2] = %s a in (b,) }" % outer)
    >>> place = place_nested_map(two_of_three, range(6), local_devices=range(2, 6))
    >>> place.axes, place.in_tiles, place.local_members
    ((('processes', 3), ('d0', 2)), (Tiles(counts=(2, 2), copies=1, order=()),), 2)
    """
    e = single_nested_map_eqn(closed)
    members, local_members = (0, 0) if e is None else (global_axis_size(e), e.params["axis_size"])
    each = 0 if e is None else count_devices(e.params["call_jaxpr"])  # devices per member
    if e is None or len(devices) != members * each or len(local_devices) != local_members * each:
        raise ShapeError("place_nested_map: the program must be a single map over processes that contains maps, with devices "
                         f"for each of its members; got {len(devices)} devices, {len(local_devices)} of them local, and "
                         f"{closed.jaxpr}")
    one = _one_member_program(closed, e)
    grid = Grid.of(one, each)
    axes = dict(zip(e.invars, e.params["in_axes"]))
    ins = []
    current = arg_tiles or (None,) * len(closed.jaxpr.invars)
    for v, preferred, tiles in zip(closed.jaxpr.invars, infer_arg_tiles(one, grid), current):
        chosen = _join_members(preferred, axes.get(v), local_members, each, v.aval.ndim)
        if tiles is not None:
            try:
                of_first = tiles.block_on(range(each))[0]
            except ShapeError:  # the devices of the first member hold no block
                of_first = None
            if of_first is not None and grid.axes_from_tiles(of_first) is not None:
                if _join_members(of_first, axes.get(v), local_members, each, v.aval.ndim) == tiles:
                    chosen = tiles
        ins.append(chosen)
    return Placement(tuple(devices), partitions=len(devices), in_tiles=tuple(ins), donated=donated, committed=True,
                     axes=grid.axes(members), local_devices=tuple(local_devices))


@check_args(closed=CLOSED_JAXPR, placement=_PLACEMENT)
def find_per_member_map(closed: ClosedJaxpr, placement: Placement) -> Eqn | None:
    """Return the map of a program that was placed by `place_nested_map`, else None.

    Args:
      closed: the program.
      placement: its placement.
    Returns:
      The equation, or None.

    >>> from lamina_ir import parse
    >>> find_per_member_map(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"), Placement()) is None
    True
    """
    e = single_nested_map_eqn(closed) if placement.local_devices and not placement.one_member_per_device else None
    return e if e is not None and dict(placement.axes).get(Grid.PROCESSES) == global_axis_size(e) else None


@check_args(closed=CLOSED_JAXPR, placement=_PLACEMENT)
def first_member_program(closed: ClosedJaxpr, placement: Placement) -> tuple[ClosedJaxpr, Placement]:
    """Return the program and the placement of the first member in this process, which are lowered.

    If the program was not placed by `place_nested_map`, both are returned unchanged.

    Args:
      closed: the program.
      placement: its placement.
    Returns:
      (program, placement).

    >>> from lamina_ir import parse
    >>> plain = parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }")
    >>> first_member_program(plain, Placement())[0] is plain
    True
    """
    e = find_per_member_map(closed, placement)
    if e is None or placement.local_members == 1:
        return closed, placement
    each = len(placement.local_devices) // placement.local_members
    ins = tuple([None if t is None else t.block_on(range(each))[0] for t in placement.in_tiles])
    return _one_member_program(closed, e), placement._replace(local_devices=placement.local_devices[:each], in_tiles=ins)


@check_args(closed=CLOSED_JAXPR, placement=_PLACEMENT, tiles=_TILES)
def join_member_tiles(closed: ClosedJaxpr, placement: Placement, tiles: Sequence[Tiles]) -> list[Tiles]:
    """Extend the tiles of results from the first member to all members in this process.

    Args:
      closed: the program.
      placement: its placement.
      tiles: for each result its tiles on the devices of the first member.
    Returns:
      For each result its tiles on the local devices.

    >>> from lamina_ir import parse
    >>> join_member_tiles(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"), Placement(), [Tiles()])
    [Tiles(counts=(), copies=1, order=())]
    """
    e = find_per_member_map(closed, placement)
    if e is None or placement.local_members == 1:
        return [*tiles]
    axes = dict(zip(e.outvars, e.params["out_axes"]))
    each = len(placement.local_devices) // placement.local_members
    return [_join_members(t, axes[v], placement.local_members, each, v.aval.ndim)  # type: ignore[index]
            for v, t in zip(closed.jaxpr.outvars, tiles)]


def _one_member_program(closed: ClosedJaxpr, e: Eqn) -> ClosedJaxpr:
    """Return the program as a process with one member would have it."""
    def make() -> ClosedJaxpr:
        fresh: dict[Atom, Var] = {}
        for v, axis in (*zip(e.invars, e.params["in_axes"]), *zip(e.outvars, e.params["out_axes"])):
            if axis is not None:
                shape = (*v.aval.shape[:axis], 1, *v.aval.shape[axis + 1:])
                fresh[v] = Var(shaped(shape, v.aval.dtype, v.aval.weak_type).with_varying_axes(v.aval.varying_axes))
        one = Eqn(e.primitive, [fresh.get(v, v) for v in e.invars], [fresh.get(v, v) for v in e.outvars],
                  {**e.params, "axis_size": 1}, e.source)
        jaxpr = closed.jaxpr
        return ClosedJaxpr(Jaxpr(jaxpr.constvars, [fresh.get(v, v) for v in jaxpr.invars], [one],
                                 [fresh.get(v, v) for v in jaxpr.outvars], jaxpr.axis_names, jaxpr.effectful), closed.consts)

    return closed if e.params["axis_size"] == 1 else closed.memo("one member", make)


def _join_members(tiles: Tiles, axis: int | None, members: int, each: int, rank: int) -> Tiles:
    """Return the tiles of an array with all members along `axis`, if `tiles` are those of one member on its own
    devices.

    If `axis` is None, all members share one value, and their devices hold copies of its parts.
    """
    at = np.arange(each).reshape((1,) * rank + (each,)) if tiles.is_replicated else tiles.positions()
    at = np.concatenate([at + k * each for k in range(members)], -1 if axis is None else axis)
    return make_tiles(at.shape[:-1], at.shape[-1], at.reshape(-1).tolist())
