"""`Placement`: how a program lies on devices, in one immutable value; `Grid`, how maps do.

Devices are counted from 0 in the order of the placement, row by row over (replicas, partitions). What a device *is*, the
runtime knows.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _stack_depth, prims
from .arguments import CLOSED, ITEMS, Kind, of_type, takes
from .errors import ShapeError
from .meshes import mesh_tiles, meshes
from .program import ClosedJaxpr, Eqn, Literal, subprograms
from .tiles import Tiles, tiles_of

__all__ = ["Grid", "Placement", "devices_needed", "lone_map", "map_placement", "rows_everywhere", "split_by_maps"]


# --- a program ----------------------------------------------------------------------------------------------------
class Placement(NamedTuple):
    """How a program lies on devices.

    Attributes:
      devices: one for each (replica, partition), row by row: the runtime's, or any other values that tell them apart.
      replicas: copies of the program that run side by side, each in its own view of the arguments.
      partitions: parts into which each copy is split, over arguments seen whole.
      members: the program is a single map and each replica runs one member of it, on its rows of the arguments.
      ins: how each argument lies, of the face; None: as the runtime likes.
      outs: how each result has to lie, of the face; None: as the compiler likes.
      donated: for each argument, whether its memory may be reused for results; (): none.
      committed: whether results have to stay where they are.
      axes: (name, size) of the axes that the devices lie along, row by row: of a map by itself the map's own; of a
        program with maps inside those of the mesh that these take (`Grid.axes`); (): nothing names any.
      face: those of the devices whose part of arguments and results is all that is given and seen here: this
        process's, where the others are of other processes, which give and see theirs. (): all is given and seen,
        the global face.

    >>> Placement(devices=(0, 1), partitions=2, ins=(Tiles((2,)),)).grid
    (1, 2)
    >>> mine = Placement(devices=(0, 1, 10, 11), replicas=4, members=True, face=(10, 11))
    >>> mine.here, len(mine.devices)
    ((10, 11), 4)
    """

    devices: tuple[Any, ...] = (0,)
    replicas: int = 1
    partitions: int = 1
    members: bool = False
    ins: tuple[Tiles | None, ...] = ()
    outs: tuple[Tiles | None, ...] = ()
    donated: tuple[bool, ...] = ()
    committed: bool = False
    axes: tuple[tuple[Any, int], ...] = ()
    face: tuple[Any, ...] = ()

    @property
    def grid(self) -> tuple[int, int]:
        return self.replicas, self.partitions

    @property
    def here(self) -> tuple[Any, ...]:
        """The devices that arguments come to and results lie on, as far as they are seen here."""
        return self.face or self.devices

    @property
    def rows(self) -> int:
        """Of how many rows the face is where the rows of a map are lowered as if each were a process by itself (see `nests`):
        each of them takes as many devices as `axes` say; 1 for anything else."""
        if self.members or not self.face:
            return 1
        return len(self.face) // math.prod([n for name, n in self.axes if name != Grid.PROCESSES])


# --- maps on a grid -----------------------------------------------------------------------------------------------
@takes(closed=CLOSED)
def devices_needed(closed: ClosedJaxpr) -> int:
    """How many devices the maps in a program take here, those inside of one another together.

    Args:
      closed: the program.
    Returns:
      Their number; 1 for a program without maps.

    >>> from lamina_ir import parse
    >>> devices_needed(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"))
    1
    """
    return math.prod(_nest(closed))


def _nest(closed: ClosedJaxpr) -> tuple[int, ...]:
    """The sizes of the maps inside of one another that take the most devices, outermost first."""
    return closed.memo("nest", lambda: _widest(closed))


def _widest(closed: ClosedJaxpr) -> tuple[int, ...]:
    # Programs may share programs, and stand deeper than the stack is: each is looked at once, after those inside of it.
    nests: dict[ClosedJaxpr, tuple[int, ...]] = {}
    todo = [closed]
    while todo:
        program = todo[-1]
        inside = [(e, s) for e in program.jaxpr.eqns if e.primitive.subprograms for s in subprograms(e)]
        waiting = [s for _, s in inside if s not in nests]
        if waiting:
            todo += waiting
            continue
        todo.pop()
        found: tuple[int, ...] = ()
        for e, s in inside:
            nest = nests[s]
            if e.primitive is prims.xla_pmap_p:
                nest = e.params["axis_size"], *nest
            elif e.primitive is prims.shard_map_p:  # those inside of it take axes of the same mesh
                nest = e.params["here"] or e.params["mesh"][1]
            if math.prod(nest) > math.prod(found):
                found = nest
        nests[program] = found
    return nests[closed]


@takes(e=Kind("an equation of an xla_pmap", lambda v: isinstance(v, Eqn) and "global_axis_size" in v.params))
def rows_everywhere(e: Eqn) -> int:
    """How many members a map has, those of other processes among them.

    Args:
      e: an `xla_pmap`.
    Returns:
      An integer.

    >>> from lamina_ir import ClosedJaxpr, Jaxpr, prims
    >>> rows_everywhere(Eqn(prims.xla_pmap_p, (), (), {"axis_size": 2, "global_axis_size": 6}))
    6
    """
    return int(e.params["global_axis_size"] or e.params["axis_size"])


class Grid:
    """Devices as a mesh whose axes are so fine that each map, and each argument, takes some of them whole.

    Args:
      devices: how many.
      nest: sizes of maps inside of one another, outermost first, whose product had better divide that.

    Attributes:
      sizes: of the axes; devices are numbered row by row over them.

    >>> grid = Grid(8, (4,))
    >>> grid.sizes, grid.take((0, 1, 2), 4), grid.take((0, 1, 2), 3)
    ((2, 2, 2), (0, 1), (0, 1))
    >>> grid.spelled(Tiles((2, 4)))
    ((0,), (1, 2))
    """

    __slots__ = ("devices", "sizes")
    PROCESSES = "processes"  # the axis along which processes lie that have a grid each

    def __init__(self, devices: int, nest: Sequence[int] = ()) -> None:
        self.devices = devices
        sizes: list[int] = []
        left = devices
        for n in nest:
            if left % n:
                sizes, left = [], devices
                break
            sizes += _primes(n)
            left //= n
        self.sizes = (*sizes, *_primes(left))

    @staticmethod
    def along(axes: Sequence[tuple[Any, int]]) -> Grid:
        """The grid of one process, of the axes of a placement."""
        sizes = tuple([n for name, n in axes if name != Grid.PROCESSES])
        grid = Grid(math.prod(sizes))
        grid.sizes = sizes
        return grid

    def axes(self, processes: int = 1) -> tuple[tuple[str, int], ...]:
        """Name and size of each axis, before them that of the processes where several have a grid each.

        >>> Grid(4).axes(processes=3)
        (('processes', 3), ('d0', 2), ('d1', 2))
        """
        across = [] if processes == 1 else [(self.PROCESSES, processes)]
        return (*across, *[(self.axis(a), n) for a, n in enumerate(self.sizes)])

    @staticmethod
    def axis(number: int) -> str:
        """What an axis is called."""
        return f"d{number}"

    @staticmethod
    def of(closed: ClosedJaxpr, devices: int) -> Grid:
        """The grid for a program's maps."""
        return closed.memo(("grid", devices), lambda: Grid(devices, _nest(closed)))

    def width(self, axes: Sequence[int]) -> int:
        """How many devices some axes span."""
        return math.prod([self.sizes[a] for a in axes])

    def take(self, free: Sequence[int], size: int) -> tuple[int, ...]:
        """Of the axes that are `free`, those for a map of `size`: the first ones that span just so many devices, or, where
        none do, the fewest first ones that span more: the rest of them is given rows to spare."""
        span = 1
        for k, axis in enumerate(free):
            if span >= size:
                return tuple(free[:k])
            span *= self.sizes[axis]
        return tuple(free)

    def spelled(self, tiles: Tiles) -> tuple[tuple[int, ...], ...] | None:
        """For each dimension the axes it is split over, slowest first; None if that cannot be said in these axes."""
        if tiles.whole:
            return ((),) * len(tiles.counts)
        if tiles.devices != self.devices:
            return None
        order = tiles.positions().reshape(-1)
        strides = {math.prod(self.sizes[a + 1:]): a for a in range(len(self.sizes))}
        axes: list[int] = []  # fastest first: a step of so many places is a step along one axis
        step = 1
        while step < self.devices:
            axis = strides.pop(int(order[step] - order[0]), None)
            if axis is None:
                return None
            axes.append(axis)
            step *= self.sizes[axis]
            if self.devices % step:
                return None
        axes.reverse()
        if not np.array_equal(np.arange(self.devices).reshape(self.sizes).transpose(axes).reshape(-1), order):
            return None
        found, at = [], 0
        for count in tiles.counts:
            mine: list[int] = []
            while self.width(mine) < count:
                mine.append(axes[at])
                at += 1
            if self.width(mine) != count:
                return None
            found.append(tuple(mine))
        return tuple(found)

    def tiles(self, dims: Sequence[Sequence[int]]) -> Tiles:
        """What `spelled` spells."""
        over = [a for axes in dims for a in axes]
        rest = [a for a in range(len(self.sizes)) if a not in over]
        order = np.arange(self.devices).reshape(self.sizes).transpose([*over, *rest]).reshape(-1)
        return tiles_of([self.width(axes) for axes in dims], self.width(rest), order.tolist())


def _primes(n: int) -> list[int]:
    found, p = [], 2
    while n > 1:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 1
    return found


@takes(closed=CLOSED)
def lone_map(closed: ClosedJaxpr) -> Eqn | None:
    """The map that is all of a program, or None where there is more, or a map within the map.

    Its operands are the program's arguments, each once, or shared by all members; its results are the program's.

    Args:
      closed: the program.
    Returns:
      The equation, or None.

    >>> from lamina_ir import parse
    >>> lone_map(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }")) is None
    True
    """
    return closed.memo("lone map", lambda: _lone_map(closed))


def _lone_map(closed: ClosedJaxpr) -> Eqn | None:
    jaxpr = closed.jaxpr
    if len(jaxpr.eqns) != 1 or jaxpr.eqns[0].primitive not in (prims.xla_pmap_p, prims.shard_map_p):
        return None
    e = jaxpr.eqns[0]
    if devices_needed(e.params["call_jaxpr"]) > 1 or e.params.get("auto") or not {*jaxpr.outvars} <= {*e.outvars}:
        return None
    binds: Any = e.primitive.flow.binds  # type: ignore[union-attr]
    given = {*jaxpr.invars}
    seen = set()
    for v, entry in zip(e.invars, e.params[binds.ins]):
        if isinstance(v, Literal) or v not in given:
            if binds.along(e.params, entry):
                return None
        elif v in seen:
            return None
        seen.add(v)
    return e


@takes(closed=CLOSED, devices=ITEMS, face=ITEMS, donated=ITEMS)
def map_placement(closed: ClosedJaxpr, devices: Sequence[Any], face: Sequence[Any] = (),
                  donated: tuple[bool, ...] = ()) -> Placement:
    """The placement of a program that is a single map: one row of the mapped arguments and results on each device.

    Args:
      closed: the program, see `lone_map`.
      devices: one for each member, in order.
      face: those of them that have the rows or blocks of this process, where other processes have others.
      donated: for each argument, whether its memory may be reused; (): none.
    Returns:
      A `Placement` of members.
    Raises:
      ShapeError: the program is more than a map, or its rows are not one for each device.

    >>> from lamina_ir import parse
    >>> third = parse("{ lambda ; a:f32[2]. let b:f32[2] = xla_pmap[axis_name=i axis_size=2 backend=None "
    ...     "call_jaxpr={ lambda ; c:f32[]{i}. let d:f32[]{i} = sin c in (d,) } devices=None donated_invars=(False,) "
    ...     "global_arg_shapes=(None,) global_axis_size=6 in_axes=(0,) name=f out_axes=(0,)] a in (b,) }")
    >>> map_placement(third, range(6), face=(2, 3)).ins
    (Tiles(counts=(2,), copies=1, order=()),)
    """
    e = lone_map(closed)
    if e is not None and e.primitive is prims.shard_map_p:
        return _mesh_placement(closed, e, devices, face, donated)
    here = len(face or devices)
    if e is None or e.params["axis_size"] != here or rows_everywhere(e) != len(devices):
        raise ShapeError(f"map_placement: expected a program that is one map over {len(devices)} rows, {here} of them here; "
                         f"got {closed.jaxpr}")
    axes: dict[Any, int | None] = dict(zip(e.invars, e.params["in_axes"]))  # of arguments that nobody reads there is none
    ends: dict[Any, int | None] = dict(zip(e.outvars, e.params["out_axes"]))
    ins = [_rows(v.aval.ndim, axes.get(v), here) for v in closed.jaxpr.invars]
    outs = [_rows(v.aval.ndim, ends[v], here) for v in closed.jaxpr.outvars]
    # Tuples stay what they are: there may be thousands of devices, and a placement for each call.
    return Placement(_tuple(devices), replicas=len(devices), members=True, ins=tuple(ins), outs=tuple(outs), donated=donated,
                     committed=True, axes=((e.params["axis_name"], len(devices)),), face=_tuple(face))


def _mesh_placement(closed: ClosedJaxpr, e: Eqn, devices: Sequence[Any], face: Sequence[Any],
                    donated: tuple[bool, ...]) -> Placement:
    names, sizes, every = e.params["mesh"]
    here = e.params["here"]
    if len(devices) != len(every) or len(face) != (math.prod(here) if here else 0):
        raise ShapeError(f"map_placement: expected the {len(every)} devices of a mesh, and those of this process where it sees "
                         f"its part alone; got {len(devices)} and {len(face)}")
    mesh = (names, here, tuple(face)) if here else e.params["mesh"]
    ins = {v: mesh_tiles(mesh, entry) for v, entry in zip(e.invars, e.params["in_specs"]) if not isinstance(v, Literal)}
    outs = {v: mesh_tiles(mesh, entry) for v, entry in zip(e.outvars, e.params["out_specs"])}
    return Placement(_tuple(devices), replicas=len(devices), members=True,
                     ins=tuple([ins.get(v, Tiles()) for v in closed.jaxpr.invars]),
                     outs=tuple([outs[v] for v in closed.jaxpr.outvars]),  # type: ignore[index]
                     donated=donated, committed=True, axes=tuple(zip(names, sizes)), face=_tuple(face))


def _tuple(xs: Sequence[Any]) -> tuple[Any, ...]:
    return xs if isinstance(xs, tuple) else tuple(xs)


def _rows(rank: int, axis: int | None, size: int) -> Tiles:
    if axis is None or size == 1:
        return Tiles()
    return Tiles(tuple([size if d == axis else 1 for d in range(rank)]))


# --- where a program's maps want its arguments --------------------------------------------------------------------
Wish = tuple[tuple[int, ...], ...] | Tiles  # per dimension, the axes of the grid


@takes(closed=CLOSED, grid=of_type("a Grid", Grid), devices=ITEMS)
def split_by_maps(closed: ClosedJaxpr, grid: Grid, devices: Sequence[Any] = ()) -> tuple[Tiles, ...]:
    """How the arguments of a program with maps inside had better lie.

    As the first map that takes them, or what is computed from them element by element, holds them; whole on every
    device where none does.

    Args:
      closed: the program.
      grid: of its devices.
      devices: these, as the `shard_map`s in it name them; (): in the order of the mesh of the first.
    Returns:
      One for each argument.

    >>> from lamina_ir import parse
    >>> split_by_maps(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"), Grid(8))
    (Tiles(counts=(), copies=1, order=()),)
    """
    def make() -> tuple[Tiles, ...]:
        with _stack_depth.roomy():
            wishes = _wishes(closed, grid, tuple(range(len(grid.sizes))), number)
        return tuple([Tiles() if w is None else w if isinstance(w, Tiles) else grid.tiles(w) for w in wishes])

    named = meshes(closed)
    devices = tuple(devices or named[0].params["mesh"][2]) if named else ()
    number = {d: i for i, d in enumerate(devices)}
    return closed.memo(("split", grid.devices, devices), make)


def _wishes(closed: ClosedJaxpr, grid: Grid, free: tuple[int, ...], number: dict[Any, int]) -> list[Wish | None]:
    jaxpr = closed.jaxpr
    wanted: dict[Any, Wish] = {}
    for e in reversed(jaxpr.eqns):  # the first to ask is heard last, and overrules
        p = e.primitive
        if p is prims.xla_pmap_p:
            body, size = e.params["call_jaxpr"], e.params["axis_size"]
            taken = grid.take(free, size)
            exact = grid.width(taken) == size
            inner = _wishes(body, grid, tuple(a for a in free if a not in taken), number)
            for v, axis, w in zip(e.invars, e.params["in_axes"], inner):
                rank = len(v.aval.shape) - (axis is not None)
                dims: list[Any] = list(w or ((),) * rank)
                if axis is not None:
                    dims.insert(axis, taken if exact else ())
                if any(dims) and not isinstance(v, Literal):
                    wanted[v] = tuple(dims)
        elif p is prims.shard_map_p:
            mesh = e.params["mesh"]
            for v, entry in zip(e.invars, e.params["in_specs"]):
                lies = mesh_tiles(mesh, entry, [number[d] for d in mesh[2]])
                if not lies.whole and not isinstance(v, Literal):
                    wanted[v] = lies
        elif p is prims.xla_call_p:
            for v, w in zip(e.invars, _wishes(e.params["call_jaxpr"], grid, free, number)):
                if w is not None and not isinstance(v, Literal):
                    wanted[v] = w
        elif p.elementwise:
            asked = next((wanted[o] for o in e.outvars if o in wanted), None)
            if asked is not None:
                shape = e.outvars[0].aval.shape
                wanted.update((v, asked) for v in e.invars if not isinstance(v, Literal) and v.aval.shape == shape)
    return [wanted.get(v) for v in jaxpr.invars]
