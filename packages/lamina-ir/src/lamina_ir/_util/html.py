"""HTML of values in notebooks: a box with a title, facts, and a heat map of some elements of an array.

The HTML has no scripts and no fixed colours of text or background. It takes those of the page, so it is readable in
light and dark. Loaded when a notebook first shows a value.
"""
from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

__all__ = ["escape_html", "fact_box", "heat_map", "sample_slices", "sampled_positions", "text_block", "text_table"]

MAX_CELLS = 32  # rows and columns of a heat map
_CELL = 9  # pixels
_MAX_LINES = 400
_FONT = "font-family:ui-monospace,Menlo,Consolas,monospace;font-size:12px;line-height:1.4"
_BOX = (f"{_FONT};display:inline-block;max-width:100%;box-sizing:border-box;overflow-x:auto;padding:8px 12px;"
        "border:1px solid rgba(128,128,128,.45);border-radius:6px;color:inherit;background:none;text-align:left")
_CELL_STYLE = "padding:0 14px 0 0;border:none;background:none;text-align:left;vertical-align:top;color:inherit"
_GRID = "padding:1px 8px;border:1px solid rgba(128,128,128,.45);background:none;color:inherit;text-align:center"
_MAX_TABLE = 16
# From low to high. Each is visible on white and on black.
_SEQUENTIAL = ((68, 60, 140), (52, 104, 142), (32, 148, 140), (94, 190, 98), (240, 220, 60))
_DIVERGING = ((38, 102, 190), (120, 170, 220), (205, 205, 205), (232, 140, 105), (192, 45, 45))
_SHADES = 24


def escape_html(text: object) -> str:
    """Return `str(text)` with the characters that HTML and SVG interpret replaced.

    >>> escape_html('<a href="b">')
    '&lt;a href=&quot;b&quot;&gt;'
    """
    return (str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
            .replace("'", "&#39;"))


def fact_box(title: object, facts: Iterable[tuple[object, object]], *bodies: str) -> str:
    """Return a box with a title, a table of facts, and HTML below it.

    Args:
      title: text of the first line.
      facts: (name, value) pairs; texts.
      *bodies: HTML, inserted as it is.
    Returns:
      The HTML. Texts are escaped.

    >>> fact_box("Mesh", [("devices", "<8>")]).count("&lt;8&gt;")
    1
    """
    rows = "".join([f'<tr style="background:none"><td style="{_CELL_STYLE};opacity:.65;white-space:nowrap">'
                    f'{escape_html(name)}</td><td style="{_CELL_STYLE};overflow-wrap:anywhere">{escape_html(value)}'
                    '</td></tr>'
                    for name, value in facts])
    table = f'<table style="{_FONT};margin:2px 0;border:none;border-collapse:collapse;color:inherit">{rows}</table>'
    return (f'<div style="{_BOX}"><div style="font-weight:bold">{escape_html(title)}</div>{table if rows else ""}'
            f'{"".join(bodies)}</div>')


def text_block(text: str) -> str:
    """Return text as a block that keeps its line breaks. Of a long text the first lines are shown.

    >>> text_block("a < b").endswith("a &lt; b</pre>")
    True
    """
    lines = text.split("\n")
    more = f"\n... and {len(lines) - _MAX_LINES} more lines" if len(lines) > _MAX_LINES else ""
    shown = escape_html("\n".join(lines[:_MAX_LINES]) + more)
    return (f'<pre style="{_FONT};margin:4px 0 0;padding:0;border:none;background:none;color:inherit;white-space:pre;'
            f'overflow-x:auto">{shown}</pre>')


def text_table(rows: Sequence[Sequence[object]], note: str = "") -> str:
    """Return a table of texts, at most 16 by 16, with a note below it.

    >>> text_table([["cpu:0", "cpu:1"]], "x across").count("<td")
    2
    """
    lines = []
    for row in rows[:_MAX_TABLE]:
        texts = [*row[:_MAX_TABLE], "..."] if len(row) > _MAX_TABLE else row
        cells = "".join([f'<td style="{_GRID}">{escape_html(text)}</td>' for text in texts])
        lines.append(f'<tr style="background:none">{cells}</tr>')
    more = f"; {len(rows) - _MAX_TABLE} more rows" if len(rows) > _MAX_TABLE else ""
    below = f'<div style="opacity:.65">{escape_html(note + more)}</div>' if note or more else ""
    return (f'<table style="{_FONT};border-collapse:collapse;margin:6px 0 2px;color:inherit">{"".join(lines)}</table>'
            f"{below}")


