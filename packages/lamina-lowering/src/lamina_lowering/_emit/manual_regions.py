"""Lower maps inside of a partitioned module to *manual regions* (Shardy's `sdy.manual_computation`), in which a device
sees only its own shard. Outside and between regions the compiler partitions the program as usual.

The devices form a mesh whose axes are as fine as the maps need (`lamina_ir.extend.Grid`). A map takes some of the free
mesh axes, and a nested map takes from those that remain. The innermost map takes all remaining axes: devices along
these repeat the same work. So nothing remains to be partitioned, and the module contains exactly the collectives of the
program.

    axes of the mesh      2  2  2     devices 0 1 2 3 4 5 6 7
    pmap of 4             ----        members 0 0 1 1 2 2 3 3     (two copies)
    pmap of 2 in a        --
      pmap of 4              ----     (i, j)  00 01 02 03 10 11 12 13
    pmap of 3             ----        members 0 0 1 1 2 2 - -     (`-`: padding, repeats the last row; its results are dropped)

With several processes each process has such a mesh, whose devices see the arrays of that process. The whole program is
then inside of a region over an additional mesh axis, that of the processes. The outermost map that spans the processes
takes this axis in addition to its own; its members may be in any order.
"""
from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from lamina_ir import (
    Atom, AxisEnv, ClosedJaxpr, Eqn, Jaxpr, ShapedArray, ShapeError, Var, eqn_has_effects, has_only_checks, prims,
    shaped)
from lamina_ir.extend import Grid, AxisPosition, Tiles, count_devices, axis_positions
from lamina_ir.typing import AxisName, CacheKey, Device, MapEntry
from typing_extensions import override

from .rule_context import Context
from .._typing import IrAttribute, IrValue, MeshDims, ModuleBuilder

__all__ = ["MeshAxisEnv", "ModuleMesh", "lower_map", "lower_shard_map", "make_member_program"]


