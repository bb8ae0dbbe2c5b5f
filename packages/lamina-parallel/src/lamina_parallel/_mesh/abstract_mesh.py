"""`AbstractMesh`: names and sizes of the axes of a mesh, without devices; `AxisType`."""
from __future__ import annotations

import enum
import math
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence

from typing_extensions import override

__all__ = ["AbstractMesh", "AxisType", "format_axes", "normalize_axis_types"]


class AxisType(enum.Enum):
    """What decides how arrays are split over a mesh axis.

    Attributes:
      Auto: the compiler chooses, and sharding constraints guide it. The default.
      Explicit: the sharding is part of the type of an array. Each operation computes the sharding of its result from
        those of its operands, and is refused if that is ambiguous.
      Manual: the function sees one block of the array; `shard_map` makes its axes manual.
    """

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()

    @override
    def __repr__(self) -> str:
        return self.name


def normalize_axis_types(call: str, axis_types: AxisType | Sequence[AxisType] | None, count: int) -> tuple[AxisType, ...]:
    """Return the types of `count` axes; `Auto` for each if none are given.

    Raises:
      TypeError: one is not an AxisType.
      ValueError: their number is wrong.
    """
    if axis_types is None:
        return (AxisType.Auto,) * count
    given = (axis_types,) * count if isinstance(axis_types, AxisType) else tuple(axis_types)
    for kind in given:
        if not isinstance(kind, AxisType):
            raise TypeError(f"{call}: axis_types: expected an AxisType for each axis; got {type(kind).__name__}: "
                            f"{kind!r:.60}")
    if len(given) != count:
        raise ValueError(f"{call}: axis_types: expected one for each of {count} axes; got {len(given)}")
    return given


def format_axes(shape: Iterable[tuple[Hashable, int]], axis_types: tuple[AxisType, ...]) -> str:
    """Return the axes as printed in the repr of a mesh. Types are shown unless all are `Auto`."""
    text = ", ".join([f"{name!r}: {n}" for name, n in shape])
    return text if all(kind is AxisType.Auto for kind in axis_types) else f"{text}, axis_types={axis_types!r}"


class AbstractMesh:
    """The names and sizes of the axes of a mesh, without its devices.

    `shard_map` accepts one: it runs over the devices of the mesh in scope, which must have these axes.

    Args:
      axis_sizes: the size of each axis.
      axis_names: a name for each.
      axis_types: an `AxisType` for all axes, or one for each; None: `AxisType.Auto`.
    Attributes:
      axis_sizes, axis_names, axis_types: tuples.
      shape: name -> size, in order.
      size: the number of devices of such a mesh.
      empty: whether there are no axes.
    Raises:
      TypeError: a size is not an int.
      ValueError: a size is below 1, a name occurs twice, or the numbers of sizes and names differ.

    >>> mesh = AbstractMesh((4, 2), ("x", "y"))
    >>> mesh, mesh.size, mesh.shape["y"]
    (AbstractMesh('x': 4, 'y': 2), 8, 2)
    """

    axis_sizes: tuple[int, ...]
    axis_names: tuple[Hashable, ...]
    axis_types: tuple[AxisType, ...]

    def __init__(self, axis_sizes: Sequence[int], axis_names: Hashable | Sequence[Hashable],
                 axis_types: AxisType | Sequence[AxisType] | None = None) -> None:
        names = tuple(axis_names) if isinstance(axis_names, (tuple, list)) else (axis_names,)
        sizes = tuple(axis_sizes)
        for size in sizes:
            if not isinstance(size, int) or isinstance(size, bool):
                raise TypeError(f"AbstractMesh: axis_sizes: expected ints; got {type(size).__name__}: {size!r:.60}")
            if size < 1:
                raise ValueError(f"AbstractMesh: axis_sizes: a size must be at least 1; got {size}")
        if len(sizes) != len(names):
            raise ValueError(f"AbstractMesh: axis_names: expected a name for each of {len(sizes)} axes; got {names}")
        if len(set(names)) < len(names):
            raise ValueError(f"AbstractMesh: axis_names: a name occurs twice in {names}. Give each axis its own name")
        self.axis_types = normalize_axis_types("AbstractMesh", axis_types, len(names))
        self.axis_sizes, self.axis_names = sizes, names

    @property
    def shape(self) -> OrderedDict[Hashable, int]:
        return OrderedDict(zip(self.axis_names, self.axis_sizes))

    @property
    def shape_tuple(self) -> tuple[tuple[Hashable, int], ...]:
        """(name, size) of each axis."""
        return tuple(zip(self.axis_names, self.axis_sizes))

    @property
    def size(self) -> int:
        return math.prod(self.axis_sizes) if self.axis_names else 0

    @property
    def empty(self) -> bool:
        return not self.axis_names

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """This object, as for a `Mesh`."""
        return self

    @override
    def __eq__(self, other: object) -> bool:
        return (isinstance(other, AbstractMesh) and self.shape_tuple == other.shape_tuple
                and self.axis_types == other.axis_types)

    @override
    def __hash__(self) -> int:
        return hash((self.shape_tuple, self.axis_types))

    @override
    def __repr__(self) -> str:
        return f"AbstractMesh({format_axes(self.shape_tuple, self.axis_types)})"