def sample_slices(shape: Sequence[int]) -> tuple[slice, ...]:
    """Return slices that select at most 32 by 32 elements: evenly spaced ones of the last two dimensions.

    Of the other dimensions they select the first element.

    >>> sample_slices((3, 10, 100))
    (slice(0, 1, 1), slice(0, 10, 1), slice(0, 100, 4))
    """
    lead = len(shape) - 2
    return tuple([slice(0, n, max(1, -(-n // MAX_CELLS))) if d >= lead else slice(0, min(n, 1), 1)
                  for d, n in enumerate(shape)])


def sampled_positions(part: slice, sample: slice) -> tuple[slice, slice] | None:
    """Return where a part of one dimension has sampled elements.

    Args:
      part: begin and end of the part.
      sample: one of `sample_slices`.
    Returns:
      (slice into the sample, slice into the part), or None if the part has no sampled element.

    >>> sampled_positions(slice(50, 100), slice(0, 100, 4))
    (slice(13, 25, None), slice(2, 50, 4))
    """
    step, end = sample.step, min(part.stop, sample.stop)
    first, last = -(-part.start // step), -(-end // step)
    return (slice(first, last), slice(first * step - part.start, end - part.start, step)) if first < last else None


def heat_map(values: np.ndarray, shape: Sequence[int], known: np.ndarray | None = None) -> str:
    """Return a picture of sampled elements as SVG, with the range of their values.

    NaN is drawn as a cross, infinities as plus and minus, elements of other processes as dots. Complex numbers are
    drawn by magnitude.

    Args:
      values: the elements at `sample_slices(shape)`, of a numeric or boolean dtype.
      shape: of the whole array.
      known: which of them this process can read; None: all.
    Returns:
      The HTML; empty if there is no element.

    >>> "svg" in heat_map(np.eye(3), (3, 3)), heat_map(np.ones(0), (0,))
    (True, '')
    """
    if not values.size:
        return ""
    is_complex, is_bool = values.dtype.kind == "c", values.dtype == bool
    with np.errstate(all="ignore"):
        numbers = np.asarray(np.abs(values) if is_complex else values).astype(np.float64)
    grid = numbers.reshape(-1, values.shape[-1] if values.ndim else 1)
    readable = np.ones(grid.shape, bool) if known is None else known.reshape(grid.shape)
    finite = np.isfinite(grid) & readable
    marks = [("dot", ~readable), ("cross", np.isnan(grid) & readable), ("plus", (grid == np.inf) & readable),
             ("minus", (grid == -np.inf) & readable)]
    marked = "".join([_mark_path(kind, at) for kind, at in marks if at.any()])
    svg = _svg(grid.shape, _shade_paths(grid, finite) + marked)
    found = grid[finite]
    notes = []
    if found.size and is_bool:
        notes.append(f"{int(found.sum())} of {found.size} true")
    elif found.size:
        low, high = found.min(), found.max()
        extent = f"all {low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
        notes.append(f"magnitude {extent}" if is_complex else extent)
    notes += [f"{int(at.sum())} {name}" for (_, at), name in zip(marks, ("elsewhere (dot)", "NaN (cross)", "inf (plus)",
                                                                           "-inf (minus)")) if at.any()]
    return (f'<div style="margin-top:6px">{svg}</div><div style="opacity:.65">'
            f'{escape_html("; ".join([*notes, *_sample_notes(shape)]))}</div>')


def _sample_notes(shape: Sequence[int]) -> list[str]:
    """Say which elements are shown, if these are not all."""
    slices = sample_slices(shape)
    if all(s.step == 1 and s.stop == n for s, n in zip(slices, shape)):
        return []
    parts = [("0" if n > 1 else ":") if d < len(shape) - 2 else (":" if s.step == 1 else f"::{s.step}")
             for d, (s, n) in enumerate(zip(slices, shape))]
    return [f"shown: x[{', '.join(parts)}]"]


def _svg(shape: tuple[int, int], shapes: str) -> str:
    rows, columns = shape
    wide, high = max(columns * _CELL, 1), max(rows * _CELL, 1)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {columns} {rows}" '
            f'role="img" shape-rendering="crispEdges" style="outline:1px solid rgba(128,128,128,.45)">{shapes}</svg>')


def _shade_paths(grid: np.ndarray, finite: np.ndarray) -> str:
    """Return one path for each shade that occurs: a square for each element."""
    if not finite.any():
        return ""
    found = grid[finite]
    low, high = float(found.min()), float(found.max())
    palette = _SEQUENTIAL
    if low < 0 < high:
        palette, high = _DIVERGING, max(-low, high)
        low = -high
    # Scaled before the subtraction, because the difference of the largest floats is infinite.
    scale = max(abs(low), abs(high)) or 1.0
    span = high / scale - low / scale
    scaled = (found / scale - low / scale) / span if span > 0 else np.full(found.shape, 0.5)
    shades = np.clip(np.rint(scaled * (_SHADES - 1)), 0, _SHADES - 1).astype(int)
    rows, columns = np.nonzero(finite)
    squares: dict[int, list[str]] = {}
    for shade, r, c in zip(shades.tolist(), rows.tolist(), columns.tolist()):
        squares.setdefault(shade, []).append(f"M{c} {r}h1v1h-1z")
    return "".join([f'<path fill="{_colour(palette, shade / (_SHADES - 1))}" d="{"".join(at)}"/>'
                    for shade, at in sorted(squares.items())])


def _colour(palette: Sequence[tuple[int, int, int]], at: float) -> str:
    """Interpolate a palette; `at` is from 0 to 1."""
    place = at * (len(palette) - 1)
    k = min(math.floor(place), len(palette) - 2)
    mixed = [round(a + (b - a) * (place - k)) for a, b in zip(palette[k], palette[k + 1])]
    return "#" + "".join([f"{c:02x}" for c in mixed])


_MARKS = {"cross": "m.2 .2l.6 .6m0-.6l-.6 .6", "plus": "m.2 .5h.6m-.3-.3v.6", "minus": "m.2 .5h.6", "dot": "m.4 .5h.2"}


def _mark_path(kind: str, at: np.ndarray) -> str:
    rows, columns = np.nonzero(at)
    where = "".join([f"M{c} {r}{_MARKS[kind]}" for r, c in zip(rows.tolist(), columns.tolist())])
    colour = "currentColor" if kind == "dot" else "#d0204a"
    return f'<path d="{where}" fill="none" stroke="{colour}" stroke-width=".16" shape-rendering="auto"/>'
