"""Draw the pictures of the course as SVG text: line charts, bars, images and placements.

The colours are readable on a light and on a dark page; the background is transparent.
"""
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["bar_chart", "images", "line_chart", "placement", "save"]

GREY = "#757d8a"  # contrast above 4:1 on white and on near-black
COLOURS = ("#3b82d6", "#d9701a", "#2f9e5f", "#9a63d8")
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 560, 260, 56, 34, 44
Points = tuple[Any, Any]  # x and y, each a sequence of numbers

folder = Path("pictures")  # where `save` writes


def save(name: str, svg: str) -> None:
    """Write SVG text to the file `name` in the folder `pictures`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(svg, encoding="utf-8")


def line_chart(title: str, lines: Mapping[str, Points] | None = None, dots: Mapping[str, Points] | None = None,
               x_label: str = "") -> str:
    """Return a chart with a line, or separate dots, for each label."""
    lines, dots = lines or {}, dots or {}
    series = [(label, np.asarray(x, float), np.asarray(y, float)) for label, (x, y) in [*lines.items(), *dots.items()]]
    xs, ys = (_ticks(np.concatenate([item[axis] for item in series])) for axis in (1, 2))

    def place(x: float, y: float) -> tuple[float, float]:
        return (LEFT + (x - xs[0]) / (xs[-1] - xs[0]) * (WIDTH - LEFT - 16),
                HEIGHT - BOTTOM - (y - ys[0]) / (ys[-1] - ys[0]) * (HEIGHT - BOTTOM - TOP))

    parts = []
    for y in ys:
        at = place(xs[0], y)[1]
        parts += [f'<line x1="{LEFT}" y1="{at:.0f}" x2="{WIDTH - 16}" y2="{at:.0f}" stroke="{GREY}" stroke-opacity="0.3"/>',
                  _text(LEFT - 8, at + 4, f"{y:g}", "end")]
    parts += [_text(place(x, ys[0])[0], HEIGHT - BOTTOM + 18, f"{x:g}", "middle") for x in xs]
    for number, (label, x, y) in enumerate(series):
        colour = COLOURS[number % len(COLOURS)]
        points = [place(a, b) for a, b in zip(x, y)]
        if label in lines:
            path = " ".join(f"{a:.0f},{b:.0f}" for a, b in points)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        else:
            parts += [f'<circle cx="{a:.0f}" cy="{b:.0f}" r="3" fill="{colour}"/>' for a, b in points]
    end = WIDTH - 16
    for number, (label, _, _) in reversed([*enumerate(series)]) if len(series) > 1 else ():
        parts.append(_text(end, 18, label, "end", COLOURS[number % len(COLOURS)]))
        end -= 8 * len(label) + 16
    parts.append(_text(WIDTH - 16, HEIGHT - 8, x_label, "end"))
    return _document(WIDTH, HEIGHT, title, parts)


def bar_chart(title: str, values: Mapping[str, float]) -> str:
    """Return horizontal bars, one for each label."""
    longest = max(max(values.values()), 1e-9)
    left = 24 + 8 * max(map(len, values))
    parts = []
    for number, (label, value) in enumerate(values.items()):
        y, length = TOP + 26 * number, (WIDTH - left - 90) * value / longest
        parts += [_text(left - 8, y + 14, label, "end"),
                  f'<rect x="{left}" y="{y}" width="{max(length, 1):.0f}" height="18" fill="{COLOURS[0]}"/>',
                  _text(left + max(length, 1) + 6, y + 14, f"{value:,g}", "start")]
    return _document(WIDTH, TOP + 26 * len(values) + 10, title, parts)


def images(title: str, arrays: Sequence[Any], labels: Sequence[str] | None = None, width: int = 120, columns: int = 4) -> str:
    """Return two-dimensional arrays as images side by side; the smallest value is blue, the largest yellow."""
    arrays = [np.asarray(array, float) for array in arrays]
    labels = labels or [""] * len(arrays)
    height = max(width * array.shape[0] / array.shape[1] for array in arrays)
    line = height + (24 if any(labels) else 12)
    parts = []
    for number, (array, label) in enumerate(zip(arrays, labels)):
        x, y = 16 + number % columns * (width + 16), TOP + number // columns * line
        parts.append(_image(array, x, y, width))
        if label:
            parts.append(_text(x + width / 2, y + height + 15, label, "middle"))
    shown = min(columns, len(arrays))
    total = max(16 + shown * (width + 16), 9 * len(title) + 24)
    return _document(total, TOP + line * math.ceil(len(arrays) / columns), title, parts)


def placement(title: str, array: Any, width: int = 240, height: int = 160) -> str:
    """Return a matrix as blocks, each with the numbers of the devices that hold it."""
    holders: dict[tuple[int, int, int, int], list[int]] = {}
    for shard in array.addressable_shards:
        (top, bottom, _), (left, right, _) = (part.indices(size) for part, size in zip(shard.index, array.shape))
        holders.setdefault((top, bottom, left, right), []).append(shard.device.id)
    parts, down, across = [], height / array.shape[0], width / array.shape[1]
    for number, ((top, bottom, left, right), devices) in enumerate(sorted(holders.items())):
        x, y = 16 + left * across, TOP + top * down
        parts += [f'<rect x="{x:.0f}" y="{y:.0f}" width="{(right - left) * across:.0f}" height="{(bottom - top) * down:.0f}" '
                  f'fill="{COLOURS[number % len(COLOURS)]}" fill-opacity="0.25" stroke="{GREY}"/>',
                  _text(x + (right - left) * across / 2, y + (bottom - top) * down / 2 + 5, ", ".join(map(str, devices)),
                        "middle")]
    return _document(max(width + 32, 9 * len(title) + 24), TOP + height + 16, title, parts)


def _image(array: np.ndarray, x: float, y: float, width: float) -> str:
    """Return an image in 16 colours; `data-levels` holds the number of each pixel's colour in hexadecimal."""
    share = (array - array.min()) / max(array.max() - array.min(), 1e-12)
    levels = np.rint(15 * share).astype(int)
    paths = []
    for level in range(16):
        runs = [f"M{start} {row}.5h{length}" for row, line in enumerate(levels) for start, length in _runs(line == level)]
        if runs:
            colour = f"hsl({250 - 13 * level},60%,{28 + 2 * level}%)"
            paths.append(f'<path d="{"".join(runs)}" stroke="{colour}" stroke-width="1.02"/>')
    text = " ".join("".join(f"{level:x}" for level in line) for line in levels)
    return (f'<g transform="translate({x:.0f},{y:.0f}) scale({width / array.shape[1]:.2f})" shape-rendering="crispEdges" '
            f'data-levels="{text}">{"".join(paths)}</g>')


def _runs(mask: np.ndarray) -> list[tuple[int, int]]:
    """Return (start, length) of each run of true elements."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(int), [0]])))
    return [(int(start), int(end - start)) for start, end in edges.reshape(-1, 2)]


def _ticks(values: np.ndarray) -> list[float]:
    """Return round numbers, evenly spaced, that contain all values."""
    low, high = float(values.min()), float(values.max())
    span = max(high - low, 1e-9)
    step = 10.0 ** math.floor(math.log10(span))
    step *= next(factor for factor in (0.2, 0.5, 1.0, 2.0) if span / (step * factor) <= 6)
    first, last = math.floor(low / step + 1e-6), math.ceil(high / step - 1e-6)
    return [round(number * step, 9) for number in range(first, max(last, first + 1) + 1)]


def _text(x: float, y: float, text: str, anchor: str, colour: str = GREY) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'


def _document(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" font-size="13" role="img">')
    heading = f'<text x="16" y="18" font-size="15" fill="{GREY}">{escape(title)}</text>'
    return "\n".join([head, f"<title>{escape(title)}</title>", heading, *parts, "</svg>", ""])
