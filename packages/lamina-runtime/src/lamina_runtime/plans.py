"""`Plan`: of a call that was lowered or compiled, what lies where, and what devices send each other; in words, and drawn.
`planning` makes them."""
from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from lamina_ir import ShapedArray
from lamina_ir.extend import Tiles
from lamina_parallel import Mesh

from . import drawings
from .moves import Move

__all__ = ["ArrayPlan", "AxisPlan", "CollectivePlan", "MemoryPlan", "PhasePlan", "Plan", "size_words"]

_MOST_LINES = 16  # of a kind; what is behind them is counted
_MOST_DRAWN = 12


class AxisPlan(NamedTuple):
    """How an axis of a map is carried out.

    Attributes:
      name: of the axis.
      size: how many positions it has.
      over: the axes of the mesh over which these are divided, the first slowest.
      devices: how many devices that makes.
      turns: in how many turns each of them runs its positions.
      within: how many positions a device has at once.
      of: the map that binds it, as "xmap of `f`".
    """

    name: Hashable
    size: int
    over: tuple[Hashable, ...]
    devices: int
    turns: int
    within: int
    of: str

    def __str__(self) -> str:
        parts = [] if not self.over else [f"{self.devices} device{'s' * (self.devices != 1)} along {_names(self.over)}"]
        parts += [f"{self.turns} turns"] if self.turns > 1 else []
        parts += [f"{self.within} within"] if self.within > 1 or not parts else []
        return f"{self.name!r}\t{self.size}\t= {' x '.join(parts)}\t({self.of})"


class PhasePlan(NamedTuple):
    """A loop over the turns of an axis, between two collectives over it.

    Attributes:
      name: its number among those of its map, as "phase 0".
      turns: how many there are; before it those of the loops around, of other axes.
      carried: bytes that each turn hands on to the next, totals among them.
      kept: bytes of what all turns of the loop make for later phases, or as results.
      line: the first of the user's lines in it, as text.
    """

    name: str
    turns: tuple[int, ...]
    carried: int
    kept: int
    line: str

    def __str__(self) -> str:
        around = f", in each of {' x '.join(map(str, self.turns[:-1]))} turns" if len(self.turns) > 1 else ""
        return (f"{self.name}\t{self.turns[-1]} turns{around}\tcarries {size_words(self.carried)}\t"
                f"keeps {size_words(self.kept)}\t{self.line}")


