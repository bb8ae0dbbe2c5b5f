"""Placements of maps over processes, with fake devices."""
import sys

import numpy as np
import pytest
from lamina_ir import ProgramError, ShapeError, check, parse
from lamina_ir.extend import (Grid, Placement, Tiles, place_map, place_nested_map, first_member_program,
                              global_axis_size, join_member_tiles)

MAP = """{{ lambda ; a:f32[{rows},3] b:f32[3]. let
    c:f32[{rows},3] d:f32[3] = xla_pmap[
      axis_name=i axis_size={rows} backend=None
      call_jaxpr={{ lambda ; e:f32[3]{{i}} f:f32[3]. let
          g:f32[3]{{i}} = mul e f
          h:f32[3] = psum[axes=('i',) axis_index_groups=None] g
        in (g, h) }}
      devices=None donated_invars=(False, False) global_arg_shapes=(None, None) global_axis_size={all} in_axes=(0, None)
      name=f out_axes=(0, None)
    ] a b
  in (c, d) }}"""


def map_over_processes(processes, rows):
    closed = parse(MAP.format(rows=rows, all=processes * rows))
    check(closed)
    return closed


def devices_of(process, rows):
    return [2048 * process + k for k in range(rows)]


@pytest.mark.parametrize("processes, rows", [(2, 1), (2, 4), (3, 2), (64, 8), (4096, 2)])
def test_process_places_its_own_members(processes, rows):
    closed = map_over_processes(processes, rows)
    every = [d for p in range(processes) for d in devices_of(p, rows)]
    mine = devices_of(processes - 1, rows)
    found = place_map(closed, every, mine)
    own = Tiles((rows, 1)) if rows > 1 else Tiles()
    assert found.visible_devices == tuple(mine) and len(found.devices) == found.replicas == processes * rows
    assert found.in_tiles == (own, Tiles()) and found.out_tiles == (own,
                                                                    Tiles()) and found.one_member_per_device and found.committed
    assert global_axis_size(closed.jaxpr.eqns[0]) == processes * rows and found.axes == (("i", processes * rows),)


def test_mesh_grid_is_recovered_from_axes():
    for grid in (Grid(8), Grid(12, (3, 2)), Grid(1), Grid(7)):
        for processes in (1, 5):
            again = Grid.from_axes(grid.axes(processes))
            assert (again.devices, again.sizes) == (grid.devices, grid.sizes)


def test_single_process_places_all_members():
    assert place_map(map_over_processes(1, 4), range(4)) == Placement(
        (0, 1, 2, 3), replicas=4, one_member_per_device=True, in_tiles=(Tiles((4, 1)), Tiles()),
        out_tiles=(Tiles((4, 1)), Tiles()), committed=True,
        axes=(("i", 4),))


def test_members_and_devices_must_match():
    with pytest.raises(ShapeError, match="a single map over 3 members, 2 of them in this process"):
        place_map(map_over_processes(2, 2), [0, 1, 2], [0, 1])
    with pytest.raises(ProgramError, match="global_axis_size.*got 2 and 4"):
        check(parse(MAP.format(rows=4, all=2)))


def test_work_does_not_grow_with_processes():
    def calls(processes):
        closed, count = map_over_processes(processes, 2), 0
        every = tuple(d for p in range(processes) for d in devices_of(p, 2))
        mine = tuple(devices_of(0, 2))
        place_map(closed, every, mine)

        def seen(frame, event, arg):
            nonlocal count
            count += event == "call"
        before = sys.getprofile()
        sys.setprofile(seen)
        try:
            place_map(closed, every, mine)
        finally:
            sys.setprofile(before)
        return count
    assert calls(2) == calls(4096)


def test_evaluator_rejects_members_of_other_processes():
    from lamina_ir import ExecutionError, evaluate
    with pytest.raises(ExecutionError, match="only 2 of the 4 members are in this process"):
        evaluate(map_over_processes(2, 2), np.ones((2, 3), np.float32), np.ones(3, np.float32))


NEST = """{{ lambda ; a:f32[4,{rows}] b:f32[3]. let
    c:f32[{rows},4] d:f32[] = xla_pmap[
      axis_name=i axis_size={rows} backend=None
      call_jaxpr={{ lambda ; e:f32[4]{{i}} f:f32[3]. let
          g:f32[4]{{i}} = xla_pmap[
            axis_name=j axis_size=4 backend=None call_jaxpr={{ lambda ; h:f32[]{{i, j}}. let k:f32[]{{i, j}} = sin h in (k,) }}
            devices=None donated_invars=(False,) global_arg_shapes=(None,) global_axis_size=4 in_axes=(0,) name=g out_axes=(0,)
          ] e
          l:f32[] = reduce_sum[axes=(0,)] f
        in (g, l) }}
      devices=None donated_invars=(False, False) global_arg_shapes=(None, None) global_axis_size=5 in_axes=(1, None)
      name=f out_axes=(0, None)
    ] a b
  in (d, c) }}"""


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_members_of_outer_map_are_lowered_like_processes(rows):
    closed = parse(NEST.format(rows=rows))
    check(closed)
    mine = range(20 - 4 * rows, 20)
    found = place_nested_map(closed, range(20), mine, donated=(True, False))
    at = np.arange(4 * rows).reshape(rows, 4).T.reshape(-1).tolist()
    assert found.in_tiles == (Tiles((4, rows), order=() if rows == 1 else tuple(at)), Tiles()), found.in_tiles
    assert found.grid == (1, 20) and found.axes == (("processes", 5), ("d0", 2), ("d1", 2)) and found.local_members == rows
    one, place = first_member_program(closed, found)
    check(one)
    assert f"{one}" == f"{parse(NEST.format(rows=1))}" and (one is closed) == (rows == 1)
    assert place.local_devices == tuple(mine)[:4] and place.in_tiles == (Tiles((4, 1)),
                                                                         Tiles()) and place.donated == (True, False)
    assert join_member_tiles(closed, found, [Tiles(), Tiles((1, 4))]) == [
        Tiles(), Tiles((rows, 4)) if rows > 1 else Tiles((1, 4))]
    lying = Tiles((1, rows), copies=4) if rows > 1 else None  # as in a map over members only, four copies of each
    assert place_nested_map(closed, range(20), mine, [lying, None]).in_tiles[0] == (lying or found.in_tiles[0])
    with pytest.raises(ShapeError, match="devices for each of its members; got 18 devices, "):
        place_nested_map(closed, range(18), mine)
