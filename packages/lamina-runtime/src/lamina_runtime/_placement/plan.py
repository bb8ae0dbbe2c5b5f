"""Report how a lowered or compiled call runs: shardings, collectives and memory, as text and as a drawing.

`build_plan` makes the reports.
"""
from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from lamina_ir import ShapedArray
from lamina_ir.extend import Tiles
from lamina_parallel import Mesh
from lamina_ir.typing import Device
from typing_extensions import override
from lamina_ir.layers import former_attributes

from .._sharding import drawing
from .hlo_collectives import CollectiveInstruction

__all__ = ["ArrayPlan", "AxisPlan", "CollectivePlan", "MemoryPlan", "PhasePlan", "Plan", "format_bytes"]

_MAX_LINES = 16  # per section of the text; further entries are only counted
_MAX_DRAWN = 12  # arguments or results in a drawing


@former_attributes(over="mesh_axes", turns="iterations", within="vector_size", of="map_name")
class AxisPlan(NamedTuple):
    """How an axis of a map is executed.

    Attributes:
      name: name of the axis.
      size: number of positions.
      mesh_axes: the mesh axes over which the positions are divided, major to minor.
      devices: the number of devices along these mesh axes.
      iterations: the number of loop iterations in which each device runs its positions.
      vector_size: the number of positions that a device runs at once.
      map_name: the map that binds the axis, as "xmap of `f`".
    """

    name: Hashable
    size: int
    mesh_axes: tuple[Hashable, ...]
    devices: int
    iterations: int
    vector_size: int
    map_name: str

    @override
    def __str__(self) -> str:
        parts = []
        if self.mesh_axes:
            parts = [f"{self.devices} device{'s' * (self.devices != 1)} along {_names(self.mesh_axes)}"]
        parts += [f"{self.iterations} iterations"] if self.iterations > 1 else []
        parts += [f"{self.vector_size} vectorized"] if self.vector_size > 1 or not parts else []
        return f"{self.name!r}\t{self.size}\t= {' x '.join(parts)}\t({self.map_name})"


@former_attributes(turns="iterations", carried="carry_bytes", kept="output_bytes")
class PhasePlan(NamedTuple):
    """A loop over a serial axis, between two collectives over that axis.

    Attributes:
      name: its number among those of its map, as "phase 0".
      iterations: the number of iterations; before it those of the enclosing loops, over other axes.
      carry_bytes: bytes of the loop carry, accumulators included.
      output_bytes: bytes of the stacked outputs of all iterations, for later phases or as results.
      line: the first of the user's lines in it, as text.
    """

    name: str
    iterations: tuple[int, ...]
    carry_bytes: int
    output_bytes: int
    line: str

    @override
    def __str__(self) -> str:
        around = f", in each of {' x '.join(map(str, self.iterations[:-1]))} iterations" if len(self.iterations) > 1 else ""
        return (f"{self.name}\t{self.iterations[-1]} iterations{around}\tcarries {format_bytes(self.carry_bytes)}\t"
                f"outputs {format_bytes(self.output_bytes)}\t{self.line}")


