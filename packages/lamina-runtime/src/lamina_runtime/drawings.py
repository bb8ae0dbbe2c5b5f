"""Which device holds which block of an array: in a few words, and drawn as SVG, each block in the colours of its devices."""
from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lamina_ir.extend import Tiles

__all__ = ["Block", "blocks", "device_words", "escaped", "holders_words", "numbers", "sheet", "single", "tables", "where"]

Block = tuple[tuple[int, int], ...]  # (begin, end) along each dimension
Held = Mapping[Block, Sequence[Any]]  # the devices that hold each block
_MOST_RUNS = 4


def blocks(shape: Sequence[int], tiles: Tiles, devices: Sequence[Any]) -> dict[Block, tuple[Any, ...]]:
    """Which of the devices hold each block of an array that lies so."""
    if tiles.whole:
        return {tuple([(0, n) for n in shape]): tuple(devices)}
    steps = [-(-n // k) for n, k in zip(shape, tiles.counts)]
    places = tiles.positions()
    return {tuple([(min(i * step, n), min((i + 1) * step, n)) for i, step, n in zip(at, steps, shape)]):
            tuple([devices[d] for d in sorted(places[at])]) for at in np.ndindex(*tiles.counts)}


# --- in words -------------------------------------------------------------------------------------------------------
def where(block: Block) -> str:
    """`[0:2, 0:4]`."""
    return "[" + ", ".join([f"{a}:{b}" for a, b in block]) + "]"


def numbers(ids: Sequence[int]) -> str:
    """`0-3,8`; of many that do not follow one another the first and the last, and how many."""
    runs = [[n for _, n in run] for _, run in itertools.groupby(enumerate(ids), lambda at: at[1] - at[0])]
    said = [f"{r[0]}-{r[-1]}" if len(r) > 2 else ",".join(map(str, r)) for r in runs]
    if len(said) > _MOST_RUNS:
        return f"{','.join(said[:_MOST_RUNS - 1])},...,{said[-1]} ({len(ids)})"
    return ",".join(said)


def device_words(devices: Sequence[Any]) -> str:
    """`cpu:0-7`, and of several processes whose they are."""
    kind = devices[0].platform
    mine = [(p, [d.id for d in theirs]) for p, theirs in itertools.groupby(devices, lambda d: d.process_index)]
    if len({p for p, _ in mine}) == 1:
        return f"{kind}:{numbers(mine[0][1])}"
    said = [f"{kind}:{numbers(ids)} of process {p}" for p, ids in mine]
    return ", ".join(said if len(said) <= _MOST_RUNS else [*said[:_MOST_RUNS - 1], "...", said[-1]])


def holders_words(devices: Sequence[Any]) -> str:
    """The same of those that hold a block, in whatever order."""
    return device_words(sorted(devices, key=lambda d: (d.process_index, d.id)))


def escaped(text: str) -> str:
    """Text that may stand in HTML and SVG."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


# --- tables ---------------------------------------------------------------------------------------------------------
def tables(held: Held) -> list[tuple[str, list[list[Block]]]]:
    """The blocks in tables, along two dimensions that are split, or the last ones; each under its place along the others, as
    `[0:2, :, :]`, where there are several."""
    ndim = len(next(iter(held)))
    split = [d for d in range(ndim) if len({block[d] for block in held}) > 1]
    across = split[-1] if len(split) > 1 or split == [ndim - 1] else ndim - 1
    down = next((d for d in reversed(split) if d != across), ndim - 2)
    found: dict[Block, dict[Block, list[Block]]] = {}
    for block in sorted(held):
        lead = tuple([at for d, at in enumerate(block) if d not in (across, down)])
        found.setdefault(lead, {}).setdefault(block[down:down + 1] if down >= 0 else (), []).append(block)
    if len(found) == 1:
        return [("", list(rows.values())) for rows in found.values()]
    return [(_along(next(iter(rows.values()))[0], (across, down)), list(rows.values())) for rows in found.values()]


def _along(block: Block, free: tuple[int, int]) -> str:
    return "[" + ", ".join([":" if d in free else f"{a}:{b}" for d, (a, b) in enumerate(block)]) + "]"


# --- drawing --------------------------------------------------------------------------------------------------------
_CHAR, _LINE, _GAP = 7.3, 15, 14  # of text, in pixels
_WIDE, _HIGH = 420, 300  # of the blocks of one array
_MOST_TABLES = 6
_MOST_STRIPES = 16
_BAND = 7  # of stripes, above words
_SHEET = 1000  # where a row of drawings ends
Colours = Callable[[Any], str]


class _Drawing:
    """Shapes, and how wide and high they are together."""

    def __init__(self) -> None:
        self.shapes: list[str] = []
        self.wide = self.high = 0.0

    def text(self, x: float, y: float, text: str, more: str = "") -> None:
        self.shapes.append(f'<text x="{x:g}" y="{y:g}"{more}>{escaped(text)}</text>')
        if "middle" not in more:
            self.wide = max(self.wide, x + _CHAR * len(text))
        self.high = max(self.high, y + 4)

    def box(self, x: float, y: float, wide: float, high: float, more: str, title: str = "") -> None:
        inner = f"><title>{escaped(title)}</title></rect>" if title else "/>"
        self.shapes.append(f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}" {more}{inner}')
        self.wide, self.high = max(self.wide, x + wide), max(self.high, y + high)

    def put(self, other: _Drawing, x: float, y: float) -> None:
        self.shapes += [f'<g transform="translate({x:g},{y:g})">', *other.shapes, "</g>"]
        self.wide, self.high = max(self.wide, x + other.wide), max(self.high, y + other.high)

    def svg(self) -> str:
        wide, high = math.ceil(self.wide) + 2, math.ceil(self.high) + 2
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="-1 -1 {wide} {high}" '
                'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12" fill="#111">'
                f'<rect x="-1" y="-1" width="{wide}" height="{high}" fill="#fff"/>{"".join(self.shapes)}</svg>')


def colours_of(mesh: np.ndarray) -> Colours:
    """A colour for each device: its hue by its place along the first axis that has several, lighter along the others."""
    sizes = [n for n in mesh.shape if n > 1] or [1]
    hues, shades = sizes[0], math.prod(sizes[1:])
    found = {}
    for i, device in enumerate(mesh.reshape(-1).tolist()):
        hue, shade = divmod(i, shades)
        light = 80 if shades == 1 else 70 + 20 * shade / (shades - 1)
        found[device] = f"hsl({360 * hue / hues:g},65%,{light:g}%)"
    return lambda device: found[device]


def _table(drawing: _Drawing, y: float, held: Held, rows: list[list[Block]], colours: Colours, cell: tuple[float, float],
           said: bool) -> None:
    """The blocks of a table, each with the names of its devices and its place where there is room."""
    wide, high = cell
    many = len(rows) * len(rows[0]) > 256
    for r, row in enumerate(rows):
        for c, block in enumerate(row):
            devices = held[block]
            x, top = c * wide, y + r * high
            shown = devices if len(devices) <= _MOST_STRIPES else devices[::-(-len(devices) // _MOST_STRIPES)]
            each = wide / len(shown)
            if len(shown) > 1:
                for k, d in enumerate(shown):
                    drawing.box(x + k * each, top, each, high, f'fill="{colours(d)}"')
                if said:  # over stripes words are hard to read
                    drawing.box(x, top + _BAND, wide, high - _BAND, 'fill="#fff" fill-opacity="0.7"')
            fill = "none" if len(shown) > 1 else colours(shown[0])
            title = "" if many else f"{where(block)} on {holders_words(devices)}"
            edge = min(1.0, (min(wide, high) - 2) / 8)  # thin blocks have none: there would be nothing else to see
            line = f' stroke="#444" stroke-width="{edge:g}"' if edge > 0 else ""
            drawing.box(x, top, wide, high, f'fill="{fill}"{line} pointer-events="all"', title)
            if said:
                middle = ' text-anchor="middle"'
                drawing.text(x + wide / 2, top + high / 2 - 1, holders_words(devices), middle)
                drawing.text(x + wide / 2, top + high / 2 + 13, where(block), f'{middle} fill="#222"')


def array(held: Held, colours: Colours) -> _Drawing:
    """The blocks of one array. Names stand in the boxes where they are large enough, else they are shown when pointed at."""
    drawing, found = _Drawing(), tables(held)
    across, down = max(len(rows[0]) for _, rows in found), max(len(rows) for _, rows in found)
    letters = max(max(len(holders_words(devices)), len(where(block))) for block, devices in itertools.islice(held.items(), 256))
    said = across * (letters * _CHAR + 10) <= 2 * _WIDE and down * 38 <= 2 * _HIGH
    cell = (letters * _CHAR + 10, 38.0) if said else (min(_WIDE / across, max(40.0, 160 / across)), min(_HIGH / down, 40.0))
    y = 0.0
    for lead, rows in found[:_MOST_TABLES]:
        if lead:
            drawing.text(0, y + 12, lead)
            y += 18
        _table(drawing, y, held, rows, colours, cell, said)
        y += cell[1] * len(rows) + _GAP / 2
    if len(found) > _MOST_TABLES:
        drawing.text(0, y + 12, f"... and {len(found) - _MOST_TABLES} more, the last at {found[-1][0]}")
    if not said:
        drawing.text(0, drawing.high + _LINE, f"{down * len(found)} x {across} blocks of "
                     f"{' x '.join([str(b - a) for a, b in next(iter(held))])}", ' fill="#444"')
    return drawing


def _titled(title: Sequence[str], inner: _Drawing) -> _Drawing:
    drawing = _Drawing()
    for k, text in enumerate(title):
        drawing.text(0, 12 + k * _LINE, text, ' font-weight="bold"' if k == 0 else ' fill="#444"')
    drawing.put(inner, 0, drawing.high + 4)
    return drawing


def single(title: str, held: Held) -> str:
    """The drawing of one array, by itself."""
    every = sorted({d for devices in held.values() for d in devices}, key=lambda d: d.id)
    line = np.empty(len(every), object)
    line[:] = every
    return _titled([title], array(held, colours_of(line))).svg()


def sheet(title: str, mesh: Any, groups: Sequence[tuple[str, Sequence[tuple[str, str, Held]]]]) -> str:
    """A drawing of a mesh, and of arrays on its devices.

    Args:
      title: of all.
      mesh: the mesh.
      groups: (title, arrays) of each group; of each array its name, its type and who holds which block.
    Returns:
      The text of an SVG.
    """
    colours = colours_of(mesh.devices)
    sheet = _titled([title], _grid(mesh, colours))
    for name, arrays in groups:
        if not arrays:
            continue
        y = sheet.high + 2 * _GAP
        sheet.text(0, y, name, ' font-weight="bold"')
        x, y, high = 0.0, y + _GAP, 0.0
        for called, type_, held in arrays:
            one = _titled([called, type_], array(held, colours))
            if x and x + one.wide > _SHEET:
                x, y, high = 0.0, y + high + _GAP, 0.0
            sheet.put(one, x, y)
            x, high = x + one.wide + 2 * _GAP, max(high, one.high)
    return sheet.svg()


def _grid(mesh: Any, colours: Colours) -> _Drawing:
    """The devices of a mesh, where they stand in it: its first axis down, the others across."""
    drawing = _Drawing()
    names, sizes = mesh.axis_names, mesh.devices.shape
    across = mesh.size // sizes[0] if len(sizes) > 1 else min(mesh.size, _MOST_STRIPES)
    letters = max(len(device_words([d])) for d in mesh.flat_devices)
    wide = letters * _CHAR + 10
    said = across * wide <= _SHEET and mesh.size <= 256
    if not said:
        wide = min(_SHEET / across, 12.0)
    high = 20.0 if said else 8.0
    if mesh.size > 1:
        others = ", ".join(map(str, names[1:]))
        drawing.text(0, 12, f"{mesh}{f': {names[0]} down, {others} across' if others else ''}")
    y = drawing.high + 4 if mesh.size > 1 else 0.0
    for i, device in enumerate(mesh.flat_devices):
        r, c = divmod(i, across)
        at = ", ".join([f"{name}={k}" for name, k in zip(names, np.unravel_index(i, sizes))])
        drawing.box(c * wide, y + r * high, wide, high, f'fill="{colours(device)}" stroke="#444" stroke-width="0.5"',
                    f"{device_words([device])} at {at}" if mesh.size <= 256 else "")
        if said:
            drawing.text(c * wide + wide / 2, y + r * high + high / 2 + 4, device_words([device]), ' text-anchor="middle"')
    return drawing
