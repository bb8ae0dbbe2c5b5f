"""Pictures of how arrays lie: as text, as SVG."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lamina_ir import trees

from . import _jaxlib, drawings, shardings
from ._jaxlib import ArrayImpl

__all__ = ["Picture", "inspect_array_sharding", "visualize", "visualize_array_sharding", "visualize_sharding"]

def _parts(call: str, shape: Sequence[int], sharding: Any) -> dict[drawings.Block, list[Any]]:
    """(begin, end) along each dimension -> the devices that hold this part, in order of the parts."""
    dims = tuple([int(n) for n in shape])
    if not isinstance(sharding, _jaxlib.Sharding):
        raise TypeError(f"{call}: expected a sharding, as an array's `.sharding`; got {type(sharding).__name__}: "
                        f"{sharding!r:.60}")
    place = shardings.fitted(call, dims, sharding)
    found: dict[drawings.Block, list[Any]] = {}
    for device, index in place.devices_indices_map(dims).items():
        found.setdefault(tuple([s.indices(n)[:2] for s, n in zip(index, dims)]), []).append(device)
    return dict(sorted(found.items()))


def _names(devices: Sequence[Any]) -> str:
    return f"{devices[0].platform.upper()} {drawings.numbers(sorted([d.id for d in devices]))}"


def _boxes(rows: list[list[str]]) -> str:
    wide = max(len(text) for row in rows for text in row) + 2
    rows = [_shortened(row, max(3, _WIDEST // (wide + 1)), "...") for row in rows]
    rows = _shortened(rows, _MOST_ROWS, ["..."] * len(rows[0]))
    n = len(rows[0])
    top, between, bottom = (left + middle.join(["─" * wide] * n) + right for left, middle, right in ("┌┬┐", "├┼┤", "└┴┘"))
    lines = ["│" + "│".join([text.center(wide) for text in row]) + "│" for row in rows]
    return "\n".join([top, f"\n{between}\n".join(lines), bottom])


_WIDEST, _MOST_ROWS = 120, 16


def _shortened(parts: list[Any], most: int, gap: Any) -> list[Any]:
    """Without those before the last, where they are too many."""
    return parts if len(parts) <= most else [*parts[:most - 2], gap, parts[-1]]


def _text(parts: dict[drawings.Block, list[Any]]) -> str:
    said = [(f"{lead}\n" if lead else "") + _boxes([[_names(parts[p]) for p in row] for row in rows])
            for lead, rows in drawings.tables(parts)]
    return "\n".join(_shortened(said, _MOST_ROWS, "..."))


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


def inspect_array_sharding(value: Any, *, callback: Callable[[Any], Any]) -> None:
    """Hand on how arrays lie on devices.

    Args:
      value: tree of arrays.
      callback: called with the sharding of each.
    Raises:
      TypeError: a leaf is no array on devices. Inside of `jit` the compiler says where a value will lie, after the function has
        run: return it, or ask `jit(f).lower(...).compile().output_shardings`.

    >>> import lamina_runtime
    >>> x = lamina_runtime.device_put(1.0, lamina_runtime.devices()[0])
    >>> inspect_array_sharding(x, callback=lambda sharding: print(sharding.num_devices))
    1
    """
    for x in trees.tree_leaves(value):
        callback(_array("inspect_array_sharding", x).sharding)


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

    def __init__(self, title: str, parts: dict[drawings.Block, list[Any]]) -> None:
        self.title, self.text, self.svg = title, _text(parts), drawings.single(title, parts)

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
    title = f"{_array('visualize', x).aval.long()} on {x.sharding!r}"
    return Picture(title if len(title) <= _WIDEST else f"{title[:_WIDEST - 3]}...", _parts("visualize", x.shape, x.sharding))