@former_attributes(copied="replicated_axes", read="is_used", lies="describe_sharding")
class ArrayPlan(NamedTuple):
    """The sharding of an argument or a result.

    Attributes:
      name: its name in the user's function.
      aval: its type.
      tiles: the number of parts of each dimension, and the device of each tile; None: the compiler chooses.
      split: for each dimension the mesh axes that split it, major to minor; None: not expressible by mesh axes.
      replicated_axes: the mesh axes over which it is replicated.
      devices: the devices that `tiles` numbers.
      is_used: whether the program uses it. Unused arguments are not moved.
    """

    name: str
    aval: ShapedArray
    tiles: Tiles | None
    split: tuple[tuple[Hashable, ...], ...] | None
    replicated_axes: tuple[Hashable, ...]
    devices: tuple[Device, ...]
    is_used: bool = True

    @property
    def shard_shape(self) -> tuple[int, ...] | None:
        """The shape of one shard; None if unknown."""
        if self.tiles is None or self.tiles.is_replicated:
            return None if self.tiles is None else self.aval.shape
        return tuple([-(-n // k) for n, k in zip(self.aval.shape, self.tiles.counts)])

    @property
    def nbytes(self) -> int:
        return self.aval.size * self.aval.dtype.itemsize

    @property
    def shard_bytes(self) -> int | None:
        """The size of one shard in bytes; None if unknown."""
        shape = self.shard_shape
        return None if shape is None else math.prod(shape) * self.aval.dtype.itemsize

    def blocks(self) -> dict[tuple[tuple[int, int], ...], tuple[Device, ...]]:
        """Return a dict from blocks to the devices that hold them; empty if unknown.

        A block is (begin, end) for each dimension.
        """
        return {} if self.tiles is None else drawing.block_holders(self.aval.shape, self.tiles, self.devices)

    def describe_sharding(self) -> str:
        """Return the sharding as text."""
        if self.tiles is None:
            return "chosen by the compiler"
        if len(self.devices) == 1:
            return f"on {self.devices[0]}"
        if self.tiles.is_replicated:
            return "replicated"
        if self.split is None:
            by = " x ".join(map(str, self.tiles.counts))
            return f"in {by} blocks" + (f", {self.tiles.copies} replicas of each" if self.tiles.copies > 1 else "")
        parts = [f"dimension {d} split over {_names(axes)}" for d, axes in enumerate(self.split) if axes]
        return ", ".join(parts) + (f"; replicated over {_names(self.replicated_axes)}" if self.replicated_axes else "")

    @override
    def __str__(self) -> str:
        shape = self.shard_shape
        shard = "" if shape is None else f"{ShapedArray(shape, self.aval.dtype).str_long()} per device"
        is_replicated = self.tiles is not None and self.tiles.is_replicated
        return (f"{self.name}\t{self.aval.str_long()}\t{format_bytes(self.nbytes)}\t{'' if is_replicated else shard}\t"
                f"{self.describe_sharding()}{'' if self.is_used else ' (unused)'}")


@former_attributes(over="mesh_axes", move="instruction", sent="bytes_sent")
class CollectivePlan(NamedTuple):
    """A collective, over devices or within each device.

    Attributes:
      op: the name of the primitive, as "psum"; "": the compiler added the collective.
      axes: the named axes in the user's program.
      mesh_axes: the mesh axes over which devices communicate; None: their groups are not expressible by mesh axes.
      instruction: the HLO instruction; None: the collective stays within each device.
      bytes_sent: bytes that a device sends in all executions, see `CollectiveInstruction.bytes_sent`; None if unknown.
      line: the user's line, as text.
    """

    op: str
    axes: tuple[Hashable, ...]
    mesh_axes: tuple[Hashable, ...] | None
    instruction: CollectiveInstruction | None
    bytes_sent: int | None
    line: str

    @property
    def kind(self) -> str:
        """The kind of the instruction, as "all-reduce"; "within" if it stays within each device."""
        return "within" if self.instruction is None else self.instruction.kind

    @override
    def __str__(self) -> str:
        what = f"{self.op} over {_names(self.axes)}" if self.axes else self.op or "added by the compiler"
        if self.instruction is None:
            return f"{what}\twithin a device\t\t{self.line}"
        m = self.instruction
        where = f"over {_names(self.mesh_axes)}" if self.mesh_axes else "within each device"
        if self.mesh_axes is None:
            pairs = m.kind == "collective-permute"
            sizes = {*map(len, m.groups or ())}
            where = (f"over {len(m.groups or ())} pairs" if pairs else f"in groups of {max(sizes)}" if sizes else
                     "in unknown groups")
        sends = "" if self.bytes_sent is None else f"sends {format_bytes(self.bytes_sent)}"
        frequency = "" if m.executions == 1 else f", {m.executions} times"
        frequency += (", in each iteration of a loop" if m.in_loop else "") + (", if the branch is taken" if m.in_branch
                                                                              else "")
        return f"{what}\t{m.kind} {where} of {format_bytes(m.operand_bytes)}{frequency}\t{sends}\t{self.line}"


class MemoryPlan(NamedTuple):
    """Memory of one device, in bytes.

    Attributes:
      arguments, results: size of their shards; large constants count as arguments.
      temporaries: peak size of the other values.
      aliased: size of results that reuse memory of donated arguments, and so is counted twice above.
      is_estimated: whether the temporaries are estimated from the program, as if each value took memory; otherwise they
        are the compiler's own figure.
    """

    arguments: int
    results: int
    temporaries: int
    aliased: int
    is_estimated: bool

    @property
    def peak(self) -> int:
        return self.arguments + self.results + self.temporaries - self.aliased

    @override
    def __str__(self) -> str:
        by = "estimated" if self.is_estimated else "as compiled"
        shared = f" - {format_bytes(self.aliased)} aliased" if self.aliased else ""
        return (f"{format_bytes(self.peak)}, {by}: arguments {format_bytes(self.arguments)} + results "
                f"{format_bytes(self.results)}{shared} + temporaries {format_bytes(self.temporaries)}")


@former_attributes(sent="bytes_sent")
class Plan(NamedTuple):
    """How a call runs. Prints as text; in a notebook it shows text and a drawing.

    Attributes:
      call: the call, as "xmap of `f`".
      mesh: its devices, with the axis names of the program if it has any.
      axes: the axes of its maps.
      phases: the loops over serial axes.
      arguments, results: their shardings.
      collectives: the collectives over devices and within devices.
      complete: whether `collectives` has all of them; otherwise the compiler will add some to partition the program.
      memory: memory of one device; None: unknown before compilation.
      compiled: whether this describes the compiled program, or the lowered one.
    """

    call: str
    mesh: Mesh
    axes: tuple[AxisPlan, ...]
    phases: tuple[PhasePlan, ...]
    arguments: tuple[ArrayPlan, ...]
    results: tuple[ArrayPlan, ...]
    collectives: tuple[CollectivePlan, ...]
    complete: bool
    memory: MemoryPlan | None
    compiled: bool

    @property
    def bytes_sent(self) -> int:
        """Bytes that a device sends in these collectives; unknown sizes count as 0."""
        return sum([c.bytes_sent or 0 for c in self.collectives])

    @override
    def __str__(self) -> str:
        n = self.mesh.size
        grid = "" if n == 1 else f"{self.mesh}, row-major "
        lines = [f"{self.call}{', compiled' if self.compiled else ''}, on {n} device{'s' * (n != 1)}: "
                 f"{grid}{drawing.format_devices(self.mesh.flat_devices)}"]
        lines += _section("axes", [str(a) for a in self.axes])
        lines += _section("loops of each device", [str(p) for p in self.phases])
        for what, arrays in self._arrays():
            lines += _section(what, [str(a) for a in arrays]) or ["", f"{what}: none"]
        lines += self._collective_lines()
        lines += ["", f"memory per device: {self.memory or 'unknown before compilation; see .compile().plan()'}"]
        return "\n".join(lines)

    def _arrays(self) -> list[tuple[str, list[ArrayPlan]]]:
        """Return (section title, entries) of the arguments and the results."""
        every = (*self.arguments, *self.results)
        part = " of this process" if every and len(every[0].devices) < self.mesh.size else ""
        return [(f"arguments{part}", group_similar_arrays(self.arguments)),
                (f"results{part}", group_similar_arrays(self.results))]

    def _collective_lines(self) -> list[str]:
        by_text: dict[str, list[CollectivePlan]] = {}
        for c in self.collectives:
            by_text.setdefault(str(c), []).append(c)
        entries = [f"{text}\t{'' if len(same) == 1 else f'({len(same)} instances)'}" for text, same in by_text.items()]
        lines = _section("collectives", entries) or [
            "", "collectives: none" + ("" if self.complete else " in the program itself")]
        lines += [f"  each device sends {format_bytes(self.bytes_sent)} in total"] if self.bytes_sent else []
        return lines + ([] if self.complete else ["  the compiler may add others; see .compile().plan()"])

    @override
    def __repr__(self) -> str:
        return str(self)

    def svg(self) -> str:
        """Return an SVG drawing of the blocks of each argument and result on the devices, as text."""
        groups = [(what, [(a.name, a.aval.str_long(), a.blocks()) for a in arrays[:_MAX_DRAWN] if a.tiles is not None])
                  for what, arrays in self._arrays()]
        return drawing.draw_mesh_and_arrays(self.call, self.mesh, groups)

    def html(self) -> str:
        """Return the drawing and the text as HTML."""
        return f"<div>{self.svg()}<pre>{drawing.escape_xml(str(self))}</pre></div>"

    def _repr_html_(self) -> str:
        from lamina_ir.extend import html  # noqa: PLC0415 (on demand: only notebooks need it)
        return html.fact_box("Plan", (), html.text_block(str(self)), drawing.embed_svg(self.svg()))


def group_similar_arrays(arrays: Sequence[ArrayPlan]) -> list[ArrayPlan]:
    """Merge arrays of equal type and sharding if there are many.

    The merged entry has the name of the first and the number of the others.
    """
    if len(arrays) <= _MAX_LINES:
        return list(arrays)
    alike: dict[tuple[object, ...], list[ArrayPlan]] = {}
    for a in arrays:
        alike.setdefault((a.aval.shape, a.aval.dtype, a.tiles, a.is_used), []).append(a)
    return [same[0] if len(same) == 1 else same[0]._replace(name=f"{same[0].name} and {len(same) - 1} more")
            for same in alike.values()]


def _section(title: str, entries: list[str]) -> list[str]:
    """Return the lines of a section: its title, and entries whose tab-separated fields are aligned in columns."""
    if not entries:
        return []
    table = [entry.split("\t") for entry in entries[:_MAX_LINES]]
    widths = [max(map(len, column)) for column in itertools.zip_longest(*table, fillvalue="")]
    lines = ["  ".join([part.ljust(w) for part, w in zip(entry, widths) if w]).rstrip() for entry in table]
    more = [f"... and {len(entries) - _MAX_LINES} more"] if len(entries) > _MAX_LINES else []
    return ["", title, *[f"  {line}" for line in (*lines, *more)]]


def _names(axes: Sequence[Hashable]) -> str:
    return ", ".join(map(repr, axes)) if len(axes) == 1 else f"({', '.join(map(repr, axes))})"


def format_bytes(n: int) -> str:
    """Format a number of bytes, as `512 B` or `1.5 KiB`."""
    if n < 1024:
        return f"{n} B"
    power = min(int(math.log2(n)) // 10, 5)
    return f"{n / 1024 ** power:.4g} {' KMGTP'[power]}iB"
