"""Draw shardings as text and as SVG."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from lamina_ir import trees
from lamina_ir.typing import Device, Sharding, Value
from typing_extensions import override

from . import _jaxlib
from ._sharding import drawing, shardings
from ._jaxlib import ArrayImpl
from ._typing import Array

__all__ = ["Picture", "inspect_array_sharding", "visualize", "visualize_array_sharding", "visualize_sharding"]


def _parts(call: str, shape: Sequence[int], sharding: Sharding) -> dict[drawing.Block, list[Device]]:
    """Return a dict from parts, as (begin, end) along each dimension, to their devices, in order of the parts."""
    dims = tuple([int(n) for n in shape])
    if not isinstance(sharding, _jaxlib.Sharding):
        raise TypeError(f"{call}: expected a sharding, as an array's `.sharding`; got {type(sharding).__name__}: "
                        f"{sharding!r:.60}")
    fitting = shardings.resolve_sharding(call, dims, sharding)
    found: dict[drawing.Block, list[Device]] = {}
    for device, index in fitting.devices_indices_map(dims).items():
        found.setdefault(tuple([s.indices(n)[:2] for s, n in zip(index, dims)]), []).append(device)
    return dict(sorted(found.items()))


def _names(devices: Sequence[Device]) -> str:
    return f"{devices[0].platform.upper()} {drawing.format_ids(sorted([d.id for d in devices]))}"


def _draw_table(rows: list[list[str]]) -> str:
    """Draw a table of texts with box-drawing characters."""
    width = max(len(text) for row in rows for text in row) + 2
    rows = [_abbreviate(row, max(3, _MAX_WIDTH // (width + 1)), "...") for row in rows]
    rows = _abbreviate(rows, _MAX_ROWS, ["..."] * len(rows[0]))
    n = len(rows[0])
    top, between, bottom = (left + middle.join(["─" * width] * n) + right
                            for left, middle, right in ("┌┬┐", "├┼┤", "└┴┘"))
    lines = ["│" + "│".join([text.center(width) for text in row]) + "│" for row in rows]
    return "\n".join([top, f"\n{between}\n".join(lines), bottom])


_T = TypeVar("_T")
_MAX_WIDTH, _MAX_ROWS = 120, 16


def _abbreviate(parts: list[_T], limit: int, gap: _T) -> list[_T]:
    """Replace parts before the last one by `gap` if there are more than `limit`."""
    return parts if len(parts) <= limit else [*parts[:limit - 2], gap, parts[-1]]


def _text(parts: dict[drawing.Block, list[Device]]) -> str:
    drawn = [(f"{lead}\n" if lead else "") + _draw_table([[_names(parts[p]) for p in row] for row in rows])
             for lead, rows in drawing.block_tables(parts)]
    return "\n".join(_abbreviate(drawn, _MAX_ROWS, "..."))


def visualize_sharding(shape: Sequence[int], sharding: Sharding, *, use_color: bool = False, scale: float = 1.0,
                       min_width: int = 9, max_width: int = 80, color_map: Any = None) -> None:
    """Print which device holds which part of an array of this shape.

    Args:
      shape: of the array.
      sharding: its sharding.
      use_color, scale, min_width, max_width, color_map: ignored. Boxes are as wide as the device names.
    Raises:
      TypeError: `sharding` is not a sharding.
      ValueError: `sharding` does not fit the shape.

    >>> import lamina_runtime
    >>> from lamina_parallel import Mesh, PartitionSpec
    >>> mesh = Mesh(lamina_runtime.devices()[:1], "x")
    >>> visualize_sharding((4, 2), lamina_runtime.NamedSharding(mesh, PartitionSpec("x")))
    ┌───────┐
    │ CPU 0 │
    └───────┘
    """
    print(_text(_parts("visualize_sharding", shape, sharding)))


def visualize_array_sharding(arr: Array, **options: Any) -> None:
    """Print which device holds which part of an array.

    Args:
      arr: the array.
      options: as in `visualize_sharding`.
    Raises:
      TypeError: `arr` is not an array on devices.

    >>> import lamina_runtime
    >>> visualize_array_sharding(lamina_runtime.device_put(1.0, lamina_runtime.devices()[0]))
    ┌───────┐
    │ CPU 0 │
    └───────┘
    """
    visualize_sharding(_array("visualize_array_sharding", arr).shape, arr.sharding, **options)


def inspect_array_sharding(value: Value, *, callback: Callable[[Sharding], object]) -> None:
    """Call a function with the sharding of each array of a tree.

    Args:
      value: tree of arrays.
      callback: called with the sharding of each array.
    Raises:
      TypeError: a leaf is not an array on devices. Inside `jit`, the compiler chooses shardings after the function was
        traced: return the value, or use `jit(f).lower(...).compile().output_shardings`.

    >>> import lamina_runtime
    >>> x = lamina_runtime.device_put(1.0, lamina_runtime.devices()[0])
    >>> inspect_array_sharding(x, callback=lambda sharding: print(sharding.num_devices))
    1
    """
    for x in trees.tree_leaves(value):
        callback(_array("inspect_array_sharding", x).sharding)


def _array(call: str, x: Array) -> Array:
    if type(x) is not ArrayImpl:
        raise TypeError(f"{call}: expected an array on devices; got {type(x).__name__}. Inside jit, shardings are not "
                        "known yet: return the value")
    return x


class Picture:
    """A drawing of a sharding: text when printed, SVG in notebooks.

    Attributes:
      text: the drawing as text.
      svg: the drawing as SVG.
    """

    def __init__(self, title: str, parts: dict[drawing.Block, list[Device]]) -> None:
        self.title, self.text, self.svg = title, _text(parts), drawing.draw_array(title, parts)

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return f"<div>{drawing.embed_svg(self.svg)}</div>"

    @override
    def __repr__(self) -> str:
        return f"{self.title}\n{self.text}"


def visualize(x: Array) -> Picture:
    """Draw which device holds which part of an array.

    Args:
      x: an array.
    Returns:
      A `Picture`: text when printed, a drawing in notebooks.
    Raises:
      TypeError: `x` is not an array on devices.

    >>> import lamina_runtime
    >>> import numpy as np
    >>> visualize(lamina_runtime.device_put(np.ones(2), lamina_runtime.devices()[0]))
    float32[2] on SingleDeviceSharding(device=CpuDevice(id=0))
    ┌───────┐
    │ CPU 0 │
    └───────┘
    """
    title = f"{_array('visualize', x).aval.str_long()} on {x.sharding!r}"
    short = title if len(title) <= _MAX_WIDTH else f"{title[:_MAX_WIDTH - 3]}..."
    return Picture(short, _parts("visualize", x.shape, x.sharding))