class ArrayPlan(NamedTuple):
    """How an argument or a result lies.

    Attributes:
      name: what the user calls it.
      aval: its type.
      tiles: in how many parts each dimension is split, and which of the `devices` hold which; None: the compiler chooses.
      split: for each dimension the axes of the mesh over which it is split, the first slowest; None: no axes say it.
      copied: the axes of the mesh along which devices hold the same.
      devices: those that the tiles count.
      read: whether the program reads it; else it stays where it is.
    """

    name: str
    aval: ShapedArray
    tiles: Tiles | None
    split: tuple[tuple[Hashable, ...], ...] | None
    copied: tuple[Hashable, ...]
    devices: tuple[Any, ...]
    read: bool = True

    @property
    def shard_shape(self) -> tuple[int, ...] | None:
        """Of what a device holds; None where that is not known."""
        if self.tiles is None or self.tiles.whole:
            return None if self.tiles is None else self.aval.shape
        return tuple([-(-n // k) for n, k in zip(self.aval.shape, self.tiles.counts)])

    @property
    def nbytes(self) -> int:
        return self.aval.size * self.aval.dtype.itemsize

    @property
    def shard_bytes(self) -> int | None:
        """What a device holds, in bytes; None where that is not known."""
        shape = self.shard_shape
        return None if shape is None else math.prod(shape) * self.aval.dtype.itemsize

    def blocks(self) -> dict[tuple[tuple[int, int], ...], tuple[Any, ...]]:
        """(begin, end) along each dimension -> the devices that hold this block; empty where that is not known."""
        return {} if self.tiles is None else drawings.blocks(self.aval.shape, self.tiles, self.devices)

    def lies(self) -> str:
        """How it lies, in words."""
        if self.tiles is None:
            return "as the compiler chooses"
        if len(self.devices) == 1:
            return f"on {self.devices[0]}"
        if self.tiles.whole:
            return "whole on each device"
        if self.split is None:
            by = " x ".join(map(str, self.tiles.counts))
            return f"in {by} blocks, {self.tiles.copies} of each" if self.tiles.copies > 1 else f"in {by} blocks"
        said = [f"dimension {d} over {_names(axes)}" for d, axes in enumerate(self.split) if axes]
        return ", ".join(said) + (f"; the same along {_names(self.copied)}" if self.copied else "")

    def __str__(self) -> str:
        shape = self.shard_shape
        shard = "" if shape is None else f"{ShapedArray(shape, self.aval.dtype).long()} on a device"
        whole = self.tiles is not None and self.tiles.whole
        return (f"{self.name}\t{self.aval.long()}\t{size_words(self.nbytes)}\t{'' if whole else shard}\t"
                f"{self.lies()}{'' if self.read else ' (nobody reads it)'}")


class CollectivePlan(NamedTuple):
    """Where devices meet, or positions within a device do.

    Attributes:
      op: the op as programs show it, as "psum"; "": the compiler added the meeting.
      axes: the axes that the user named.
      over: the axes of the mesh along which devices meet; None: they meet in groups that no axes say.
      move: what the devices do; None: they do nothing, all is within each.
      sent: bytes that a device sends in all, see `Move.sent`; None where that is not known.
      line: the user's, as text.
    """

    op: str
    axes: tuple[Hashable, ...]
    over: tuple[Hashable, ...] | None
    move: Move | None
    sent: int | None
    line: str

    @property
    def kind(self) -> str:
        """What the devices do, as "all-reduce"; "within": nothing."""
        return "within" if self.move is None else self.move.kind

    def __str__(self) -> str:
        what = f"{self.op} over {_names(self.axes)}" if self.axes else self.op or "added by the compiler"
        if self.move is None:
            return f"{what}\twithin a device\t\t{self.line}"
        m = self.move
        where = f"over {_names(self.over)}" if self.over else "of each device with itself"
        if self.over is None:
            pairs = m.kind == "collective-permute"
            sizes = {*map(len, m.groups or ())}
            where = f"by {len(m.groups or ())} pairs" if pairs else f"in groups of {max(sizes)}" if sizes else "in some groups"
        sends = "" if self.sent is None else f"sends {size_words(self.sent)}"
        often = "" if m.times == 1 else f", {m.times} times"
        often += (", in each turn of a loop" if m.looped else "") + (", where the branch is taken" if m.branched else "")
        return f"{what}\t{m.kind} {where} of {size_words(m.operand_bytes)}{often}\t{sends}\t{self.line}"


class MemoryPlan(NamedTuple):
    """Memory of one device, in bytes.

    Attributes:
      arguments, results: what it holds of them, large constants among the arguments.
      temporaries: what else the program needs at once, at most.
      shared: what is counted among the arguments and the results, as these take over memory of donated arguments.
      estimated: whether the temporaries were estimated from the program, as if each value of it took memory; else they are the
        compiler's own.
    """

    arguments: int
    results: int
    temporaries: int
    shared: int
    estimated: bool

    @property
    def peak(self) -> int:
        return self.arguments + self.results + self.temporaries - self.shared

    def __str__(self) -> str:
        by = "estimated" if self.estimated else "as compiled"
        shared = f" - {size_words(self.shared)} shared" if self.shared else ""
        return (f"{size_words(self.peak)}, {by}: arguments {size_words(self.arguments)} + results {size_words(self.results)}"
                f"{shared} + temporaries {size_words(self.temporaries)}")


class Plan(NamedTuple):
    """How a call is carried out: printed it is words, in a notebook words and a drawing.

    Attributes:
      call: what was planned, as "xmap of `f`".
      mesh: the devices, in the words of the program as far as it has some.
      axes: the axes of its maps.
      phases: the loops of those axes that run in turns.
      arguments, results: how they lie.
      collectives: where devices meet, and where positions within a device do.
      complete: whether these are all of them; else the compiler will add what it needs to split the program.
      memory: of a device; None: not known before it is compiled.
      compiled: whether this is what the compiler made, or what it is given.
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
    def sent(self) -> int:
        """Bytes that a device sends in these collectives, as far as it is known."""
        return sum([c.sent or 0 for c in self.collectives])

    def __str__(self) -> str:
        n = self.mesh.size
        grid = "" if n == 1 else f"{self.mesh}, row by row "
        lines = [f"{self.call}{', compiled' if self.compiled else ''}, on {n} device{'s' * (n != 1)}: "
                 f"{grid}{drawings.device_words(self.mesh.flat_devices)}"]
        lines += _section("axes", [str(a) for a in self.axes])
        lines += _section("loops of a device", [str(p) for p in self.phases])
        for what, arrays in self._arrays():
            lines += _section(what, [str(a) for a in arrays]) or ["", f"{what}: none"]
        lines += self._meetings()
        lines += ["", f"memory of a device: {self.memory or 'known when it is compiled, from .compile().plan()'}"]
        return "\n".join(lines)

    def _arrays(self) -> list[tuple[str, list[ArrayPlan]]]:
        """Arguments and results under their titles, as far as they are told one by one."""
        every = (*self.arguments, *self.results)
        part = " of this process" if every and len(every[0].devices) < self.mesh.size else ""
        return [(f"arguments{part}", grouped(self.arguments)), (f"results{part}", grouped(self.results))]

    def _meetings(self) -> list[str]:
        rows: dict[str, list[CollectivePlan]] = {}
        for c in self.collectives:
            rows.setdefault(str(c), []).append(c)
        said = [f"{row}\t{'' if len(same) == 1 else f'({len(same)} alike)'}" for row, same in rows.items()]
        found = _section("collectives", said) or ["", "collectives: none" + ("" if self.complete else " in the program itself")]
        found += [f"  in all a device sends {size_words(self.sent)}"] if self.sent else []
        return found + ([] if self.complete else ["  the compiler adds what it needs; .compile().plan() says what"])

    def __repr__(self) -> str:
        return str(self)

    def svg(self) -> str:
        """A drawing of which device holds which block of which argument and result, as the text of an SVG."""
        groups = [(what, [(a.name, a.aval.long(), a.blocks()) for a in arrays[:_MOST_DRAWN] if a.tiles is not None])
                  for what, arrays in self._arrays()]
        return drawings.sheet(self.call, self.mesh, groups)

    def html(self) -> str:
        """The drawing, and the words, as HTML."""
        return f"<div>{self.svg()}<pre>{drawings.escaped(str(self))}</pre></div>"

    def _repr_html_(self) -> str:
        return self.html()


def grouped(arrays: Sequence[ArrayPlan]) -> list[ArrayPlan]:
    """Where there are many, those of one type that lie alike as one, named after the first."""
    if len(arrays) <= _MOST_LINES:
        return list(arrays)
    alike: dict[Any, list[ArrayPlan]] = {}
    for a in arrays:
        alike.setdefault((a.aval.shape, a.aval.dtype, a.tiles, a.read), []).append(a)
    return [same[0] if len(same) == 1 else same[0]._replace(name=f"{same[0].name} and {len(same) - 1} more")
            for same in alike.values()]


def _section(title: str, rows: list[str]) -> list[str]:
    """A title and rows, whose parts, between tabs, stand in columns."""
    if not rows:
        return []
    table = [row.split("\t") for row in rows[:_MOST_LINES]]
    wide = [max(map(len, column)) for column in itertools.zip_longest(*table, fillvalue="")]
    lines = ["  ".join([part.ljust(w) for part, w in zip(row, wide) if w]).rstrip() for row in table]
    more = [f"... and {len(rows) - _MOST_LINES} more"] if len(rows) > _MOST_LINES else []
    return ["", title, *[f"  {line}" for line in (*lines, *more)]]


def _names(axes: Sequence[Hashable]) -> str:
    return ", ".join(map(repr, axes)) if len(axes) == 1 else f"({', '.join(map(repr, axes))})"


def size_words(n: int) -> str:
    """`512 B`, `1.5 KiB`."""
    if n < 1024:
        return f"{n} B"
    power = min(int(math.log2(n)) // 10, 5)
    return f"{n / 1024 ** power:.4g} {' KMGTP'[power]}iB"
