"""Bar charts as SVG text: labelled horizontal bars on a logarithmic axis of seconds."""
from __future__ import annotations

import math
from html import escape

__all__ = ["bar_picture", "seconds"]

LEFT, WIDTH, ROW, TOP = 230, 480, 30, 56
COLOURS = ("#2f6f9f", "#c8643c")


def seconds(value: float) -> str:
    """Format a duration in a suitable unit.

    >>> seconds(0.00123), seconds(4.5e-05), seconds(2.0)
    ('1.23 ms', '45 µs', '2 s')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def bar_picture(title: str, rows: list[tuple[str, float, int]]) -> str:
    """Return SVG text with one bar per `(label, seconds, group)`; bars of a group have the same colour."""
    low = math.floor(math.log10(min(value for _, value, _ in rows)))
    high = math.ceil(math.log10(max(value for _, value, _ in rows)))
    scale = WIDTH / max(high - low, 1)
    height = TOP + ROW * len(rows) + 40
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 90}" height="{height}" '
             'font-family="sans-serif" font-size="13">',
             '<rect width="100%" height="100%" fill="white"/>',
             f'<text x="16" y="28" font-size="17">{escape(title)}</text>']
    for power in range(low, high + 1):
        x = LEFT + (power - low) * scale
        label = f'text-anchor="middle" fill="#555">{seconds(10.0 ** power)}</text>'
        parts += [f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{height - 34}" stroke="#ddd"/>',
                  f'<text x="{x:.1f}" y="{height - 16}" {label}']
    for number, (label, value, group) in enumerate(rows):
        y = TOP + number * ROW
        length = max((math.log10(value) - low) * scale, 2)
        parts += [f'<text x="{LEFT - 10}" y="{y + 15}" text-anchor="end">{escape(label)}</text>',
                  f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{ROW - 10}" rx="2" '
                  f'fill="{COLOURS[group % len(COLOURS)]}"/>',
                  f'<text x="{LEFT + length + 6:.1f}" y="{y + 15}">{seconds(value)}</text>']
    return "\n".join([*parts, "</svg>", ""])
