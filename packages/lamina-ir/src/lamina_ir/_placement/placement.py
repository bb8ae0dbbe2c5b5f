"""`Placement`: the assignment of a program to devices; `Grid`: the assignment of the maps in it to axes of devices.

A placement has replicas and partitions. Replicas run copies of the program, each on its own arguments. Partitions share
global arguments, which are split among them (`Tiles`). Devices are numbered from 0 in the order of the placement, in
row-major order over (replicas, partitions). Only the runtime knows what a device is; here it is any hashable value.

There are three ways to place a program with maps:

1. The program is a single map (`single_map_eqn`): `place_map` makes one replica per member. Each device gets its slice
   of the mapped arguments, and collectives are those of the compiler, among replicas.
2. The maps are inside a larger program: the devices form one `Grid`, a mesh whose axis sizes are the prime factors of
   the map sizes, then of the number of remaining devices. So each map, and each nested map in it, takes some of the
   axes completely. The program runs as partitions; `infer_arg_tiles` splits an argument as the first map that reads it
   needs it.
3. A single map over processes contains maps over devices: see `nested_maps`.

If the program runs in several processes, `Placement.local_devices` are those of this process. Arguments and results
then are the local parts only. If it is empty, they are global arrays.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._util import recursion_limit
from .. import prims
from .._core.arg_checks import CLOSED_JAXPR, ITEMS, ArgType, instance_of, check_args
from ..errors import ShapeError
from .._passes.program_facts import collect_facts
from .shard_map_mesh import mesh_to_tiles, find_shard_maps
from .._core.jaxpr import Atom, ClosedJaxpr, Eqn, Literal
from .tiles import Tiles, make_tiles
from ..typing import AxisName, Device
from .._util.former_names import former_attributes

__all__ = ["Grid", "Placement", "can_split_arguments", "count_devices", "global_axis_size", "infer_arg_tiles", "place_map",
           "single_map_eqn"]


# --- a program ----------------------------------------------------------------------------------------------------
@former_attributes(face="local_devices", here="visible_devices", ins="in_tiles", members="one_member_per_device",
                   outs="out_tiles", rows="local_members")
class Placement(NamedTuple):
    """The assignment of a program to devices.

    Attributes:
      devices: one for each (replica, partition), in row-major order; any distinct hashable values.
      replicas: the number of copies of the program, each with its own arguments.
      partitions: the number of parts of each copy, which share global arguments.
      one_member_per_device: whether the program is a single map, and each replica runs one member of it.
      in_tiles: the tiles of each argument on the visible devices; None: chosen by the runtime.
      out_tiles: the required tiles of each result on the visible devices; None: chosen by the compiler.
      donated: for each argument, whether its memory may be reused for results; (): none.
      committed: whether results are committed to their devices.
      axes: (name, size) of the device axes, in row-major order. For a single map its own axis or axes; for a program
        with maps inside the axes of the grid (`Grid.axes`); () if there are none.
      local_devices: in the local view, the devices of this process: arguments and results are the parts on these
        devices, and other processes pass their own. (): the global view, in which arguments and results are global
        arrays.

    >>> Placement(devices=(0, 1), partitions=2, in_tiles=(Tiles((2,)),)).grid
    (1, 2)
    >>> mine = Placement(devices=(0, 1, 10, 11), replicas=4, one_member_per_device=True, local_devices=(10, 11))
    >>> mine.visible_devices, len(mine.devices)
    ((10, 11), 4)
    """

    devices: tuple[Device, ...] = (0,)
    replicas: int = 1
    partitions: int = 1
    one_member_per_device: bool = False
    in_tiles: tuple[Tiles | None, ...] = ()
    out_tiles: tuple[Tiles | None, ...] = ()
    donated: tuple[bool, ...] = ()
    committed: bool = False
    axes: tuple[tuple[Any, int], ...] = ()
    local_devices: tuple[Device, ...] = ()

    @property
    def grid(self) -> tuple[int, int]:
        return self.replicas, self.partitions

    @property
    def visible_devices(self) -> tuple[Device, ...]:
        """The devices of arguments and results: those of this process in the local view, else all."""
        return self.local_devices or self.devices

    @property
    def local_members(self) -> int:
        """The number of members in this process, if each member of a map is lowered as if it were its own process (see
        `nested_maps`); else 1. Each member then uses as many devices as the product of `axes`."""
        if self.one_member_per_device or not self.local_devices:
            return 1
        return len(self.local_devices) // math.prod([n for name, n in self.axes if name != Grid.PROCESSES])


# --- maps on a grid -----------------------------------------------------------------------------------------------
@check_args(closed=CLOSED_JAXPR)
def count_devices(closed: ClosedJaxpr) -> int:
    """Return how many devices of this process the maps in a program need; the sizes of nested maps multiply.

    Args:
      closed: the program.
    Returns:
      Their number; 1 for a program without maps.

    >>> from lamina_ir import parse
    >>> count_devices(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"))
    1
    """
    return math.prod(collect_facts(closed).map_sizes)


@check_args(e=ArgType("an equation of an xla_pmap", lambda v: isinstance(v, Eqn) and "global_axis_size" in v.params))
def global_axis_size(e: Eqn) -> int:
    """Return the number of members of a map, including those of other processes.

    Args:
      e: an `xla_pmap`.
    Returns:
      An integer.

    >>> from lamina_ir import Eqn, prims
    >>> global_axis_size(Eqn(prims.xla_pmap_p, (), (), {"axis_size": 2, "global_axis_size": 6}))
    6
    """
    return int(e.params["global_axis_size"] or e.params["axis_size"])


@former_attributes(along="from_axes", spelled="axes_from_tiles", take="allocate_axes", tiles="tiles_from_axes",
                   width="count_devices")
class Grid:
    """A mesh of devices with axes of prime size, so that each map, and each split of an argument, uses complete axes.

    Args:
      devices: the number of devices.
      nest: the sizes of nested maps, outermost first. If their product does not divide `devices`, they are ignored.

    Attributes:
      sizes: the sizes of the axes; devices are numbered in row-major order over them.

    >>> grid = Grid(8, (4,))
    >>> grid.sizes, grid.allocate_axes((0, 1, 2), 4), grid.allocate_axes((0, 1, 2), 3)
    ((2, 2, 2), (0, 1), (0, 1))
    >>> grid.axes_from_tiles(Tiles((2, 4)))
    ((0,), (1, 2))
    """

    __slots__ = ("devices", "sizes")
    PROCESSES = "processes"  # the axis of processes, if each process has its own grid

    def __init__(self, devices: int, nest: Sequence[int] = ()) -> None:
        self.devices = devices
        sizes: list[int] = []
        left = devices
        for n in nest:
            # The maps do not fit on these devices together, so their sizes give no axes.
            if left % n:
                sizes, left = [], devices
                break
            sizes += _primes(n)
            left //= n
        self.sizes = (*sizes, *_primes(left))

    @staticmethod
    def from_axes(axes: Sequence[tuple[AxisName, int]]) -> Grid:
        """Return the grid of one process, given the axes of a placement."""
        sizes = tuple([n for name, n in axes if name != Grid.PROCESSES])
        grid = Grid(math.prod(sizes))
        grid.sizes = sizes
        return grid

    def axes(self, processes: int = 1) -> tuple[tuple[str, int], ...]:
        """Return name and size of each axis; if several processes have a grid each, the axis of processes comes first.

        >>> Grid(4).axes(processes=3)
        (('processes', 3), ('d0', 2), ('d1', 2))
        """
        across = [] if processes == 1 else [(self.PROCESSES, processes)]
        return (*across, *[(self.axis_name(a), n) for a, n in enumerate(self.sizes)])

    @staticmethod
    def axis_name(number: int) -> str:
        """Return the name of an axis."""
        return f"d{number}"

    @staticmethod
    def of(closed: ClosedJaxpr, devices: int) -> Grid:
        """Return the grid for the maps of a program."""
        return closed.memo(("grid", devices), lambda: Grid(devices, collect_facts(closed).map_sizes))

    def count_devices(self, axes: Sequence[int]) -> int:
        """Return the number of devices along the given axes."""
        return math.prod([self.sizes[a] for a in axes])

    def allocate_axes(self, free: Sequence[int], size: int) -> tuple[int, ...]:
        """Choose the axes for a map of `size` members among the free ones: the shortest prefix with at least as many
        devices.

        If it has more devices than members, the caller pads the map with idle members.
        """
        span = 1
        for k, axis in enumerate(free):
            if span >= size:
                return tuple(free[:k])
            span *= self.sizes[axis]
        return tuple(free)

    def axes_from_tiles(self, tiles: Tiles) -> tuple[tuple[int, ...], ...] | None:
        """Express tiles in axes of the grid: for each dimension the axes it is split over, slowest first. None if
        impossible.

        The device order of the tiles is a permutation of 0, 1, ... It can be expressed if it is a transposition of the
        grid. The strides of the permutation identify the axes: position 1 differs from position 0 by the stride of the
        fastest axis, and so on for each further axis.
        """
        if tiles.is_replicated:
            return ((),) * len(tiles.counts)
        if tiles.devices != self.devices:
            return None
        # Devices in the order of the tiles. On a grid this order is a permutation of its axes: read the axes off the
        # distances, from the fastest axis, then check the whole order.
        order = tiles.positions().reshape(-1)
        strides = {math.prod(self.sizes[a + 1:]): a for a in range(len(self.sizes))}
        axes: list[int] = []  # the axes found, fastest first
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
        # Distribute the axes over the dimensions: each takes the next axes, until their product is its tile count.
        found, at = [], 0
        for count in tiles.counts:
            mine: list[int] = []
            while self.count_devices(mine) < count:
                mine.append(axes[at])
                at += 1
            if self.count_devices(mine) != count:
                return None
            found.append(tuple(mine))
        return tuple(found)

    def tiles_from_axes(self, dims: Sequence[Sequence[int]]) -> Tiles:
        """Return the tiles of an array whose dimensions are split over the given axes; inverse of `axes_from_tiles`."""
        over = [a for axes in dims for a in axes]
        rest = [a for a in range(len(self.sizes)) if a not in over]
        order = np.arange(self.devices).reshape(self.sizes).transpose([*over, *rest]).reshape(-1)
        return make_tiles([self.count_devices(axes) for axes in dims], self.count_devices(rest), order.tolist())


def _primes(n: int) -> list[int]:
    found, p = [], 2
    while n > 1:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 1
    return found


@check_args(closed=CLOSED_JAXPR)
def single_map_eqn(closed: ClosedJaxpr) -> Eqn | None:
    """Return the map if a program consists of a single map without nested maps, else None.

    Each mapped operand must be an argument of the program, used once; the results must be those of the program.

    Args:
      closed: the program.
    Returns:
      The equation, or None.

    >>> from lamina_ir import parse
    >>> single_map_eqn(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }")) is None
    True
    """
    return closed.memo("single map", lambda: _find_single_map(closed))


def _find_single_map(closed: ClosedJaxpr) -> Eqn | None:
    jaxpr = closed.jaxpr
    if len(jaxpr.eqns) != 1 or jaxpr.eqns[0].primitive not in (prims.xla_pmap_p, prims.shard_map_p):
        return None
    e = jaxpr.eqns[0]
    # Replicas cannot be nested, see docs/design/decisions/0026-replicas-and-regions.md.
    if count_devices(e.params["call_jaxpr"]) > 1 or e.params.get("auto") or not {*jaxpr.outvars} <= {*e.outvars}:
        return None
    binds: Any = e.primitive.region_signature.axis_binding  # type: ignore[union-attr]
    mapped = [bool(binds.mapped_axes(e.params, entry)) for entry in e.params[binds.ins]]
    return e if can_split_arguments(closed, e, mapped) else None


def can_split_arguments(closed: ClosedJaxpr, e: Eqn, mapped: Sequence[bool]) -> bool:
    """Return whether each mapped operand of a map is an argument of the program, and no argument is used twice.

    Args:
      closed: the program.
      e: the map.
      mapped: for each operand of `e`, whether it is split along an axis.
    """
    arguments = {*closed.jaxpr.invars}
    seen: set[Atom] = set()
    for v, is_mapped in zip(e.invars, mapped):
        if isinstance(v, Literal) or v not in arguments:
            # A constant or literal is in the module, the same on each device, so it cannot be mapped.
            if is_mapped:
                return False
        # Used by two operands, which may be mapped along different axes: one argument cannot be split in two ways.
        elif v in seen:
            return False
        seen.add(v)
    return True


@check_args(closed=CLOSED_JAXPR, devices=ITEMS, local_devices=ITEMS, donated=ITEMS)
def place_map(closed: ClosedJaxpr, devices: Sequence[Device], local_devices: Sequence[Device] = (),
              donated: tuple[bool, ...] = ()) -> Placement:
    """Place a program that is a single map: each device runs one member, on its slice of the mapped arguments.

    Args:
      closed: the program, see `single_map_eqn`.
      devices: one for each member, in order.
      local_devices: the devices of this process in the local view; (): the global view.
      donated: for each argument, whether its memory may be reused; (): none.
    Returns:
      A `Placement` with `one_member_per_device`.
    Raises:
      ShapeError: the program is not a single map, or the number of devices is not that of its members.

    >>> from lamina_ir import parse
    >>> third = parse("{ lambda ; a:f32[2]. let b:f32[2] = xla_pmap[axis_name=i axis_size=2 backend=None "
    ...     "call_jaxpr={ lambda ; c:f32[]{i}. let d:f32[]{i} = sin c in (d,) } devices=None donated_invars=(False,) "
    ...     "global_arg_shapes=(None,) global_axis_size=6 in_axes=(0,) name=f out_axes=(0,)] a in (b,) }")
    >>> place_map(third, range(6), local_devices=(2, 3)).in_tiles
    (Tiles(counts=(2,), copies=1, order=()),)
    """
    e = single_map_eqn(closed)
    if e is not None and e.primitive is prims.shard_map_p:
        return _mesh_placement(closed, e, devices, local_devices, donated)
    here = len(local_devices or devices)
    if e is None or e.params["axis_size"] != here or global_axis_size(e) != len(devices):
        raise ShapeError(f"place_map: the program must be a single map over {len(devices)} members, {here} of them in this "
                         f"process; got {closed.jaxpr}")
    axes: dict[Atom, int | None] = dict(zip(e.invars, e.params["in_axes"]))  # unused arguments are not in it
    out_axes: dict[Atom, int | None] = dict(zip(e.outvars, e.params["out_axes"]))
    ins = [_split_along(axes.get(v), v.aval.ndim, here) for v in closed.jaxpr.invars]
    outs = [_split_along(out_axes[v], v.aval.ndim, here) for v in closed.jaxpr.outvars]
    # Do not copy tuples: there may be thousands of devices, and this runs once per call.
    return Placement(_tuple(devices), replicas=len(devices), one_member_per_device=True, in_tiles=tuple(ins),
                     out_tiles=tuple(outs), donated=donated, committed=True,
                     axes=((e.params["axis_name"], len(devices)),), local_devices=_tuple(local_devices))


def _mesh_placement(closed: ClosedJaxpr, e: Eqn, devices: Sequence[Device], local_devices: Sequence[Device],
                    donated: tuple[bool, ...]) -> Placement:
    names, sizes, every = e.params["mesh"]
    here = e.params["here"]
    if len(devices) != len(every) or len(local_devices) != (math.prod(here) if here else 0):
        raise ShapeError(f"place_map: devices must be the {len(every)} devices of the mesh, and local_devices those of this "
                         f"process in a local view; got {len(devices)} and {len(local_devices)}")
    mesh = (names, here, tuple(local_devices)) if here else e.params["mesh"]
    ins = {v: mesh_to_tiles(mesh, entry) for v, entry in zip(e.invars, e.params["in_specs"]) if not isinstance(v, Literal)}
    outs = {v: mesh_to_tiles(mesh, entry) for v, entry in zip(e.outvars, e.params["out_specs"])}
    return Placement(_tuple(devices), replicas=len(devices), one_member_per_device=True,
                     in_tiles=tuple([ins.get(v, Tiles()) for v in closed.jaxpr.invars]),
                     out_tiles=tuple([outs[v] for v in closed.jaxpr.outvars]),  # type: ignore[index]
                     donated=donated, committed=True, axes=tuple(zip(names, sizes)),
                     local_devices=_tuple(local_devices))


def _tuple(xs: Sequence[Device]) -> tuple[Device, ...]:
    return xs if isinstance(xs, tuple) else tuple(xs)


def _split_along(axis: int | None, rank: int, size: int) -> Tiles:
    """Return the tiles of an array that is split along one axis; None: replicated."""
    if axis is None or size == 1:
        return Tiles()
    return Tiles(tuple([size if d == axis else 1 for d in range(rank)]))


# --- tiles that the maps in a program prefer ----------------------------------------------------------------------
Preference = tuple[tuple[int, ...], ...] | Tiles  # for each dimension the axes of the grid; or tiles


@check_args(closed=CLOSED_JAXPR, grid=instance_of("a Grid", Grid), devices=ITEMS)
def infer_arg_tiles(closed: ClosedJaxpr, grid: Grid, devices: Sequence[Device] = ()) -> tuple[Tiles, ...]:
    """Infer how to split the arguments of a program with maps inside, so that its maps need no communication for them.

    An argument gets the tiles of the first map that reads it, or that reads a value computed from it elementwise. If
    there is none, it is replicated.

    Args:
      closed: the program.
      grid: the grid of its devices.
      devices: the devices, as named by the `shard_map`s in it; (): in the order of the mesh of the first one.
    Returns:
      Tiles for each argument.

    >>> from lamina_ir import parse
    >>> infer_arg_tiles(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"), Grid(8))
    (Tiles(counts=(), copies=1, order=()),)
    """
    def make() -> tuple[Tiles, ...]:
        with recursion_limit.with_recursion_limit():
            preferred = _preferred_tiles(closed, grid, tuple(range(len(grid.sizes))), number)
        return tuple([Tiles() if w is None else w if isinstance(w, Tiles) else grid.tiles_from_axes(w) for w in preferred])

    named = find_shard_maps(closed)
    devices = tuple(devices or named[0].params["mesh"][2]) if named else ()
    number = {d: i for i, d in enumerate(devices)}
    return closed.memo(("split", grid.devices, devices), make)


def _preferred_tiles(closed: ClosedJaxpr, grid: Grid, free: tuple[int, ...],
                     number: dict[Device, int]) -> list[Preference | None]:
    jaxpr = closed.jaxpr
    wanted: dict[Atom, Preference] = {}
    # Backward analysis: the preference of a value is that of the first equation that reads it, which is visited last.
    for e in reversed(jaxpr.eqns):
        p = e.primitive
        if p is prims.xla_pmap_p:
            body, size = e.params["call_jaxpr"], e.params["axis_size"]
            taken = grid.allocate_axes(free, size)
            # If the axes hold more devices than the map has members, they do not split the operand evenly.
            exact = grid.count_devices(taken) == size
            inner = _preferred_tiles(body, grid, tuple(a for a in free if a not in taken), number)
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
                tiles = mesh_to_tiles(mesh, entry, [number[d] for d in mesh[2]])
                if not tiles.is_replicated and not isinstance(v, Literal):
                    wanted[v] = tiles
        elif p is prims.xla_call_p:
            for v, w in zip(e.invars, _preferred_tiles(e.params["call_jaxpr"], grid, free, number)):
                if w is not None and not isinstance(v, Literal):
                    wanted[v] = w
        # An elementwise equation works on any tiles, so its operands should arrive as its result is needed.
        elif p.elementwise:
            preference = next((wanted[o] for o in e.outvars if o in wanted), None)
            if preference is not None:
                shape = e.outvars[0].aval.shape
                wanted.update((v, preference) for v in e.invars if not isinstance(v, Literal) and v.aval.shape == shape)
    return [wanted.get(v) for v in jaxpr.invars]
