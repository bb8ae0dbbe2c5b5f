"""Pictures of how arrays lie: as text, as SVG."""
from __future__ import annotations

import html
import itertools
from collections.abc import Sequence
from typing import Any

from . import _jaxlib, shardings
from ._jaxlib import ArrayImpl

__all__ = ["Picture", "visualize", "visualize_array_sharding", "visualize_sharding"]

Part = tuple[tuple[int, int], ...]


def _parts(call: str, shape: Sequence[int], sharding: Any) -> dict[Part, list[Any]]:
    """(begin, end) along each dimension -> the devices that hold this part, in order of the parts."""
    dims = tuple([int(n) for n in shape])
    if not isinstance(sharding, _jaxlib.Sharding):
        raise TypeError(f"{call}: expected a sharding, as an array's `.sharding`; got {type(sharding).__name__}: "
                        f"{sharding!r:.60}")
    place = shardings.fitted(call, dims, sharding)
    found: dict[Part, list[Any]] = {}
    for device, index in place.devices_indices_map(dims).items():
        found.setdefault(tuple([s.indices(n)[:2] for s, n in zip(index, dims)]), []).append(device)
    return dict(sorted(found.items()))


def _names(devices: Sequence[Any]) -> str:
    numbers = [d.id for d in devices]
    runs = [[n for _, n in run] for _, run in itertools.groupby(enumerate(numbers), lambda at: at[1] - at[0])]
    said = [f"{r[0]}-{r[-1]}" if len(r) > 2 else ",".join(map(str, r)) for r in runs]
    return f"{devices[0].platform.upper()} {','.join(said)}"


def _tables(parts: dict[Part, list[Any]]) -> list[tuple[Part, list[list[Part]]]]:
    """The parts in tables of the last two dimensions, each under its place along the others."""
    found: dict[Part, dict[Part, list[Part]]] = {}
    for part in parts:
        found.setdefault(part[:-2], {}).setdefault(part[-2:-1], []).append(part)
    return [(lead, list(rows.values())) for lead, rows in found.items()]


def _where(part: Part) -> str:
    return "[" + ", ".join([f"{a}:{b}" for a, b in part]) + "]"


def _boxes(rows: list[list[str]]) -> str:
    wide = max(len(text) for row in rows for text in row) + 2
    n = len(rows[0])
    top, between, bottom = (left + middle.join(["─" * wide] * n) + right for left, middle, right in ("┌┬┐", "├┼┤", "└┴┘"))
    lines = ["│" + "│".join([text.center(wide) for text in row]) + "│" for row in rows]
    return "\n".join([top, f"\n{between}\n".join(lines), bottom])


def _text(parts: dict[Part, list[Any]]) -> str:
    return "\n".join([(f"{_where(lead)}\n" if lead else "") + _boxes([[_names(parts[p]) for p in row] for row in rows])
                      for lead, rows in _tables(parts)])


def visualize_sharding(shape: Sequence[int], sharding: Any, *, use_color: bool = False, scale: float = 1.0, min_width: int = 9,
                       max_width: int = 80, color_map: Any = None) -> None:
    """Print which device holds which part of an array of this shape.

    Args:
      shape: of the array.
      sharding: how it lies.
      use_color, scale, min_width, max_width, color_map: change nothing; boxes are as wide as the names.
    Raises:
      TypeError: `sharding` is none.
      ValueError: an array of this shape cannot lie so.

    >>> import lamina_runtime
    >>> from lamina_parallel import Mesh, PartitionSpec
    >>> mesh = Mesh(lamina_runtime.devices()[:1], "x")
    >>> visualize_sharding((4, 2), lamina_runtime.NamedSharding(mesh, PartitionSpec("x")))
    ┌───────┐
    │ CPU 0 │
    └───────┘
    """
    print(_text(_parts("visualize_sharding", shape, sharding)))


def visualize_array_sharding(arr: Any, **options: Any) -> None:
    """Print which device holds which part of an array.

    Args:
      arr: the array.
      options: as of `visualize_sharding`.
    Raises:
      TypeError: it is no array on devices.

    >>> import lamina_runtime
    >>> visualize_array_sharding(lamina_runtime.device_put(1.0, lamina_runtime.devices()[0]))
    ┌───────┐
    │ CPU 0 │
    └───────┘
    """
    visualize_sharding(_array("visualize_array_sharding", arr).shape, arr.sharding, **options)


def _array(call: str, x: Any) -> Any:
    if type(x) is not ArrayImpl:
        raise TypeError(f"{call}: expected an array on devices; got {type(x).__name__}. Inside of jit, where a value will lie "
                        "is not known yet: return it")
    return x


class Picture:
    """Which device holds which part: text when printed, a drawing in notebooks and as `.svg`.

    Attributes:
      text, svg: the two forms.
    """

    def __init__(self, title: str, parts: dict[Part, list[Any]]) -> None:
        self.title, self.text, self.svg = title, _text(parts), _svg(title, parts)

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return f"<div>{self.svg}</div>"

    def __repr__(self) -> str:
        return f"{self.title}\n{self.text}"


def visualize(x: Any) -> Picture:
    """A picture of which device holds which part of an array.

    Args:
      x: an array.
    Returns:
      A `Picture`: printed it is text, in a notebook a drawing; `.svg` is the text of the drawing.
    Raises:
      TypeError: it is no array on devices.

    >>> import lamina_runtime
    >>> import numpy as np
    >>> visualize(lamina_runtime.device_put(np.ones(2), lamina_runtime.devices()[0]))
    float32[2] on SingleDeviceSharding(device=CpuDevice(id=0))
    ┌───────┐
    │ CPU 0 │
    └───────┘
    """
    return Picture(f"{_array('visualize', x).aval.long()} on {x.sharding!r}", _parts("visualize", x.shape, x.sharding))


_HIGH, _GAP = 44, 14


def _svg(title: str, parts: dict[Part, list[Any]]) -> str:
    """Boxes in tables, one under the other; a device has its colour."""
    wide = 9 * max(max(len(_names(d)), len(_where(p))) for p, d in parts.items()) + 16
    every = sorted({d.id for devices in parts.values() for d in devices})
    hue = {number: 360 * i // len(every) for i, number in enumerate(every)}
    drawn, y, right = [f'<text x="0" y="16" font-weight="bold">{html.escape(title)}</text>'], 28, 8 * len(title)
    for lead, rows in _tables(parts):
        if lead:
            drawn.append(f'<text x="0" y="{y + 14}">{_where(lead)}</text>')
            y += 22
        for row in rows:
            for i, part in enumerate(row):
                devices, x = parts[part], i * wide
                each = wide / len(devices)
                drawn += [f'<rect x="{x + k * each:g}" y="{y}" width="{each:g}" height="{_HIGH}" '
                          f'fill="hsl({hue[d.id]},65%,82%)"/>' for k, d in enumerate(devices)]
                drawn += [f'<rect x="{x}" y="{y}" width="{wide}" height="{_HIGH}" fill="none" stroke="#444"/>',
                          f'<text x="{x + wide / 2:g}" y="{y + 18}" text-anchor="middle">{html.escape(_names(devices))}</text>',
                          f'<text x="{x + wide / 2:g}" y="{y + 35}" text-anchor="middle" fill="#444">{_where(part)}</text>']
            right = max(right, wide * len(row))
            y += _HIGH
        y += _GAP
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{right + 2}" height="{y}" viewBox="-1 0 {right + 2} {y}" '
            'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="13" fill="#111">' + "".join(drawn) + "</svg>")
