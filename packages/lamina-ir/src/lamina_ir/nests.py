"""A map over several processes that holds maps over devices, and is all of a program, with any number of rows in each.

Such processes have no mesh in common: one has twice as many devices as another. Their rows have, as each takes as many
devices. So each row is lowered as if it were a process by itself, which gives one program that is the same in all, and a
process holds its rows as an array whose parts lie row after row.

    devices=[p0:0 p0:1, p1:0 p1:1, p1:2 p1:3]      processes=3 in the module, d0=2      face: 2 devices here, 4 there
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import prims
from .arguments import CLOSED, ITEMS, Kind, of_type, takes
from .avals import shaped
from .errors import ShapeError
from .placements import Grid, Placement, devices_needed, rows_everywhere, split_by_maps
from .program import ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from .tiles import Tiles, tiles_of

__all__ = ["lone_nest", "nest_placement", "of_rows", "rows_apart", "rows_of_results"]


_PLACEMENT = of_type("a Placement", Placement)
_TILES = Kind("a list of Tiles", lambda v: isinstance(v, (tuple, list)) and all(isinstance(t, Tiles) for t in v))


@takes(closed=CLOSED)
def lone_nest(closed: ClosedJaxpr) -> Eqn | None:
    """The map over processes that is all of a program and holds maps over devices; None where there is none, or more.

    Its operands are the program's arguments, each once, or shared by all members; its results are the program's.

    Args:
      closed: the program.
    Returns:
      The equation, or None.

    >>> from lamina_ir import parse
    >>> lone_nest(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }")) is None
    True
    """
    return closed.memo("lone nest", lambda: _lone_nest(closed))


def _lone_nest(closed: ClosedJaxpr) -> Eqn | None:
    jaxpr = closed.jaxpr
    e = jaxpr.eqns[0] if len(jaxpr.eqns) == 1 else None
    if e is None or e.primitive is not prims.xla_pmap_p or rows_everywhere(e) == e.params["axis_size"]:
        return None
    if devices_needed(e.params["call_jaxpr"]) == 1 or not {*jaxpr.outvars} <= {*e.outvars}:
        return None
    given, seen = {*jaxpr.invars}, set()
    for v, axis in zip(e.invars, e.params["in_axes"]):
        if isinstance(v, Literal) or v not in given:
            if axis is not None:
                return None
        elif v in seen:
            return None
        seen.add(v)
    return e


@takes(closed=CLOSED, devices=ITEMS, face=ITEMS, lies=ITEMS, donated=ITEMS)
def nest_placement(closed: ClosedJaxpr, devices: Sequence[Any], face: Sequence[Any], lies: Sequence[Tiles | None] = (),
                   donated: tuple[bool, ...] = ()) -> Placement:
    """The placement of a `lone_nest` whose rows are apart.

    Args:
      closed: the program.
      devices: those of each row, row after row.
      face: those of them that have the rows of this process.
      lies: for each argument how it lies on these, or None; (): not known.
      donated: for each argument, whether its memory may be reused; (): none.
    Returns:
      A `Placement` of partitions.
    Raises:
      ShapeError: the program is no such map, or has not so many rows.

    >>> from lamina_ir import parse
    >>> mapped = ("xla_pmap[axis_name=%s axis_size=2 backend=None call_jaxpr=%s devices=None donated_invars=(False,) "
    ...           "global_arg_shapes=(None,) global_axis_size=%d in_axes=(0,) name=f out_axes=(0,)]")
    >>> inner = mapped % ("j", "{ lambda ; e:f32[]{i, j}. let f:f32[]{i, j} = sin e in (f,) }", 2)
    >>> outer = mapped % ("i", "{ lambda ; c:f32[2]{i}. let d:f32[2]{i} = %s c in (d,) }" % inner, 3)
    >>> two_of_three = parse("{ lambda ; a:f32[2,2]. let b:f32[2,2] = %s a in (b,) }" % outer)
    >>> place = nest_placement(two_of_three, range(6), face=range(2, 6))
    >>> place.axes, place.ins, place.rows
    ((('processes', 3), ('d0', 2)), (Tiles(counts=(2, 2), copies=1, order=()),), 2)
    """
    e = lone_nest(closed)
    rows, here = (0, 0) if e is None else (rows_everywhere(e), e.params["axis_size"])
    each = 0 if e is None else devices_needed(e.params["call_jaxpr"])
    if e is None or len(devices) != rows * each or len(face) != here * each:
        raise ShapeError("nest_placement: expected a program that is one map which holds maps, and devices for each of its "
                         f"rows; got {len(devices)}, {len(face)} of them here, and {closed.jaxpr}")
    one = _one_row(closed, e)
    grid = Grid.of(one, each)
    axes = dict(zip(e.invars, e.params["in_axes"]))
    ins = []
    for v, wish, lying in zip(closed.jaxpr.invars, split_by_maps(one, grid), lies or (None,) * len(closed.jaxpr.invars)):
        found = _together(wish, axes.get(v), here, each, v.aval.ndim)
        if lying is not None:
            try:
                own = lying.part(range(each))[0]
            except ShapeError:  # a row lies on devices of others
                own = None
            if own is not None and grid.spelled(own) is not None:
                found = lying if _together(own, axes.get(v), here, each, v.aval.ndim) == lying else found
        ins.append(found)
    return Placement(tuple(devices), partitions=len(devices), ins=tuple(ins), donated=donated, committed=True,
                     axes=grid.axes(rows), face=tuple(face))


@takes(closed=CLOSED, placement=_PLACEMENT)
def rows_apart(closed: ClosedJaxpr, placement: Placement) -> Eqn | None:
    """The map of a program that lies as `nest_placement` says, or None.

    Args:
      closed: the program.
      placement: how it lies on devices.
    Returns:
      The equation, or None.

    >>> from lamina_ir import parse
    >>> rows_apart(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"), Placement()) is None
    True
    """
    e = lone_nest(closed) if placement.face and not placement.members else None
    return e if e is not None and dict(placement.axes).get(Grid.PROCESSES) == rows_everywhere(e) else None


@takes(closed=CLOSED, placement=_PLACEMENT)
def of_rows(closed: ClosedJaxpr, placement: Placement) -> tuple[ClosedJaxpr, Placement]:
    """The program and its placement as they are of the first row here; others than those of `nest_placement` as they are.

    Args:
      closed: the program.
      placement: how it lies on devices.
    Returns:
      What is lowered, and how it lies.

    >>> from lamina_ir import parse
    >>> plain = parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }")
    >>> of_rows(plain, Placement())[0] is plain
    True
    """
    e = rows_apart(closed, placement)
    if e is None or placement.rows == 1:
        return closed, placement
    each = len(placement.face) // placement.rows
    ins = tuple([None if t is None else t.part(range(each))[0] for t in placement.ins])
    return _one_row(closed, e), placement._replace(face=placement.face[:each], ins=ins)


@takes(closed=CLOSED, placement=_PLACEMENT, tiles=_TILES)
def rows_of_results(closed: ClosedJaxpr, placement: Placement, tiles: Sequence[Tiles]) -> list[Tiles]:
    """How results lie of which `tiles` says how the first row does.

    Args:
      closed: the program.
      placement: how it lies on devices.
      tiles: for each result, on the devices of that row.
    Returns:
      For each result, on the devices of the face.

    >>> from lamina_ir import parse
    >>> rows_of_results(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"), Placement(), [Tiles()])
    [Tiles(counts=(), copies=1, order=())]
    """
    e = rows_apart(closed, placement)
    if e is None or placement.rows == 1:
        return [*tiles]
    axes = dict(zip(e.outvars, e.params["out_axes"]))
    each = len(placement.face) // placement.rows
    return [_together(t, axes[v], placement.rows, each, v.aval.ndim)  # type: ignore[index]
            for v, t in zip(closed.jaxpr.outvars, tiles)]


def _one_row(closed: ClosedJaxpr, e: Eqn) -> ClosedJaxpr:
    """The program as a process with one row has it."""
    def make() -> ClosedJaxpr:
        fresh: dict[Any, Any] = {}
        for v, axis in (*zip(e.invars, e.params["in_axes"]), *zip(e.outvars, e.params["out_axes"])):
            if axis is not None:
                shape = (*v.aval.shape[:axis], 1, *v.aval.shape[axis + 1:])
                fresh[v] = Var(shaped(shape, v.aval.dtype, v.aval.weak_type).differing(v.aval.over))
        one = Eqn(e.primitive, [fresh.get(v, v) for v in e.invars], [fresh.get(v, v) for v in e.outvars],
                  {**e.params, "axis_size": 1}, e.source)
        jaxpr = closed.jaxpr
        return ClosedJaxpr(Jaxpr(jaxpr.constvars, [fresh.get(v, v) for v in jaxpr.invars], [one],
                                 [fresh.get(v, v) for v in jaxpr.outvars], jaxpr.axis_names, jaxpr.effectful), closed.consts)

    return closed if e.params["axis_size"] == 1 else closed.memo("one row", make)


def _together(tiles: Tiles, axis: int | None, rows: int, each: int, rank: int) -> Tiles:
    """How rows lie that stand along an axis, or are one value for all, each as `tiles` says on devices of its own."""
    at = np.arange(each).reshape((1,) * rank + (each,)) if tiles.whole else tiles.positions()
    at = np.concatenate([at + k * each for k in range(rows)], -1 if axis is None else axis)
    return tiles_of(at.shape[:-1], at.shape[-1], at.reshape(-1).tolist())
