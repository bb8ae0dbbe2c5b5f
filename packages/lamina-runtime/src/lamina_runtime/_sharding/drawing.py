"""Draw which device holds which block of an array: as short text, and as SVG with a colour for each device."""
from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lamina_ir.extend import Tiles
from lamina_ir.typing import Device
from lamina_parallel import Mesh

__all__ = ["Block", "block_holders", "block_tables", "draw_array", "draw_mesh_and_arrays", "embed_svg", "escape_xml",
           "format_block", "format_devices", "format_holders", "format_ids"]

Block = tuple[tuple[int, int], ...]  # (begin, end) along each dimension
Held = Mapping[Block, Sequence[Any]]  # the devices that hold each block
_MAX_RUNS = 4


def block_holders(shape: Sequence[int], tiles: Tiles, devices: Sequence[Device]) -> dict[Block, tuple[Device, ...]]:
    """Return the devices that hold each block of an array of this shape."""
    if tiles.is_replicated:
        return {tuple([(0, n) for n in shape]): tuple(devices)}
    steps = [-(-n // k) for n, k in zip(shape, tiles.counts)]
    positions = tiles.positions()
    return {tuple([(min(i * step, n), min((i + 1) * step, n)) for i, step, n in zip(at, steps, shape)]):
            tuple([devices[d] for d in sorted(positions[at])]) for at in np.ndindex(*tiles.counts)}


# --- text -----------------------------------------------------------------------------------------------------------
def format_block(block: Block) -> str:
    """Return a block as `[0:2, 0:4]`."""
    return "[" + ", ".join([f"{a}:{b}" for a, b in block]) + "]"


def format_ids(ids: Sequence[int]) -> str:
    """Return device numbers as runs, `0-3,8`. If there are many runs, show the first ones, the last, and the count."""
    runs = [[n for _, n in run] for _, run in itertools.groupby(enumerate(ids), lambda at: at[1] - at[0])]
    texts = [f"{r[0]}-{r[-1]}" if len(r) > 2 else ",".join(map(str, r)) for r in runs]
    if len(texts) > _MAX_RUNS:
        return f"{','.join(texts[:_MAX_RUNS - 1])},...,{texts[-1]} ({len(ids)})"
    return ",".join(texts)


def format_devices(devices: Sequence[Device]) -> str:
    """Return devices as `cpu:0-7`; with the process of each run if there are several processes."""
    kind = devices[0].platform
    runs = [(p, [d.id for d in group]) for p, group in itertools.groupby(devices, lambda d: d.process_index)]
    if len({p for p, _ in runs}) == 1:
        return f"{kind}:{format_ids(runs[0][1])}"
    texts = [f"{kind}:{format_ids(ids)} of process {p}" for p, ids in runs]
    return ", ".join(texts if len(texts) <= _MAX_RUNS else [*texts[:_MAX_RUNS - 1], "...", texts[-1]])


def format_holders(devices: Sequence[Device]) -> str:
    """Return devices as text, sorted by process and number."""
    return format_devices(sorted(devices, key=lambda d: (d.process_index, d.id)))


def escape_xml(text: str) -> str:
    """Escape text for HTML and SVG."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


# --- tables ---------------------------------------------------------------------------------------------------------
def block_tables(held: Held) -> list[tuple[str, list[list[Block]]]]:
    """Arrange blocks in two-dimensional tables, as a list of (title, rows of blocks).

    The axes of a table are two split dimensions, or the last ones. There is one table for each position along the other
    dimensions, which its title shows: `[0:2, :, :]`. A single table has no title.
    """
    ndim = len(next(iter(held)))
    split = [d for d in range(ndim) if len({block[d] for block in held}) > 1]
    columns = split[-1] if len(split) > 1 or split == [ndim - 1] else ndim - 1
    rows = next((d for d in reversed(split) if d != columns), ndim - 2)
    found: dict[Block, dict[Block, list[Block]]] = {}
    for block in sorted(held):
        lead = tuple([at for d, at in enumerate(block) if d not in (columns, rows)])
        found.setdefault(lead, {}).setdefault(block[rows:rows + 1] if rows >= 0 else (), []).append(block)
    if len(found) == 1:
        return [("", list(table.values())) for table in found.values()]
    return [(_table_title(next(iter(table.values()))[0], (columns, rows)), list(table.values()))
            for table in found.values()]


def _table_title(block: Block, axes: tuple[int, int]) -> str:
    return "[" + ", ".join([":" if d in axes else f"{a}:{b}" for d, (a, b) in enumerate(block)]) + "]"


# --- drawing --------------------------------------------------------------------------------------------------------
# Sizes in pixels.
_CHAR, _LINE, _GAP = 7.3, 15, 14  # width and height of text, distance between drawings
_WIDTH, _HEIGHT = 420, 300  # the blocks of one array
_MAX_TABLES = 6
_MAX_STRIPES = 16
_BAND = 7  # height of the stripes above a text
_SHEET_WIDTH = 1000
Colours = Callable[[Any], str]
Label = Callable[[Block], str]


class _Drawing:
    """SVG shapes with their total width and height."""

    def __init__(self) -> None:
        self.shapes: list[str] = []
        self.wide = self.high = 0.0

    def text(self, x: float, y: float, text: str, more: str = "") -> None:
        self.shapes.append(f'<text x="{x:g}" y="{y:g}"{more}>{escape_xml(text)}</text>')
        if "middle" not in more:
            self.wide = max(self.wide, x + _CHAR * len(text))
        self.high = max(self.high, y + 4)

    def box(self, x: float, y: float, wide: float, high: float, more: str, title: str = "") -> None:
        inner = f"><title>{escape_xml(title)}</title></rect>" if title else "/>"
        self.shapes.append(f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}" {more}{inner}')
        self.wide, self.high = max(self.wide, x + wide), max(self.high, y + high)

    def put(self, other: _Drawing, x: float, y: float) -> None:
        self.shapes += [f'<g transform="translate({x:g},{y:g})">', *other.shapes, "</g>"]
        self.wide, self.high = max(self.wide, x + other.wide), max(self.high, y + other.high)

    def svg(self) -> str:
        wide, high = math.ceil(self.wide) + 2, math.ceil(self.high) + 2
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="-1 -1 {wide} {high}" '
                f'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12" {_INK}>'
                f'<rect x="-1" y="-1" width="{wide}" height="{high}" {_PAPER}/>{"".join(self.shapes)}</svg>')


_INK, _PAPER = 'fill="#111"', 'fill="#fff"'  # of a drawing that is a file of its own


def embed_svg(svg: str) -> str:
    """Return a drawing for a page: it has no background, and its text the colour of the page's text."""
    return svg.replace(_INK, 'fill="currentColor"', 1).replace(_PAPER, 'fill="none"', 1)


def colours_of(mesh: np.ndarray) -> Colours:
    """Return a function from devices to colours.

    The hue depends on the position along the first mesh axis of size > 1, the lightness on the position along the
    others.
    """
    sizes = [n for n in mesh.shape if n > 1] or [1]
    hues, shades = sizes[0], math.prod(sizes[1:])
    found = {}
    for i, device in enumerate(mesh.reshape(-1).tolist()):
        hue, shade = divmod(i, shades)
        light = 80 if shades == 1 else 70 + 20 * shade / (shades - 1)
        found[device] = f"hsl({360 * hue / hues:g},65%,{light:g}%)"
    return lambda device: found[device]


def _draw_table(drawing: _Drawing, y: float, held: Held, rows: list[list[Block]], colours: Colours,
                cell: tuple[float, float], labelled: bool, label: Label) -> None:
    """Draw a table of blocks; if `labelled`, with the devices and the label of each block."""
    wide, high = cell
    many = len(rows) * len(rows[0]) > 256  # such tables have no tooltips
    for r, row in enumerate(rows):
        for c, block in enumerate(row):
            devices = held[block]
            x, top = c * wide, y + r * high
            shown = devices if len(devices) <= _MAX_STRIPES else devices[::-(-len(devices) // _MAX_STRIPES)]
            each = wide / len(shown)
            if len(shown) > 1:
                for k, d in enumerate(shown):
                    drawing.box(x + k * each, top, each, high, f'fill="{colours(d)}"')
                if labelled:  # text on stripes is hard to read
                    drawing.box(x, top + _BAND, wide, high - _BAND, 'fill="#fff" fill-opacity="0.7"')
            fill = "none" if len(shown) > 1 else colours(shown[0])
            title = "" if many else f"{label(block)} on {format_holders(devices)}"
            edge = min(1.0, (min(wide, high) - 2) / 8)  # thin blocks have no edge, which would cover them
            line = f' stroke="#777" stroke-width="{edge:g}"' if edge > 0 else ""
            drawing.box(x, top, wide, high, f'fill="{fill}"{line} pointer-events="all"', title)
            if labelled:
                middle = ' text-anchor="middle" fill="#222"'  # on light colours, also of a dark page
                drawing.text(x + wide / 2, top + high / 2 - 1, format_holders(devices), middle)
                drawing.text(x + wide / 2, top + high / 2 + 13, label(block), middle)


def _draw_blocks(held: Held, colours: Colours, label: Label = format_block) -> _Drawing:
    """Draw the blocks of one array. Labels are in the boxes if these are large enough, else only in tooltips."""
    drawing, found = _Drawing(), block_tables(held)
    columns, rows = max(len(table[0]) for _, table in found), max(len(table) for _, table in found)
    some = itertools.islice(held.items(), 256)
    letters = max(max(len(format_holders(devices)), len(label(block))) for block, devices in some)
    labelled = columns * (letters * _CHAR + 10) <= 2 * _WIDTH and rows * 38 <= 2 * _HEIGHT
    cell = (letters * _CHAR + 10, 38.0) if labelled else (
        min(_WIDTH / columns, max(40.0, 160 / columns)), min(_HEIGHT / rows, 40.0))
    y = 0.0
    for lead, table in found[:_MAX_TABLES]:
        if lead:
            drawing.text(0, y + 12, lead)
            y += 18
        _draw_table(drawing, y, held, table, colours, cell, labelled, label)
        y += cell[1] * len(table) + _GAP / 2
    if len(found) > _MAX_TABLES:
        drawing.text(0, y + 12, f"... and {len(found) - _MAX_TABLES} more, the last at {found[-1][0]}")
    if not labelled:
        drawing.text(0, drawing.high + _LINE, f"{rows * len(found)} x {columns} blocks of "
                     f"{' x '.join([str(b - a) for a, b in next(iter(held))])}", ' fill-opacity="0.7"')
    return drawing


def _with_title(title: Sequence[str], inner: _Drawing) -> _Drawing:
    drawing = _Drawing()
    for k, text in enumerate(title):
        drawing.text(0, 12 + k * _LINE, text, ' font-weight="bold"' if k == 0 else ' fill-opacity="0.7"')
    drawing.put(inner, 0, drawing.high + 4)
    return drawing


def draw_array(title: str, held: Held, label: Label = format_block) -> str:
    """Return the SVG of one array. `label` makes the text of a block."""
    every = sorted({d for devices in held.values() for d in devices}, key=lambda d: d.id)
    line = np.empty(len(every), object)
    line[:] = every
    return _with_title([title] if title else [], _draw_blocks(held, colours_of(line), label)).svg()


def draw_mesh_and_arrays(title: str, mesh: Mesh, groups: Sequence[tuple[str, Sequence[tuple[str, str, Held]]]]) -> str:
    """Draw a mesh, and arrays on its devices.

    Args:
      title: of the drawing.
      mesh: the mesh.
      groups: (title, arrays) of each group; an array is (name, type, devices of each block).
    Returns:
      The text of an SVG.
    """
    colours = colours_of(mesh.devices)
    drawing = _with_title([title], _draw_mesh(mesh, colours))
    for name, arrays in groups:
        if not arrays:
            continue
        y = drawing.high + 2 * _GAP
        drawing.text(0, y, name, ' font-weight="bold"')
        x, y, high = 0.0, y + _GAP, 0.0
        for array_name, type_, held in arrays:
            one = _with_title([array_name, type_], _draw_blocks(held, colours))
            if x and x + one.wide > _SHEET_WIDTH:
                x, y, high = 0.0, y + high + _GAP, 0.0
            drawing.put(one, x, y)
            x, high = x + one.wide + 2 * _GAP, max(high, one.high)
    return drawing.svg()


def _draw_mesh(mesh: Mesh, colours: Colours) -> _Drawing:
    """Draw the devices of a mesh, its first axis downwards, the others from left to right."""
    drawing = _Drawing()
    names, sizes = mesh.axis_names, mesh.devices.shape
    columns = mesh.size // sizes[0] if len(sizes) > 1 else min(mesh.size, _MAX_STRIPES)
    letters = max(len(format_devices([d])) for d in mesh.flat_devices)
    wide = letters * _CHAR + 10
    labelled = columns * wide <= _SHEET_WIDTH and mesh.size <= 256
    if not labelled:
        wide = min(_SHEET_WIDTH / columns, 12.0)
    high = 20.0 if labelled else 8.0
    if mesh.size > 1:
        others = ", ".join(map(str, names[1:]))
        drawing.text(0, 12, f"{mesh}{f': {names[0]} down, {others} across' if others else ''}")
    y = drawing.high + 4 if mesh.size > 1 else 0.0
    for i, device in enumerate(mesh.flat_devices):
        r, c = divmod(i, columns)
        at = ", ".join([f"{name}={k}" for name, k in zip(names, np.unravel_index(i, sizes))])
        drawing.box(c * wide, y + r * high, wide, high, f'fill="{colours(device)}" stroke="#777" stroke-width="0.5"',
                    f"{format_devices([device])} at {at}" if mesh.size <= 256 else "")
        if labelled:
            drawing.text(c * wide + wide / 2, y + r * high + high / 2 + 4, format_devices([device]),
                         ' text-anchor="middle" fill="#222"')
    return drawing