class MeshAxisEnv(AxisEnv):
    """Mapped axes inside of a region. Members are numbered like devices, and some devices may have no member.

    Attributes:
      grid: the mesh of each process.
      processes: the number of processes; devices are numbered process by process.
      free: mesh axes that no enclosing map has taken.
      taken: for each enclosing map `(order, mesh axes)`. `order` has the numbers of its members in order of the processes if
        the map spans these, () if they are consecutive, and None if the map does not span processes.
      named: the device at each position of the mesh, for the mesh of a `shard_map`; () if devices are in order.
      idle_participants: devices that run no member of the enclosing maps.
    """

    __slots__ = ("grid", "processes", "taken", "free", "named", "idle_participants", "_places")

    def __init__(self, grid: Grid, free: tuple[int, ...], axes: Sequence[tuple[Hashable, int]] = (),
                 taken: tuple[tuple[tuple[int, ...] | None, tuple[int, ...]], ...] = (), processes: int = 1,
                 named: tuple[int, ...] = ()) -> None:
        self.grid, self.free, self.taken, self.processes, self.named = grid, free, taken, processes, named
        # Axis 0 is that of the processes. In the outermost map that spans them, it varies slower than the members of
        # a process.
        # Dimensions of `every`: the processes, then the mesh axes. Those of the enclosing maps come first, outermost
        # first.
        over = [a for order, own in taken for a in (() if order is None else (0,)) + tuple([1 + a for a in own])]
        rest = [a for a in range(1 + len(grid.sizes)) if a not in over]
        every = np.array(named or range(processes * grid.devices)).reshape((processes, *grid.sizes)).transpose([*over, *rest])
        # A map takes all devices of its axes, but has members on the first `size` of these only.
        widths, members = [], []
        for (_, size), (order, axes_of_one) in zip(axes, taken):
            across = order is not None
            widths += [processes] * across + [grid.count_devices(axes_of_one)]
            members += [slice(None)] * across + [slice(size // processes if across else size)]
        places = every.reshape([*widths, -1])[tuple(members)]
        # Only the outermost map spans processes. Its members have the order of `devices=`.
        if taken and taken[0][0]:
            places = places.reshape(axes[0][1], -1)[list(taken[0][0])]
        super().__init__(axes, participants=places.size)
        # Participants in order: the index along the maps, then the copies that repeat the work of one member.
        self._places = places.reshape(-1)
        self.idle_participants = sorted({*range(every.size)} - {*self._places.tolist()})

    @override
    def key(self) -> tuple[CacheKey, ...]:
        return "mesh", self.names, self.sizes, self.taken, self.free, self.grid.sizes, self.processes, self.named

    def enter_map(self, name: Hashable, size: int, order: tuple[int, ...] | None, taken: tuple[int, ...],
                  free: tuple[int, ...]) -> MeshAxisEnv:
        """Return the environment inside of one more map."""
        return MeshAxisEnv(self.grid, free, [*zip(self.names, self.sizes), (name, size)], (*self.taken, (order, taken)),
                       self.processes, self.named)

    def places(self, participant: int) -> tuple[AxisPosition, ...]:
        # `_places` has `copies` entries in sequence for each member.
        at = np.flatnonzero(self._places == participant)
        return axis_positions(zip(self.names, self.sizes), int(at[0]) // self.copies) if at.size else ()

    @override
    def groups(self, names: AxisName | Sequence[AxisName],
               index_groups: Sequence[Sequence[int]] | None = None) -> list[list[int]]:
        """Return the groups of devices; `idle_participants` are in no group."""
        return [self._places[row].tolist() for row in super().groups(names, index_groups)]

    def worker_groups(self) -> list[list[int]]:
        """Return the groups of devices that repeat the same work: those of each member or, outside of maps, of each
        process.

        The last group contains the `idle_participants`, if there are any.
        """
        # Outside of maps nothing is divided, so all devices of a process do the same work.
        rows = self._places.reshape(self.processes if not self.names else -1, self.copies if self.names else self.grid.devices)
        return [*rows.tolist(), *[self.idle_participants] * bool(self.idle_participants)]

    @override
    def indices(self, names: AxisName | Sequence[AxisName]) -> list[int]:
        """Return each device's index along the named axes; 0 for a device without a member."""
        out = np.zeros(self.processes * self.grid.devices, np.int64)
        out[self._places] = super().indices(names)
        return out.tolist()


class ModuleMesh:
    """The mesh of one module, and the attributes of shardings over it."""

    def __init__(self, build: ModuleBuilder, grid: Grid, axes: Sequence[tuple[str, int]]) -> None:
        self.build, self.grid = build, grid
        self.processes = dict(axes).get(Grid.PROCESSES, 1)
        self._others: dict[tuple[object, ...], str] = {}
        self._declare("mesh", axes, ())

    def _declare(self, name: str, named: Sequence[tuple[str, int]], order: Sequence[int]) -> str:
        s = self.build.session
        axes = ", ".join(f'"{axis}"={n}' for axis, n in named)
        ids = f", device_ids=[{', '.join(map(str, order))}]" if order else ""
        s.ir.Operation.create("sdy.mesh", None, None, {"sym_name": s.attr(name), "mesh": s.parsed[f"#sdy.mesh<[{axes}]{ids}>"]},
                              None, 0, s.loc, self.build.ip)
        return name

    def sharding(self, tiles: Tiles, rank: int, open_dims: Sequence[int] = ()) -> IrAttribute:
        """Return the sharding attribute of an array of rank `rank`.

        If no assignment of this mesh's axes expresses the device order of the tiles, another mesh is declared.
        """
        return self.build.session.parsed[f"#sdy.sharding{self._sharding_text(tiles, rank, open_dims)}"]

    def _sharding_text(self, tiles: Tiles, rank: int, open_dims: Sequence[int] = ()) -> str:
        spelled, name = self.grid.axes_from_tiles(tiles), "mesh"
        if tiles.is_replicated:
            spelled = ((),) * rank
        elif spelled is None:
            # the compiler would move data between processes, whose arrays it treats as copies of one array
            if self.processes > 1:
                raise ShapeError("in a program over several processes an array must be sharded as the members of its maps "
                                 f"are; got {tiles.text()}")
            sizes = (*tiles.counts, tiles.copies)
            name = self._other(sizes, tiles.order)
            spelled = tuple((d,) if n > 1 else () for d, n in enumerate(tiles.counts))
        return dims_text(name, spelled, open_dims)

    def _other(self, sizes: tuple[int, ...], order: tuple[int, ...]) -> str:
        found = self._others.get((sizes, order))
        if found is None:
            found = self._others[sizes, order] = self._declare(
                f"mesh{len(self._others) + 1}", [(Grid.axis_name(a), n) for a, n in enumerate(sizes)], order)
        return found

    def named(self, sizes: tuple[int, ...], order: tuple[int, ...]) -> tuple[str, list[tuple[int, ...]]]:
        """Return the symbol of the mesh of a `shard_map`, and the module mesh axes of each of its axes.

        This is the module's own mesh if it is fine enough and has the devices in this order; otherwise a new mesh of
        the same devices.
        """
        axes, at = [], 0
        for size in sizes:
            first = at
            # The mesh axes are finer than those of the shard_map, in the same order: each axis takes the next ones
            # that span its size.
            while at < len(self.grid.sizes) and self.grid.count_devices(range(first, at)) < size:
                at += 1
            axes.append(tuple(range(first, at)))
        if order == (*range(len(order)),) and [self.grid.count_devices(a) for a in axes] == [*sizes]:
            return "mesh", axes
        return self._other(sizes, order), [(k,) for k in range(len(sizes))]

    def sharding_per_value(self, dims: Sequence[Sequence[Sequence[int]]], open_dims: bool,
                           mesh: str = "mesh") -> IrAttribute:
        """Return the sharding attribute of several values, each given by the mesh axes that split its dimensions."""
        texts = [dims_text(mesh, d, [i for i, axes in enumerate(d) if not axes] if open_dims else ()) for d in dims]
        return self.build.session.parsed[f"#sdy.sharding_per_value<[{', '.join(texts)}]>"]

    def first_device_sharding(self, results: int) -> IrAttribute:
        """Return the attribute of an operation that only the first device runs, on unsharded arrays."""
        # A mesh of device 0 alone (`device_ids=[0]`): the partitioner places the operation there, and nowhere else.
        name = self._others.get(("first",)) or self._others.setdefault(("first",), self._declare("first", (), (0,)))
        return self.build.session.parsed[f"#sdy.sharding_per_value<[{', '.join([f'<@{name}, []>'] * max(results, 1))}]>"]

    def emit_per_process(self, ctx: Context, emit: Callable[..., Sequence[IrValue]], values: Sequence[IrValue],
                         ins: Sequence[Tiles], avals: Sequence[ShapedArray],
                         outs: Sequence[ShapedArray]) -> list[IrValue]:
        """Emit `emit(ctx, *values)` per process: a region over the process axis, in which each process works on its own
        arrays.

        The compiler treats the arrays of the processes as copies of one array; outside of the region it has nothing to
        partition.
        """
        given = [self._sharding_text(t, a.ndim) for t, a in zip(ins, avals, strict=True)]
        made = [dims_text("mesh", ((),) * o.ndim, range(o.ndim)) for o in outs]
        parsed = self.build.session.parsed
        found = ctx.op("sdy.manual_computation", values, *outs, regions=[ctx.region(avals, emit, "sdy.return")], attributes={
            "in_shardings": parsed[f"#sdy.sharding_per_value<[{', '.join(given)}]>"],
            "out_shardings": parsed[f"#sdy.sharding_per_value<[{', '.join(made)}]>"],
            "manual_axes": parsed[f'#sdy<manual_axes{{"{Grid.PROCESSES}"}}>']})
        return [found] if len(outs) == 1 else list(found)

    def emit_per_device(self, ctx: Context, env: MeshAxisEnv, emit: Callable[..., Sequence[IrValue]],
                        values: Sequence[IrValue], avals: Sequence[ShapedArray],
                        outs: Sequence[ShapedArray]) -> list[IrValue]:
        """Emit `emit(ctx, *values)` per device: a region over the free axes, on arrays that are not split along these.

        All devices along these axes compute the same result.
        """
        mesh: str = "mesh"
        axes: list[tuple[int, ...]] = [(a,) for a in range(len(env.grid.sizes))]
        if env.named:
            mesh, axes = self.named(env.grid.sizes, env.named)
        found = ctx.op("sdy.manual_computation", values, *outs, regions=[ctx.region(avals, emit, "sdy.return")], attributes={
            "in_shardings": self.sharding_per_value([((),) * a.ndim for a in avals], False, mesh),
            "out_shardings": self.sharding_per_value([((),) * o.ndim for o in outs], False, mesh),
            "manual_axes": self.axes(sorted([a for k in env.free for a in axes[k]]))})
        return [found] if len(outs) == 1 else list(found)

    def axes(self, axes: Sequence[int]) -> IrAttribute:
        """Return the attribute of the manual axes of a region."""
        return self.build.session.parsed["#sdy<manual_axes{" + ", ".join(f'"{Grid.axis_name(a)}"' for a in axes) + "}>"]


def dims_text(mesh: str, dims: Sequence[Sequence[int]], open_dims: Sequence[int] = ()) -> str:
    """Return `<@mesh, [{"d0","d1"}, {}]>`; the compiler may split a dimension in `open_dims` further."""
    parts = []
    for i, axes in enumerate(dims):
        words = [f'"{Grid.axis_name(a)}"' for a in axes] + (["?"] if i in open_dims else [])
        parts.append("{" + ", ".join(words) + "}")
    return f"<@{mesh}, [{', '.join(parts)}]>"


# --- pmap inside of a program -------------------------------------------------------------------------------------
def lower_map(ctx: Context, args: Sequence[IrValue], axis_name: Hashable, axis_size: int, body: ClosedJaxpr,
             in_axes: Sequence[int | None], out_axes: Sequence[int | None], name: str, rows: int,
             order: tuple[int, ...] | None) -> list[IrValue]:
    """Emit a map over unmapped arrays: a manual region, or on one device the body itself.

    `rows` is the size of the axis in all processes, and `order` is that of `MeshAxisEnv.taken`.
    """
    build = ctx.module
    around: Any = ctx.axis_env  # a MeshAxisEnv, if the module has a mesh
    if build.mesh is None or (build.mesh.grid.devices == 1 and count_devices(body) == 1):
        env = around.extend(axis_name, 1) if build.mesh is None else around.enter_map(axis_name, rows, order, (), ())
        return _emit_single(ctx, args, axis_name, axis_size, body, in_axes, out_axes, name, env)
    grid = build.mesh.grid
    free = around.free
    taken = grid.allocate_axes(free, axis_size)
    width = grid.count_devices(taken)
    left = tuple(a for a in free if a not in taken)
    if width < axis_size:
        raise ShapeError(f"pmap of `{name}`: axis {axis_name!r} of size {axis_size} does not fit the {width} remaining "
                         "devices")
    if width > axis_size and body.jaxpr.effectful and not has_only_checks(body):
        raise ValueError(f"pmap of `{name}`: inside a compiled program over {grid.devices} devices the map gets {width} of "
                         f"them for {axis_size} rows, and the function's effects would also happen on the others. Call it "
                         f"outside of jit, or map {width} rows")
    last = count_devices(body) == 1  # no nested map
    env = around.enter_map(axis_name, rows, order, taken, () if last else left)
    # The innermost map takes the remaining axes too. Otherwise the partitioner could split its work over them, with
    # collectives that the program does not contain.
    manual = (*taken, *left) if last else taken

    # Operands of the region: those of the map, padded to one row per position of the mesh axes.
    values, dims, local = [], [], []
    for x, aval, axis in zip(args, ctx.avals_in, in_axes, strict=True):
        if axis is not None and width > axis_size:
            x, aval = _pad_rows(ctx, x, aval, axis, width)
        values.append(x)
        dims.append(_make_map_dims(aval.ndim, axis, taken))
        local.append(aval if axis is None else shaped((*aval.shape[:axis], 1, *aval.shape[axis + 1:]), aval.dtype))
    results = [o if axis is None else shaped((*o.shape[:axis], width, *o.shape[axis:]), o.dtype)
               for o, axis in zip(body.out_avals, out_axes, strict=True)]
    own = [o if axis is None else shaped((*o.shape[:axis], 1, *o.shape[axis:]), o.dtype)
           for o, axis in zip(body.out_avals, out_axes)]
    made = region(ctx, body, name, env, "mesh", manual, not last, (values, dims, local),
                  (results, [_make_map_dims(o.ndim, axis, taken) for o, axis in zip(results, out_axes)], own))
    return [y if axis is None or width == axis_size else _drop_padding(ctx, y, o, out)
            for y, o, out, axis in zip(made, results, ctx.avals_out, out_axes)]


def region(ctx: Context, body: ClosedJaxpr, name: str, env: MeshAxisEnv, mesh: str, manual: Sequence[int], more: bool,
           operands: tuple[list[IrValue], list[MeshDims], list[ShapedArray]],
           results: tuple[Sequence[ShapedArray], list[MeshDims], list[ShapedArray]]) -> list[IrValue]:
    """Emit a program in a manual region and return its results.

    Args:
      ctx: the context of the enclosing program.
      body, name: the program of one device, and its name.
      env: the axes in scope in the body.
      mesh: the symbol of the mesh.
      manual: the mesh axes that the region takes.
      more: whether axes remain, for the compiler or a nested region.
      operands: values; for each the axes that split its dimensions; and its type on a device.
      results: types, and the same for these. On a device they may have axes of length 1 that the body lacks.
    """
    values, dims, local = operands
    whole, out_dims, own = results
    # A region is isolated: the values of the function around it must be its operands.
    build, given = ctx.module, len(values)
    big = build.hoisted_constants(body)  # large constants of the body are defined outside of it
    for number, (_, aval) in big.items():
        values.append(ctx.hoisted_constants[number])
        dims.append(((),) * aval.ndim)
        local.append(aval)

    def emit(ctx: Context, *held: IrValue) -> list[IrValue]:
        # One `Context` emits the whole function, so the body changes its state and restores it.
        outer, outer_big = ctx.axis_env, ctx.hoisted_constants
        ctx.axis_env, ctx.hoisted_constants = env, dict(zip(big, held[given:]))
        try:
            parts = [x if a.shape == part.shape else ctx.reshape(x, part)
                     for x, a, part in zip(held, local, body.in_avals, strict=False)]
            made = ctx.body(body, parts, name) if more else ctx.inline(body, parts, name=name)
            return [y if a.shape == o.shape else ctx.reshape(y, a) for y, a, o in zip(made, own, body.out_avals)]
        finally:
            ctx.axis_env, ctx.hoisted_constants = outer, outer_big

    made = ctx.op("sdy.manual_computation", values, *whole, regions=[ctx.region(local, emit, "sdy.return")],
                  attributes={"in_shardings": build.mesh.sharding_per_value(dims, more, mesh),
                              "out_shardings": build.mesh.sharding_per_value(out_dims, more, mesh),
                              "manual_axes": build.mesh.axes(sorted(manual))})
    return made if len(whole) != 1 else [made]


def _make_map_dims(rank: int, axis: int | None, taken: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    return tuple(taken if d == axis else () for d in range(rank))


def _pad_rows(ctx: Context, x: IrValue, aval: ShapedArray, axis: int, width: int) -> tuple[IrValue, ShapedArray]:
    """Pad `x` with copies of its last row to `width` rows."""
    shape, n = aval.shape, aval.shape[axis]
    one = shaped((*shape[:axis], 1, *shape[axis + 1:]), aval.dtype)
    more = shaped((*shape[:axis], width - n, *shape[axis + 1:]), aval.dtype)
    out = shaped((*shape[:axis], width, *shape[axis + 1:]), aval.dtype)
    start = [n - 1 if d == axis else 0 for d in range(len(shape))]
    row = ctx.op("stablehlo.slice", (x,), one, start_indices=ctx.i64s(start), limit_indices=ctx.i64s(shape),
                 strides=ctx.i64s([1] * len(shape)))
    row = ctx.op("stablehlo.broadcast_in_dim", (row,), more, broadcast_dimensions=ctx.i64s(range(len(shape))))
    return ctx.op("stablehlo.concatenate", (x, row), out, dimension=axis), out


def _drop_padding(ctx: Context, y: IrValue, aval: ShapedArray, out: ShapedArray) -> IrValue:
    return ctx.op("stablehlo.slice", (y,), out, start_indices=ctx.i64s([0] * aval.ndim), limit_indices=ctx.i64s(out.shape),
                  strides=ctx.i64s([1] * aval.ndim))


def _emit_single(ctx: Context, args: Sequence[IrValue], axis_name: Hashable, axis_size: int, body: ClosedJaxpr,
                 in_axes: Sequence[int | None], out_axes: Sequence[int | None], name: str,
                 env: AxisEnv) -> list[IrValue]:
    """Emit a map of which this device runs the only row."""
    if axis_size != 1:
        raise ShapeError(f"pmap of `{name}`: axis {axis_name!r} of size {axis_size} cannot run on one device")
    own = [x if axis is None else ctx.reshape(x, part) for x, axis, part in zip(args, in_axes, body.in_avals, strict=True)]
    made = ctx.inline(body, own, env, name)
    return [y if axis is None else ctx.reshape(y, out) for y, axis, out in zip(made, out_axes, ctx.avals_out)]


# --- shard_map ----------------------------------------------------------------------------------------------------
def lower_shard_map(ctx: Context, args: Sequence[IrValue],
                    mesh: tuple[tuple[AxisName, ...], tuple[int, ...], tuple[Device, ...]], auto: Sequence[Hashable],
                    body: ClosedJaxpr, in_specs: Sequence[MapEntry], out_specs: Sequence[MapEntry], name: str) -> list[IrValue]:
    """Emit a `shard_map` over unsplit arrays: a region that is manual over all axes of its mesh except those in `auto`.
    """
    names, sizes, devices = mesh
    build = ctx.module
    around: Any = ctx.axis_env  # a MeshAxisEnv, if the module has a mesh
    mine = [k for k, axis in enumerate(names) if axis not in auto]
    if len(devices) == 1 and build.partitions == 1:
        env = around
        for k in mine:
            env = env.extend(names[k], 1)
        own = [x if a.shape == part.shape else ctx.reshape(x, part) for x, a, part in zip(args, ctx.avals_in, body.in_avals)]
        made = ctx.inline(body, own, env, name)
        return [y if a.shape == o.shape else ctx.reshape(y, a) for y, a, o in zip(made, ctx.avals_out, body.out_avals)]
    if build.mesh is None:
        raise ShapeError(f"shard_map of `{name}`: its mesh has {len(devices)} devices, and the program runs on "
                         f"{build.placement.replicas} replicas of {build.partitions}")
    number = {d: i for i, d in enumerate(build.placement.devices)}
    if {*number} != {*devices}:
        raise ShapeError(f"shard_map of `{name}`: its mesh is of the devices [{', '.join(map(str, devices))}]; the "
                         "program it is "
                         f"in runs on [{', '.join(map(str, number))}]. Put the arguments on the devices of the mesh")
    order = tuple([number[d] for d in devices])
    grid = Grid.from_axes([*zip(map(str, range(len(sizes))), sizes)])
    # Devices are numbered as in the placement, so groups and `partition_id` need the order of the mesh in these
    # numbers.
    if not around.names:
        # The outermost map: axes of its own mesh replace those of the module, which may be finer or in another order.
        around = MeshAxisEnv(grid, tuple(range(len(sizes))), named=order)
    elif around.grid.sizes != grid.sizes or around.named != order:
        raise ShapeError(f"shard_map of `{name}`: the enclosing map is over other devices, or over a mesh in another order. "
                         "Nested maps must use axes of one mesh: an inner map uses those in `auto` of the outer one")
    taken = [k for k in mine if k not in around.free]
    if taken:
        raise ShapeError(f"shard_map of `{name}`: an enclosing map already uses {names[taken[0]]!r} of the same mesh")
    free = tuple([k for k in around.free if k not in mine])
    env = MeshAxisEnv(grid, free, [*zip(around.names, around.sizes), *[(names[k], sizes[k]) for k in mine]],
                  (*around.taken, *[(None, (k,)) for k in mine]), named=order)
    symbol, axes = build.mesh.named(sizes, order)

    def split(entries: Sequence[MapEntry]) -> list[MeshDims]:
        return [tuple([() if kind is None else tuple([a for axis in kind.names for a in axes[names.index(axis)]])
                       for kind in entry]) for entry in entries]

    ins = [_outer_aval(part, entry) or part for part, entry in zip(body.in_avals, in_specs)]
    outs = [_outer_aval(part, entry) or part for part, entry in zip(body.out_avals, out_specs)]
    return region(ctx, body, name, env, symbol, [a for k in mine for a in axes[k]], bool(free),
                  ([*args], split(in_specs), ins), (ctx.avals_out, split(out_specs), outs))


# --- a program that is a single map -------------------------------------------------------------------------------
def make_member_program(e: Eqn, closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return the program of one device of a program that is a single map.

    Its operands and results keep the mapped dimensions, with length 1.
    """
    body = e.params["call_jaxpr"].jaxpr
    binds: Any = e.primitive.region_signature.axis_binding  # type: ignore[union-attr]
    inner: dict[Atom, Atom] = {}
    eqns: list[Eqn] = []
    invars = {}
    for v, own, entry in zip(e.invars, body.invars, e.params[binds.ins]):
        if v in closed.jaxpr.invars:
            held = _outer_aval(own.aval, entry)
            if held is None:
                invars[v] = own
                continue
            invars[v] = Var(held)
            eqns.append(_reshape(invars[v], own))
        else:
            # A constant or literal of the enclosing program: the body reads it directly.
            inner[own] = v
    eqns += [q.replace(invars=[inner.get(v, v) for v in q.invars]) for q in body.eqns] if inner else body.eqns
    outs: dict[Atom, Atom] = {}
    for o, own, entry in zip(e.outvars, body.outvars, e.params[binds.outs]):
        own = inner.get(own, own) if type(own) is Var else own
        held = _outer_aval(own.aval, entry)
        if held is not None:
            part = Var(held)
            eqns.append(_reshape(own, part))
            own = part
        outs[o] = own
    outer = closed.jaxpr
    return ClosedJaxpr(Jaxpr([*outer.constvars, *body.constvars], [invars.get(v) or Var(v.aval) for v in outer.invars], eqns,
                             [outs[v] for v in outer.outvars], body.axis_names, any(map(eqn_has_effects, eqns))),
                       [*closed.consts, *e.params["call_jaxpr"].consts])


def _outer_aval(aval: ShapedArray, entry: MapEntry) -> ShapedArray | None:
    """Return the type, on a device, of the operand or result outside of a map; None if it is the inner type `aval`."""
    if type(entry) is not tuple:
        return None if entry is None else shaped((*aval.shape[:entry], 1, *aval.shape[entry:]), aval.dtype, aval.weak_type)
    if not any(type(kind) is prims.Indexed for kind in entry):
        return None
    rest = iter(aval.shape)
    return shaped(tuple([1 if type(kind) is prims.Indexed else next(rest) for kind in entry]), aval.dtype, aval.weak_type)


def _reshape(source: Atom, target: Var) -> Eqn:
    return Eqn(prims.reshape_p, (source,), (target,), {"dimensions": None, "new_sizes": target.aval.shape})
